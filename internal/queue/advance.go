package queue

import (
	"context"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Advance records success as Succeed does and, in the same transaction, begins the stream's next batch as Start does: the
// attempt is counted before anything is applied, and a loader with a backlog talks to the state DB once per batch. next is
// nil if there is no batch that may be begun now, or if it does not simply follow the applied one (a chunk, a batch that
// somebody has begun): then Next tells what there is.
func (s *Store) Advance(ctx context.Context, l sluice.Lease, a Applied) (next *Work, err error) {
	err = s.underLease(ctx, l, "record success of", a.BatchID, func(tx *statedb.Tx) error {
		next = nil
		e, r, err := s.succeed(ctx, tx, l, a)
		if err != nil {
			return err
		}
		h, b, gap, err := s.compute(ctx, tx, l.StreamID)
		switch {
		case err != nil:
			return err
		case gap:
			return s.recompute(ctx, tx, l.StreamID)
		case h.readyAt == nil || h.isChunk || b.state == sluice.Executing || !follows(b, e):
			return storeHead(ctx, tx, l.StreamID, h)
		}
		if next, err = s.begin(ctx, tx, l, &h, r); err != nil {
			return err
		}
		return storeHead(ctx, tx, l.StreamID, h)
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

func follows(b *batchFacts, e ended) bool {
	return b.runSeq > e.runSeq || b.runSeq == e.runSeq && b.index > e.index
}

// begin starts the batch that has just been found to be the head; nil if it may not be started, because it waits, or its
// stream or org takes no work. r is the run of the batch before it.
func (s *Store) begin(ctx context.Context, tx *statedb.Tx, l sluice.Lease, h *head, r run) (*Work, error) {
	since, found, err := statedb.One(ctx, tx, queries.Get("BatchStartHead"),
		statedb.Args{"batch_id": h.batchID, "owner": l.Owner, "epoch": l.Epoch},
		func(scan statedb.Scan) (t time.Time, err error) { return t, scan(statedb.Time(&t)) })
	if err != nil || !found {
		return nil, err
	}
	h.readyAt = &since // as of any batch that is executing
	if err := s.record(ctx, tx, l, h.batchID, step{}); err != nil {
		return nil, err
	}
	var w Work
	if w.Batch, err = getBatch(ctx, tx, h.batchID); err != nil {
		return nil, err
	}
	if w.Batch.RunID != r.RunID {
		if r, err = mustRun(ctx, tx, l.StreamID, w.Batch.RunID); err != nil {
			return nil, err
		}
	}
	w.Run = r.Run
	return &w, nil
}

// Upcoming gives the files of the next open batches of a leased stream after its head, in order and at most limit, so that
// a loader can look at several at once. It promises nothing about them.
func (s *Store) Upcoming(ctx context.Context, l sluice.Lease, limit int) ([]string, error) {
	return statedb.All(ctx, s.db, queries.Get("BatchUpcoming"), statedb.Args{"stream_id": l.StreamID, "limit": limit}, statedb.Value[string])
}
