package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// ownerID names this process as an owner of leases: unique for its life, so that a process with the same name that was
// killed before it is somebody else.
func ownerID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

const (
	inboxPoll  = 250 * time.Millisecond
	inboxBatch = 1000
	prunePoll  = 10 * time.Minute
)

// drainInbox handles what producers have put into the state DB themselves.
func (a *App) drainInbox(ctx context.Context) error {
	log := a.log.With("component", "inbox")
	failed := false
	return every(ctx, inboxPoll, nil, func(ctx context.Context) {
		for {
			n, err := a.queue.DrainInbox(ctx, inboxBatch)
			if err != nil && ctx.Err() == nil && !failed {
				log.WarnContext(ctx, "inbox not drained, trying on", "error", err)
			}
			failed = err != nil
			if err != nil || n < inboxBatch {
				return
			}
		}
	})
}

// sweep repairs what should not be broken and removes what is past its retention.
func (a *App) sweep(ctx context.Context) error {
	log := a.log.With("component", "sweep")
	var pruned time.Time
	return every(ctx, a.cfg.Sweep.Interval.D(), nil, func(ctx context.Context) {
		r, err := a.queue.Sweep(ctx, a.cfg.Instance)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			a.metrics.sweepErrors.Inc()
			log.WarnContext(ctx, "sweep skipped", "error", err)
		case r.HeadsRepaired > 0 || r.SupersedeRepairs > 0:
			a.metrics.headRepairs.Add(float64(r.HeadsRepaired))
			log.ErrorContext(ctx, "sweep repaired the queue", "heads", r.HeadsRepaired, "supersedes", r.SupersedeRepairs)
		case r.BatchesRemoved > 0 || r.RowsRemoved > 0:
			log.InfoContext(ctx, "retention applied", "batches", r.BatchesRemoved, "rows", r.RowsRemoved)
		}
		if time.Since(pruned) >= prunePoll {
			pruned = time.Now()
			if err := a.orgs.Prune(ctx); err != nil && ctx.Err() == nil {
				a.metrics.sweepErrors.Inc()
				log.WarnContext(ctx, "retention of the control plane not applied", "error", err)
			}
		}
		gauges, err := a.queue.Gauges(ctx)
		if err != nil {
			if ctx.Err() == nil { // the old values stay
				a.metrics.sweepErrors.Inc()
				log.WarnContext(ctx, "gauges not read", "error", err)
			}
			return
		}
		a.metrics.queue.set(gauges)
	})
}
