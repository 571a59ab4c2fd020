package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stopWithin bounds the whole shutdown: a process that hangs is worth less than one that is started again.
const stopWithin = 45 * time.Second

// group runs components: started in order, stopped in the mirror of it. The first component that ends by itself, or the
// end of the context, stops all.
type group struct {
	log   *slog.Logger
	parts []*part
	ended chan *part
}

// part is a running component.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newGroup(log *slog.Logger) *group { return &group{log: log, ended: make(chan *part, 16)} }

// start runs a component until the group stops it. run returns nil when its context is over.
func (g *group) start(ctx context.Context, name string, run func(ctx context.Context) error) {
	// Not a child of the context that SIGTERM ends: the group stops the components one after the other.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	g.parts = append(g.parts, p)
	go func() {
		defer cancel()
		p.err = run(ctx)
		if errors.Is(p.err, context.Canceled) && ctx.Err() != nil {
			p.err = nil
		}
		close(p.done)
		g.ended <- p
	}()
}

// wait returns once ctx is over or a component has ended; its error, if it broke.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-g.ended:
		if p.err != nil {
			return fmt.Errorf("run %s: %w", p.name, p.err)
		}
		return nil
	}
}

// stop ends the components, the last first, each after the one before it is done.
func (g *group) stop() error {
	var errs []error
	deadline := time.After(stopWithin)
	for i := len(g.parts) - 1; i >= 0; i-- {
		p := g.parts[i]
		start := time.Now()
		p.cancel()
		select {
		case <-p.done:
		case <-deadline:
			return errors.Join(append(errs, fmt.Errorf("stop %s: it did not end within %s", p.name, stopWithin))...)
		}
		if p.err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, p.err))
		}
		g.log.Debug("stopped", "part", p.name, "ms", time.Since(start).Milliseconds())
	}
	return errors.Join(errs...)
}

// every calls fn at once and then each interval, or when wake has a value, until ctx is over.
func every(ctx context.Context, interval time.Duration, wake <-chan struct{}, fn func(ctx context.Context)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		fn(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wake:
		}
	}
}

// roleSet knows which roles are up.
type roleSet struct {
	mu sync.Mutex
	up map[string]bool
}

func (r *roleSet) set(role string, up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up == nil {
		r.up = map[string]bool{}
	}
	r.up[role] = up
}

func (r *roleSet) isUp(role string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up[role]
}
