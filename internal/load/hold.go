package load

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

const (
	// sweepInterval is how often lingering sessions are looked at.
	sweepInterval = 5 * time.Second
	// beforeExpiry is how long before the end of its credential a session is not used any more.
	beforeExpiry = time.Minute
)

// hold is a lease of this process: a worker's, or, with a warm session, nobody's at present. The loader's lock guards it.
type hold struct {
	lease     sluice.Lease
	renewed   time.Time // when the claim or the last heartbeat that was confirmed was sent
	until     time.Time // our own deadline: earlier than the lease's end by a margin
	stopTimer func() bool
	cancel    context.CancelCauseFunc // ends the work on it
	cancelled time.Time               // when the work was told to end; zero: it was not
	lost      bool
	warm      *warm // set while the lease lingers
	take      warm  // what the next worker begins with; empty: no session
}

// warm is a session that is kept.
type warm struct {
	session Session
	opened  time.Time
	idle    time.Time   // since
	fence   *lake.Fence // where the session left it; nil: not known
}

// stale reports whether a session should not be used any more, however well it works.
func (l *Loader) stale(w warm, now time.Time) bool {
	expires := w.session.Expires()
	return now.Sub(w.opened) >= l.cfg.SessionAge || !expires.IsZero() && !now.Before(expires.Add(-beforeExpiry))
}

// margin is how much earlier than the lease's end this process stops by itself.
func (l *Loader) margin() time.Duration { return min(5*time.Second, l.cfg.LeaseTTL/4) }

// hold notes a lease that was claimed by a call begun at sent. The caller holds the lock.
func (l *Loader) hold(lease sluice.Lease, sent time.Time) *hold {
	h := &hold{lease: lease}
	l.held[lease.StreamID] = h
	l.renew(h, sent)
	l.watch(h)
	return h
}

func (l *Loader) renew(h *hold, sent time.Time) {
	h.renewed, h.until = sent, sent.Add(l.cfg.LeaseTTL-l.margin())
}

// watch ends the work on a lease at our own deadline, also when the state DB does not answer or a heartbeat hangs.
func (l *Loader) watch(h *hold) {
	h.stopTimer = l.clock.After(h.until.Sub(l.clock.Now()), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.held[h.lease.StreamID] != h:
		case l.clock.Now().Before(h.until): // it was renewed
			l.watch(h)
		default:
			l.lose(h)
		}
	})
}

// lose ends what is done under a lease that is not ours any more. The caller holds the lock.
func (l *Loader) lose(h *hold) {
	if h.lost {
		return
	}
	h.lost = true
	h.end(l.clock.Now(), queue.ErrLeaseLost)
	if h.warm == nil {
		return
	}
	// Nothing is under way on a lingering session; its end may take a moment.
	session := h.warm.session
	l.drop(h)
	l.status.closed(closedLost)
	l.closing.Go(func() { _ = session.Close() })
}

// end tells the work on a lease to stop.
func (h *hold) end(now time.Time, cause error) {
	if h.warm == nil && h.cancelled.IsZero() {
		h.cancelled = now
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
}

func (l *Loader) drop(h *hold) {
	h.stopTimer()
	if l.held[h.lease.StreamID] == h {
		delete(l.held, h.lease.StreamID)
	}
}

func (l *Loader) cancelAll(cause error) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		h.end(now, cause)
	}
}

// release gives a lease back. It is done whatever happened: else each claim of this process would find a lease that nobody
// works under.
func (l *Loader) release(ctx context.Context, h *hold) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := l.deps.Queue.Release(ctx, h.lease); err != nil {
		l.log.Warn("lease was not given back; it expires by itself", "stream_id", h.lease.StreamID, "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(h)
}

// beat renews all leases of the process. A heartbeat that cannot be sent ends nothing by itself; a lease that the answer
// does not confirm ends the work on its stream, and so does our own deadline.
func (l *Loader) beat(ctx context.Context) {
	l.mu.Lock()
	holds := make([]*hold, 0, len(l.held))
	for _, h := range l.held {
		holds = append(holds, h)
	}
	l.mu.Unlock()
	l.renewNow(ctx, holds...)
}

// renewNow sends a heartbeat for some leases.
func (l *Loader) renewNow(ctx context.Context, holds ...*hold) {
	if len(holds) == 0 {
		return
	}
	leases := make([]sluice.Lease, len(holds))
	for i, h := range holds {
		leases[i] = h.lease
	}
	sent := l.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, max(l.cfg.LeaseTTL/2, time.Second))
	defer cancel()
	lost, err := l.deps.Queue.Heartbeat(ctx, l.cfg.Owner, leases, l.cfg.LeaseTTL)
	if err != nil {
		l.log.Warn("heartbeat came to nothing; it is sent again", "err", err)
		return
	}
	gone := map[sluice.StreamID]bool{}
	for _, id := range lost {
		gone[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range holds {
		switch {
		case l.held[h.lease.StreamID] != h || h.lost:
		case gone[h.lease.StreamID]:
			l.lose(h)
		default:
			l.renew(h, sent)
		}
	}
}

// linger keeps the session and the lease of a stream that has no work left, and tells whether it did.
func (l *Loader) linger(ctx context.Context, h *hold, w *worker, fence *lake.Fence) bool {
	now := l.clock.Now()
	keep := warm{session: w.session, opened: w.opened, idle: now, fence: fence}
	if l.cfg.Linger < 0 || w.session == nil || w.session.Broken() || l.stale(keep, now) || ctx.Err() != nil {
		return false
	}
	if err := l.deps.Queue.Linger(ctx, h.lease); err != nil {
		if !errors.Is(err, queue.ErrLeaseLost) {
			w.log.Warn("session does not linger", "err", err)
		}
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.lost || l.draining {
		return false
	}
	h.warm, h.cancel = &keep, nil
	return true
}

// lingering gives the leases that linger, the one that has been idle longest first.
func (l *Loader) lingering() []*hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*hold
	for _, h := range l.held {
		if h.warm != nil {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *hold) int {
		return cmp.Or(a.warm.idle.Compare(b.warm.idle), cmp.Compare(a.lease.StreamID, b.lease.StreamID))
	})
	return all
}

// wakeUp ends a lease's lingering, for a worker or for its end; false if somebody else did before.
func (l *Loader) wakeUp(h *hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[h.lease.StreamID] != h || h.warm == nil {
		return false
	}
	h.take, h.warm = *h.warm, nil
	return true
}

// resume finds lingering streams that have work again. It closes the sessions that another stream waits for or whose org is
// not to be loaded now, and drops those whose lease is lost.
func (l *Loader) resume(ctx context.Context) []*hold {
	kept := l.lingering()
	if len(kept) == 0 {
		return nil
	}
	rows, err := l.deps.Queue.Lingering(ctx, l.cfg.Owner)
	if err != nil {
		l.log.Warn("lingering leases were not looked at; they are at the next look", "err", err)
		return nil
	}
	now := make(map[sluice.StreamID]queue.Lingerer, len(rows))
	for _, r := range rows {
		now[r.StreamID] = r
	}
	var holds []*hold
	for _, h := range kept {
		r, ok := now[h.lease.StreamID]
		switch {
		case !ok || r.Epoch != h.lease.Epoch:
			l.mu.Lock()
			if l.held[h.lease.StreamID] == h {
				l.lose(h)
			}
			l.mu.Unlock()
		case r.Asked:
			l.endLinger(ctx, h, closedAsked)
		case !r.OrgReady:
			l.endLinger(ctx, h, closedOrg)
		case r.HasWork && l.wakeUp(h):
			holds = append(holds, h)
		}
	}
	return holds
}

// Why a session was closed.
const (
	closedIdle    = "idle"    // without work for too long
	closedAge     = "age"     // old, or near the end of its credential
	closedAsked   = "asked"   // another stream of the org waits for its place
	closedOrg     = "org"     // the warehouse is not ready
	closedRoom    = "room"    // more sessions than the process may have
	closedError   = "error"   // after any error
	closedLost    = "lost"    // its lease is somebody else's
	closedOffered = "offered" // the stream's turn is over, or it rests
	closedDrain   = "drain"   // the loader stops
)

// sweep closes lingering sessions that are idle, old or at the end of their credential.
func (l *Loader) sweep(ctx context.Context) {
	now := l.clock.Now()
	for _, h := range l.lingering() {
		reason := ""
		l.mu.Lock()
		switch w := h.warm; {
		case w == nil:
		case w.session.Broken():
			reason = closedError
		case now.Sub(w.idle) >= l.cfg.Linger:
			reason = closedIdle
		case l.stale(*w, now):
			reason = closedAge
		}
		l.mu.Unlock()
		if reason != "" {
			l.endLinger(ctx, h, reason)
		}
	}
}

// makeRoom closes the sessions that have been idle longest, if there are more than streams may be worked on at once.
func (l *Loader) makeRoom(ctx context.Context) {
	l.mu.Lock()
	over := len(l.held) - l.cfg.Concurrency
	l.mu.Unlock()
	for _, h := range l.lingering() {
		if over <= 0 {
			return
		}
		l.endLinger(ctx, h, closedRoom)
		over--
	}
}

// endLinger closes a lingering session and then gives its stream back: whoever takes the org's free place must not find the
// session still open in the warehouse.
func (l *Loader) endLinger(ctx context.Context, h *hold, reason string) {
	if !l.wakeUp(h) {
		return
	}
	_ = h.take.session.Close()
	l.mu.Lock()
	l.status.closed(reason)
	l.mu.Unlock()
	l.release(ctx, h)
}

// drain lets no batch begin any more, and closes what lingers.
func (l *Loader) drain(ctx context.Context) {
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	for _, h := range l.lingering() {
		l.endLinger(ctx, h, closedDrain)
	}
}
