package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/sluice"
)

// Options are the limits of a Registry. The zero value is the default.
type Options struct {
	// MaxInstances is how many instances stay open when they are idle; beyond it the one that was used longest ago is
	// closed. Instances in use are never closed, so more may be open. 0 is 64.
	MaxInstances int
	// MaxAge closes an instance that is older as soon as it is idle; 0 is never.
	MaxAge time.Duration
	// OpenTimeout bounds the opening of an instance, StepTimeout each step of it. 0 is 60 s and 30 s.
	OpenTimeout, StepTimeout time.Duration
	// CloseTimeout is how long Close waits for connections to be given back; 0 is 30 s.
	CloseTimeout time.Duration
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.MaxInstances <= 0 {
		o.MaxInstances = 64
	}
	def(&o.OpenTimeout, 60*time.Second)
	def(&o.StepTimeout, 30*time.Second)
	def(&o.CloseTimeout, 30*time.Second)
	return o
}

// Registry hands out connections to the instances of a process, one instance per org.
type Registry struct {
	src Source
	log *slog.Logger
	opt Options

	mu      sync.Mutex
	closed  bool
	slots   map[sluice.Org]*slot
	closing map[*instance]struct{} // off the slots, but not closed yet
	retired map[string]int         // instances retired so far, by reason
	opened  int
}

// slot is the place of an org's instance while it is opened, provisioned or open.
type slot struct {
	ready chan struct{} // closed when inst or err is set
	inst  *instance
	err   error
}

// errAgain tells a waiting Connect to look again: the slot was only used to provision.
var errAgain = errors.New("look again")

// errClosed is the cause after Close.
var errClosed = errors.New("the engine registry is closed")

// NewRegistry makes a registry that asks src how to open an org's instance. It opens nothing.
func NewRegistry(src Source, log *slog.Logger, opt Options) *Registry {
	return &Registry{
		src: src, log: log.With("component", "engine"), opt: opt.withDefaults(),
		slots: map[sluice.Org]*slot{}, closing: map[*instance]struct{}{}, retired: map[string]int{},
	}
}

// Connect returns a fresh connection to org's instance, and opens the instance first if need be; concurrent callers share
// one opening. Errors: what Source says, SLUICE-ENGINE-OPEN, SLUICE-LAKE-IN-USE, -CATALOG-DOWN, -VERSION,
// SLUICE-EXTENSION-*.
func (r *Registry) Connect(ctx context.Context, org sluice.Org) (*Conn, error) {
	for broken := 0; ; {
		s, err := r.slot(ctx, org)
		if err != nil {
			return nil, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("open engine of org %s: %w", org, context.Cause(ctx))
		}
		if errors.Is(s.err, errAgain) {
			continue
		}
		if s.err != nil {
			return nil, s.err
		}
		if !r.acquire(s.inst) {
			continue // retired or evicted since
		}
		c, err := s.inst.connect(ctx)
		if err != nil && broken < 2 && ctx.Err() == nil && r.left(s.inst) {
			broken++ // the instance was found to be beyond repair: a fresh one
			continue
		}
		return c, err
	}
}

// left reports whether i has been taken out of service.
func (r *Registry) left(i *instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return i.leaving
}

// slot returns org's slot; a new one is being opened.
func (r *Registry) slot(ctx context.Context, org sluice.Org) (*slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("open engine of org %s", org), "", "the process is stopping; try again", errClosed)
	}
	if s := r.slots[org]; s != nil {
		return s, nil
	}
	s := &slot{ready: make(chan struct{})}
	r.slots[org] = s
	// The opening outlives the caller that happened to come first: others may wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.OpenTimeout)
	go func() {
		defer cancel()
		inst, err := r.open(ctx, org)
		r.settle(org, s, inst, err)
	}()
	return s, nil
}

// settle publishes what became of a slot.
func (r *Registry) settle(org sluice.Org, s *slot, inst *instance, err error) {
	r.mu.Lock()
	s.inst, s.err = inst, err
	if inst == nil {
		delete(r.slots, org)
	}
	closed := r.closed
	r.mu.Unlock()
	if inst != nil && closed {
		r.drop(inst, "shutdown") // before ready: Close waits for the one, then for the other
	}
	close(s.ready)
}

// open asks the source and opens org's instance.
func (r *Registry) open(ctx context.Context, org sluice.Org) (*instance, error) {
	cfg, err := r.src.Warehouse(ctx, org)
	if err != nil {
		return nil, err
	}
	cfg.Org = org
	r.evict() // the new one counts already
	if err := r.awaitClosed(ctx, cfg); err != nil {
		return nil, err
	}
	start := time.Now()
	inst, err := openInstance(ctx, r, cfg, false)
	if err != nil {
		r.log.WarnContext(ctx, "engine not opened", "org", org, "error", err)
		return nil, err
	}
	r.mu.Lock()
	r.opened++
	r.mu.Unlock()
	r.log.InfoContext(ctx, "engine opened", "org", org, "kind", cfg.Lake.Kind, "seconds", time.Since(start).Seconds())
	return inst, nil
}

// awaitClosed waits until an earlier instance on the same catalog file is closed: two at once would lose commits. The
// lock would refuse the second; waiting gives the connections of the first time to go.
func (r *Registry) awaitClosed(ctx context.Context, cfg Config) error {
	if cfg.Lake.Kind != LakeDuckDB {
		return nil
	}
	r.mu.Lock()
	var earlier []*instance
	for i := range r.closing {
		if i.cfg.Org == cfg.Org {
			earlier = append(earlier, i)
		}
	}
	r.mu.Unlock()
	for _, i := range earlier {
		select {
		case <-i.gone:
		case <-ctx.Done():
			return sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("open engine of org %s", cfg.Org),
				"connections of the instance before it are still in use", "close the org's sessions, then try again", context.Cause(ctx))
		}
	}
	return nil
}

// acquire counts a connection in, unless the instance takes no more.
func (r *Registry) acquire(i *instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i.leaving {
		return false
	}
	i.refs++
	i.used = time.Now()
	return true
}

// release counts a connection out and closes the instance if that was what it waited for. A probe is no use of it.
func (r *Registry) release(i *instance, probe bool) {
	r.mu.Lock()
	i.refs--
	if !probe {
		i.used = time.Now()
	}
	idle := i.refs == 0
	last := idle && i.leaving
	recycle := idle && !i.leaving && (i.recycle || r.opt.MaxAge > 0 && time.Since(i.born) > r.opt.MaxAge)
	over := idle && !i.leaving && len(r.slots) > r.opt.MaxInstances
	r.mu.Unlock()
	switch {
	case last:
		r.finish(i)
	case recycle:
		r.dropIdle(i, "recycled")
	case over:
		r.evict()
	}
}

// evict closes idle instances, oldest use first, until no more than MaxInstances are open.
func (r *Registry) evict() {
	for {
		r.mu.Lock()
		var oldest *instance
		for _, s := range r.slots {
			if i := s.inst; i != nil && i.refs == 0 && !i.leaving && (oldest == nil || i.used.Before(oldest.used)) {
				oldest = i
			}
		}
		over := len(r.slots) > r.opt.MaxInstances
		r.mu.Unlock()
		if !over || oldest == nil {
			return
		}
		r.dropIdle(oldest, "evicted")
	}
}

// dropIdle is drop for an instance that nobody uses; one that was taken up meanwhile stays.
func (r *Registry) dropIdle(i *instance, reason string) {
	r.mu.Lock()
	idle := i.refs == 0 && r.leave(i)
	r.mu.Unlock()
	if idle {
		r.log.Debug("engine closed", "org", i.cfg.Org, "reason", reason)
		r.finish(i)
	}
}

// drop takes an instance out of service: no new connections, running statements cancelled, closed with the last
// connection.
func (r *Registry) drop(i *instance, reason string) {
	r.mu.Lock()
	first := r.leave(i)
	idle := first && i.refs == 0
	refs := i.refs
	if first {
		r.retired[reason]++
	}
	r.mu.Unlock()
	if !first {
		return
	}
	r.log.Warn("engine taken out of service", "org", i.cfg.Org, "reason", reason, "connections", refs)
	i.end()
	if idle {
		r.finish(i)
	}
}

// leave takes i off its slot; false if somebody did so before. The caller holds r.mu.
func (r *Registry) leave(i *instance) bool {
	if i.leaving {
		return false
	}
	i.leaving = true
	if s := r.slots[i.cfg.Org]; s != nil && s.inst == i {
		delete(r.slots, i.cfg.Org)
	}
	r.closing[i] = struct{}{}
	return true
}

// finish closes an instance that has left and has no connections.
func (r *Registry) finish(i *instance) {
	i.end()
	if err := i.shut(); err != nil {
		r.log.Error("engine not closed cleanly", "org", i.cfg.Org, "error", err)
	}
	r.mu.Lock()
	delete(r.closing, i)
	r.mu.Unlock()
	close(i.gone)
}

// Probe asks the engines that are open whether they still answer, and retires those on a DuckDB file that do not (a
// catalog server that is away is no reason). It is for a background check; it opens nothing.
func (r *Registry) Probe(ctx context.Context) error {
	r.mu.Lock()
	var open []*instance
	for _, s := range r.slots {
		if i := s.inst; i != nil && !i.leaving {
			i.refs++ // so that none is closed meanwhile
			open = append(open, i)
		}
	}
	r.mu.Unlock()
	var errs []error
	for _, i := range open {
		pctx, cancel := context.WithTimeout(ctx, probeTimeout)
		err := i.probe(pctx)
		if err != nil {
			errs = append(errs, err)
			if i.cfg.Lake.Kind == LakeDuckDB && pctx.Err() == nil {
				i.retire("catalog")
			}
		}
		cancel()
		r.release(i, true)
	}
	return errors.Join(errs...)
}

// Recycle closes org's instance as soon as it is idle, so that the next connection opens it with the configuration that
// Source gives by then.
func (r *Registry) Recycle(org sluice.Org) {
	r.mu.Lock()
	var i *instance
	if s := r.slots[org]; s != nil && s.inst != nil {
		i = s.inst
		i.recycle = true
	}
	r.mu.Unlock()
	if i != nil {
		r.dropIdle(i, "recycled")
	}
}

// Status is what a registry says about itself.
type Status struct {
	Open        int            // instances open or being opened
	Closing     int            // taken out of service, still with connections
	Connections int            // connections handed out
	Opened      int            // instances opened so far
	Retired     map[string]int // instances taken out of service so far, by reason
}

// Status counts instances and connections; it touches no engine.
func (r *Registry) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := Status{Open: len(r.slots), Closing: len(r.closing), Opened: r.opened, Retired: map[string]int{}}
	for k, v := range r.retired {
		st.Retired[k] = v
	}
	for _, s := range r.slots {
		if s.inst != nil {
			st.Connections += s.inst.refs
		}
	}
	for i := range r.closing {
		st.Connections += i.refs
	}
	return st
}

// Close takes all instances out of service, cancels their statements, and waits until the connections are given back. It
// closes no instance under a connection: those still out after the timeout are an error, and keep their instance.
func (r *Registry) Close() error {
	r.mu.Lock()
	r.closed = true
	var open []*instance
	var opening []*slot
	for _, s := range r.slots {
		if s.inst != nil {
			open = append(open, s.inst)
		} else {
			opening = append(opening, s)
		}
	}
	r.mu.Unlock()
	timeout := time.After(r.opt.CloseTimeout)
	for _, i := range open {
		r.drop(i, "shutdown")
	}
	for _, s := range opening {
		select {
		case <-s.ready:
		case <-timeout:
			return fmt.Errorf("close engines: an engine is still being opened")
		}
	}
	for {
		r.mu.Lock()
		var next *instance
		for next = range r.closing {
			break
		}
		left := len(r.closing)
		r.mu.Unlock()
		if next == nil {
			return nil
		}
		select {
		case <-next.gone:
		case <-timeout:
			return fmt.Errorf("close engines: connections of %d engines are still in use, one of org %s", left, next.cfg.Org)
		}
	}
}
