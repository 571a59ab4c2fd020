package sluice

import (
	"errors"
	"strings"
)

// Code is a stable error code, `SLUICE-<AREA>-<WHAT>`. Codes are listed in one registry, see Codes.
type Code string

// Error is what a person sees: a stable code, what was being done, what is wrong, and what to do next. It never carries
// secrets or row values that the stream marks as secret; whoever builds it leaves them out.
type Error struct {
	Code  Code
	Doing string // what was being attempted, lower case, with the object: "open lake of org acme"
	What  string // what is wrong
	Hint  string // what to do next
	Err   error  // the cause, for errors.Is and errors.As; not shown unless What is empty
}

// E builds an Error. Each part is one short sentence without a full stop.
func E(code Code, doing, what, hint string, cause error) *Error {
	return &Error{Code: code, Doing: doing, What: what, Hint: hint, Err: cause}
}

// Error renders "doing: what (CODE)"; the hint is left to whoever prints for a person.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Doing != "" {
		b.WriteString(e.Doing)
		b.WriteString(": ")
	}
	switch {
	case e.What != "":
		b.WriteString(e.What)
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	}
	b.WriteString(" (")
	b.WriteString(string(e.Code))
	b.WriteString(")")
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// HintOf returns the hint of the first Error in err's chain, or "".
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
