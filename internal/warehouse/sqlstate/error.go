package sqlstate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/bulk"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/value"
)

// Error is an error as a client gets it.
type Error struct {
	Code     string
	Message  string
	Detail   string
	Hint     string
	Where    string // what was being worked on, as in "COPY t, line 3"
	Position int    // in characters, from 1; 0: unknown
}

// New makes an error.
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint adds what to do.
func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

// WithDetail adds what is behind it.
func (e *Error) WithDetail(detail string) *Error {
	e.Detail = detail
	return e
}

// Error gives the message and the code.
func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// From classifies any error. A nil error gives nil.
func From(err error) *Error {
	var own *Error
	var eng *duck.Error
	var coded *sluice.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &eng):
		return fromEngine(eng)
	case errors.As(err, &coded):
		return &Error{Code: InternalError, Message: Scrub(coded.Error()), Hint: coded.Hint}
	case errors.Is(err, value.ErrDatetime):
		return New(DatetimeOverflow, "%s", err)
	case errors.Is(err, value.ErrRange):
		return New(NumericOutOfRange, "%s", err)
	case errors.Is(err, value.ErrType):
		return New(FeatureNotSupported, "%s", err)
	case errors.Is(err, value.ErrEncoding):
		return New(BadEncoding, "%s", err)
	case errors.Is(err, bulk.ErrFormat):
		return New(BadCopyFormat, "%s", strings.TrimSuffix(err.Error(), ": "+bulk.ErrFormat.Error()))
	case errors.Is(err, bulk.ErrTooLong):
		return New(ProgramLimit, "%s", err)
	case errors.Is(err, value.ErrSyntax):
		if strings.Contains(err.Error(), "binary ") {
			return New(InvalidBinary, "%s", err)
		}
		return New(InvalidTextRepresentation, "%s", err)
	}
	return New(InternalError, "%s", Scrub(err.Error()))
}

func fromEngine(e *duck.Error) *Error {
	out := &Error{Code: classify(e)}
	msg := Scrub(e.Msg)
	if prefix, rest, ok := strings.Cut(msg, ": "); ok && strings.HasSuffix(prefix, "Error") {
		msg = rest
	}
	msg, out.Position = cutLine(msg)
	msg, hint, _ := strings.Cut(msg, "\n")
	out.Message = strings.TrimSpace(msg)
	out.Hint = strings.TrimSpace(hint)
	return out
}

func classify(e *duck.Error) string {
	for _, r := range table {
		if r.kind != 0 && r.kind != e.Type || !strings.Contains(e.Msg, r.text) {
			continue
		}
		if pair, ok := existence[r.code]; ok {
			if strings.Contains(e.Msg, "already exists") {
				return pair.duplicate
			}
			return pair.missing
		}
		return r.code
	}
	return InternalError
}

var lineMark = regexp.MustCompile(`(?s)\n*LINE (\d+): ([^\n]*)\n( *)\^[^\n]*$`)

// cutLine takes the engine's "LINE n: … ^" off a message and gives the caret's place in the statement, when it can be told:
// on the first line, and not shortened with dots at its start.
func cutLine(msg string) (string, int) {
	m := lineMark.FindStringSubmatchIndex(msg)
	if m == nil {
		return msg, 0
	}
	line, text, caret := msg[m[2]:m[3]], msg[m[4]:m[5]], m[7]-m[6]
	at := caret - len("LINE : ") - len(line)
	if line != "1" || strings.HasPrefix(text, "...") || at < 0 || at > len(text) {
		return msg[:m[0]], 0
	}
	return msg[:m[0]], utf8.RuneCountInString(text[:at]) + 1
}

var secrets = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?i)\b(?:(?:host|hostaddr|port|dbname|user|password|passfile|sslmode|sslrootcert|connect_timeout|application_name|options|keepalives\w*)=(?:'(?:[^'\\]|\\.|'')*'|[^\s'"]+)\s*){2,}`), "<connection string> "},
	{regexp.MustCompile(`(?i)\b(postgres(?:ql)?|mysql|s3|https?)://[^/\s@:'"]+:[^@\s'"]+@`), "$1://***@"},
	{regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|secret_access_key|secret_key|access_key|session_token)(\s*[=:]\s*)('(?:[^']|'')*'|"[^"]*"|[^\s;&,'"]+)`), "$1$2***"},
	{regexp.MustCompile(`(?i)(X-Amz-(?:Credential|Signature|Security-Token))=[^&\s'"]+`), "$1=***"},
}

// Scrub cuts connection strings, passwords and keys out of a text.
func Scrub(s string) string {
	for _, r := range secrets {
		s = r.re.ReplaceAllString(s, r.with)
	}
	return s
}
