package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"sluice/internal/sluice"
)

type requestKey struct{}

// requestID is the id of the request that ctx belongs to, or "".
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

var goodRequestID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// requestID gives each request an id, the caller's or a new one, and answers with it.
func (d Deps) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !goodRequestID.MatchString(id) {
			var b [8]byte
			_, _ = rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, id)))
	})
}

// localOnly refuses requests that a browser was led to: the host must be this machine's own name, and a page must be of
// this server. Without it a page of any site could use a server that has no login.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			writeError(w, r, http.StatusForbidden, sluice.E("SLUICE-USAGE", "answer a request", fmt.Sprintf("host %q is not this machine", r.Host),
				"use http://127.0.0.1 and the server's port", nil))
			return
		}
		ownPagesOnly(next).ServeHTTP(w, r)
	})
}

// ownPagesOnly refuses requests of other sites' pages.
func ownPagesOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
				writeError(w, r, http.StatusForbidden, sluice.E("SLUICE-USAGE", "answer a request", "a page of another site may not call this server", "", nil))
				return
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func isLocal(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observed counts requests by pattern and status, and turns a panic into an error.
func (d Deps) observed(mux *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, rec := time.Now(), &recorder{ResponseWriter: w}
		defer func() { //nolint:contextcheck // the request carries its context
			if p := recover(); p != nil {
				d.Log.ErrorContext(r.Context(), "request panicked", "panic", fmt.Sprint(p), "path", r.URL.Path)
				if rec.status == 0 {
					writeError(rec, r, http.StatusInternalServerError, sluice.E("SLUICE-INTERNAL", "answer a request", "the handler broke off", "report this", nil))
				}
			}
			if d.Observe != nil {
				_, pattern := mux.Handler(r)
				d.Observe(pattern, rec.status, time.Since(start))
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// unknownRoute answers what no pattern matches: 405 if another method would, else 404.
func unknownRoute(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			probe := r.Clone(r.Context())
			probe.Method = m
			if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeError(w, r, http.StatusMethodNotAllowed, sluice.E("SLUICE-USAGE", "find a route", r.Method+" is not among "+strings.Join(allowed, ", "), "see /openapi.json", nil))
			return
		}
		writeError(w, r, http.StatusNotFound, sluice.E("SLUICE-NOT-FOUND", "find a route", "there is none for "+r.URL.Path, "see /openapi.json", nil))
	}
}

// writeError answers outside of the framework.
func writeError(w http.ResponseWriter, r *http.Request, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(newError(r.Context(), err)) // the client may be gone
}
