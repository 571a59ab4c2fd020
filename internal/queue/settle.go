package queue

import (
	"context"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// Values of run.sealed_by.
const (
	sealedByFinal = "final" // the producer's final row
	sealedByNewer = "newer" // a newer run has begun
	sealedByPlan  = "plan"  // the planner has stored the last slice
)

// runEnd says whether a run with no open batches is complete, and as what (loader.md §3).
func runEnd(r *run) (state sluice.RunState, reason string, ends bool) {
	if r.State != sluice.RunOpen && r.State != sluice.RunSealed {
		return "", "", false
	}
	complete := r.sealedBy == sealedByNewer || r.FinalIndex != nil && r.NextIndex > *r.FinalIndex
	switch {
	case r.supersededBy != nil:
		return sluice.RunSuperseded, sluice.ReasonSupersededByReplace, true
	case r.failIndex != nil && (r.NextIndex >= *r.failIndex || r.sealedBy == sealedByNewer):
		return sluice.RunFailed, sluice.ReasonUpstreamFailed, true
	case r.failIndex != nil || r.State == sluice.RunOpen || !complete:
		return "", "", false
	case r.discarded:
		return sluice.RunFailed, sluice.ReasonDiscarded, true
	}
	return sluice.RunSucceeded, "", true
}

// settle brings a run up to date after one of its batches has changed: its next index moves over what is done, and a run
// that is complete ends, with what that means for the stream's lifecycle. r is refreshed.
func (s *Store) settle(ctx context.Context, tx *statedb.Tx, r *run) error {
	if r.State.Terminal() {
		return nil
	}
	if err := advance(ctx, tx, r); err != nil {
		return err
	}
	state, reason, ends := runEnd(r)
	if !ends {
		return nil
	}
	_, hasOpen, err := statedb.One(ctx, tx, queries.Get("RunHasOpen"), statedb.Args{"stream_id": r.StreamID, "seq": r.Seq}, statedb.Value[int64])
	if err != nil || hasOpen {
		return err
	}
	args := with(r.args(), statedb.Args{"state": state, "old_state": r.State, "reason": statedb.Null(reason)})
	if err := exec(ctx, tx, "RunEnd", args); err != nil {
		return err
	}
	r.State, r.Reason = state, reason
	if state == sluice.RunSucceeded {
		return s.runSucceeded(ctx, tx, r)
	}
	return nil
}

// advance moves next_index over batches that are done, also those that a snapshot covers or that were given up.
func advance(ctx context.Context, tx *statedb.Tx, r *run) error {
	next := r.NextIndex
	for {
		args := with(r.args(), statedb.Args{"index": next})
		_, done, err := statedb.One(ctx, tx, queries.Get("BatchAppliedAt"), args, statedb.Value[int64])
		if err != nil {
			return err
		}
		if !done {
			break
		}
		next++
	}
	if next == r.NextIndex {
		return nil
	}
	r.NextIndex = next
	return exec(ctx, tx, "RunAdvance", with(r.args(), statedb.Args{"next_index": next}))
}

// runSucceeded is what a complete run proves about its stream (backfill.md §2, §9): a swap primes it, and so does a
// refresh that replaced the table after the stream was parked and whose final row was seen.
func (s *Store) runSucceeded(ctx context.Context, tx *statedb.Tx, r *run) error {
	if !r.live() {
		return s.prime(ctx, tx, r)
	}
	if !r.replaceHead || r.sealedBy != sealedByFinal {
		return nil
	}
	fence, found, err := statedb.One(ctx, tx, queries.Get("MarkerFence"), with(r.args(), statedb.Args{"index": int64(0)}), statedb.Value[*int64])
	if err != nil || !found || fence == nil {
		return err
	}
	_, err = stream.Prove(ctx, tx, r.StreamID, *fence)
	return err
}

// prime ends a plan whose swap is done: what its snapshot covers is done too, and live batches may go on.
func (s *Store) prime(ctx context.Context, tx *statedb.Tx, r *run) error {
	plan, err := stream.Prime(ctx, tx, r.StreamID, r.RunID)
	if err != nil || plan == "" {
		return err
	}
	type row struct {
		batch sluice.BatchID
		run   sluice.RunID
	}
	covered, err := statedb.All(ctx, tx, queries.Get("BatchCover"), statedb.Args{"stream_id": r.StreamID, "plan_id": plan},
		func(scan statedb.Scan) (x row, err error) { return x, scan(&x.batch, &x.run) })
	if err != nil {
		return err
	}
	batches, runs := make([]sluice.BatchID, len(covered)), map[sluice.RunID]bool{}
	for i, c := range covered {
		batches[i], runs[c.run] = c.batch, true
		if err := s.markCovered(ctx, tx, c.batch); err != nil {
			return err
		}
	}
	if err := history(ctx, tx, batches); err != nil {
		return err
	}
	for id := range runs {
		other, err := mustRun(ctx, tx, r.StreamID, id)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, tx, &other); err != nil {
			return err
		}
	}
	return nil
}

// markCovered mirrors the marker that the swap wrote for a covered batch.
func (s *Store) markCovered(ctx context.Context, tx *statedb.Tx, id sluice.BatchID) error {
	return exec(ctx, tx, "MarkerInsert", statedb.Args{
		"batch_id": id, "rows": nil, "fence_seq": nil, "lake_snapshot": nil, "origin": sluice.OriginCovered,
	})
}
