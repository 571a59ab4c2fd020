package control

import (
	"net"
	"sync"
	"time"
)

const (
	banFailures = 5
	banWindow   = 5 * time.Minute
	banFor      = 5 * time.Minute
	banMost     = 10_000 // addresses that are remembered
)

// Bans keeps addresses away that have failed to log in five times within five minutes, for as long. Loopback is never
// banned: behind a proxy on the same machine everybody has that address. The zero value is ready.
type Bans struct {
	mu    sync.Mutex
	known map[string]*strikes
}

type strikes struct {
	since  time.Time
	failed int
	until  time.Time
}

func hostOf(addr string) (host string, exempt bool) {
	host = addr
	if h, _, err := net.SplitHostPort(addr); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host, ip == nil || ip.IsLoopback()
}

// Banned tells how much longer an address is kept away; 0 means that it is not.
func (b *Bans) Banned(addr string) time.Duration {
	host, exempt := hostOf(addr)
	if exempt {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.known[host]
	if s == nil {
		return 0
	}
	return max(time.Until(s.until), 0)
}

// Failed notes a failed login.
func (b *Bans) Failed(addr string) {
	host, exempt := hostOf(addr)
	if exempt {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]*strikes{}
	}
	s := b.known[host]
	if s == nil || now.Sub(s.since) > banWindow {
		if s == nil && len(b.known) >= banMost {
			b.forget(now)
		}
		s = &strikes{since: now}
		b.known[host] = s
	}
	if s.failed++; s.failed >= banFailures {
		*s = strikes{since: now, until: now.Add(banFor)}
	}
}

// forget makes room: who has not failed lately, and is not banned, goes; if that is nobody, all go.
func (b *Bans) forget(now time.Time) {
	for host, s := range b.known {
		if now.After(s.until) && now.Sub(s.since) > banWindow {
			delete(b.known, host)
		}
	}
	if len(b.known) >= banMost {
		clear(b.known)
	}
}
