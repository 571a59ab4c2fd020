package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/sluice"
)

// Error is the body of every answer that is an error.
type Error struct {
	Detail ErrorDetail `json:"error"`
	status int
}

// ErrorDetail says what went wrong.
type ErrorDetail struct {
	Code      sluice.Code `json:"code" doc:"stable code"`
	Message   string      `json:"message" doc:"what was attempted, and what is wrong"`
	Hint      string      `json:"hint,omitempty" doc:"what to do next"`
	RequestID string      `json:"request_id,omitempty"`
	Details   []string    `json:"details,omitempty" doc:"all mistakes of a malformed request"`
}

func (e *Error) Error() string { return e.Detail.Message }

// GetStatus gives the HTTP status.
func (e *Error) GetStatus() int { return e.status }

// newError gives the body of err.
func newError(ctx context.Context, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	code := sluice.CodeOf(err)
	if code == "" {
		code = "SLUICE-INTERNAL"
	}
	return &Error{
		status: sluice.Info(code).Status,
		Detail: ErrorDetail{
			Code: code, Message: strings.ReplaceAll(err.Error(), fmt.Sprintf(" (%s)", code), ""), Hint: sluice.HintOf(err), RequestID: requestID(ctx),
		},
	}
}

// failed turns a handler's error into an answer; what a person has to look at is logged.
func (d Deps) failed(ctx context.Context, err error) error {
	e := newError(ctx, err)
	if e.status >= http.StatusInternalServerError && ctx.Err() == nil {
		d.Log.ErrorContext(ctx, "request failed", "code", e.Detail.Code, "error", err, "request_id", e.Detail.RequestID)
	}
	if e.status == http.StatusServiceUnavailable {
		return huma.ErrorWithHeaders(e, http.Header{"Retry-After": {strconv.Itoa(int(retryAway.Seconds()))}})
	}
	return e
}

var useErrors sync.Once

// setErrors makes the framework's own errors (malformed bodies, wrong values) look like ours.
func setErrors() {
	huma.DefaultArrayNullable = false // an empty list is [], never null
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return frameworkError(context.Background(), status, msg, errs)
	}
	huma.NewErrorWithContext = func(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		ctx := context.Background()
		if hctx != nil {
			ctx = hctx.Context()
		}
		return frameworkError(ctx, status, msg, errs)
	}
}

func frameworkError(ctx context.Context, status int, msg string, errs []error) *Error {
	for _, err := range errs {
		var ours *Error
		if errors.As(err, &ours) {
			return ours
		}
	}
	e := &Error{status: status, Detail: ErrorDetail{Code: "SLUICE-USAGE", Message: "read the request: " + msg, RequestID: requestID(ctx)}}
	switch {
	case status == http.StatusNotFound:
		e.Detail.Code = "SLUICE-NOT-FOUND"
	case status >= http.StatusInternalServerError:
		e.Detail.Code, e.Detail.Message = "SLUICE-INTERNAL", msg
	case status == http.StatusUnprocessableEntity:
		e.status = http.StatusBadRequest // the registry's status of a malformed request
		e.Detail.Hint = "/openapi.json has the form of each request"
	}
	for _, err := range errs {
		if err != nil {
			e.Detail.Details = append(e.Detail.Details, detail(err))
		}
	}
	if len(e.Detail.Details) > 0 {
		e.Detail.Message += ": " + strings.Join(e.Detail.Details, "; ")
	}
	return e
}

func detail(err error) string {
	var d huma.ErrorDetailer
	if errors.As(err, &d) {
		if x := d.ErrorDetail(); x.Location != "" {
			return x.Location + ": " + x.Message
		}
		return d.ErrorDetail().Message
	}
	return err.Error()
}
