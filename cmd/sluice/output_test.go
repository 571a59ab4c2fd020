package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/internal/sluice"
)

// Tables fit 100 columns, whatever is in them, and keep control characters of names away from the terminal.
func TestTableFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("wörter ", 60)
	for _, rows := range [][][]string{
		{{"a", "b", "c"}},
		{{long, long, long}, {"x", "y", "z"}},
		{{"550e8400-e29b-41d4-a716-446655440000", "SLUICE-LOAD-TYPE-CONFLICT", long}},
		{{"\x1b[31mred\x1b[0m\r\n", "\u202ertl", "tab\t"}},
	} {
		var b bytes.Buffer
		(&output{w: &b}).table([]string{"ONE", "TWO", "THREE"}, rows)
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns: %s", n, line)
			}
			if strings.ContainsAny(line, "\x1b\r\t\u202e") {
				t.Errorf("control characters in %q", line)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != len(rows)+1 {
			t.Errorf("%d lines for %d rows", n, len(rows))
		}
	}
	var b bytes.Buffer
	(&output{w: &b}).table([]string{"BATCH", "CODE", "MESSAGE"}, [][]string{{"550e8400-e29b-41d4-a716-446655440000", "SLUICE-LOAD-TYPE-CONFLICT", long}})
	if !strings.Contains(b.String(), "550e8400-e29b-41d4-a716-446655440000  SLUICE-LOAD-TYPE-CONFLICT") {
		t.Errorf("what has to be copied is cut:\n%s", b.String())
	}
}

func TestErrorsOnStandardError(t *testing.T) {
	t.Parallel()
	err := sluice.E("SLUICE-NOT-FOUND", "read a.parquet", "there is no such file", "check the path", nil)
	var text, json bytes.Buffer
	(&output{errw: &text}).fail(err)
	if want := "error: read a.parquet: there is no such file (SLUICE-NOT-FOUND)\n  hint: check the path\n"; text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	(&output{errw: &json, json: true}).fail(err)
	if want := `{"error":{"code":"SLUICE-NOT-FOUND","message":"read a.parquet: there is no such file","hint":"check the path"}}` + "\n"; json.String() != want {
		t.Errorf("got %q, want %q", json.String(), want)
	}
}

// A run id may hold any character; as part of a path it must stay one element, and two ids must stay two.
func TestRunIDsAsFileNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, run := range []string{"r1", "2026-03-01T02", "..", ".", "a/b", "a%2Fb", "a b", "ä", strings.Repeat("/", 200), strings.Repeat("/", 199) + "x", "R1"} {
		name := fileName(run)
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00 ") || len(name) > 200 {
			t.Errorf("%q becomes %q", run, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q both become %q", run, other, name)
		}
		seen[name] = run
	}
}
