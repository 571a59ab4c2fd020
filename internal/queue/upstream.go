package queue

import (
	"context"
	"fmt"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Upstream reports whether the authoritative store holds a batch. A producer reports succeeded only after its commit is
// visible; that order is relied on. Both answers are final: saying the same again is no error, the opposite is
// SLUICE-LOAD-STATE. From a failed index on, the batches of the run end failed/upstream_failed; those below are applied.
func (s *Store) Upstream(ctx context.Context, id sluice.BatchID, state sluice.UpstreamState) error {
	b, err := getBatch(ctx, s.db, id)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *statedb.Tx) error { return s.upstream(ctx, tx, b.StreamID, id, state) })
}

func (s *Store) upstream(ctx context.Context, tx *statedb.Tx, streamID sluice.StreamID, id sluice.BatchID, state sluice.UpstreamState) error {
	doing := fmt.Sprintf("report upstream state of batch %s", id)
	if state != sluice.UpstreamSucceeded && state != sluice.UpstreamFailed {
		return sluice.E("SLUICE-USAGE", doing, fmt.Sprintf("%q cannot be reported", state), "report succeeded or failed", nil)
	}
	if err := s.Lock(ctx, tx, streamID); err != nil {
		return err
	}
	ok, err := changed(ctx, tx, "BatchUpstream", statedb.Args{"batch_id": id, "upstream_state": state})
	if err != nil {
		return err
	}
	b, err := getBatch(ctx, tx, id)
	if err != nil {
		return err
	}
	if !ok {
		if b.UpstreamState == state {
			return nil
		}
		return refuse(doing, fmt.Sprintf("it is %s already", b.UpstreamState), "an upstream state is final; none means that the batch has no authoritative store")
	}
	r, err := mustRun(ctx, tx, b.StreamID, b.RunID)
	if err != nil {
		return err
	}
	if r.State.Terminal() { // superseded or covered meanwhile: the report is kept, nothing follows from it
		return nil
	}
	if state == sluice.UpstreamFailed && b.LoadState.Open() {
		args := with(r.args(), statedb.Args{"index": b.BatchIndex})
		if err := exec(ctx, tx, "RunFailFrom", args); err != nil {
			return err
		}
		if r.failIndex == nil || *r.failIndex > b.BatchIndex {
			r.failIndex = &b.BatchIndex
		}
		if err := s.failUpstream(ctx, tx, &r, *r.failIndex); err != nil {
			return err
		}
	}
	if state == sluice.UpstreamSucceeded && b.BatchIndex == 0 && r.replaceHead {
		if _, err := s.supersedeIfDue(ctx, tx, b.StreamID); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, tx, &r); err != nil {
		return err
	}
	return s.Changed(ctx, tx, b.StreamID)
}
