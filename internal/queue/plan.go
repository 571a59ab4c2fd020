package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// The functions of this file are steps of the planner's transactions (backfill.md §4): it makes chunk runs, the loader
// applies them. Each begins with Lock; the planner ends its transaction with Changed.

// ChunkRun is a run that the planner makes.
type ChunkRun struct {
	StreamID sluice.StreamID
	RunID    sluice.RunID
	Kind     sluice.RunKind // backfill, copy or register
	Options  sluice.Options
}

// Chunk is one batch of a chunk run. Path may be empty: what is read stands in Spec.
type Chunk struct {
	BatchIndex int64
	Path       string
	ByteSize   *int64
	RowCount   *int64
	IsFinal    bool
	Op         sluice.Op
	Spec       json.RawMessage
}

// BeginChunks makes a chunk run in state planning: nothing of it is claimable until SealChunks.
func (s *Store) BeginChunks(ctx context.Context, tx *statedb.Tx, r ChunkRun) (seq int64, err error) {
	doing := fmt.Sprintf("begin %s run %s of stream %s", r.Kind, r.RunID, r.StreamID)
	if r.Kind != sluice.RunBackfill && r.Kind != sluice.RunCopy && r.Kind != sluice.RunRegister {
		return 0, sluice.E("SLUICE-USAGE", doing, "the kind is not one of the planner's", "", nil)
	}
	if err := s.Lock(ctx, tx, r.StreamID); err != nil {
		return 0, err
	}
	if _, there, err := getRun(ctx, tx, r.StreamID, r.RunID); err != nil || there {
		if there {
			err = refuse(doing, "a run of this name exists", "")
		}
		return 0, err
	}
	if seq, err = stream.NextSeq(ctx, tx, r.StreamID); err != nil {
		return 0, err
	}
	options, err := toJSON(r.Options)
	if err != nil {
		return 0, err
	}
	return seq, exec(ctx, tx, "RunInsertChunks", statedb.Args{
		"stream_id": r.StreamID, "run_id": r.RunID, "seq": seq, "kind": r.Kind, "options": options,
	})
}

// AddChunks stores chunks of a run that is planning, at most 1,000 a call. Chunks that are there already stay, so a slice
// may be stored again.
func (s *Store) AddChunks(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, chunks []Chunk) error {
	doing := fmt.Sprintf("store chunks of run %s of stream %s", runID, id)
	if len(chunks) > maxRowsPerCall {
		return sluice.E("SLUICE-USAGE", doing, fmt.Sprintf("%d chunks in one call, %d are allowed", len(chunks), maxRowsPerCall), "", nil)
	}
	r, err := s.planning(ctx, tx, id, runID, doing)
	if err != nil {
		return err
	}
	return s.storeChunks(ctx, tx, &r, chunks)
}

// storeChunks stores those chunks of a run that are not there.
func (s *Store) storeChunks(ctx context.Context, tx *statedb.Tx, r *run, chunks []Chunk) error {
	id, runID := r.StreamID, r.RunID
	doing := fmt.Sprintf("store chunks of run %s of stream %s", runID, id)
	for _, c := range chunks {
		batch := BatchID(id, runID, c.BatchIndex)
		stored, err := changed(ctx, tx, "BatchInsertChunk", statedb.Args{
			"batch_id": batch, "stream_id": id, "run_id": runID, "run_seq": r.Seq, "batch_index": c.BatchIndex, "path": statedb.Null(c.Path),
			"byte_size": c.ByteSize, "row_count": c.RowCount, "is_final": c.IsFinal, "op": statedb.Null(c.Op),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if !stored {
			continue
		}
		if err := history(ctx, tx, []sluice.BatchID{batch}); err != nil {
			return err
		}
		if c.Spec != nil {
			if err := exec(ctx, tx, "SpecInsert", statedb.Args{"batch_id": batch, "spec": c.Spec}); err != nil {
				return err
			}
		}
	}
	return nil
}

// RestoreChunks stores steps of a sealed run that were lost; those that are there stay.
func (s *Store) RestoreChunks(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, chunks []Chunk) error {
	if err := s.Lock(ctx, tx, id); err != nil {
		return err
	}
	r, err := mustRun(ctx, tx, id, runID)
	if err != nil {
		return err
	}
	if r.State != sluice.RunSealed {
		return refuse(fmt.Sprintf("restore chunks of run %s of stream %s", runID, id), fmt.Sprintf("the run is %s", r.State), "")
	}
	return s.storeChunks(ctx, tx, &r, chunks)
}

func (s *Store) planning(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, doing string) (run, error) {
	if err := s.Lock(ctx, tx, id); err != nil {
		return run{}, err
	}
	r, err := mustRun(ctx, tx, id, runID)
	if err == nil && r.State != sluice.RunPlanning {
		err = refuse(doing, fmt.Sprintf("the run is %s", r.State), "a run's chunks are stored before it is sealed")
	}
	return r, err
}

// SealChunks ends the planning of a run whose chunks 0 … final are all stored: planning → sealed.
func (s *Store) SealChunks(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, final int64) error {
	doing := fmt.Sprintf("seal run %s of stream %s", runID, id)
	r, err := s.planning(ctx, tx, id, runID, doing)
	if err != nil {
		return err
	}
	stored, _, err := statedb.One(ctx, tx, queries.Get("RunCountBatches"), r.args(), statedb.Value[int64])
	if err != nil {
		return err
	}
	if stored != final+1 {
		return refuse(doing, fmt.Sprintf("%d of %d chunks are stored", stored, final+1), "store the missing ones first")
	}
	return exec(ctx, tx, "RunSealChunks", with(r.args(), statedb.Args{"final_index": final}))
}

// SetSlot gives a chunk run its permission to run, or takes it; a chunk that is being applied ends first.
func (s *Store) SetSlot(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, granted bool) error {
	if err := s.Lock(ctx, tx, id); err != nil {
		return err
	}
	return exec(ctx, tx, "RunSlot", statedb.Args{"stream_id": id, "run_id": runID, "granted": granted})
}

// EndChunks ends a chunk run with a reason (replanned, cancelled): its open chunks become failed, the run cancelled. What is
// being applied keeps it from ending: SLUICE-LOAD-STATE. A run that has ended is left as it is.
func (s *Store) EndChunks(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, runID sluice.RunID, reason string) error {
	if err := s.Lock(ctx, tx, id); err != nil {
		return err
	}
	r, err := mustRun(ctx, tx, id, runID)
	if err != nil || r.State.Terminal() {
		return err
	}
	_, err = s.endRun(ctx, tx, &r, fmt.Sprintf("end run %s of stream %s", runID, id), reason, "system", "")
	return err
}

// endRun cancels a run with its open batches, and gives these.
func (s *Store) endRun(ctx context.Context, tx *statedb.Tx, r *run, doing, reason, who, note string) ([]sluice.BatchID, error) {
	ended, err := ids(ctx, tx, "BatchCancel", statedb.Args{"stream_id": r.StreamID, "seq": r.Seq, "reason": reason})
	if err != nil {
		return nil, err
	}
	_, executing, err := statedb.One(ctx, tx, queries.Get("RunHasOpen"), statedb.Args{"stream_id": r.StreamID, "seq": r.Seq}, statedb.Value[int64])
	if err != nil {
		return nil, err
	}
	if executing {
		return nil, refuse(doing, "a batch of it is being applied", "try again when the batch has ended, or pause the stream first")
	}
	if err := history(ctx, tx, ended); err != nil {
		return nil, err
	}
	if err := closeQuarantine(ctx, tx, ended, "discarded", who, "run "+reason); err != nil {
		return nil, err
	}
	if note == "" {
		note = reason
	}
	args := with(r.args(), statedb.Args{"state": sluice.RunCancelled, "old_state": r.State, "reason": note})
	return ended, exec(ctx, tx, "RunEnd", args)
}

// Covered lists the batches that the plan of a chunk run covers: the swap marks them in the lake.
func (s *Store) Covered(ctx context.Context, id sluice.StreamID, runID sluice.RunID) ([]stream.CoveredBatch, error) {
	return stream.CoveredBy(ctx, s.db, id, runID)
}
