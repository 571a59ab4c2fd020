package objstore

import (
	"context"
	"errors"
	"fmt"
)

// The states that callers branch on.
var (
	ErrNotFound     = errors.New("no such object")
	ErrPrecondition = errors.New("the object is not the one that was expected")
	ErrDenied       = errors.New("access denied")
	ErrUnavailable  = errors.New("the store does not answer") // after all tries; a later one may succeed
	ErrInvalid      = errors.New("not a key of this store")
)

// Error is a failed operation on an object. It matches its Kind with errors.Is.
type Error struct {
	Op     string // get, head, list, put, copy, delete
	Where  Location
	Kind   error  // one of the sentinels, or nil for what the store refuses in another way
	Detail string // what the store said, or which right is missing on which bucket
	Err    error  // the cause
}

func (e *Error) Error() string {
	text := e.Op + " " + e.Where.String() + ": "
	switch {
	case e.Kind != nil && e.Detail != "":
		return text + e.Kind.Error() + ": " + e.Detail
	case e.Kind != nil:
		return text + e.Kind.Error()
	case e.Detail != "":
		return text + e.Detail
	}
	return text + e.Err.Error()
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	var chain []error
	if e.Kind != nil {
		chain = append(chain, e.Kind)
	}
	if e.Err != nil {
		chain = append(chain, e.Err)
	}
	return chain
}

// Retryable reports whether the operation may succeed later without anybody's doing.
func Retryable(err error) bool { return errors.Is(err, ErrUnavailable) }

// ended gives the error of an operation whose context is over, or nil.
func ended(ctx context.Context, op string, where Location) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, where, context.Cause(ctx))
}
