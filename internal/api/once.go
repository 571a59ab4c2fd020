package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

var goodKey = regexp.MustCompile(`^[!-~]{1,200}$`)

// once answers a POST that is repeated with its Idempotency-Key as the first one was answered. What was shown once is not
// shown again: secrets are cut out of what is kept.
func (d Deps) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Method != http.MethodPost || d.Control == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !goodKey.MatchString(key) {
			writeError(w, r, http.StatusBadRequest, sluice.E("SLUICE-USAGE", "read Idempotency-Key", "it is longer than 200 characters or not plain", "use a UUID", nil))
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			bodyError(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		who := callerOf(r.Context()).id
		hash := sha256.New()
		for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.RequestURI()), text} {
			sum := sha256.Sum256(part)
			hash.Write(sum[:])
		}
		given, err := d.Control.BeginOnce(r.Context(), who, key, hex.EncodeToString(hash.Sum(nil)))
		if err != nil {
			writeError(w, r, newError(r.Context(), err).status, err)
			return
		}
		if given != nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Idempotency-Replayed", "true")
			w.WriteHeader(given.Status)
			_, _ = w.Write(given.Body) // the client may be gone
			return
		}
		kept := &copying{ResponseWriter: w}
		defer func() { //nolint:contextcheck // the request's context may be over, what was done is recorded all the same
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
			defer cancel()
			var a *control.Answer
			if kept.status > 0 && kept.status < http.StatusInternalServerError {
				a = &control.Answer{Status: kept.status, Body: withoutSecrets(kept.text.Bytes())}
			}
			if err := d.Control.EndOnce(ctx, who, key, a); err != nil {
				d.Log.WarnContext(ctx, "answer not kept; a repeated request waits until it counts as dead", "err", err, "request_id", requestID(ctx))
			}
		}()
		next.ServeHTTP(kept, r)
	})
}

// copying keeps what is written.
type copying struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

func (c *copying) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *copying) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	c.text.Write(b)
	return c.ResponseWriter.Write(b)
}

func (c *copying) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// secretFields are what is shown once.
var secretFields = map[string]bool{"secret": true, "password": true, "root_password": true}

// withoutSecrets cuts the fields that are shown once out of an answer.
func withoutSecrets(text []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil // not JSON: nothing of it is kept
	}
	var cut func(v any)
	cut = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			for k, inner := range x {
				if secretFields[k] {
					delete(x, k)
				} else {
					cut(inner)
				}
			}
		case []any:
			for _, inner := range x {
				cut(inner)
			}
		}
	}
	cut(v)
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return append(out, '\n')
}

// textOnly refuses what no text column can hold: NUL, and bytes that are not UTF-8.
func textOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bad := func(s string) bool { return strings.ContainsRune(s, 0) || !utf8.ValidString(s) }
		refuse := func(what string) {
			writeError(w, r, http.StatusBadRequest, sluice.E("SLUICE-USAGE", "read the request", what+" holds a NUL or is not UTF-8", "send plain text", nil))
		}
		if bad(r.URL.Path) {
			refuse("the path")
			return
		}
		// The router would redirect to the path without its empty parts: another object's, or none.
		if p := r.URL.Path; strings.HasPrefix(p, "/api/") && path.Clean(p) != strings.TrimSuffix(p, "/") {
			writeError(w, r, http.StatusNotFound, sluice.E("SLUICE-NOT-FOUND", "find a route", "a part of the path is empty or a dot", "see /openapi.json", nil))
			return
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			writeError(w, r, http.StatusBadRequest, sluice.E("SLUICE-USAGE", "read the request", "the query is malformed", "see /openapi.json", err))
			return
		}
		for k, values := range query {
			for _, v := range values {
				if bad(k) || bad(v) {
					refuse("the query")
					return
				}
			}
		}
		if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			bodyError(w, r, err)
			return
		}
		if bytes.Contains(text, []byte(`\u0000`)) && hasNUL(text) {
			refuse("the body")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		next.ServeHTTP(w, r)
	})
}

// hasNUL looks at the strings that a JSON text means.
func hasNUL(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := dec.Token()
		if err != nil {
			return false // whoever decodes it says what is wrong
		}
		if s, ok := token.(string); ok && strings.ContainsRune(s, 0) {
			return true
		}
	}
}

func bodyError(w http.ResponseWriter, r *http.Request, err error) {
	status, what := http.StatusBadRequest, "the body cannot be read"
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		status, what = http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB"
	}
	writeError(w, r, status, sluice.E("SLUICE-USAGE", "read the request", what, "send less in one call", err))
}
