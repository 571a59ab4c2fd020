package queue

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// enqueuer holds one call of a producer while its rows are looked at, one after the other.
type enqueuer struct {
	store    *Store
	tx       *statedb.Tx
	req      EnqueueRequest
	stream   sluice.Stream
	run      run
	oldState sluice.RunState // the run's, in the database
	existing map[int64]sluice.Batch
	covered  map[int64]bool
	maxIndex int64 // highest index of the run; -1: none
	added    []sluice.BatchID
	sealed   []sluice.RunID // older runs that this call has sealed
	dirty    bool
}

// load reads the run and those of its batches that the call names; a run that does not exist begins here, which seals
// the runs before it.
func (e *enqueuer) load(ctx context.Context) error {
	id, runID := e.stream.StreamID, e.req.RunID
	e.existing, e.covered, e.maxIndex = map[int64]sluice.Batch{}, map[int64]bool{}, -1
	r, found, err := getRun(ctx, e.tx, id, runID)
	if err != nil {
		return err
	}
	indexes := make([]int64, len(e.req.Batches))
	given := []sluice.BatchID{}
	for i, b := range e.req.Batches {
		indexes[i] = b.BatchIndex
		if b.BatchID != "" {
			given = append(given, b.BatchID)
		}
	}
	if found {
		if !r.live() {
			return refuse(e.req.doing(), fmt.Sprintf("the run is a %s of the planner", r.Kind), "use another run_id")
		}
		e.run, e.oldState = r, r.State
		if err := e.loadBatches(ctx, indexes); err != nil {
			return err
		}
	} else if err := e.begin(ctx); err != nil {
		return err
	}
	if len(given) > 0 {
		taken, err := statedb.All(ctx, e.tx, queries.Get("BatchesByID"), statedb.Args{"ids": given}, scanBatch)
		if err != nil {
			return err
		}
		for _, b := range taken {
			if b.StreamID != id || b.RunID != runID {
				return e.conflict(b.BatchIndex, fmt.Sprintf("batch_id %s belongs to batch %d of run %s of stream %s", b.BatchID, b.BatchIndex, b.RunID, b.StreamID))
			}
		}
	}
	covered, err := statedb.All(ctx, e.tx, queries.Get("BatchCovered"),
		statedb.Args{"stream_id": id, "run_id": runID, "indexes": indexes}, statedb.Value[int64])
	for _, i := range covered {
		e.covered[i] = true
	}
	return err
}

func (e *enqueuer) loadBatches(ctx context.Context, indexes []int64) error {
	there, err := statedb.All(ctx, e.tx, queries.Get("BatchByIndex"), with(e.run.args(), statedb.Args{"indexes": indexes}), scanBatch)
	if err != nil {
		return err
	}
	for _, b := range there {
		e.existing[b.BatchIndex] = b
	}
	highest, _, err := statedb.One(ctx, e.tx, queries.Get("RunMaxIndex"), e.run.args(), statedb.Value[*int64])
	if highest != nil {
		e.maxIndex = *highest
	}
	return err
}

// begin makes the run. The run before it is given up by its producer: it is sealed, so runs never interleave.
func (e *enqueuer) begin(ctx context.Context) error {
	id := e.stream.StreamID
	seq, err := stream.NextSeq(ctx, e.tx, id)
	if err != nil {
		return err
	}
	options, err := toJSON(e.req.Options)
	if err != nil {
		return err
	}
	err = exec(ctx, e.tx, "RunInsert", statedb.Args{
		"stream_id": id, "run_id": e.req.RunID, "seq": seq, "sync_type": e.stream.SyncType, "is_first_ever": e.req.IsFirstEver, "options": options,
	})
	if err != nil {
		return err
	}
	e.sealed, err = statedb.All(ctx, e.tx, queries.Get("RunSealOlder"), statedb.Args{"stream_id": id, "seq": seq}, statedb.Value[sluice.RunID])
	if err != nil {
		return err
	}
	e.run = run{Run: sluice.Run{
		StreamID: id, RunID: e.req.RunID, Seq: seq, Kind: sluice.RunLive, SyncType: e.stream.SyncType,
		IsFirstEver: e.req.IsFirstEver, State: sluice.RunOpen,
	}}
	e.oldState, e.dirty = sluice.RunOpen, true
	return nil
}

func (e *enqueuer) conflict(index int64, what string) error {
	return sluice.E("SLUICE-LOAD-BATCH-CONFLICT", fmt.Sprintf("enqueue batch %d of run %s of stream %s", index, e.req.RunID, e.stream.StreamID),
		what, "a batch never changes once it is accepted; use a new run for other content", nil)
}

func (e *enqueuer) wrongCount(index int64, what string) error {
	return sluice.E("SLUICE-LOAD-RUN-COUNT", fmt.Sprintf("enqueue final row %d of run %s of stream %s", index, e.req.RunID, e.stream.StreamID),
		what, "total_batches is the number of data batches: the final index + 1", nil)
}

func (e *enqueuer) sealedError(index int64) error {
	r := &e.run
	what := "the run is sealed"
	switch {
	case r.State.Terminal() && r.EndedAt != nil:
		what = fmt.Sprintf("the run ended %s on %s", r.State, r.EndedAt.Format(time.RFC3339))
	case r.State.Terminal():
		what = fmt.Sprintf("the run ended %s", r.State)
	case r.sealedBy == sealedByNewer:
		what = "a newer run of the stream has begun, so this one is closed"
	case r.FinalIndex != nil:
		what = fmt.Sprintf("its final index is %d", *r.FinalIndex)
	}
	return sluice.E("SLUICE-LOAD-RUN-SEALED", fmt.Sprintf("enqueue batch %d of run %s of stream %s", index, e.req.RunID, e.stream.StreamID),
		what, "send the data in a new run", nil)
}

// row looks at one row of the call: data, a final marker, or an empty refresh.
func (e *enqueuer) row(ctx context.Context, n NewBatch) (EnqueueResult, error) {
	old, exists := e.existing[n.BatchIndex]
	switch {
	case n.Path == "" && n.TotalBatches != nil && *n.TotalBatches == 0:
		return e.emptyRefresh(ctx, n)
	case n.Path == "":
		return e.marker(n)
	case exists:
		return e.again(n, old)
	}
	if err := e.admitsData(ctx, n.BatchIndex); err != nil {
		return EnqueueResult{}, err
	}
	if n.IsFinal {
		if _, err := e.seal(n, n.BatchIndex); err != nil {
			return EnqueueResult{}, err
		}
	}
	return e.insert(ctx, n)
}

// again answers for a data row whose index is there already: the same content is a duplicate, or, with the final flag,
// the marker of its run (form b).
func (e *enqueuer) again(n NewBatch, old sluice.Batch) (EnqueueResult, error) {
	res := EnqueueResult{BatchID: old.BatchID, BatchIndex: n.BatchIndex, Result: Duplicate}
	differ := func(a, b *int64) bool { return a != nil && b != nil && *a != *b }
	var what string
	switch {
	case n.Path != old.Path:
		what = fmt.Sprintf("it is there with another path, %q", old.Path)
	case n.ETag != "" && old.ETag != "" && n.ETag != old.ETag && !sluice.IsFooterTag(old.ETag), differ(n.ByteSize, old.ByteSize):
		what = "it is there with another etag or size: the file was replaced"
	case differ(n.RowCount, old.RowCount):
		what = fmt.Sprintf("it is there with %d rows", *old.RowCount)
	case n.IsResume != old.IsResume:
		what = fmt.Sprintf("it is there with is_resume = %t", old.IsResume)
	case n.BatchID != "" && n.BatchID != old.BatchID:
		what = fmt.Sprintf("it is there with batch_id %s", old.BatchID)
	}
	if what != "" {
		return res, e.conflict(n.BatchIndex, what)
	}
	if n.IsFinal {
		isNew, err := e.seal(n, n.BatchIndex)
		if err != nil {
			return res, err
		}
		if isNew {
			res.Result = Accepted
		}
	}
	return res, nil
}

// marker handles a final row without a path: with the index of the last data row (form b), or with the next one (c).
// Where its data row has not arrived and no total says so, either form is possible: c is taken until that row arrives
// (run.marker_index).
func (e *enqueuer) marker(n NewBatch) (EnqueueResult, error) {
	old, exists := e.existing[n.BatchIndex]
	res := EnqueueResult{BatchID: old.BatchID, BatchIndex: n.BatchIndex, Result: Duplicate}
	final := n.BatchIndex
	undecided := false
	switch {
	case n.TotalBatches != nil:
		final = *n.TotalBatches - 1
		if final != n.BatchIndex && final != n.BatchIndex-1 {
			return res, e.wrongCount(n.BatchIndex, fmt.Sprintf("total_batches is %d, the marker has index %d", *n.TotalBatches, n.BatchIndex))
		}
	case !exists:
		final, undecided = n.BatchIndex-1, true
	}
	if undecided && e.run.FinalIndex != nil && *e.run.FinalIndex == n.BatchIndex {
		final, undecided = n.BatchIndex, false // another final row has decided it
	}
	isNew, err := e.seal(n, final)
	if err != nil {
		return res, err
	}
	if isNew {
		res.Result = Accepted
		if undecided {
			e.run.markerIndex = &n.BatchIndex
		}
	}
	return res, nil
}

// emptyRefresh handles the final row of a run without data: on a refresh it becomes batch 0, which empties the table.
func (e *enqueuer) emptyRefresh(ctx context.Context, n NewBatch) (EnqueueResult, error) {
	old, exists := e.existing[0]
	res := EnqueueResult{BatchIndex: n.BatchIndex, Result: Duplicate}
	empties := e.run.SyncType == sluice.FullRefresh || e.run.IsFirstEver
	switch {
	case n.BatchIndex != 0:
		return res, e.wrongCount(n.BatchIndex, "total_batches is 0, but the index is not 0")
	case exists && old.Path == "":
		res.BatchID = old.BatchID
		return res, nil
	case e.maxIndex >= 0:
		return res, e.wrongCount(n.BatchIndex, "total_batches is 0, but the run has batches")
	case !empties:
		isNew, err := e.seal(n, -1)
		if isNew {
			res.Result = Accepted
		}
		return res, err
	}
	if err := e.admitsData(ctx, 0); err != nil {
		return res, err
	}
	if e.run.FinalIndex != nil {
		return res, e.conflict(0, fmt.Sprintf("the run's final index is %d", *e.run.FinalIndex))
	}
	e.setFinal(n, 0)
	return e.insert(ctx, n)
}

// admitsData tells whether the run takes a new data row.
func (e *enqueuer) admitsData(ctx context.Context, index int64) error {
	r := &e.run
	undecided := r.markerIndex != nil && *r.markerIndex == index
	switch {
	case r.State.Terminal() && undecided && r.State == sluice.RunSucceeded && r.sealedBy == sealedByFinal:
		// The marker came before its data row and was taken for form c. Nothing was applied beyond, so the run goes on,
		// unless a newer one has begun.
		_, newer, err := statedb.One(ctx, e.tx, queries.Get("RunNewer"), statedb.Args{"stream_id": r.StreamID, "seq": r.Seq}, statedb.Value[int64])
		if err != nil {
			return err
		}
		if newer {
			return e.sealedError(index)
		}
		r.State, r.EndedAt = sluice.RunSealed, nil
	case r.State.Terminal(), r.sealedBy == sealedByNewer:
		return e.sealedError(index)
	case r.FinalIndex != nil && index > *r.FinalIndex && !undecided:
		return e.sealedError(index)
	}
	if undecided {
		r.FinalIndex, r.markerIndex = &index, nil
		e.dirty = true
	}
	return nil
}

// seal stores the final index of a run; false: it is known already.
func (e *enqueuer) seal(n NewBatch, final int64) (isNew bool, err error) {
	r := &e.run
	if n.TotalBatches != nil && *n.TotalBatches != final+1 {
		return false, e.wrongCount(n.BatchIndex, fmt.Sprintf("total_batches is %d, the final index is %d", *n.TotalBatches, final))
	}
	if r.FinalIndex != nil && r.sealedBy == sealedByFinal {
		switch {
		case *r.FinalIndex == final:
			if n.TotalBatches != nil { // now the form of an earlier marker is decided
				r.markerIndex, e.dirty = nil, e.dirty || r.markerIndex != nil
			}
			return false, nil
		case r.markerIndex != nil && *r.markerIndex == final && !r.State.Terminal():
			r.FinalIndex, r.markerIndex, r.TotalBatches, e.dirty = &final, nil, n.TotalBatches, true
			return false, nil
		}
		return false, e.conflict(n.BatchIndex, fmt.Sprintf("the run's final index is %d, this row says %d", *r.FinalIndex, final))
	}
	if r.State.Terminal() || r.sealedBy == sealedByNewer {
		return false, e.sealedError(n.BatchIndex)
	}
	if e.maxIndex > final {
		return false, e.wrongCount(n.BatchIndex, fmt.Sprintf("the final index is %d, but batch %d is there", final, e.maxIndex))
	}
	e.setFinal(n, final)
	return true, nil
}

func (e *enqueuer) setFinal(n NewBatch, final int64) {
	r := &e.run
	r.FinalIndex, r.TotalBatches, r.TotalRows, r.sealedBy = &final, n.TotalBatches, n.TotalRows, sealedByFinal
	if r.State == sluice.RunOpen {
		r.State = sluice.RunSealed
	}
	e.dirty = true
}

// insert stores a data row.
func (e *enqueuer) insert(ctx context.Context, n NewBatch) (EnqueueResult, error) {
	id := n.BatchID
	if id == "" {
		id = BatchID(e.stream.StreamID, e.req.RunID, n.BatchIndex)
	}
	if n.UpstreamState == "" { // a Delta table that is the authority must hold the batch first
		n.UpstreamState = sluice.UpstreamNone
		if e.stream.DeltaURI != "" && n.Path != "" {
			n.UpstreamState = sluice.UpstreamWaiting
		}
	}
	res := EnqueueResult{BatchID: id, BatchIndex: n.BatchIndex, Result: Accepted}
	state, reason := sluice.Queued, ""
	if e.covered[n.BatchIndex] {
		state, reason = sluice.Succeeded, sluice.ReasonCoveredBySnapshot
	}
	err := exec(ctx, e.tx, "BatchInsert", statedb.Args{
		"batch_id": id, "stream_id": e.stream.StreamID, "run_id": e.req.RunID, "run_seq": e.run.Seq, "batch_index": n.BatchIndex,
		"path": statedb.Null(n.Path), "etag": statedb.Null(n.ETag), "byte_size": n.ByteSize, "row_count": n.RowCount,
		"is_final": n.IsFinal, "is_resume": n.IsResume, "upstream_state": n.UpstreamState, "load_state": state,
		"load_reason": statedb.Null(reason),
	})
	if statedb.Unique(err) {
		return res, e.conflict(n.BatchIndex, "its batch_id is used twice")
	}
	if err != nil {
		return res, err
	}
	if e.covered[n.BatchIndex] {
		if err := e.store.markCovered(ctx, e.tx, id); err != nil {
			return res, err
		}
	}
	e.existing[n.BatchIndex] = sluice.Batch{
		BatchID: id, StreamID: e.stream.StreamID, RunID: e.req.RunID, BatchIndex: n.BatchIndex, Path: n.Path, ETag: n.ETag,
		ByteSize: n.ByteSize, RowCount: n.RowCount, IsFinal: n.IsFinal, IsResume: n.IsResume,
	}
	e.added = append(e.added, id)
	e.maxIndex = max(e.maxIndex, n.BatchIndex)
	e.dirty = true
	if n.BatchIndex == 0 && !n.IsResume &&
		(e.run.SyncType == sluice.FullRefresh || e.run.SyncType == sluice.Incremental && e.run.IsFirstEver) {
		e.run.replaceHead = true
	}
	if n.UpstreamState == sluice.UpstreamFailed && (e.run.failIndex == nil || *e.run.failIndex > n.BatchIndex) {
		e.run.failIndex = &n.BatchIndex
	}
	return res, nil
}
