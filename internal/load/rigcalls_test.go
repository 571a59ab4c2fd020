package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// rigClock is the clock of a process: not the state DB's.
type rigClock struct{ p *proc }

func (c rigClock) Now() time.Time { return c.p.rig.now.Add(c.p.skew) }

func (c rigClock) Pause(ctx context.Context, d time.Duration) error {
	r := c.p.rig
	if d > 0 && ctx.Err() == nil && !c.p.dead {
		t := r.current
		t.until, t.ctx = r.now.Add(d), ctx
		r.note("%s waits %s", t.name, d)
		r.turn()
		t.until = time.Time{}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (c rigClock) After(d time.Duration, fn func()) func() bool {
	t := &timer{at: c.p.rig.now.Add(d), fn: fn}
	c.p.timers = append(c.p.timers, t)
	return func() bool {
		was := !t.stopped
		t.stopped = true
		return was
	}
}

func (c rigClock) Spread(d time.Duration) time.Duration { return d }

// do runs a call of a process with its fate.
func do[T any](p *proc, name string, fn func() (T, error)) (T, error) {
	var none T
	f := p.rig.call(p, name)
	switch {
	case f.die && f.fault != laketest.LoseReply:
		return none, errDead
	case f.fault == laketest.LoseReply:
		_, err := fn()
		return none, errors.Join(errInjected, err)
	case f.fault != laketest.NoFault:
		return none, errInjected
	}
	return fn()
}

func only(p *proc, name string, fn func() error) error {
	_, err := do(p, name, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// rigQueue is the real queue behind faults. Its statements are not cancelled with their caller: a statement that was sent
// is carried out.
type rigQueue struct {
	p *proc
	q *queue.Store
}

var background = context.Background()

func (q rigQueue) Claim(_ context.Context, c queue.ClaimRequest) ([]sluice.Lease, error) {
	return do(q.p, "claim", func() ([]sluice.Lease, error) {
		leases, err := q.q.Claim(background, c)
		r := q.p.rig
		for _, l := range leases {
			r.note("%s has %s epoch %d", q.p.name, short(l.StreamID), l.Epoch)
		}
		over, oerr := statedb.All(background, r.env.DB, rigQueries.Get("OverBudget"), nil, statedb.Value[string])
		if oerr != nil || len(over) > 0 {
			r.failed("orgs over their budget: %v %v", over, oerr)
		}
		return leases, err
	})
}

func (q rigQueue) Heartbeat(_ context.Context, owner string, leases []sluice.Lease, ttl time.Duration) ([]sluice.StreamID, error) {
	return do(q.p, "heartbeat", func() ([]sluice.StreamID, error) { return q.q.Heartbeat(background, owner, leases, ttl) })
}

func (q rigQueue) Release(_ context.Context, l sluice.Lease) error {
	return only(q.p, "release", func() error { return q.q.Release(background, l) })
}

func (q rigQueue) Next(_ context.Context, l sluice.Lease) (queue.Work, error) {
	return do(q.p, "next", func() (queue.Work, error) { return q.q.Next(background, l) })
}

func (q rigQueue) Start(_ context.Context, l sluice.Lease, id sluice.BatchID) (int, error) {
	return do(q.p, "start", func() (int, error) { return q.q.Start(background, l, id) })
}

func (q rigQueue) Succeed(_ context.Context, l sluice.Lease, a queue.Applied) error {
	return only(q.p, "succeed", func() error {
		err := q.q.Succeed(background, l, a)
		q.recorded(l, a, err)
		return err
	})
}

func (q rigQueue) Advance(_ context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error) {
	return do(q.p, "advance", func() (*queue.Work, error) {
		next, err := q.q.Advance(background, l, a)
		q.recorded(l, a, err)
		return next, err
	})
}

func (q rigQueue) recorded(l sluice.Lease, a queue.Applied, err error) {
	marked := slices.ContainsFunc(q.p.rig.fake.Markers(l.StreamID), func(m lake.Marker) bool { return m.BatchID == a.BatchID })
	if err == nil && !marked {
		q.p.rig.failed("batch %s is recorded as applied and has no marker: the state DB is ahead of the lake", a.BatchID)
	}
}

func (q rigQueue) Upcoming(_ context.Context, l sluice.Lease, limit int) ([]string, error) {
	return do(q.p, "upcoming", func() ([]string, error) { return q.q.Upcoming(background, l, limit) })
}

func (q rigQueue) Defer(_ context.Context, l sluice.Lease, f queue.Failure) error {
	return only(q.p, "defer", func() error { return q.q.Defer(background, l, f) })
}

func (q rigQueue) Retry(_ context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	return do(q.p, fmt.Sprintf("retry (%s)", f.Code), func() (sluice.LoadState, error) { return q.q.Retry(background, l, f) })
}

func (q rigQueue) Quarantine(_ context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	return do(q.p, fmt.Sprintf("quarantine (%s: %s)", f.Code, f.Text), func() (sluice.LoadState, error) { return q.q.Quarantine(background, l, f) })
}

func (q rigQueue) Linger(_ context.Context, l sluice.Lease) error {
	return only(q.p, "linger", func() error { return q.q.Linger(background, l) })
}

func (q rigQueue) Lingering(_ context.Context, owner string) ([]queue.Lingerer, error) {
	return do(q.p, "lingering", func() ([]queue.Lingerer, error) { return q.q.Lingering(background, owner) })
}

func (q rigQueue) Covered(_ context.Context, id sluice.StreamID, run sluice.RunID) ([]stream.CoveredBatch, error) {
	return do(q.p, "covered", func() ([]stream.CoveredBatch, error) { return q.q.Covered(background, id, run) })
}

func (q rigQueue) Contended(_ context.Context, inFlight []sluice.StreamID) (bool, error) {
	return do(q.p, "contended", func() (bool, error) { return q.q.Contended(background, inFlight) })
}

func (q rigQueue) Wake(context.Context) <-chan struct{} { return nil }

type rigStreams struct{ p *proc }

func (s rigStreams) Get(_ context.Context, id sluice.StreamID) (sluice.Stream, error) {
	return do(s.p, "get stream", func() (sluice.Stream, error) { return s.p.rig.env.Streams.Get(background, id) })
}

func (s rigStreams) Bind(_ context.Context, id sluice.StreamID, o stream.BindOptions, by stream.By) (stream.Binding, error) {
	return do(s.p, "bind", func() (stream.Binding, error) { return s.p.rig.env.Streams.Bind(background, id, o, by) })
}

type rigSessions struct{ p *proc }

func (s rigSessions) Open(ctx context.Context, _ sluice.Org) (Session, error) {
	session, err := s.p.rig.fake.Open(ctx)
	if err != nil {
		return nil, err
	}
	return fakeSession{session}, nil
}

type fakeSession struct{ *laketest.FakeSession }

func (fakeSession) Expires() time.Time { return time.Time{} }
