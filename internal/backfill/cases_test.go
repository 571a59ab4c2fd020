package backfill_test

import (
	"testing"

	"sluice/internal/backfill"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Case 1: a new stream with a history, and live batches at once.
func TestHistoryThenLiveBatches(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{big(e.file(0, 1000, "h1"))}, backfill.Key{RunID: "r1"})
		e.history.commit([]backfill.File{big(e.file(1000, 1500, "h2"))}, backfill.Key{RunID: "r2"})
		covered := e.batch("r2", sluice.UpstreamSucceeded, 1000, 1500, "again")
		e.batch("r3", sluice.UpstreamWaiting, 1400, 1600, "live")
		e.Load() // no planner has looked at it: nothing is claimed
		e.WantOps(e.id, "r2", "queued")
		e.settle()
		e.wantLifecycle(sluice.Primed)
		p := e.wantPlan(stream.PlanDone)
		if p.Covered != 2 || *p.ChunkCount != 2 || p.ChunksApplied != 4 || p.RowsApplied < 1500 {
			t.Errorf("%+v", p)
		}
		e.WantOps(e.id, "r2", " covered_by_snapshot")
		e.WantOps(e.id, string(p.RunID), "create", "insert", "insert", "replace")
		e.want("h1|1000|1000; h2|500|500")
		if err := e.Queue.Upstream(e.Context(), e.Batches(e.id, "r3")[0].BatchID, sluice.UpstreamSucceeded); err != nil {
			t.Fatal(err)
		}
		e.settle()
		e.want("h1|1000|1000; h2|400|400; live|200|200")
		// What is covered is recognised also if it comes only now, and in the lake if the state DB has forgotten.
		e.batch("r1", sluice.UpstreamSucceeded, 0, 1000, "late")
		e.WantOps(e.id, "r1", " covered_by_snapshot")
		if c, err := e.Session().ReadControl(t.Context(), e.id, covered); err != nil || c.Marker == nil || c.Marker.Op != "covered" {
			t.Errorf("%+v, %v", c.Marker, err)
		}
		if c, err := e.Session().ReadControl(t.Context(), e.id, queue.BatchID(e.id, "r1", 0)); err != nil || c.Marker == nil {
			t.Errorf("%+v, %v", c.Marker, err)
		}
		targets, err := e.Streams.Targets(t.Context(), e.id)
		if err != nil || len(targets) != 1 || targets[0].Reason != "swap" || targets[0].FromSnapshot == 0 {
			t.Errorf("%+v, %v", targets, err)
		}
	})
}
