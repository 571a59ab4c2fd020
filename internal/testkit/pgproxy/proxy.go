// Package pgproxy is a TCP proxy for tests that stands before a real PostgreSQL server and loses COMMITs: before the
// server has seen them, or after the server has carried them out and before the client has its answer. Only COMMITs of
// transactions that make a snapshot of a lake count. It can add latency. It owns nothing but connections, and every fault
// that fires is counted, so that a test can prove that it did.
package pgproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fate of a COMMIT.
type Fate int

// The fates.
const (
	Pass       Fate = iota
	LoseBefore      // the server never sees it; the client's connection is cut
	LoseAfter       // the server carries it out; the client's connection is cut before the answer
)

// Proxy forwards connections to a PostgreSQL server.
type Proxy struct {
	upstream string
	listener net.Listener
	latency  atomic.Int64
	commits  atomic.Int64
	decide   atomic.Pointer[func(n int64) Fate]
	before   atomic.Int64
	after    atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// Start listens on a free loopback port until the test ends. upstream is host:port, or the path of a Unix socket.
func Start(t testing.TB, upstream string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the PostgreSQL proxy: %v", err)
	}
	p := &Proxy{upstream: upstream, listener: l, conns: map[net.Conn]bool{}}
	p.done.Add(1)
	go p.accept()
	t.Cleanup(p.Close)
	return p
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Decide sets what happens to the n-th COMMIT of a snapshot, counted from 1 over all connections; nil passes all.
func (p *Proxy) Decide(f func(n int64) Fate) {
	if f == nil {
		p.decide.Store(nil)
		return
	}
	p.decide.Store(&f)
}

// Latency delays each message of a client.
func (p *Proxy) Latency(d time.Duration) { p.latency.Store(int64(d)) }

// Commits is the number of COMMITs of snapshots seen.
func (p *Proxy) Commits() int64 { return p.commits.Load() }

// Lost tells how many COMMITs were lost before and after the server carried them out.
func (p *Proxy) Lost() (before, after int64) { return p.before.Load(), p.after.Load() }

// Close cuts all connections and stops listening.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

func (p *Proxy) track(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		network := "tcp"
		if strings.HasPrefix(p.upstream, "/") {
			network = "unix"
		}
		server, err := net.Dial(network, p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.track(client)
		p.track(server)
		pair := &pair{proxy: p, client: client, server: server}
		p.done.Go(pair.forward)
		p.done.Go(pair.answer)
	}
}

// pair is one proxied connection.
type pair struct {
	proxy          *Proxy
	client, server net.Conn
	lose           atomic.Bool // answers are swallowed until the server has ended the COMMIT
}

func (c *pair) close() {
	c.proxy.forget(c.client)
	c.proxy.forget(c.server)
}

// forward reads the client's messages one by one: the start-up packets have no type byte, all others have.
func (c *pair) forward() {
	defer func() {
		if !c.lose.Load() { // else answer closes both once the server is through
			c.close()
		}
	}()
	if err := c.startup(); err != nil {
		return
	}
	wrote := false // the transaction has made a snapshot
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c.client, head); err != nil {
			return
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head[1:]))-4)
		if _, err := io.ReadFull(c.client, body); err != nil {
			return
		}
		if d := time.Duration(c.proxy.latency.Load()); d > 0 {
			time.Sleep(d) // latency is what is asked for
		}
		wrote = wrote || writesSnapshot(body)
		if isCommit(head[0], body) && wrote {
			wrote = false
			n := c.proxy.commits.Add(1)
			if decide := c.proxy.decide.Load(); decide != nil {
				switch (*decide)(n) {
				case LoseBefore:
					c.proxy.before.Add(1)
					return
				case LoseAfter:
					c.proxy.after.Add(1)
					c.lose.Store(true)
				case Pass:
				}
			}
		}
		if _, err := c.server.Write(append(head, body...)); err != nil {
			return
		}
		if c.lose.Load() {
			return
		}
	}
}

// startup passes SSL and GSS requests on, up to and including the real start-up packet.
func (c *pair) startup() error {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c.client, head); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n < 8 || n > 10_000 {
			return errors.New("start-up packet of an odd length")
		}
		rest := make([]byte, n-8)
		if _, err := io.ReadFull(c.client, rest); err != nil {
			return err
		}
		if _, err := c.server.Write(append(head, rest...)); err != nil {
			return err
		}
		if code := binary.BigEndian.Uint32(head[4:]); code != 80877103 && code != 80877104 {
			return nil
		}
	}
}

// writesSnapshot reports whether a message makes a snapshot of a lake.
func writesSnapshot(body []byte) bool {
	return bytes.Contains(body, []byte("INSERT INTO")) && bytes.Contains(body, []byte("ducklake_snapshot"))
}

func isCommit(kind byte, body []byte) bool {
	if kind != 'Q' && kind != 'P' {
		return false
	}
	text := bytes.ToUpper(bytes.Trim(body, "\x00 \n\t;"))
	return bytes.Equal(text, []byte("COMMIT")) || bytes.HasSuffix(text, []byte("COMMIT"))
}

// answer passes the server's bytes on; while a COMMIT is being lost it swallows them and cuts the connection once the
// server has answered.
func (c *pair) answer() {
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if c.lose.Load() {
			return // the server has carried the COMMIT out: this is its answer
		}
		if n > 0 {
			if _, err := c.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
