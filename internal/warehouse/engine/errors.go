package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"sluice/internal/sluice"
)

// fatal says why an error puts an end to its instance, or "". The driver derives the type from the prefix that the
// engine itself puts first; text of a user comes after it and cannot change it.
func fatal(err error) string {
	switch errorType(err) { //nolint:exhaustive // all other types leave the instance usable
	case duckdb.ErrorTypeFatal:
		return "fatal"
	case duckdb.ErrorTypeInternal:
		return "internal"
	}
	return ""
}

// errorType is the engine's type of an error; ErrorTypeInvalid for others.
func errorType(err error) duckdb.ErrorType {
	var de *duckdb.Error
	if errors.As(err, &de) {
		return de.Type
	}
	return duckdb.ErrorTypeInvalid
}

// scrubbed is an error of the engine with secrets cut out of its text. What it wraps is clean too: the engine's error type
// and the context's errors stay findable, everything else of the chain that could carry the original text is dropped.
type scrubbed struct {
	text string
	errs []error
}

func (e *scrubbed) Error() string   { return e.text }
func (e *scrubbed) Unwrap() []error { return e.errs }

// scrubber cuts the given secrets out of texts.
type scrubber struct{ r *strings.Replacer }

func newScrubber(secrets ...string) scrubber {
	var pairs []string
	for _, s := range secrets {
		if s == "" {
			continue
		}
		for _, v := range []string{s, strings.ReplaceAll(s, "'", "''"), strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `'`, `\'`)} {
			pairs = append(pairs, v, "***")
		}
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

// clean returns err unchanged unless its text holds a secret.
func (s scrubber) clean(err error) error {
	if err == nil {
		return nil
	}
	text := s.r.Replace(err.Error())
	if text == err.Error() {
		return err
	}
	out := &scrubbed{text: text}
	var de *duckdb.Error
	if errors.As(err, &de) {
		out.errs = append(out.errs, &duckdb.Error{Type: de.Type, Msg: s.r.Replace(de.Msg)})
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			out.errs = append(out.errs, known)
		}
	}
	return out
}

// openError turns an error of opening an instance into what a person sees. The engine gives only text for these; the
// table is the one place that matches it.
func openError(org sluice.Org, step string, err error) error {
	if sluice.CodeOf(err) != "" {
		return err
	}
	doing := fmt.Sprintf("open engine of org %s: %s", org, step)
	for _, row := range openErrors {
		if strings.Contains(err.Error(), row.text) {
			return sluice.E(row.code, doing, row.what, row.hint, err)
		}
	}
	return sluice.E("SLUICE-ENGINE-OPEN", doing, "", "run sluice doctor", err)
}

var openErrors = []struct {
	text       string
	code       sluice.Code
	what, hint string
}{
	{"Unable to connect to Postgres", "SLUICE-LAKE-CATALOG-DOWN", "the catalog server does not answer or refuses the role", "check that the catalog's PostgreSQL runs and that the org's role and password are right"},
	{"DuckLake catalog version mismatch", "SLUICE-LAKE-VERSION", "", "use the release of sluice that fits the lake, or run sluice migrate after a backup"},
	{"Conflicting lock is held", "SLUICE-LAKE-IN-USE", "another program has the catalog file open", "close that program"},
	{"Unique file handle conflict", "SLUICE-LAKE-IN-USE", "the catalog file is open in this process already", "report this: each lake has one instance per process"},
}
