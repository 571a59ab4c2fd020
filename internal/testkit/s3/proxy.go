package s3

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Fault is what a proxy does to requests. The zero values of Method and Key match all.
type Fault struct {
	Method string
	Key    string // a part of the decoded path, or of the query
	Skip   int    // matching requests that pass first
	Times  int    // how often it happens; 0: once
	Status int    // answer with this status and Code, without asking the server
	Code   string
	Cut    int64  // pass the answer's first bytes, then break the connection; 0 with Status 0: break it before the answer
	Before func() // called before the request is passed on, which then is not changed otherwise
}

// Proxy stands before the server and makes declared faults. Each must have happened when the test ends.
type Proxy struct {
	mu     sync.Mutex
	faults []*Fault
	seen   []string
}

// NewProxy gives the bucket as it is reached through a proxy with faults, in the order in which they are to happen.
func NewProxy(t testing.TB, b Bucket, faults ...Fault) (Bucket, *Proxy) {
	t.Helper()
	target, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{}
	for _, f := range faults {
		f.Times = max(1, f.Times)
		p.faults = append(p.faults, &f)
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host // it is part of what was signed
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := p.next(r)
		switch {
		case f == nil:
			forward.ServeHTTP(w, r)
		case f.Before != nil:
			f.Before()
			forward.ServeHTTP(w, r)
		case f.Status != 0:
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(f.Status)
			if f.Code != "" && r.Method != http.MethodHead {
				fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>a declared fault</Message></Error>`, f.Code)
			}
		default:
			forward.ServeHTTP(&cutter{ResponseWriter: w, left: f.Cut}, r)
		}
	}))
	t.Cleanup(func() {
		server.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, f := range p.faults {
			if f.Times > 0 && !t.Failed() {
				t.Errorf("the fault on %s %s with status %d did not happen %d times more", f.Method, f.Key, f.Status, f.Times)
			}
		}
	})
	b.Endpoint = server.URL
	return b, p
}

// Requests are the requests so far, as "METHOD path?query".
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

func (p *Proxy) next(r *http.Request) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Method+" "+r.URL.RequestURI())
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	for _, f := range p.faults {
		switch {
		case f.Times == 0, f.Method != "" && f.Method != r.Method, !strings.Contains(r.URL.Path+"?"+query, f.Key):
		case f.Skip > 0:
			f.Skip--
		default:
			f.Times--
			return f
		}
	}
	return nil
}

// cutter breaks the connection after some bytes of the body.
type cutter struct {
	http.ResponseWriter
	left int64
}

func (c *cutter) WriteHeader(status int) {
	if c.left == 0 {
		panic(http.ErrAbortHandler)
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *cutter) Write(p []byte) (int, error) {
	n := min(int64(len(p)), c.left)
	c.left -= n
	if n > 0 {
		if m, err := c.ResponseWriter.Write(p[:n]); err != nil {
			return m, err
		}
	}
	if c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return int(n), nil
}
