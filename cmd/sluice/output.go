package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"sluice/internal/sluice"
)

// width of the widest table.
const width = 100

// output is where a command prints: results to standard output, progress and errors to standard error.
type output struct {
	w, errw  io.Writer
	json     bool
	terminal bool // standard error is one: bars instead of lines
}

func newOutput(stdout, stderr *os.File) *output {
	return &output{w: stdout, errw: stderr, terminal: isTerminal(stderr)}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// line prints one line of a result for people.
func (o *output) line(format string, args ...any) { fmt.Fprintf(o.w, format+"\n", args...) }

// note prints one line beside the result; with --json it goes to standard error too, so the result stays JSON.
func (o *output) note(format string, args ...any) { fmt.Fprintf(o.errw, format+"\n", args...) }

// result prints v as JSON if --json was given, and else what text prints.
func (o *output) result(v any, text func()) error {
	if !o.json {
		text()
		return nil
	}
	enc := json.NewEncoder(o.w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// exitCode is an error that has been printed already; it only sets the exit code.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errorJSON is what --json prints on standard error.
type errorJSON struct {
	Error struct {
		Code    sluice.Code `json:"code"`
		Message string      `json:"message"`
		Hint    string      `json:"hint,omitempty"`
	} `json:"error"`
}

// fail prints an error: what was done, what is wrong, its code, and what to do.
func (o *output) fail(err error) {
	var printed exitCode
	if errors.As(err, &printed) {
		return
	}
	if o.json {
		var e errorJSON
		e.Error.Code, e.Error.Hint = sluice.CodeOf(err), sluice.HintOf(err)
		if e.Error.Code == "" {
			e.Error.Code = "SLUICE-INTERNAL"
		}
		e.Error.Message = strings.TrimSuffix(err.Error(), fmt.Sprintf(" (%s)", e.Error.Code))
		if text, merr := json.Marshal(e); merr == nil {
			fmt.Fprintln(o.errw, string(text))
			return
		}
	}
	fmt.Fprintf(o.errw, "error: %s\n", err)
	if hint := sluice.HintOf(err); hint != "" {
		fmt.Fprintf(o.errw, "  hint: %s\n", hint)
	}
}

// table prints rows under a head; columns are as wide as needed. If a line does not fit, first the last column is cut, which
// has the longest text, then the widest.
func (o *output) table(head []string, rows [][]string) {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fit(widths)
	for _, row := range append([][]string{head}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(pad(cut(oneLine(cell), widths[i]), widths[i]))
		}
		o.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// leastLast is what the last column keeps before others are cut.
const leastLast = 12

// fit narrows columns until a line has at most width characters.
func fit(widths []int) {
	last := len(widths) - 1
	for {
		sum, widest := 2*last, 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		switch {
		case sum <= width || widths[widest] <= 8:
			return
		case widths[last] > leastLast:
			widths[last]--
		default:
			widths[widest]--
		}
	}
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// oneLine keeps control characters of names away from the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// facts prints "name  value" lines, without the empty ones.
func (o *output) facts(pairs ...string) {
	widest := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			widest = max(widest, len(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			o.line("%s  %s", pad(pairs[i], widest), oneLine(pairs[i+1]))
		}
	}
}

// isTerminalWriter reports whether what is printed goes to a terminal.
func isTerminalWriter(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}
