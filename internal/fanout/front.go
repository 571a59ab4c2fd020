package fanout

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Bounds of one turn.
const (
	frontWindows   = 20
	catchUps       = 4 // groups of destinations behind the front
	catchUpWindows = 5
	crowded        = 64 << 20 // bytes of a destination's buffer over which it is not read for while it is being written
)

// read reads on: one read serves all destinations at the same position. Those that are furthest go first, so that who is behind
// holds nobody up.
func (w *follower) read(ctx context.Context) error {
	if !w.swept {
		w.sweep(ctx)
	}
	for i, group := range w.groups() {
		if i > catchUps {
			break
		}
		most := frontWindows
		if i > 0 {
			most = catchUpWindows
		}
		if err := w.readGroup(ctx, group, most); err != nil {
			return err
		}
	}
	return nil
}

// groups lists the destinations that can be read for, by position: the front, then the others, the furthest behind first.
func (w *follower) groups() [][]*dest {
	at := map[int64][]*dest{}
	spooled := w.spooled()
	for _, x := range w.sorted() {
		full := x.buf.bytes > crowded && (x.busy || spooled > w.r.cfg.Spool/10*8)
		if x.open && x.d.State == StateFollowing && !full {
			at[x.pos] = append(at[x.pos], x)
		}
	}
	out := make([][]*dest, 0, len(at))
	for _, g := range at {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b []*dest) int { return cmp.Compare(a[0].pos, b[0].pos) })
	if n := len(out); n > 1 { // the front to the beginning
		out = append([][]*dest{out[n-1]}, out[:n-1]...)
	}
	return out
}

func (w *follower) spooled() (n int64) {
	for _, x := range w.dests {
		n += x.buf.bytes
	}
	return n
}

func (w *follower) readGroup(ctx context.Context, group []*dest, most int) error {
	s, err := w.reader.session(ctx)
	if err != nil {
		return err
	}
	if err := w.reader.look(ctx, s); err != nil {
		return err
	}
	ds := make([]Destination, len(group))
	for i, x := range group {
		ds[i] = x.d
		if x.ctl.Source != w.reader.table {
			return sluice.E("SLUICE-FANOUT-SOURCE-RECREATED", "read the source of fan-out "+w.f.Name, "a destination has been filled from another table of this name",
				"look who replaced it; then `sluice fanout reseed` takes the new table", nil)
		}
	}
	for range most {
		read, ok, err := w.reader.next(ctx, group[0].pos, ds)
		if sluice.CodeOf(err) == "SLUICE-FANOUT-GAP" {
			for _, x := range group {
				w.failed(ctx, x, err)
			}
			return nil
		}
		if err != nil || !ok {
			return err
		}
		w.r.deps.Meter.Read(w.f, read)
		w.mu.Lock()
		for _, x := range group {
			x.pos = read.Window.To
			x.buf.add(read.Parts[x.d.ID])
		}
		w.unrouted = add(w.unrouted, read.Unrouted)
		w.head = max(w.head, read.Window.To)
		w.mu.Unlock()
	}
	return nil
}

// add keeps the largest counts of rows that lead nowhere.
func add(sum, more map[string]int64) map[string]int64 {
	if sum == nil {
		sum = map[string]int64{}
	}
	for k, n := range more {
		if _, ok := sum[k]; ok || len(sum) < 100 {
			sum[k] += n
		}
	}
	return sum
}

// flush applies what is due, or everything.
func (w *follower) flush(ctx context.Context, everything bool) {
	for _, x := range w.sorted() {
		if x.busy || !x.open {
			continue
		}
		touch := x.pos > x.ctl.Cursor && time.Since(x.written) >= w.r.cfg.Touch
		c := w.r.cfg
		full := x.buf.rows >= c.FlushRows || x.buf.bytes >= c.FlushBytes || len(x.buf.parts) >= 200
		due := len(x.buf.parts) > 0 && (everything || full || time.Since(x.buf.oldest) >= c.FlushInterval)
		if !due && !touch || !w.r.tasks.enter(x.d.Org) {
			continue
		}
		x.busy = true
		parts, to, d, ctl := x.buf.parts, x.pos, x.d, x.ctl
		w.mu.Lock()
		x.buf = buffer{}
		w.mu.Unlock()
		columns := append(lake.Columns{}, w.reader.columns...)
		w.task(func() {
			defer w.r.tasks.leave(d.Org)
			e := ending{id: d.ID, to: to, parts: parts}
			e.applied, e.err = w.applier().apply(ctx, d, ctl, parts, to, columns)
			e.ctl = e.applied.Control
			w.ended <- e
		})
	}
}

// persist stores how far there is nothing for destinations, so that a restart need not read it again.
func (w *follower) persist(ctx context.Context, last bool) error {
	empty := map[string]Empty{}
	for _, x := range w.dests {
		if !x.open || x.busy || len(x.buf.parts) > 0 || x.pos <= x.ctl.Cursor {
			continue
		}
		e := Empty{From: x.ctl.Cursor, Through: x.pos, Hash: w.hashOf(x)}
		if e != x.stored && e.Hash != "" {
			empty[x.d.ID] = e
			x.stored = e
		}
	}
	w.persisted = time.Now()
	if len(empty) == 0 {
		return nil
	}
	if last {
		ctx = context.WithoutCancel(ctx)
	}
	return w.r.deps.Store.SetEmpty(ctx, empty)
}

// spoolAge is how old side files of dead processes must be to be swept.
const spoolAge = 24 * time.Hour

// sweep removes what dead processes have left behind.
func (w *follower) sweep(ctx context.Context) {
	s, err := w.reader.session(ctx)
	if err != nil {
		return // the next turn tells
	}
	w.swept = true
	if err := w.r.deps.Files.Sweep(ctx, filepath.Join(s.DataPath(), "_sluice/f", hexID(w.f.ID)), spoolAge); err != nil {
		w.r.deps.Log.WarnContext(ctx, "old side files were not swept", "fanout", w.f.Name, "error", err)
	}
}
