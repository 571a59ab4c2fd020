package queue

import (
	"context"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// What a planner asks of a stream's queue.

// PlanBatch is a live batch, as coverage looks at it.
type PlanBatch struct {
	RunID      sluice.RunID
	BatchIndex int64
	Upstream   sluice.UpstreamState
}

func scanPlanBatch(scan statedb.Scan) (b PlanBatch, err error) {
	return b, scan(&b.RunID, &b.BatchIndex, &b.Upstream)
}

// maxApplied bounds the batches that an older version of a source is compared with.
const maxApplied = 100_000

// ever is longer than anything is kept.
const ever = 100 * 365 * 24 * time.Hour

// OpenBatches lists the open live batches of a stream, with their upstream states as of now.
func (s *Store) OpenBatches(ctx context.Context, id sluice.StreamID) ([]PlanBatch, error) {
	return statedb.All(ctx, s.db, queries.Get("PlanOpenBatches"), statedb.Args{"stream_id": id}, scanPlanBatch)
}

// AppliedBatches lists the live batches that a stream's table has had since it was last made anew; without all, only those
// whose upstream store is not known to hold them.
func (s *Store) AppliedBatches(ctx context.Context, id sluice.StreamID, all bool) ([]PlanBatch, error) {
	return statedb.All(ctx, s.db, queries.Get("PlanAppliedBatches"), statedb.Args{"stream_id": id, "all": all, "limit": maxApplied, "ever": ever}, scanPlanBatch)
}

// HasBatches tells whether a stream has ever had a live run.
func (s *Store) HasBatches(ctx context.Context, id sluice.StreamID) (bool, error) {
	_, found, err := statedb.One(ctx, s.db, queries.Get("PlanHasBatches"), statedb.Args{"stream_id": id}, statedb.Value[int64])
	return found, err
}

// ReplaceInFlight gives the run that is about to make the stream's table anew, if there is one.
func (s *Store) ReplaceInFlight(ctx context.Context, r statedb.Runner, id sluice.StreamID) (sluice.RunID, bool, error) {
	return statedb.One(ctx, r, queries.Get("ReplaceInFlight"), statedb.Args{"stream_id": id}, statedb.Value[sluice.RunID])
}

// LiveExecuting tells whether a live batch of the stream is being applied.
func (s *Store) LiveExecuting(ctx context.Context, r statedb.Runner, id sluice.StreamID) (bool, error) {
	_, found, err := statedb.One(ctx, r, queries.Get("LiveExecuting"), statedb.Args{"stream_id": id}, statedb.Value[sluice.BatchID])
	return found, err
}

// LeftRun is a chunk run that nobody plans any more.
type LeftRun struct {
	StreamID sluice.StreamID
	RunID    sluice.RunID
}

// LeftRuns lists chunk runs whose planning has ended without sealing them.
func (s *Store) LeftRuns(ctx context.Context, limit int) ([]LeftRun, error) {
	return statedb.All(ctx, s.db, queries.Get("PlanLeftRuns"), statedb.Args{"limit": limit}, func(scan statedb.Scan) (r LeftRun, err error) {
		return r, scan(&r.StreamID, &r.RunID)
	})
}

// ChunkRow is one step of a chunk run, for progress.
type ChunkRow struct {
	BatchID    sluice.BatchID   `json:"batch_id"`
	BatchIndex int64            `json:"batch_index"`
	Op         sluice.Op        `json:"op"`
	LoadState  sluice.LoadState `json:"load_state"`
	Attempt    int64            `json:"attempt"`
	Bytes      *int64           `json:"bytes,omitempty"`
	Rows       *int64           `json:"rows,omitempty"`
	ChangedAt  time.Time        `json:"state_changed_at"`
	ErrorCode  sluice.Code      `json:"error_code,omitempty"`
	ErrorText  string           `json:"error_text,omitempty"`
}

// Chunks lists the steps of a chunk run.
func (s *Store) Chunks(ctx context.Context, id sluice.StreamID, run sluice.RunID) ([]ChunkRow, error) {
	return statedb.All(ctx, s.db, queries.Get("ChunkProgress"), statedb.Args{"stream_id": id, "run_id": run}, func(scan statedb.Scan) (c ChunkRow, err error) {
		return c, scan(&c.BatchIndex, statedb.Text(&c.Op), &c.LoadState, &c.Attempt, &c.Bytes, &c.Rows, statedb.Time(&c.ChangedAt),
			statedb.Text(&c.ErrorCode), statedb.Text(&c.ErrorText), &c.BatchID)
	})
}

// ChunkCounts sums a chunk run up.
type ChunkCounts struct {
	Steps     int64 // different indexes
	Applied   int64
	Executing int64
	SwapBusy  bool // the swap is being applied
	SwapDone  bool
	ErrorCode sluice.Code // of a step that waits or is quarantined
	ChangedAt *time.Time
}

// ChunkCounts reads the sums.
func (s *Store) ChunkCounts(ctx context.Context, r statedb.Runner, id sluice.StreamID, run sluice.RunID) (ChunkCounts, error) {
	c, _, err := statedb.One(ctx, r, queries.Get("ChunkCounts"), statedb.Args{"stream_id": id, "run_id": run}, func(scan statedb.Scan) (c ChunkCounts, err error) {
		var applied, executing, busy, done *int64
		err = scan(&c.Steps, &applied, &executing, &busy, &done, statedb.Text(&c.ErrorCode), statedb.TimePtr(&c.ChangedAt))
		if applied != nil {
			c.Applied, c.Executing, c.SwapBusy, c.SwapDone = *applied, *executing, *busy == 1, *done == 1
		}
		return c, err
	})
	return c, err
}

// Waiting counts the open live batches of a stream.
func (s *Store) Waiting(ctx context.Context, id sluice.StreamID) (int64, error) {
	n, _, err := statedb.One(ctx, s.db, queries.Get("WaitingBatches"), statedb.Args{"stream_id": id}, statedb.Value[int64])
	return n, err
}

// Prime writes what follows from a swap that the lake has and the state DB does not know of (backfill.md §9.1): its chunks
// are applied, the run succeeds, and with it the stream is primed. The caller has called Lock, and calls Changed.
func (s *Store) Prime(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID) error {
	done, err := ids(ctx, tx, "BatchRecoverRun", statedb.Args{"stream_id": id, "run_id": runID})
	if err != nil {
		return err
	}
	if err := history(ctx, tx, done); err != nil {
		return err
	}
	if err := closeQuarantine(ctx, tx, done, "superseded", "", "the lake has the swap"); err != nil {
		return err
	}
	if err := exec(ctx, tx, "RunUnhalt", statedb.Args{"stream_id": id, "run_id": runID}); err != nil {
		return err
	}
	r, err := mustRun(ctx, tx, id, runID)
	if err != nil {
		return err
	}
	return s.settle(ctx, tx, &r)
}
