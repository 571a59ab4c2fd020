package fanout

import (
	"context"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Limits of the sessions to destinations.
const (
	poolMost = 50
	poolIdle = 90 * time.Second
)

// pool keeps sessions to destinations' warehouses open for a while. How many are in use at once is the caller's business; idle
// ones never exceed poolMost.
type pool struct {
	sessions Sessions
	mu       sync.Mutex
	idle     []idleSession // the oldest first
	inUse    int
	closed   bool
}

type idleSession struct {
	s     *lake.Session
	since time.Time
}

func (p *pool) get(ctx context.Context, org sluice.Org) (*lake.Session, error) {
	p.mu.Lock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		s := p.idle[i].s
		if s.Org == org && fresh(s) {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			p.inUse++
			p.mu.Unlock()
			return s, nil
		}
	}
	p.mu.Unlock()
	s, err := p.sessions.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.inUse++
	p.mu.Unlock()
	return s, nil
}

func (p *pool) put(s *lake.Session) {
	p.mu.Lock()
	p.inUse--
	var closing []*lake.Session
	if !fresh(s) || p.closed {
		closing = append(closing, s)
	} else {
		p.idle = append(p.idle, idleSession{s, time.Now()})
	}
	for len(p.idle) > 0 && (len(p.idle)+p.inUse > poolMost || time.Since(p.idle[0].since) > poolIdle) {
		closing = append(closing, p.idle[0].s)
		p.idle = p.idle[1:]
	}
	p.mu.Unlock()
	closeAll(closing)
}

// drop closes the idle sessions to an org; empty: those that have been idle for long.
func (p *pool) drop(org sluice.Org) {
	p.mu.Lock()
	var closing []*lake.Session
	kept := p.idle[:0]
	for _, i := range p.idle {
		if i.s.Org == org || org == "" && time.Since(i.since) > poolIdle {
			closing = append(closing, i.s)
			continue
		}
		kept = append(kept, i)
	}
	p.idle = kept
	p.mu.Unlock()
	closeAll(closing)
}

func (p *pool) close() {
	p.mu.Lock()
	closing := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, i := range closing {
		_ = i.s.Close()
	}
}

// open counts the sessions, busy and idle.
func (p *pool) open() (busy, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse, len(p.idle)
}

func closeAll(list []*lake.Session) {
	for _, s := range list {
		_ = s.Close()
	}
}
