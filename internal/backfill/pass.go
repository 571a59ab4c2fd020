package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// Config of a Planner. The zero value is the default, but for Owner and Instance.
type Config struct {
	Owner     string        // of planning leases, unique for the process's life
	Instance  string        // name of the process
	Caps      Caps          // 5, of which 1 per org
	Interval  time.Duration // between passes; 5 s
	Lease     time.Duration // of a plan; 5 min
	Heartbeat time.Duration // 60 s
	Parallel  int           // plans at once; 4
	// ChunkBytes is about how much a chunk reads; 1 GiB.
	ChunkBytes int64
	// How a source that is not there, or empty, is looked at again (backfill.md §3).
	LookAgain  time.Duration // 20 s
	Patience   time.Duration // 10 min without a table
	EmptyApart time.Duration // between two looks at an empty table; 60 s
	ResyncWait time.Duration // 15 min before a parked stream is rebuilt by itself
	Quiet      time.Duration // without progress before the lake is asked; 60 s
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Interval, 5*time.Second)
	def(&c.Lease, 5*time.Minute)
	def(&c.Heartbeat, c.Lease/5)
	def(&c.LookAgain, 20*time.Second)
	def(&c.Patience, 10*time.Minute)
	def(&c.EmptyApart, time.Minute)
	def(&c.ResyncWait, 15*time.Minute)
	def(&c.Quiet, time.Minute)
	if c.Caps == (Caps{}) {
		c.Caps = Caps{Global: 5, PerOrg: 1}
	}
	if c.ChunkBytes == 0 {
		c.ChunkBytes = InsertLimits.Bytes
	}
	if c.Parallel == 0 {
		c.Parallel = 4
	}
	return c
}

// waitReport is how long planning waits for the report of a batch that decides what the history holds.
const waitReport = 10 * time.Second

// Deps are the parts that a Planner works with.
type Deps struct {
	DB      *statedb.DB
	Queue   *queue.Store
	Streams *stream.Store
	Source  Source
	Lakes   Lakes
	Log     *slog.Logger
	Count   Counters // nil: nothing is counted
}

// Counters are told what a planner does.
type Counters interface {
	Pass(took time.Duration)
	Deferred(reason string)
	Replanned(reason string)
	Covered(proof string, n int)
	Unproven(n int)
}

// Planner makes the passes of one process. All processes are equal: they meet in the state DB.
type Planner struct {
	cfg   Config
	deps  Deps
	store *Store
	log   *slog.Logger

	mu   sync.Mutex
	last time.Time // end of the last whole pass of this process
}

// New makes a Planner. It starts nothing.
func New(cfg Config, deps Deps) *Planner {
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if deps.Count == nil {
		deps.Count = nobody{}
	}
	return &Planner{cfg: cfg.withDefaults(), deps: deps, store: NewStore(deps.DB, deps.Queue, deps.Streams), log: log.With("component", "backfill")}
}

type nobody struct{}

func (nobody) Pass(time.Duration)  {}
func (nobody) Deferred(string)     {}
func (nobody) Replanned(string)    {}
func (nobody) Covered(string, int) {}
func (nobody) Unproven(int)        {}

// Store gives the planner's transactions.
func (p *Planner) Store() *Store { return p.store }

// Run makes passes until ctx is over. It returns nil.
func (p *Planner) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wake := p.deps.Queue.Wake(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case _, open := <-wake: // a chunk has ended, or a batch has come: something may follow from it
			if !open {
				wake = nil
			}
			if time.Since(p.LastPass()) < p.cfg.Interval/5 {
				continue
			}
		}
		if err := p.Pass(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "planner pass came to nothing; it is made again", "err", err)
		}
		timer.Reset(p.cfg.Interval)
	}
}

// LastPass is when this process last ended a whole pass; zero: never.
func (p *Planner) LastPass() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Pass is one turn (backfill.md §4.1): purge, bootstrap, slots, planning, reconciling. A part that fails does not keep the
// others from being done.
func (p *Planner) Pass(ctx context.Context) error {
	begun := time.Now()
	var errs []error
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"purge", func(ctx context.Context) error { _, err := p.store.Purge(ctx); return err }},
		{"bootstrap", p.bootstrap},
		{"resync", p.resync},
		{"grant slots", func(ctx context.Context) error { _, err := p.store.Grant(ctx, p.cfg.Caps); return err }},
		{"plan", p.planAll},
		{"reconcile", p.reconcile},
	} {
		if err := part.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := p.store.passEnded(ctx, p.cfg.Instance); err != nil {
		return err
	}
	p.mu.Lock()
	p.last = time.Now()
	p.mu.Unlock()
	p.deps.Count.Pass(time.Since(begun))
	return nil
}

const (
	streamsPerPass = 1000
	plansPerPass   = 100
)

// bootstrap looks at streams that no pass has looked at: until then nothing of them is claimed.
func (p *Planner) bootstrap(ctx context.Context) error {
	after := sluice.StreamID("")
	for {
		streams, err := p.deps.Streams.Unexamined(ctx, after, streamsPerPass)
		if err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(p.cfg.Parallel)
		for _, s := range streams {
			g.Go(func() error {
				if err := p.examine(gctx, s); err != nil && sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
					return fmt.Errorf("look at stream %s: %w", s.StreamID, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil || len(streams) < streamsPerPass {
			return err
		}
		after = streams[len(streams)-1].StreamID
	}
}

// codeNoTable is what a source says of a place without a table.
const codeNoTable = "SLUICE-DELTA-NOT-A-TABLE"

// examine decides where a new stream begins (backfill.md §3). An error of the source never primes.
func (p *Planner) examine(ctx context.Context, s sluice.Stream) error {
	if s.SyncType == sluice.FullRefresh || s.SyncType == sluice.CDC || s.DeltaURI == "" {
		return p.store.primed(ctx, s.StreamID, "")
	}
	look, err := stream.LookOf(ctx, p.deps.DB, s.StreamID, p.cfg.Patience, p.cfg.EmptyApart)
	if err != nil || !look.Due {
		return err
	}
	pinned, err := p.deps.Source.Pin(ctx, s, s.DeltaURI, nil)
	switch {
	case sluice.CodeOf(err) == codeNoTable:
		return p.noTable(ctx, s, look)
	case err != nil:
		p.log.WarnContext(ctx, "the stream's history cannot be read; it waits", "stream_id", s.StreamID, "err", err)
		return p.store.looked(ctx, s.StreamID, false, err, Backoff(look.Failures+1, rand.Float64()))
	}
	some, err := hasFiles(ctx, pinned)
	switch {
	case err != nil:
		return p.store.looked(ctx, s.StreamID, false, err, Backoff(look.Failures+1, rand.Float64()))
	case some:
		_, err := p.store.Start(ctx, s.StreamID, stream.NewPlan{Kind: sluice.RunBackfill, SourceURI: s.DeltaURI}, control.By{Who: "planner"}, false)
		if sluice.CodeOf(err) == "SLUICE-BACKFILL-STATE" { // another planner was faster
			err = nil
		}
		return err
	}
	// An empty table may be one that a full refresh has purged and is about to fill.
	if _, inFlight, err := p.deps.Queue.ReplaceInFlight(ctx, p.deps.DB, s.StreamID); err != nil || inFlight || !look.EmptyApart {
		if err == nil {
			err = p.store.looked(ctx, s.StreamID, !inFlight, nil, p.cfg.LookAgain)
		}
		return err
	}
	return p.store.primed(ctx, s.StreamID, "its history is empty")
}

func hasFiles(ctx context.Context, pinned Pinned) (bool, error) {
	for _, err := range pinned.Files(ctx) {
		return err == nil, err
	}
	return false, nil
}

func (p *Planner) noTable(ctx context.Context, s sluice.Stream, look stream.Look) error {
	if !look.Patient {
		return p.store.looked(ctx, s.StreamID, false, nil, p.cfg.LookAgain)
	}
	some, err := p.deps.Queue.HasBatches(ctx, s.StreamID)
	if err != nil {
		return err
	}
	if !some {
		p.log.WarnContext(ctx, "the stream's history was not there for a while; it goes on without", "stream_id", s.StreamID, "uri", s.DeltaURI)
		return p.store.primed(ctx, s.StreamID, "there is no table at its Delta address")
	}
	gone := sluice.E("SLUICE-BACKFILL-NO-TABLE", fmt.Sprintf("look for the history of stream %s", s.StreamID), "there is no Delta table at "+s.DeltaURI,
		"write the table, or correct the stream's address", nil)
	return p.store.looked(ctx, s.StreamID, false, gone, Backoff(look.Failures+1, rand.Float64()))
}

// resync rebuilds parked streams whose owner has asked for it.
func (p *Planner) resync(ctx context.Context) error {
	streams, err := p.deps.Streams.ToResync(ctx, p.cfg.ResyncWait, plansPerPass)
	if err != nil {
		return err
	}
	for _, s := range streams {
		_, err := p.store.Start(ctx, s.StreamID, stream.NewPlan{Kind: sluice.RunBackfill, SourceURI: s.DeltaURI, Reason: "rebuilt by itself"}, control.By{Who: "planner"}, false)
		if err != nil && sluice.CodeOf(err) != "SLUICE-BACKFILL-STATE" && sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
			return err
		}
	}
	return nil
}

// planAll plans what has a slot and is due.
func (p *Planner) planAll(ctx context.Context) error {
	for {
		taken, err := p.store.Take(ctx, p.cfg.Owner, p.cfg.Lease, p.cfg.Parallel)
		if err != nil || len(taken) == 0 {
			return err
		}
		var g errgroup.Group
		for _, t := range taken {
			g.Go(func() error { return p.planOne(ctx, t) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// planOne makes one plan under its lease, and notes what came of it.
func (p *Planner) planOne(ctx context.Context, t stream.Plan) error {
	log := p.log.With("org", t.Org, "stream_id", t.StreamID, "plan_id", t.PlanID)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go p.keep(work, t, cancel)
	sealed, err := p.plan(work, t)
	if cause := context.Cause(work); err != nil && cause != nil {
		err = errors.Join(cause, err)
	}
	switch {
	case err == nil:
		log.InfoContext(ctx, "plan made", "kind", sealed.Kind, "version", sealed.DeltaVersion, "chunks", sealed.ChunkCount, "files", sealed.Files,
			"bytes", sealed.Bytes, "rows", sealed.Rows, "covered", sealed.Covered, "generation", sealed.Generation)
		return nil
	case errors.Is(err, errPlanLost), ctx.Err() != nil, sluice.CodeOf(err) == "SLUICE-LOAD-NO-STREAM":
		log.InfoContext(ctx, "plan dropped", "err", err) // it is somebody else's, or its lease runs out
		return nil
	}
	var d *deferral
	if errors.As(err, &d) {
		p.deps.Count.Deferred(d.reason)
		log.InfoContext(ctx, "plan waits", "reason", d.reason, "wait", d.wait)
	} else {
		log.WarnContext(ctx, "planning came to nothing; it is tried again", "err", err, "failures", t.Failures+1)
	}
	if gerr := p.store.GiveUp(context.WithoutCancel(ctx), sealed, err, rand.Float64()); gerr != nil && sluice.CodeOf(gerr) != "SLUICE-LOAD-NO-STREAM" {
		return gerr
	}
	return nil
}

// keep renews a planning lease until ctx is over; a lease that is lost ends the work.
func (p *Planner) keep(ctx context.Context, t stream.Plan, lost context.CancelCauseFunc) {
	tick := time.NewTicker(p.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.store.Renew(ctx, t, p.cfg.Lease); errors.Is(err, errPlanLost) {
				lost(errPlanLost)
				return
			}
		}
	}
}

// slice is how many steps one transaction stores.
const slice = 1000

// plan makes one plan: it drafts, stores the steps in slices, and seals them. It gives the plan as far as it came.
func (p *Planner) plan(ctx context.Context, t stream.Plan) (stream.Plan, error) {
	if err := p.store.mayPlan(ctx, p.deps.DB, t.StreamID); err != nil {
		return t, err
	}
	st, err := p.deps.Streams.Get(ctx, t.StreamID)
	if err != nil {
		return t, err
	}
	d, err := p.draft(ctx, ask{stream: st, kind: t.Kind, uri: t.SourceURI, version: t.AskedVersion, answer: t.CoveredAnswer, options: t.Options})
	if err != nil {
		return t, err
	}
	if err := d.refusal(); err != nil {
		p.deps.Count.Unproven(len(d.Coverage.Unproven) + len(d.Coverage.Behind))
		return t, err
	}
	if len(d.Chunks) == 0 && t.Kind == sluice.RunBackfill {
		return t, &deferral{deferEmpty, p.cfg.LookAgain} // a purge, or nothing yet: an empty moment is never loaded
	}
	steps, err := d.steps(t.Generation)
	if err != nil {
		return t, err
	}
	if t, err = d.pin(t); err != nil {
		return t, err
	}
	if err := p.store.Begin(ctx, t); err != nil {
		return t, err
	}
	for part := range slices.Chunk(steps, slice) {
		if err := p.store.Add(ctx, t, part); err != nil {
			return t, err
		}
	}
	if err := p.store.Seal(ctx, t, d.Coverage.Covered, int64(len(steps)-1)); err != nil {
		return t, err
	}
	t.Covered = int64(len(d.Coverage.Covered))
	byProof := map[string]int{}
	for _, c := range d.Coverage.Covered {
		byProof[c.Proof]++
	}
	for proof, n := range byProof {
		p.deps.Count.Covered(proof, n)
	}
	return t, nil
}

// pin puts what was drafted into the plan.
func (d *Draft) pin(t stream.Plan) (stream.Plan, error) {
	pin, err := json.Marshal(Pin{Partition: d.Pinned.Partition, Ending: d.Ending, Warnings: d.Warnings, DeletedRows: d.Sums.Deleted})
	if err != nil {
		return t, fmt.Errorf("encode what is pinned: %w", err)
	}
	chunks := int64(len(d.Chunks))
	t.Pin, t.SourceURI, t.DeltaVersion, t.DeltaTableID, t.PlanHash, t.Fallback = pin, d.Pinned.URI, &d.Pinned.Version, d.Pinned.TableID, d.Hash, d.Fallback
	t.ChunkCount, t.Files, t.Bytes, t.Rows = &chunks, &d.Sums.Files, &d.Sums.Bytes, known(d.Sums.Rows)
	if d.Live.Exists {
		t.ExpectedTableID = &d.Live.TableID
	}
	t.RunID = RunID(t.Kind, t.StreamID, d.Pinned.Version, t.Generation, rand.Uint32())
	return t, nil
}

// reconcile looks after running plans (backfill.md §9).
func (p *Planner) reconcile(ctx context.Context) error {
	plans, err := stream.OpenPlans(ctx, p.deps.DB, "")
	if err != nil {
		return err
	}
	now, err := p.deps.DB.Now(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range plans {
		if t.RunID == "" || t.State == stream.PlanWanted || t.State == stream.PlanPlanning {
			continue
		}
		if err := p.reconcileOne(ctx, t, now); err != nil && sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" && sluice.CodeOf(err) != "SLUICE-BACKFILL-BUSY" {
			errs = append(errs, fmt.Errorf("stream %s: %w", t.StreamID, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Planner) reconcileOne(ctx context.Context, t stream.Plan, now time.Time) error {
	c, err := p.deps.Queue.ChunkCounts(ctx, p.deps.DB, t.StreamID, t.RunID)
	if err != nil {
		return err
	}
	want := int64(0)
	if t.ChunkCount != nil {
		want = *t.ChunkCount + 2
	}
	switch {
	case c.SwapBusy || c.Executing > 0: // it ends by itself, or its next owner looks into it
		return nil
	case c.SwapDone:
		return p.store.prime(ctx, t)
	case t.State == stream.PlanRunning && c.ErrorCode == codeGone:
		replanned, err := p.store.ReplanGone(ctx, t)
		if replanned {
			p.deps.Count.Replanned("snapshot_gone")
			p.log.WarnContext(ctx, "a file of the planned version is gone: planned anew", "stream_id", t.StreamID, "version", t.DeltaVersion)
		}
		return err
	case t.State == stream.PlanRunning && c.Steps < want:
		return p.rebuild(ctx, t)
	}
	since := t.CreatedAt
	if t.LastProgressAt != nil {
		since = *t.LastProgressAt
	}
	if now.Sub(since) < p.cfg.Quiet {
		return nil
	}
	if t.State == stream.PlanRunning && t.SlotAt != nil {
		if err := p.store.slotOfRun(ctx, t.StreamID); err != nil {
			return err
		}
	}
	done, err := p.deps.Lakes.Applied(ctx, t.Org, t.StreamID, queue.BatchID(t.StreamID, t.RunID, want-1))
	if err != nil {
		p.log.DebugContext(ctx, "the lake could not be asked for a swap", "stream_id", t.StreamID, "err", err)
		return nil
	}
	if done {
		p.log.InfoContext(ctx, "the lake has the swap: the stream is primed", "stream_id", t.StreamID, "run_id", t.RunID)
		return p.store.prime(ctx, t)
	}
	return nil
}

// codeGone is what the loader writes when the planned version can no longer be read.
const codeGone = "SLUICE-DELTA-SNAPSHOT-GONE"

// rebuild stores steps that the state DB has lost (a restored backup): the same version gives the same plan, of which only
// the missing steps are added. Another plan means another run.
func (p *Planner) rebuild(ctx context.Context, t stream.Plan) error {
	st, err := p.deps.Streams.Get(ctx, t.StreamID)
	if err != nil {
		return err
	}
	d, err := p.draft(ctx, ask{stream: st, kind: t.Kind, uri: t.SourceURI, version: t.DeltaVersion, answer: t.CoveredAnswer, options: t.Options})
	if err == nil && d.Hash == t.PlanHash {
		if t.ExpectedTableID != nil {
			d.Live.TableID = *t.ExpectedTableID
		}
		steps, err := d.steps(t.Generation)
		if err != nil {
			return err
		}
		p.log.WarnContext(ctx, "steps of a running plan were lost; they are stored again", "stream_id", t.StreamID, "run_id", t.RunID)
		return p.store.restore(ctx, t, steps)
	}
	if err != nil && sluice.CodeOf(err) != codeGone {
		return err
	}
	p.deps.Count.Replanned("steps_lost")
	_, err = p.store.Replan(ctx, t.StreamID, nil, control.By{Who: "planner"}, false)
	return err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, lake.ErrNoControl) {
		return nil
	}
	return err
}
