package objstore

import (
	"context"
	"errors"
	"io"

	"github.com/aws/smithy-go"
)

// resumed is the body of a Get. When the connection breaks it asks for the rest, with the ETag of the first answer: the
// bytes are all of one version, or the read fails.
type resumed struct {
	ctx    context.Context //nolint:containedctx // of the Get that this is the body of
	b      *S3
	key    string
	etag   string
	body   io.ReadCloser
	at, to int64
	broken int // breaks since the last byte
}

func (r *resumed) Read(p []byte) (int, error) {
	for {
		if r.at >= r.to {
			return 0, io.EOF
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.to-r.at)])
		r.at += int64(n)
		if n > 0 {
			r.broken = 0
			return n, nil
		}
		if err == nil {
			return 0, nil
		}
		if err := r.again(err); err != nil {
			return 0, err
		}
	}
}

// again opens the rest of the body after it broke off with cause.
func (r *resumed) again(cause error) error {
	r.body.Close()
	r.body = io.NopCloser(eof{})
	where := r.b.Location(r.key)
	if end := ended(r.ctx, "get", where); end != nil {
		return end
	}
	r.broken++
	if r.broken >= r.b.retry.tries() {
		return &Error{Op: "get", Where: where, Kind: ErrUnavailable, Detail: "the answer broke off: " + cause.Error(), Err: cause}
	}
	return r.b.retry.do(r.ctx, func() error {
		body, _, from, _, err := r.b.get(r.ctx, r.key, header(Range{r.at, r.to - r.at}), r.etag)
		switch {
		case errors.Is(err, errEmptyRange): // shorter than before: another object
			return &Error{Op: "get", Where: where, Kind: ErrPrecondition}
		case err != nil:
			return err
		case from != r.at:
			body.Close()
			return &Error{Op: "get", Where: where, Detail: "the server gave another range than the one asked for"}
		}
		r.body = body
		return nil
	})
}

func (r *resumed) Close() error { return r.body.Close() }

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// apiError gives the store's own code and message of an error.
func apiError(err error) (code, message string) {
	var api smithy.APIError
	if errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
		if code == "UnknownError" {
			code = ""
		}
	}
	return code, message
}

// brokenAnswer reports whether an answer came that is not readable, as from a proxy in between.
func brokenAnswer(err error) bool {
	var d *smithy.DeserializationError
	return errors.As(err, &d)
}
