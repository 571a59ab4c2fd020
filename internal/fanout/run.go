package fanout

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Config of a Runner. The zero value is the default.
type Config struct {
	Owner string
	Poll  time.Duration // how often the source is looked at; default 1 s
	// FlushRows, FlushBytes and FlushInterval say when what was read for a destination is applied.
	FlushRows     int64         // 50,000
	FlushBytes    int64         // 32 MiB
	FlushInterval time.Duration // since the oldest row; 10 s
	Discovery     time.Duration // how often discovery is asked; 60 s
	Concurrency   int           // transactions at once; 8
	Seeds         int           // histories that are collected at once; 2
	LeaseTTL      time.Duration // 30 s
	Persist       time.Duration // how often it is stored how far there is nothing for a destination; 60 s
	Touch         time.Duration // a cursor so old is moved though there is nothing for it; 6 h
	Spool         int64         // bytes of side files; 10 GiB
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Poll, time.Second)
	def(&c.FlushInterval, 10*time.Second)
	def(&c.Discovery, time.Minute)
	def(&c.LeaseTTL, 30*time.Second)
	def(&c.Persist, time.Minute)
	def(&c.Touch, 6*time.Hour)
	for _, n := range []struct {
		p *int64
		v int64
	}{{&c.FlushRows, 50_000}, {&c.FlushBytes, 32 << 20}, {&c.Spool, 10 << 30}} {
		if *n.p <= 0 {
			*n.p = n.v
		}
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 8
	}
	if c.Seeds <= 0 {
		c.Seeds = 2
	}
	return c
}

// Discovery tells which warehouses there are.
type Discovery interface {
	Discovery(ctx context.Context) (control.Discovery, error)
}

// Meter counts what a Runner does.
type Meter interface {
	Read(f *Fanout, r Read)
	Applied(f *Fanout, d Destination, a Applied, err error)
	Polled(f *Fanout, result string)
}

// Deps are what a Runner works with.
type Deps struct {
	Store     *Store
	Sessions  Sessions
	Files     Files
	Discovery Discovery
	Meter     Meter
	Log       *slog.Logger
}

// Runner follows the sources of all fan-outs whose shards this process owns.
type Runner struct {
	cfg  Config
	deps Deps
	pool *pool

	tasks *gate // of transactions
	seeds *gate
	wg    sync.WaitGroup

	mu    sync.Mutex
	works map[string]*follower
}

// New makes a Runner. It starts nothing.
func New(cfg Config, deps Deps) *Runner {
	cfg = cfg.withDefaults()
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Meter == nil {
		deps.Meter = noMeter{}
	}
	return &Runner{
		cfg: cfg, deps: deps, pool: &pool{sessions: deps.Sessions}, works: map[string]*follower{},
		tasks: newGate(cfg.Concurrency), seeds: newGate(cfg.Seeds),
	}
}

type noMeter struct{}

func (noMeter) Read(*Fanout, Read)                           {}
func (noMeter) Applied(*Fanout, Destination, Applied, error) {}
func (noMeter) Polled(*Fanout, string)                       {}

// drainTimeout bounds what may still be written after the end was asked for.
const drainTimeout = 20 * time.Second

// Run follows until ctx is over; then what has been read is applied, as far as that goes in a short time.
func (r *Runner) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer r.pool.close()
	for {
		if err := r.runOnce(ctx, work); err != nil {
			r.deps.Log.WarnContext(ctx, "the fan-outs could not be looked at", "error", err)
		}
		select {
		case <-ctx.Done():
			return r.drain(work, stop)
		case <-time.After(r.cfg.Poll):
		}
	}
}

// drain applies what has been read, and gives the leases back.
func (r *Runner) drain(ctx context.Context, stop context.CancelCauseFunc) error {
	timer := time.AfterFunc(drainTimeout, func() { stop(errors.New("the fan-out is stopping")) })
	defer timer.Stop()
	for left := true; left && ctx.Err() == nil; {
		left = false
		for _, w := range r.all() {
			w.flush(ctx, true)
		}
		r.wg.Wait()
		for _, w := range r.all() {
			w.settle(ctx)
			left = left || w.hasWork()
		}
	}
	r.wg.Wait()
	for _, w := range r.all() {
		w.settle(ctx)
		if err := w.persist(ctx, true); err != nil {
			r.deps.Log.WarnContext(ctx, "how far there is nothing was not stored", "fanout", w.f.Name, "error", err)
		}
		w.dropAll(ctx)
		for _, l := range w.leases {
			_ = r.deps.Store.Release(context.WithoutCancel(ctx), l) // it expires by itself
		}
		w.reader.close()
	}
	_ = r.deps.Store.Leave(context.WithoutCancel(ctx), r.cfg.Owner) // it expires by itself
	return nil
}

func (r *Runner) all() []*follower {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*follower, 0, len(r.works))
	for _, w := range r.works {
		out = append(out, w)
	}
	return out
}

// runOnce looks at each fan-out once: who owns what, who the destinations are, what there is to read and to apply.
func (r *Runner) runOnce(ctx, work context.Context) error {
	members, err := r.deps.Store.Join(ctx, r.cfg.Owner, r.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	list, err := r.deps.Store.List(ctx)
	if err != nil {
		return err
	}
	r.pool.drop("")
	present := map[string]bool{}
	for _, f := range list {
		present[f.ID] = true
		w := r.of(f)
		if err := w.turn(ctx, work, int(members)); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			r.deps.Log.WarnContext(ctx, "a turn of a fan-out did not end well", "fanout", f.Name, "error", err)
		}
	}
	for _, w := range r.all() {
		if !present[w.f.ID] {
			w.dropAll(work)
			w.reader.close()
			r.mu.Lock()
			delete(r.works, w.f.ID)
			r.mu.Unlock()
		}
	}
	return nil
}

func (r *Runner) of(f *Fanout) *follower {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.works[f.ID]
	if w == nil {
		w = &follower{r: r, dests: map[string]*dest{}, leases: map[int]Lease{}, ended: make(chan ending, 1024)}
		w.reader = &reader{f: f, owner: r.cfg.Owner, sessions: r.deps.Sessions, files: r.deps.Files}
		r.works[f.ID] = w
	}
	w.mu.Lock()
	w.f, w.reader.f = f, f
	w.mu.Unlock()
	return w
}

// gate bounds how much goes on at once, and how much of it for one org.
type gate struct {
	mu    sync.Mutex
	most  int
	now   int
	byOrg map[sluice.Org]int
}

// perOrg is how much goes on at once for one org: an org that hangs never takes all.
const perOrg = 2

func newGate(most int) *gate { return &gate{most: most, byOrg: map[sluice.Org]int{}} }

func (g *gate) enter(org sluice.Org) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now >= g.most || g.byOrg[org] >= perOrg {
		return false
	}
	g.now++
	g.byOrg[org]++
	return true
}

func (g *gate) leave(org sluice.Org) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
	if g.byOrg[org]--; g.byOrg[org] == 0 {
		delete(g.byOrg, org)
	}
}

func jitter() float64 { return mathrand.Float64() }

// shares is how many shards a process takes.
func shares(shards, members int) int {
	members = max(members, 1)
	return (shards + members - 1) / members
}

// Status is one destination as this process sees it.
type Status struct {
	Destination
	Fanout       string
	Position     int64 // up to which the source has been read for it
	Waiting      int64 // rows that are read and not applied
	Bytes        int64
	LagSnapshots int64   // snapshots of the source's lake that are not in its table; 0 if nothing in them is for it
	LagSeconds   float64 // how long the oldest row has waited, or for how long it has failed
}

// Status lists the destinations that this process works on.
func (r *Runner) Status() []Status {
	var out []Status
	for _, w := range r.all() {
		out = append(out, w.status()...)
	}
	return out
}

// Sessions counts the connections to destinations.
func (r *Runner) Sessions() (busy, idle int) { return r.pool.open() }

// Unrouted counts the rows of a fan-out that this process has met and that lead nowhere, by value of the route.
func (r *Runner) Unrouted(name string) map[string]int64 {
	for _, w := range r.all() {
		w.mu.Lock()
		f, out := w.f, maps.Clone(w.unrouted)
		w.mu.Unlock()
		if f.Name == name {
			return out
		}
	}
	return nil
}
