package load

import (
	"context"
	"encoding/json"
	"errors"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Sources gets ready what chunks read. The planner's side hands it over; this package knows nothing of the source's format.
type Sources interface {
	// Prepare gives the parts of a chunk. It writes what they need beside the source's own files, under names that hold the
	// plan's hash: repeated, it gives the same.
	Prepare(ctx context.Context, s sluice.Stream, run sluice.RunID, index int64, source json.RawMessage) ([]lake.Part, error)
}

// look describes the live and the staging table and, before a swap, counts what is staged.
func (w *worker) look(ctx context.Context, a Look) Event {
	var e Looked
	target, err := w.session.DescribeTarget(ctx, a.Live)
	if err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseDescribe, "look at the live table")}
	}
	e.SchemaExists = target.SchemaExists
	if e.Live, err = w.session.DescribeLayout(ctx, a.Live); err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseDescribe, "look at the live table")}
	}
	if a.Verify == nil {
		return e
	}
	if e.Staging, err = w.session.DescribeLayout(ctx, a.Staging); err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseDescribe, "look at the staging table")}
	}
	if !e.Staging.Exists {
		return e
	}
	if e.Written, err = w.session.RowsOfRun(ctx, w.lease.StreamID, w.batch.RunID); err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseControl, "read the markers of the run")}
	}
	if e.Verified, err = w.session.VerifyTable(ctx, a.Staging, a.Verify); err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseVerify, "verify the staging table")}
	}
	covered, err := w.loader.deps.Queue.Covered(ctx, w.lease.StreamID, w.batch.RunID)
	if err != nil {
		return Lost{err}
	}
	for _, c := range covered {
		m := lake.Marker{RunID: c.RunID, BatchIndex: c.BatchIndex, BatchID: c.BatchID, RunSeq: -1}
		if m.BatchID == "" {
			m.BatchID = queue.BatchID(w.lease.StreamID, c.RunID, c.BatchIndex)
		}
		if c.RunSeq != nil {
			m.RunSeq = *c.RunSeq
		}
		e.Covered = append(e.Covered, m)
	}
	return e
}

func (w *worker) prepare(ctx context.Context, a Prepare) Event {
	sources := w.loader.deps.Sources
	if sources == nil {
		return Lost{errors.New("this loader has no way to read the source of a chunk")}
	}
	ctx, cancel := context.WithTimeout(ctx, w.loader.cfg.ChunkTimeout)
	defer cancel()
	var e Prepared
	var err error
	if e.Staging, err = w.session.DescribeLayout(ctx, a.Staging); err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseDescribe, "look at the staging table")}
	}
	if e.Parts, err = sources.Prepare(ctx, w.stream, w.batch.RunID, w.batch.BatchIndex, a.Source); err != nil {
		return Failed{sourceFailure(doing(w.batch), err)}
	}
	return e
}

// sourceFailure classifies what reading a source came to: a store that does not answer, or a version that is gone, is not
// the chunk's fault.
func sourceFailure(doing string, err error) *lake.Failure {
	var f *lake.Failure
	if errors.As(err, &f) {
		return f
	}
	class := lake.Permanent
	switch sluice.CodeOf(err) {
	case codeGone, "SLUICE-DELTA-STORE", "SLUICE-LOAD-STORE-AWAY":
		class = lake.Deferred
	case "":
		class = lake.Counted
	}
	var e *sluice.Error
	if !errors.As(err, &e) {
		e = sluice.E("SLUICE-LOAD-UNCLASSIFIED", doing, err.Error(), "it is tried again by itself", err)
	}
	return lake.Fail(lake.PhaseDescribe, class, e)
}
