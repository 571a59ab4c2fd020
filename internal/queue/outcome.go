package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// Start marks a batch executing and counts the attempt, in one statement, before the apply: so an attempt that kills the
// process is counted. The batch must be the head of the leased stream and ready; if not, ErrLeaseLost.
func (s *Store) Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (attempt int, err error) {
	err = s.underLease(ctx, l, "start", id, func(tx *statedb.Tx) error {
		n, found, err := statedb.One(ctx, tx, queries.Get("BatchStart"),
			statedb.Args{"batch_id": id, "owner": l.Owner, "epoch": l.Epoch}, statedb.Value[int])
		if err != nil {
			return err
		}
		if !found {
			return ErrLeaseLost
		}
		attempt = n
		if err := exec(ctx, tx, "LeaseWorking", statedb.Args{"stream_id": l.StreamID}); err != nil {
			return err
		}
		if err := s.record(ctx, tx, l, id, step{}); err != nil {
			return err
		}
		return s.recompute(ctx, tx, l.StreamID)
	})
	return attempt, err
}

// underLease runs a transition of a leased stream: its lease row first, then the rest.
func (s *Store) underLease(ctx context.Context, l sluice.Lease, what string, id sluice.BatchID, fn func(tx *statedb.Tx) error) error {
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		err := s.Lock(ctx, tx, l.StreamID)
		if sluice.CodeOf(err) == "SLUICE-LOAD-NO-STREAM" { // the stream was deleted under its owner
			return ErrLeaseLost
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil {
		return fmt.Errorf("%s batch %s: %w", what, id, err)
	}
	return nil
}

// step is what a history row knows beyond the batch's own state.
type step struct {
	err                                           *stepError
	fenceSeq, lakeSnapshot, rowsRead, rowsWritten any // nil or int64
	phases                                        map[string]int64
}

type stepError struct {
	Code sluice.Code `json:"code"`
	Text string      `json:"text"`
	Hint string      `json:"hint,omitempty"`
}

// record adds the history row of a loader's transition.
func (s *Store) record(ctx context.Context, tx *statedb.Tx, l sluice.Lease, id sluice.BatchID, st step) error {
	var failure, phases any
	var err error
	if st.err != nil {
		if failure, err = toJSON(st.err); err != nil {
			return err
		}
	}
	if st.phases != nil {
		if phases, err = toJSON(st.phases); err != nil {
			return err
		}
	}
	var epoch any
	if l.Owner != "" {
		epoch = l.Epoch
	}
	return exec(ctx, tx, "HistoryInsert", statedb.Args{
		"batch_id": id, "error": failure, "owner": statedb.Null(l.Owner), "epoch": epoch, "fence_seq": st.fenceSeq,
		"lake_snapshot": st.lakeSnapshot, "rows_read": st.rowsRead, "rows_written": st.rowsWritten, "phases": phases,
	})
}

// ended is what a transition's statement gives back about its batch.
type ended struct {
	streamID sluice.StreamID
	runID    sluice.RunID
	runSeq   int64
	index    int64
	bytes    *int64
}

// transition runs a guarded statement on an executing batch; no row means that the lease or the state was lost.
func transition(ctx context.Context, tx *statedb.Tx, query string, l sluice.Lease, id sluice.BatchID, more statedb.Args) (ended, error) {
	args := with(statedb.Args{"batch_id": id, "owner": l.Owner, "epoch": l.Epoch}, more)
	e, found, err := statedb.One(ctx, tx, queries.Get(query), args, func(scan statedb.Scan) (e ended, err error) {
		return e, scan(&e.streamID, &e.runID, &e.runSeq, &e.index, &e.bytes)
	})
	if err == nil && (!found || e.streamID != l.StreamID) {
		err = ErrLeaseLost
	}
	return e, err
}

// Succeed records that an executing batch is in its table, and everything that follows from it: history, mirror of the
// marker, the run's progress and end, the stream's lifecycle, the head. Repeating it is ErrLeaseLost and changes nothing.
func (s *Store) Succeed(ctx context.Context, l sluice.Lease, a Applied) error {
	return s.underLease(ctx, l, "record success of", a.BatchID, func(tx *statedb.Tx) error {
		if _, _, err := s.succeed(ctx, tx, l, a); err != nil {
			return err
		}
		return s.recompute(ctx, tx, l.StreamID)
	})
}

// succeed does all that Succeed says but the head. It gives the batch and its run as they are then.
func (s *Store) succeed(ctx context.Context, tx *statedb.Tx, l sluice.Lease, a Applied) (ended, run, error) {
	if a.Origin == "" {
		a.Origin = sluice.OriginApplied
	}
	e, err := transition(ctx, tx, "BatchSucceed", l, a.BatchID, statedb.Args{"reason": statedb.Null(a.Reason), "op": statedb.Null(a.Op)})
	if err != nil {
		return e, run{}, err
	}
	var rows, snapshot any
	if a.Origin == sluice.OriginApplied {
		rows = a.RowsWritten
	}
	if a.LakeSnapshot > 0 {
		snapshot = a.LakeSnapshot
	}
	var note *stepError
	if a.Note != "" {
		note = &stepError{Text: cut(a.Note)}
	}
	err = s.record(ctx, tx, l, a.BatchID, step{
		err: note, fenceSeq: a.FenceSeq, lakeSnapshot: snapshot, rowsRead: a.RowsRead, rowsWritten: a.RowsWritten, phases: a.Phases,
	})
	if err != nil {
		return e, run{}, err
	}
	err = exec(ctx, tx, "MarkerInsert", statedb.Args{
		"batch_id": a.BatchID, "rows": rows, "fence_seq": a.FenceSeq, "lake_snapshot": snapshot, "origin": a.Origin,
	})
	if err != nil {
		return e, run{}, err
	}
	err = exec(ctx, tx, "LeaseApplied", statedb.Args{"stream_id": l.StreamID, "run_id": e.runID, "index": e.index})
	if err != nil {
		return e, run{}, err
	}
	if err := stream.FenceSeen(ctx, tx, l.StreamID, a.FenceSeq); err != nil {
		return e, run{}, err
	}
	r, err := mustRun(ctx, tx, l.StreamID, e.runID)
	if err != nil {
		return e, run{}, err
	}
	if !r.live() {
		bytes := int64(0)
		if e.bytes != nil {
			bytes = *e.bytes
		}
		if err := stream.Progress(ctx, tx, l.StreamID, e.runID, a.RowsWritten, bytes); err != nil {
			return e, run{}, err
		}
	}
	if a.Target != nil {
		if err := stream.TargetChanged(ctx, tx, l.StreamID, *a.Target); err != nil {
			return e, run{}, err
		}
	}
	err = s.settle(ctx, tx, &r)
	return e, r, err
}

// Retry records a failure that may pass. The batch ends in retry_wait; in quarantined, if the failure is counted and was
// the last attempt; or in superseded, if a replace run has been waiting for the apply to end.
func (s *Store) Retry(ctx context.Context, l sluice.Lease, f Failure) (sluice.LoadState, error) {
	return s.fail(ctx, l, f, false)
}

// Quarantine records a failure that will not pass: the batch is kept with its reason and its run halts. The batch ends in
// quarantined, or in superseded as with Retry.
func (s *Store) Quarantine(ctx context.Context, l sluice.Lease, f Failure) (sluice.LoadState, error) {
	return s.fail(ctx, l, f, true)
}

// Defer records that a batch could not be begun for a cause outside of it: the session could not be opened. It rests for
// f.Wait and no attempt is used (spec/loader.md §8, "deferred"). A batch that is executing is ErrLeaseLost: use Retry.
func (s *Store) Defer(ctx context.Context, l sluice.Lease, f Failure) error {
	f.Text, f.Hint = cut(f.Text), cut(f.Hint)
	return s.underLease(ctx, l, "defer", f.BatchID, func(tx *statedb.Tx) error {
		_, err := transition(ctx, tx, "BatchDefer", l, f.BatchID, statedb.Args{"wait": max(f.Wait, time.Duration(0)), "code": f.Code, "text": f.Text})
		if err != nil {
			return err
		}
		if err := s.record(ctx, tx, l, f.BatchID, step{err: &stepError{f.Code, f.Text, f.Hint}}); err != nil {
			return err
		}
		return s.recompute(ctx, tx, l.StreamID)
	})
}

func (s *Store) fail(ctx context.Context, l sluice.Lease, f Failure, permanent bool) (state sluice.LoadState, err error) {
	f.Text, f.Hint = cut(f.Text), cut(f.Hint)
	err = s.underLease(ctx, l, "record failure of", f.BatchID, func(tx *statedb.Tx) error {
		b, err := getBatch(ctx, tx, f.BatchID)
		if err != nil {
			return err
		}
		r, err := mustRun(ctx, tx, b.StreamID, b.RunID)
		if err != nil {
			return err
		}
		quarantine := permanent || f.Counted && b.Attempt >= s.cfg.MaxAttempts
		switch {
		case r.supersededBy != nil: // never from executing: it rests for the length of this transaction
			state = sluice.Superseded
			f.Wait = 0
			if err := s.toRetryWait(ctx, tx, l, f); err != nil {
				return err
			}
			if err := s.supersede(ctx, tx, b.StreamID, *r.supersededBy); err != nil {
				return err
			}
		case quarantine:
			state = sluice.Quarantined
			args := statedb.Args{"code": f.Code, "text": f.Text}
			if _, err := transition(ctx, tx, "BatchQuarantine", l, f.BatchID, args); err != nil {
				return err
			}
			if err := s.recordQuarantine(ctx, tx, b.StreamID, b.RunID, f, &l); err != nil {
				return err
			}
		default:
			state = sluice.RetryWait
			if err := s.toRetryWait(ctx, tx, l, f); err != nil {
				return err
			}
		}
		return s.recompute(ctx, tx, b.StreamID)
	})
	if sluice.CodeOf(err) == "SLUICE-LOAD-NO-BATCH" {
		err = errors.Join(ErrLeaseLost, err)
	}
	return state, err
}

func (s *Store) toRetryWait(ctx context.Context, tx *statedb.Tx, l sluice.Lease, f Failure) error {
	uncount := 1
	if f.Counted {
		uncount = 0
	}
	var size any
	if f.Pin.ETag != "" {
		size = f.Pin.ByteSize
	}
	_, err := transition(ctx, tx, "BatchRetryWait", l, f.BatchID, statedb.Args{
		"wait": max(f.Wait, time.Duration(0)), "uncount": uncount, "code": f.Code, "text": f.Text,
		"etag": statedb.Null(f.Pin.ETag), "byte_size": size,
	})
	if err != nil {
		return err
	}
	return s.record(ctx, tx, l, f.BatchID, step{err: &stepError{f.Code, f.Text, f.Hint}, phases: f.Phases})
}

// recordQuarantine writes what goes with a batch's quarantine: history, the quarantine row, the halt of run and plan.
// l is nil where no loader is concerned.
func (s *Store) recordQuarantine(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, f Failure, l *sluice.Lease) error {
	if l == nil {
		l = &sluice.Lease{}
	}
	if err := s.record(ctx, tx, *l, f.BatchID, step{err: &stepError{f.Code, f.Text, f.Hint}, phases: f.Phases}); err != nil {
		return err
	}
	message := f.Text
	if message == "" {
		message = sluice.Info(f.Code).Summary
	}
	err := exec(ctx, tx, "QuarantineOpen", statedb.Args{
		"batch_id": f.BatchID, "code": f.Code, "message": message, "hint": statedb.Null(f.Hint),
	})
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("batch %s: %s", f.BatchID, f.Code)
	if err := exec(ctx, tx, "RunHalt", statedb.Args{"stream_id": id, "run_id": runID, "reason": reason}); err != nil {
		return err
	}
	return stream.HaltPlan(ctx, tx, id, runID, reason)
}
