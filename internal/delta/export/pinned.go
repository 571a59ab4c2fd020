package export

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/delta"
	"sluice/internal/objstore"
)

// pins lets the engine read objects over loopback, through this process: each as the version that was planned, with the
// store's own retries and credentials, and under a name that no HTTP client stumbles over. The engine sees none of these.
type pins struct {
	t       *delta.Table
	version int64
	server  *http.Server
	address string
	secret  string // part of each name: nobody else on the machine can guess one

	mu     sync.Mutex
	files  []delta.File
	failed error
}

// servePinned starts to serve.
func servePinned(ctx context.Context, t *delta.Table, version int64) (*pins, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for the engine: %w", err)
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	p := &pins{t: t, version: version, address: listener.Addr().String(), secret: hex.EncodeToString(secret[:])}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }() // until close
	return p, nil
}

func (p *pins) close() { _ = p.server.Close() }

// add gives the URI under which the engine reads a file.
func (p *pins) add(f delta.File) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = append(p.files, f)
	return fmt.Sprintf("http://%s/%s/%d.parquet", p.address, p.secret, len(p.files)-1)
}

// failure is the first error of the store.
func (p *pins) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *pins) fail(w http.ResponseWriter, err error) {
	p.mu.Lock()
	if p.failed == nil && !errors.Is(err, context.Canceled) {
		p.failed = err
	}
	p.mu.Unlock()
	// Not a status that the engine would try again: the store was asked often enough.
	http.Error(w, "the object cannot be read", http.StatusGone)
}

// file finds the file of a request.
func (p *pins) file(r *http.Request) (delta.File, bool) {
	dir, name := path.Split(r.URL.Path)
	n, err := strconv.Atoi(strings.TrimSuffix(name, ".parquet"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || dir != "/"+p.secret+"/" || n < 0 || n >= len(p.files) {
		return delta.File{}, false
	}
	return p.files[n], true
}

// ServeHTTP implements http.Handler.
func (p *pins) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p.file(r)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	from, to, partial := span(r.Header.Get("Range"), f.Size)
	h := w.Header()
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(to-from, 10))
	h.Set("Content-Type", "application/octet-stream")
	status := http.StatusOK
	if partial {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, f.Size))
		status = http.StatusPartialContent
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	body, err := p.t.OpenFile(r.Context(), p.version, &f, objstore.Range{Off: from, Len: to - from})
	if err != nil {
		for _, name := range []string{"Content-Length", "Content-Range"} {
			h.Del(name)
		}
		p.fail(w, err)
		return
	}
	defer body.Close()
	w.WriteHeader(status)
	if _, err := io.CopyN(w, body, to-from); err != nil && r.Context().Err() == nil {
		p.mu.Lock()
		if p.failed == nil {
			p.failed = err
		}
		p.mu.Unlock()
		panic(http.ErrAbortHandler) // the engine must not take what it has for all
	}
}

// span reads a Range header of one range; whatever else it says is the whole file.
func span(header string, size int64) (from, to int64, partial bool) {
	text, ok := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(text, "-")
	if !ok || !dash || strings.Contains(last, ",") {
		return 0, size, false
	}
	a, errA := strconv.ParseInt(first, 10, 64)
	b, errB := strconv.ParseInt(last, 10, 64)
	switch {
	case first == "" && errB == nil: // the last b bytes
		return max(0, size-b), size, true
	case errA != nil || a >= size:
		return 0, size, false
	case last == "":
		return a, size, true
	case errB != nil || b < a:
		return 0, size, false
	}
	return a, min(b+1, size), true
}
