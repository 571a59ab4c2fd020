package queue

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// errDryRun rolls a transaction back that was only there to see what would happen.
var errDryRun = errors.New("dry run")

// operate runs an operator's command on a stream: lease row, the change, head, audit row, all or nothing.
func (s *Store) operate(ctx context.Context, id sluice.StreamID, action, object string, op Operator, fn func(tx *statedb.Tx, c *Change) error) (Change, error) {
	var c Change
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		c = Change{StreamID: id, Batches: []sluice.BatchID{}, DryRun: op.DryRun}
		if err := s.Lock(ctx, tx, id); err != nil {
			return err
		}
		before, err := stream.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := fn(tx, &c); err != nil {
			return err
		}
		if err := s.Changed(ctx, tx, id); err != nil {
			return err
		}
		after, err := stream.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		c.Lifecycle = after.Lifecycle
		entry := control.Entry{Action: action, Org: before.Org, Object: object, Before: map[string]any{"lifecycle": before.Lifecycle}, After: c}
		if err := control.Audit(ctx, tx, op.by(), entry); err != nil {
			return err
		}
		if before.Lifecycle != after.Lifecycle {
			if err := control.Bump(ctx, tx); err != nil {
				return err
			}
		}
		if op.DryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return c, err
}

func refuse(doing, what, hint string) error {
	return sluice.E("SLUICE-LOAD-STATE", doing, what, hint, nil)
}

// onBatch is operate for a command on one batch, which is read again under the stream's lock.
func (s *Store) onBatch(ctx context.Context, id sluice.BatchID, action string, op Operator, fn func(tx *statedb.Tx, c *Change, b sluice.Batch, r *run) error) (Change, error) {
	b, err := getBatch(ctx, s.db, id)
	if err != nil {
		return Change{}, err
	}
	return s.operate(ctx, b.StreamID, action, "batch "+string(id), op, func(tx *statedb.Tx, c *Change) error {
		b, err := getBatch(ctx, tx, id)
		if err != nil {
			return err
		}
		r, err := mustRun(ctx, tx, b.StreamID, b.RunID)
		if err != nil {
			return err
		}
		c.RunID, c.Batches = b.RunID, []sluice.BatchID{id}
		return fn(tx, c, b, &r)
	})
}

// QuarantineRetry queues a quarantined batch again with all its attempts, and its run goes on.
func (s *Store) QuarantineRetry(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return s.onBatch(ctx, id, "quarantine.retry", op, func(tx *statedb.Tx, _ *Change, b sluice.Batch, r *run) error {
		return s.requeue(ctx, tx, b, r, op)
	})
}

func (s *Store) requeue(ctx context.Context, tx *statedb.Tx, b sluice.Batch, r *run, op Operator) error {
	ok, err := changed(ctx, tx, "BatchRequeue", statedb.Args{"batch_id": b.BatchID})
	if err != nil {
		return err
	}
	if !ok {
		return refuse(fmt.Sprintf("retry batch %s", b.BatchID), fmt.Sprintf("it is %s, not quarantined", b.LoadState), "see `sluice quarantine list`")
	}
	if err := history(ctx, tx, []sluice.BatchID{b.BatchID}); err != nil {
		return err
	}
	if err := closeQuarantine(ctx, tx, []sluice.BatchID{b.BatchID}, "retried", op.Who, op.Note); err != nil {
		return err
	}
	if err := exec(ctx, tx, "RunUnhalt", r.args()); err != nil {
		return err
	}
	if r.supersededBy == nil {
		if _, err := s.supersedeIfDue(ctx, tx, b.StreamID); err != nil {
			return err
		}
	}
	return stream.ResumePlan(ctx, tx, b.StreamID, b.RunID)
}

// QuarantineDiscard accepts the loss of a quarantined batch: it ends failed/discarded, and its stream is parked as
// needs_resync until a full refresh or a backfill has mended the table. A chunk cannot be discarded.
func (s *Store) QuarantineDiscard(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return s.onBatch(ctx, id, "quarantine.discard", op, func(tx *statedb.Tx, _ *Change, b sluice.Batch, r *run) error {
		doing := fmt.Sprintf("discard batch %s", id)
		if !r.live() {
			return refuse(doing, "it is a chunk of a plan", "use `sluice backfill replan` or `sluice run cancel`")
		}
		ok, err := changed(ctx, tx, "BatchDiscard", statedb.Args{"batch_id": id})
		if err != nil {
			return err
		}
		if !ok {
			return refuse(doing, fmt.Sprintf("it is %s, not quarantined", b.LoadState), "see `sluice quarantine list`")
		}
		if err := history(ctx, tx, []sluice.BatchID{id}); err != nil {
			return err
		}
		if err := closeQuarantine(ctx, tx, []sluice.BatchID{id}, "discarded", op.Who, op.Note); err != nil {
			return err
		}
		if _, err := stream.Park(ctx, tx, b.StreamID, fmt.Sprintf("batch %d of run %s was discarded", b.BatchIndex, b.RunID)); err != nil {
			return err
		}
		if err := exec(ctx, tx, "RunDiscarded", r.args()); err != nil {
			return err
		}
		if err := exec(ctx, tx, "RunUnhalt", r.args()); err != nil {
			return err
		}
		again, err := mustRun(ctx, tx, b.StreamID, b.RunID)
		if err != nil {
			return err
		}
		// A gap before the discarded batch is given up with it, else it would halt the run once more.
		if again.sealedBy == sealedByNewer && again.NextIndex < b.BatchIndex {
			if err := exec(ctx, tx, "RunAdvance", with(again.args(), statedb.Args{"next_index": b.BatchIndex})); err != nil {
				return err
			}
			again.NextIndex = b.BatchIndex
		}
		return s.settle(ctx, tx, &again)
	})
}

// BatchRetry makes a batch in retry_wait claimable at once, with all its attempts; a quarantined one is retried as by
// QuarantineRetry.
func (s *Store) BatchRetry(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return s.onBatch(ctx, id, "batch.retry", op, func(tx *statedb.Tx, _ *Change, b sluice.Batch, r *run) error {
		switch b.LoadState {
		case sluice.RetryWait:
			return exec(ctx, tx, "BatchRetryNow", statedb.Args{"batch_id": id})
		case sluice.Quarantined:
			return s.requeue(ctx, tx, b, r, op)
		case sluice.Queued, sluice.Executing, sluice.Succeeded, sluice.Failed, sluice.Superseded:
		}
		return refuse(fmt.Sprintf("retry batch %s", id), fmt.Sprintf("it is %s", b.LoadState), "only batches in retry_wait or quarantined can be retried")
	})
}

// CancelRun ends a run: its open batches become failed/cancelled. A live run with unapplied batches leaves a gap, so its
// stream is parked as needs_resync. Refused while a batch of the run is being applied.
func (s *Store) CancelRun(ctx context.Context, id sluice.StreamID, runID sluice.RunID, op Operator) (Change, error) {
	id, err := stream.ParseID(id)
	if err != nil {
		return Change{}, err
	}
	doing := fmt.Sprintf("cancel run %s of stream %s", runID, id)
	return s.operate(ctx, id, "run.cancel", fmt.Sprintf("run %s of stream %s", runID, id), op, func(tx *statedb.Tx, c *Change) error {
		r, err := mustRun(ctx, tx, id, runID)
		if err != nil {
			return err
		}
		c.RunID = runID
		if r.State.Terminal() {
			return refuse(doing, fmt.Sprintf("it is %s already", r.State), "")
		}
		cancelled, err := s.endRun(ctx, tx, &r, doing, sluice.ReasonCancelled, op.Who, op.Note)
		if err != nil {
			return err
		}
		c.Batches = append(c.Batches, cancelled...)
		if !r.live() {
			return stream.CancelPlan(ctx, tx, id, runID)
		}
		if len(cancelled) > 0 {
			_, err = stream.Park(ctx, tx, id, fmt.Sprintf("run %s was cancelled with %d unapplied batches", runID, len(cancelled)))
		}
		return err
	})
}

// Resume ends a Halt.
func (s *Store) Resume(ctx context.Context, id sluice.StreamID, op Operator) (Change, error) {
	id, err := stream.ParseID(id)
	if err != nil {
		return Change{}, err
	}
	return s.operate(ctx, id, "stream.resume", "stream "+string(id), op, func(tx *statedb.Tx, _ *Change) error {
		ok, err := changed(ctx, tx, "LeaseResume", statedb.Args{"stream_id": id})
		if err == nil && !ok {
			err = refuse(fmt.Sprintf("resume stream %s", id), "it is not halted", "see `sluice status`")
		}
		return err
	})
}

// Reset parks a stream as needs_resync by an operator's decision, and ends a Halt: what is in its table is not trusted any
// more. A full refresh or a backfill mends it.
func (s *Store) Reset(ctx context.Context, id sluice.StreamID, op Operator) (Change, error) {
	id, err := stream.ParseID(id)
	if err != nil {
		return Change{}, err
	}
	return s.operate(ctx, id, "stream.reset", "stream "+string(id), op, func(tx *statedb.Tx, _ *Change) error {
		if _, err := changed(ctx, tx, "LeaseResume", statedb.Args{"stream_id": id}); err != nil {
			return err
		}
		reason := "reset by " + op.Who
		if op.Note != "" {
			reason += ": " + op.Note
		}
		ok, err := stream.Park(ctx, tx, id, cut(reason))
		if err == nil && !ok {
			err = refuse(fmt.Sprintf("reset stream %s", id), "it waits for a backfill", "cancel the plan first")
		}
		return err
	})
}
