package fanout

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// follower is one fan-out at work in this process. Its loop alone changes it; tasks report through ended.
type follower struct {
	r      *Runner
	f      *Fanout
	reader *reader
	leases map[int]Lease
	ended  chan ending

	mu    sync.Mutex // guards dests and unrouted against status
	dests map[string]*dest

	unrouted  map[string]int64
	polled    time.Time
	persisted time.Time
	swept     bool
	head      int64
}

// dest is one destination at work.
type dest struct {
	d       Destination
	ctl     Control
	open    bool // its control table has been read, and it follows
	busy    bool // a task is under way
	pos     int64
	buf     buffer
	written time.Time
	stored  Empty
}

// buffer is what was read for a destination and is not under way to it.
type buffer struct {
	parts  []Part
	rows   int64
	bytes  int64
	oldest time.Time
}

func (b *buffer) add(parts []Part) {
	for _, p := range parts {
		b.parts = append(b.parts, p)
		b.rows += p.Rows + p.Bad
		b.bytes += p.Bytes
	}
	if b.oldest.IsZero() && len(b.parts) > 0 {
		b.oldest = time.Now()
	}
}

// ending is the end of a task.
type ending struct {
	id      string
	seeded  bool
	applied Applied
	ctl     Control
	to      int64
	parts   []Part
	err     error
}

// turn is one look at the fan-out. ctx ends with the process, work some time later.
func (w *follower) turn(ctx, work context.Context, members int) error {
	if w.reader.columns == nil { // what is known of destinations is known under the source's columns
		if s, err := w.reader.session(ctx); err != nil {
			w.r.deps.Log.WarnContext(ctx, "the source cannot be reached", "fanout", w.f.Name, "error", err)
		} else if err := w.reader.look(ctx, s); err != nil {
			return w.haltOr(ctx, err)
		}
	}
	w.settle(work)
	if err := w.lease(ctx, members); err != nil {
		return err
	}
	if time.Since(w.polled) >= w.r.cfg.Discovery {
		if err := w.poll(ctx); err != nil {
			return err
		}
		w.polled = time.Now()
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	if w.f.Desired != Run || w.f.Halt != nil {
		w.flush(work, true)
		return nil
	}
	w.start(work)
	if err := w.read(ctx); err != nil {
		return w.haltOr(ctx, err)
	}
	w.flush(work, false)
	if time.Since(w.persisted) >= w.r.cfg.Persist {
		return w.persist(ctx, false)
	}
	return nil
}

// haltOr halts the fan-out for what only a person can mend.
func (w *follower) haltOr(ctx context.Context, err error) error {
	code := sluice.CodeOf(err)
	if !haltsFanout(code) && code != "SLUICE-FANOUT-PROJECTION" {
		return err
	}
	w.r.deps.Log.ErrorContext(ctx, "fan-out halted", "fanout", w.f.Name, "error", err)
	return w.r.deps.Store.Halt(ctx, w.f, code, err.Error())
}

// lease keeps this process's share of the shards.
func (w *follower) lease(ctx context.Context, members int) error {
	store := w.r.deps.Store
	held := make([]Lease, 0, len(w.leases))
	for _, l := range w.leases {
		held = append(held, l)
	}
	lost, err := store.Beat(ctx, held, w.r.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	for _, l := range lost {
		w.giveUp(ctx, l)
	}
	all, err := store.Leases(ctx, w.f)
	if err != nil {
		return err
	}
	share := shares(len(all), members)
	for _, l := range all {
		if len(w.leases) >= share {
			break
		}
		if _, mine := w.leases[l.Shard]; mine || l.Live {
			continue
		}
		if got, ok, err := store.Take(ctx, l, w.r.cfg.Owner, w.r.cfg.LeaseTTL); err != nil {
			return err
		} else if ok {
			w.leases[l.Shard] = got
		}
	}
	for shard, l := range w.leases {
		if len(w.leases) <= share {
			break
		}
		if w.quiet(shard) {
			w.giveUp(ctx, l)
			if err := store.Release(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// quiet reports whether nothing is under way in a shard.
func (w *follower) quiet(shard int) bool {
	for _, x := range w.dests {
		if Shard(x.d.ID, w.f.Shards) == shard && x.busy {
			return false
		}
	}
	return true
}

// giveUp forgets the destinations of a shard. What is under way in it loses at the fence, or is done.
func (w *follower) giveUp(ctx context.Context, l Lease) {
	delete(w.leases, l.Shard)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, x := range w.dests {
		if Shard(id, w.f.Shards) == l.Shard {
			w.drop(ctx, x)
			delete(w.dests, id)
		}
	}
}

// drop throws away what was read for a destination; it goes back to its cursor. The caller holds the lock.
func (w *follower) drop(ctx context.Context, x *dest) {
	for _, p := range x.buf.parts {
		w.remove(ctx, p)
	}
	x.buf = buffer{}
	x.pos = x.ctl.Cursor
}

func (w *follower) remove(ctx context.Context, p Part) {
	if err := w.r.deps.Files.Remove(ctx, p.Path); err != nil {
		w.r.deps.Log.WarnContext(ctx, "a side file was not removed; it is swept later", "error", err)
	}
}

func (w *follower) dropAll(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.dests {
		w.drop(context.WithoutCancel(ctx), x)
	}
}

// load reads the destinations of the shards that are ours.
func (w *follower) load(ctx context.Context) error {
	list, err := w.r.deps.Store.Destinations(ctx, w.f)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	present := map[string]bool{}
	for _, d := range list {
		if _, ours := w.leases[Shard(d.ID, w.f.Shards)]; !ours {
			continue
		}
		present[d.ID] = true
		x := w.dests[d.ID]
		if x == nil {
			x = &dest{stored: d.Empty}
			w.dests[d.ID] = x
		}
		was := x.d
		x.d = d
		if x.open && (d.State != StateFollowing || d.Generation != was.Generation || d.Target != was.Target) {
			w.drop(ctx, x)
			x.open = false
		}
	}
	for id, x := range w.dests {
		if !present[id] && !x.busy {
			w.drop(ctx, x)
			delete(w.dests, id)
		}
	}
	return nil
}

// start brings destinations to where they can follow: their cursor is read, or their history is collected.
func (w *follower) start(ctx context.Context) {
	for _, x := range w.sorted() {
		due := x.d.State == StateRetrying && (x.d.RetryAt == nil || !time.Now().Before(*x.d.RetryAt))
		if x.open || x.busy || x.d.State != StateNew && x.d.State != StateSeeding && x.d.State != StateFollowing && !due {
			continue
		}
		g := w.r.tasks
		seeding := x.d.State == StateNew || x.d.State == StateSeeding || x.d.Before == StateNew || x.d.Before == StateSeeding
		if seeding {
			g = w.r.seeds
		}
		if !g.enter(x.d.Org) {
			continue
		}
		x.busy = true
		w.task(func() {
			defer g.leave(x.d.Org)
			w.ended <- w.bring(ctx, x.d)
		})
	}
}

func (w *follower) task(fn func()) {
	w.r.wg.Add(1)
	go func() {
		defer w.r.wg.Done()
		fn()
	}()
}

// sorted lists the destinations, those that have waited longest first.
func (w *follower) sorted() []*dest {
	out := make([]*dest, 0, len(w.dests))
	for _, x := range w.dests {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *dest) int { return cmp.Or(a.buf.oldest.Compare(b.buf.oldest), cmp.Compare(a.d.ID, b.d.ID)) })
	return out
}

func (w *follower) applier() *applier {
	return &applier{f: w.f, owner: w.r.cfg.Owner, pool: w.r.pool, files: w.r.deps.Files}
}

// bring is the task of start.
func (w *follower) bring(ctx context.Context, d Destination) ending {
	e := ending{id: d.ID, seeded: true}
	own := &reader{f: w.f, owner: w.r.cfg.Owner + "-seed", sessions: w.r.deps.Sessions, files: w.r.deps.Files}
	defer own.close()
	e.ctl, e.err = w.applier().begin(ctx, w.r.deps.Store, own, d)
	return e
}

// settle takes in the ends of tasks.
func (w *follower) settle(ctx context.Context) {
	for {
		select {
		case e := <-w.ended:
			w.end(ctx, e)
		default:
			return
		}
	}
}

// end takes in the end of one task.
func (w *follower) end(ctx context.Context, e ending) {
	for _, p := range e.parts {
		w.remove(ctx, p)
	}
	w.mu.Lock()
	x := w.dests[e.id]
	w.mu.Unlock()
	if x == nil { // given up meanwhile
		return
	}
	x.busy = false
	if e.err == nil && e.seeded && e.ctl.Generation < x.d.Generation {
		return // it is to be built anew since then
	}
	if !e.seeded {
		w.r.deps.Meter.Applied(w.f, x.d, e.applied, e.err)
	}
	if e.err != nil {
		w.failed(ctx, x, e.err)
		return
	}
	w.mu.Lock()
	x.ctl, x.written = e.ctl, time.Now()
	if e.seeded {
		x.open, x.written = true, e.ctl.At
		x.pos = e.ctl.Cursor
		if x.stored.From == x.ctl.Cursor && x.stored.Through > x.pos && x.stored.Hash == w.hashOf(x) {
			x.pos = x.stored.Through
		}
	}
	w.mu.Unlock()
	if e.seeded {
		w.move(ctx, x, EventFollow, "", "", 0)
	} else if x.d.State == StateRetrying || x.d.Code != "" {
		w.move(ctx, x, EventApplied, "", "", 0)
	}
	if err := w.r.deps.Store.SetCursor(ctx, x.d.ID, x.ctl.Cursor); err != nil {
		w.r.deps.Log.WarnContext(ctx, "the copy of a cursor was not stored; the lake has it", "destination", x.d.ID, "error", err)
	}
}

// failed says what becomes of a destination after an error. Its buffer is dropped: it goes back to its cursor.
func (w *follower) failed(ctx context.Context, x *dest, err error) {
	w.mu.Lock()
	w.drop(ctx, x)
	x.open = false
	w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	code := sluice.CodeOf(err)
	log := w.r.deps.Log.With("fanout", w.f.Name, "org", x.d.Org, "team_id", x.d.Team, "error", err)
	switch {
	case isFenced(err):
		log.InfoContext(ctx, "another process has written to the destination; its cursor is read again")
		return // the next turn reads the control table anew
	case haltsFanout(code):
		log.ErrorContext(ctx, "fan-out halted")
		if err := w.r.deps.Store.Halt(ctx, w.f, code, err.Error()); err != nil {
			log.ErrorContext(ctx, "the halt was not stored", "cause", err)
		}
	case (code == "SLUICE-FANOUT-DAMAGED" || code == "SLUICE-LAKE-DAMAGED") && w.f.Def.Into == IntoStaging, code == "SLUICE-FANOUT-GAP" && (w.f.Def.OnGap == OnGapReseed || x.d.State == StateNew):
		log.WarnContext(ctx, "the destination's table is built anew")
		w.move(ctx, x, EventReseed, "", "", 0)
	case haltsDestination(code):
		log.ErrorContext(ctx, "destination halted")
		w.move(ctx, x, EventHalt, code, err.Error(), 0)
	default:
		d := Backoff(x.d.Tries+1, jitter())
		log.WarnContext(ctx, "the destination could not be written; it is tried again", "in", d.Round(time.Millisecond))
		w.move(ctx, x, EventFail, codeOr(code, err), err.Error(), d)
	}
}

// codeOr names what passes by itself.
func codeOr(code sluice.Code, err error) sluice.Code {
	var f *lake.Failure
	switch {
	case code == "SLUICE-LOAD-CREDENTIAL":
		return "SLUICE-FANOUT-CREDENTIAL"
	case code == "" || errors.As(err, &f) && f.Phase == lake.PhaseConnect:
		return "SLUICE-FANOUT-UNREACHABLE"
	}
	return code
}

func (w *follower) move(ctx context.Context, x *dest, e Event, code sluice.Code, detail string, rest time.Duration) {
	m, err := w.r.deps.Store.Move(context.WithoutCancel(ctx), x.d, e, code, detail, rest)
	if err != nil && !errors.Is(err, errMoved) {
		w.r.deps.Log.WarnContext(ctx, "a destination's state was not stored; it is decided again", "destination", x.d.ID, "error", err)
		return
	}
	if err == nil {
		w.mu.Lock()
		x.d = m
		w.mu.Unlock()
	}
}

// hashOf is of everything that decides what a destination's rows are.
func (w *follower) hashOf(x *dest) string {
	s, err := w.reader.script()
	if err != nil || w.reader.columns == nil {
		return ""
	}
	return s.Out.Hash(w.f.Def, x.d.Route, x.ctl.Source.UUID)
}

func (w *follower) status() []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Status
	for _, x := range w.dests {
		st := Status{Destination: x.d, Fanout: w.f.Name, Position: x.pos, Waiting: x.buf.rows, Bytes: x.buf.bytes}
		reached := x.pos
		if len(x.buf.parts) > 0 || !x.open {
			reached = x.ctl.Cursor
		}
		if !x.buf.oldest.IsZero() {
			st.LagSeconds = time.Since(x.buf.oldest).Seconds()
		}
		if x.d.Since != nil {
			st.LagSeconds = time.Since(*x.d.Since).Seconds()
		}
		if x.d.State != StateRemoved && reached > 0 {
			st.LagSnapshots = max(w.head-reached, 0)
		}
		out = append(out, st)
	}
	return out
}

// hasWork reports whether something that was read waits to be applied.
func (w *follower) hasWork() bool {
	for _, x := range w.dests {
		if x.open && len(x.buf.parts) > 0 {
			return true
		}
	}
	return false
}
