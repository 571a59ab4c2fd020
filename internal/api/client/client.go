// Package client calls the API, over a network or in process: the command line and the demo use nothing else. An error
// that the server gives comes back as the same error, with its code and hint.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/api"
	"sluice/internal/sluice"
)

// Client calls one server.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// WithToken gives a client that shows a bearer token; an empty one is none.
func (c *Client) WithToken(token string) *Client {
	with := *c
	with.token = token
	return &with
}

// New makes a client of the server at base, like http://127.0.0.1:8090.
func New(base string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{Timeout: timeout}}
}

// NewTrusting is New for a server whose certificate is among the given ones, or the system trusts it.
func NewTrusting(base string, pem []byte) (*Client, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, sluice.E("SLUICE-CONFIG", "call "+base, "the file of http.tls.cert holds no certificate", "give a PEM file", nil)
	}
	c := New(base)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	c.http.Transport = transport
	return c, nil
}

// InProcess makes a client that calls a handler directly.
func InProcess(h http.Handler) *Client {
	return &Client{base: "http://localhost", http: &http.Client{Transport: handlerTransport{h}}}
}

const (
	timeout   = 5 * time.Minute // creating an org on a slow catalog server takes its time
	mostBytes = 64 << 20
)

// Base is the server's URL.
func (c *Client) Base() string { return c.base }

// Get reads path, below /api/v1, into a T.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return call[T](ctx, c, http.MethodGet, "/api/v1"+path, query, nil)
}

// Patch changes what is at path, below /api/v1. etag, if not empty, is the version that the change is made for.
func Patch[T any](ctx context.Context, c *Client, path, etag string, in any) (T, error) {
	return call[T](ctx, c, http.MethodPatch, "/api/v1"+path, nil, in, "If-Match", etag)
}

// Delete removes what is at path, below /api/v1.
func Delete(ctx context.Context, c *Client, path, etag string, query url.Values) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, "/api/v1"+path, query, nil, "If-Match", etag)
	return err
}

// Post sends in to path, below /api/v1, and reads the answer into a T.
func Post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	return call[T](ctx, c, http.MethodPost, "/api/v1"+path, nil, in)
}

// Healthz reads /healthz; the server must answer within two seconds.
func (c *Client) Healthz(ctx context.Context) (api.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return call[api.Health](ctx, c, http.MethodGet, "/healthz", nil, nil)
}

func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any, header ...string) (T, error) {
	out, _, _, err := callTagged[T](ctx, c, method, path, query, in, header...)
	return out, err
}

// callTagged is call, with the answer's status and ETag.
func callTagged[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any, header ...string) (out T, status int, etag string, err error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return out, status, etag, fmt.Errorf("encode a request to %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return out, status, etag, sluice.E("SLUICE-USAGE", "call "+c.base, "it is not a URL", "give one like http://127.0.0.1:8090", err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return out, status, etag, context.Cause(ctx)
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return out, status, etag, sluice.E("SLUICE-SERVER-AWAY", "call the server at "+c.base, "", "start it with sluice serve, or give its address with --server", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes))
	if err != nil {
		return out, status, etag, sluice.E("SLUICE-SERVER-AWAY", "read the answer of "+c.base, "", "try again", err)
	}
	status, etag = resp.StatusCode, resp.Header.Get("ETag")
	switch {
	case status == http.StatusNoContent || status == http.StatusNotModified:
		return out, status, etag, nil
	case status >= http.StatusMultipleChoices:
		return out, status, etag, answered(c.base, status, text)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, status, etag, sluice.E("SLUICE-SERVER-AWAY", "read the answer of "+c.base, "it is not what a sluice server answers", "check --server", err)
	}
	return out, status, etag, nil
}

// answered rebuilds the error that a server gave.
func answered(base string, status int, text []byte) error {
	var e api.Error
	if err := json.Unmarshal(text, &e); err != nil || e.Detail.Code == "" {
		return sluice.E("SLUICE-SERVER-AWAY", "call the server at "+base, fmt.Sprintf("the answer has status %d and is not a sluice server's", status), "check --server", nil)
	}
	return sluice.E(e.Detail.Code, "", e.Detail.Message, e.Detail.Hint, nil)
}

// handlerTransport answers requests by calling a handler.
type handlerTransport struct{ h http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	w := &answer{header: http.Header{}}
	t.h.ServeHTTP(w, r)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
