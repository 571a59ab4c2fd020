package backfill_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/backfill"
	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Cases 1, 3 and 6: a new stream with a history, and live batches at once.
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
		e.report("r3", sluice.UpstreamSucceeded)
		e.settle()
		e.want("h1|1000|1000; h2|400|400; live|200|200")
		// What is covered is recognised also if it comes only now, and in the lake if the state DB has forgotten.
		e.batch("r1", sluice.UpstreamSucceeded, 0, 1000, "late")
		e.WantOps(e.id, "r1", " covered_by_snapshot")
		for _, id := range []sluice.BatchID{covered, queue.BatchID(e.id, "r1", 0)} {
			if c, err := e.Session().ReadControl(t.Context(), e.id, id); err != nil || c.Marker == nil || c.Marker.Op != "covered" {
				t.Errorf("%+v, %v", c.Marker, err)
			}
		}
		targets, err := e.Streams.Targets(t.Context(), e.id)
		if err != nil || len(targets) != 1 || targets[0].Reason != "swap" || targets[0].FromSnapshot == 0 {
			t.Errorf("%+v, %v", targets, err)
		}
	})
}

// Case 5: a run of which the version holds the first half.
func TestRunAcrossTheVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, kinds{})
	e.incremental()
	e.history.commit([]backfill.File{e.file(0, 100, "h")}, backfill.Key{RunID: "r", BatchIndex: 0}, backfill.Key{RunID: "r", BatchIndex: 1})
	var rows []queue.NewBatch
	for n := range 4 {
		up := sluice.UpstreamSucceeded
		if n > 1 {
			up = sluice.UpstreamWaiting
		}
		rows = append(rows, queue.NewBatch{BatchIndex: int64(n), Path: e.File(rowsOf(n*50, n*50+50, "live")), IsFinal: n == 3, UpstreamState: up})
	}
	if _, err := e.Queue.Enqueue(t.Context(), queue.EnqueueRequest{StreamID: e.id, RunID: "r", Batches: rows}); err != nil {
		t.Fatal(err)
	}
	e.settle()
	e.report("r", sluice.UpstreamSucceeded)
	e.settle()
	e.WantOps(e.id, "r", " covered_by_snapshot", " covered_by_snapshot", "merge", "merge")
	e.want("h|100|100; live|100|100")
	if r, err := e.Queue.Run(t.Context(), e.id, "r"); err != nil || r.State != sluice.RunSucceeded {
		t.Errorf("%+v, %v", r, err)
	}
}

// Case 12: the loader dies between the swap's COMMIT and the state DB. Also what auto-prime is for: a halted plan whose swap
// the lake has.
func TestDeathBetweenSwapAndPriming(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{e.file(0, 100, "h")})
		e.pass()
		p := e.wantPlan(stream.PlanRunning)
		died := make(chan struct{})
		e.faults.recorded = func(a queue.Applied) error {
			if a.Op != sluice.OpReplace || a.Origin == sluice.OriginRecovered {
				return nil
			}
			close(died)
			return queue.ErrLeaseLost // nothing of it reaches the state DB
		}
		l := e.Loader()
		<-died
		l.Kill()
		e.wantLifecycle(sluice.Backfilling)
		e.batch("live", sluice.UpstreamNone, 90, 110, "live")
		e.settle()
		e.wantLifecycle(sluice.Primed)
		e.want("h|90|90; live|20|20")
		swap := queue.BatchID(e.id, p.RunID, 2)
		b, _, err := e.Queue.Batch(t.Context(), swap)
		if err != nil || b.LoadState != sluice.Succeeded {
			t.Errorf("%+v, %v", b, err)
		}
		targets, err := e.Streams.Targets(t.Context(), e.id)
		if err != nil || len(targets) != 1 || targets[0].FromSnapshot == 0 || targets[0].LakeTableID == 0 {
			t.Errorf("%+v, %v", targets, err)
		}
	})
}

// Case 14: a worker of a plan that was replaced leaves the new plan's staging table alone.
func TestReplanLeavesOldChunksBehind(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{big(e.file(0, 100, "old"))})
		e.pass()
		first := e.wantPlan(stream.PlanRunning)
		work, session := e.claim(), e.Session() // a worker of generation 1, which will wake up too late
		if _, err := e.Queue.Start(t.Context(), work.lease, work.Batch.BatchID); err != nil {
			t.Fatal(err)
		}
		if _, err := e.planner.Store().Replan(t.Context(), e.id, nil, tester, false); sluice.CodeOf(err) != "SLUICE-BACKFILL-BUSY" {
			t.Fatalf("replan while a step is applied: %v", err)
		}
		e.fail(work)
		e.history.commit([]backfill.File{big(e.file(100, 200, "new"))})
		if _, err := e.planner.Store().Replan(t.Context(), e.id, nil, tester, false); err != nil {
			t.Fatal(err)
		}
		e.settle()
		second := e.wantPlan(stream.PlanDone)
		if second.Generation != first.Generation+1 || second.RunID == first.RunID {
			t.Errorf("%+v", second)
		}
		e.want("new|100|100; old|100|100")
		// The old worker's transaction fails at the fence, and its staging table has another name.
		_, err := session.Apply(t.Context(), lake.Write{StreamID: e.id, Seq: 0, RunSeq: work.Run.Seq, RunID: work.Run.RunID, BatchID: work.Batch.BatchID, Change: lake.Change{
			Op: sluice.OpCreate, Target: lake.StagingTable("team_1_data_imports", e.id, 1), Staged: &lake.Staged{Layout: lake.Layout{Columns: e.history.columns}},
		}})
		if sluice.CodeOf(err) != "SLUICE-LOAD-FENCE-LOST" {
			t.Errorf("the stale worker: %v", err)
		}
		e.want("new|100|100; old|100|100")
	})
}

// Case 22: files of the planned version are removed. Three times a day a new plan is made by itself; then somebody must look.
func TestFilesRemovedUnderway(t *testing.T) {
	t.Parallel()
	e := newEnv(t, kinds{})
	e.incremental()
	e.history.commit([]backfill.File{e.file(0, 100, "h")})
	e.pass()
	gone := e.wantPlan(stream.PlanRunning)
	e.history.remove()
	e.history.commit([]backfill.File{e.file(0, 120, "kept")})
	e.until("the newer version is loaded", func() bool { return e.plan().State == stream.PlanDone })
	p := e.wantPlan(stream.PlanDone)
	if p.Generation != gone.Generation+1 || p.Replans != 1 {
		t.Errorf("%+v", p)
	}
	e.want("kept|120|120")
	// Now it never ends.
	if _, err := e.planner.Store().Start(t.Context(), e.id, stream.NewPlan{Kind: sluice.RunBackfill, SourceURI: "file:///history"}, tester, false); err != nil {
		t.Fatal(err)
	}
	e.history.gone = true
	e.until("the plan is halted", func() bool { return e.plan().State == stream.PlanHalted })
	p = e.wantPlan(stream.PlanHalted)
	if p.Replans != 3 || !strings.Contains(p.LastError, "vacuum") || p.SlotAt != nil {
		t.Errorf("%+v", p)
	}
	e.want("kept|120|120")
}

// Cases 24 and 27: the staging table has the final schema, and the live table's layout comes with it, also what was changed
// while the history was loading.
func TestLayoutComesAcrossTheSwap(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{e.file(0, 100, "h")})
		e.settle()
		table := e.Table(e.id)
		for _, q := range []string{
			"ALTER TABLE " + table.SQL() + " SET PARTITIONED BY (v)",
			"ALTER TABLE " + table.SQL() + " SET SORTED BY (id DESC)",
			"COMMENT ON TABLE " + table.SQL() + " IS 'all of it'",
			"COMMENT ON COLUMN " + table.SQL() + ".id IS 'the key'",
		} {
			e.exec(q)
		}
		e.option(table, "parquet_compression", "zstd")
		// The history has grown by a column, and by a file that has no such column: the table gets it from the start.
		e.history.columns = columns("id", "BIGINT", "v", "VARCHAR", "extra", "INTEGER")
		e.history.commit([]backfill.File{e.wide(100, 150)})
		e.start(sluice.RunCopy)
		e.pass()
		e.wantPlan(stream.PlanRunning)
		e.exec("COMMENT ON TABLE " + table.SQL() + " IS 'changed meanwhile'")
		e.settle()
		e.wantPlan(stream.PlanDone)
		l, err := e.Session().DescribeLayout(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(l.Partition, ",") != `"v"` || len(l.Sort) != 1 || !strings.HasPrefix(l.Sort[0], `"id" DESC`) || l.Comment != "changed meanwhile" ||
			l.Comments["id"] != "the key" || l.Options["parquet_compression"] != "zstd" || len(l.Columns) != 3 {
			t.Errorf("%+v", l)
		}
		if got := e.Rows(e.id, "SELECT count(*), count(extra), sum(id) FROM {t}"); got[0] != "150|50|11175" {
			t.Error(got)
		}
	})
}

// Case 28: what is staged is not what was planned: the live table stays as it was.
func TestWrongRowsNeverGoLive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(e *env) []backfill.File
		want string
	}{
		"rows": {func(e *env) []backfill.File {
			f := e.file(0, 100, "h")
			f.Rows = 101
			return []backfill.File{f}
		}, "rows: expected 101, observed 100"},
		"keys": {func(e *env) []backfill.File { return []backfill.File{e.file(0, 100, "h"), e.file(99, 120, "h")} }, "keys are unique"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, kinds{})
			e.incremental()
			e.history.commit([]backfill.File{e.file(0, 10, "live")})
			e.settle()
			e.history.commit(c.make(e))
			e.history.drop(0)
			e.start(sluice.RunBackfill)
			e.settle()
			p := e.wantPlan(stream.PlanHalted)
			if p.SlotAt != nil {
				t.Error("a halted plan keeps its slot")
			}
			st, err := e.planner.Status(t.Context(), e.id)
			if err != nil || st.Next == nil || !strings.HasPrefix(*st.Next, "sluice backfill replan") {
				t.Errorf("%+v, %v", st, err)
			}
			last := st.Steps[len(st.Steps)-1]
			if last.LoadState != sluice.Quarantined || last.ErrorCode != "SLUICE-BACKFILL-VERIFY" || !strings.Contains(last.ErrorText, c.want) {
				t.Errorf("%+v", last)
			}
			e.want("live|10|10")
			// The chunk cannot be given up; the plan can. Live batches go on.
			if _, err := e.Queue.QuarantineDiscard(t.Context(), queue.BatchID(e.id, p.RunID, last.BatchIndex), queue.Operator{Who: "test"}); sluice.CodeOf(err) != "SLUICE-LOAD-STATE" {
				t.Error(err)
			}
			if _, err := e.planner.Store().Cancel(t.Context(), e.id, tester, false); err != nil {
				t.Fatal(err)
			}
			e.wantLifecycle(sluice.Primed)
			e.batch("next", sluice.UpstreamNone, 5, 15, "next")
			e.settle()
			e.want("live|5|5; next|10|10")
		})
	}
}

// Case 29: a reader with an open transaction sees the old table to its end.
func TestReaderAcrossTheSwap(t *testing.T) {
	t.Parallel()
	e := newEnv(t, kinds{})
	e.incremental()
	e.history.commit([]backfill.File{e.file(0, 10, "old")})
	e.settle()
	reader := e.House.Connect(e.Org)
	if _, err := reader.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	count := "SELECT v, count(*) FROM " + e.Table(e.id).SQL() + " GROUP BY v"
	before := e.House.RowsOn(reader, count)
	e.history.commit([]backfill.File{e.file(10, 30, "new")})
	e.start(sluice.RunBackfill)
	e.settle()
	e.want("new|20|20; old|10|10")
	if got := e.House.RowsOn(reader, count); strings.Join(got, ";") != strings.Join(before, ";") {
		t.Errorf("the reader saw %v, before %v", got, before)
	}
	if _, err := reader.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
}

// Case 26: a write into the live table between the swap's look and its transaction makes one of both fail.
func TestInsertAgainstSwap(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{e.file(0, 10, "old")})
		e.settle()
		e.history.commit([]backfill.File{e.file(10, 30, "new")})
		e.start(sluice.RunBackfill)
		e.pass()
		file := e.File(rowsOf(30, 40, "writer"))
		once := false
		e.faults.hook = func(w lake.Write) {
			if w.Change.Op != sluice.OpReplace || once {
				return
			}
			once = true
			c, err := e.Session().ReadControl(t.Context(), e.id, "")
			if err != nil {
				t.Error(err)
				return
			}
			_, err = e.Session().Apply(t.Context(), lake.Write{StreamID: e.id, Seq: c.Fence.Seq, RunSeq: c.Fence.RunSeq, BatchIndex: c.Fence.BatchIndex, RunID: "w", BatchID: "7b000000-0000-4000-8000-000000000001", Change: lake.Change{
				Op: sluice.OpInsert, Target: e.Table(e.id), Path: file, WantRows: 10,
				Assign: []lake.Assignment{{To: e.history.columns[0], From: "id"}, {To: e.history.columns[1], From: "v"}},
			}})
			if err != nil {
				t.Errorf("the writer that came first: %v", err)
			}
		}
		e.settle()
		if !once {
			t.Fatal("the swap was not met")
		}
		// The writer had the fence; the swap was done again with the fence read anew.
		e.wantPlan(stream.PlanDone)
		e.want("new|20|20; old|10|10")
	})
}

// A copy on a primed stream that is cancelled before its swap leaves nothing behind (case 32), and one that is not replaces
// the table with user checks held.
func TestCopy(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, e *env) {
		e.incremental()
		e.history.commit([]backfill.File{e.file(0, 10, "old")})
		e.settle()
		e.history.commit([]backfill.File{e.file(10, 30, "new")})
		e.start(sluice.RunCopy)
		e.pass()
		p := e.wantPlan(stream.PlanRunning)
		e.batch("live", sluice.UpstreamNone, 100, 101, "live")
		if _, err := e.Queue.CancelRun(t.Context(), e.id, p.RunID, queue.Operator{Who: "test"}); err != nil {
			t.Fatal(err)
		}
		e.wantLifecycle(sluice.Primed)
		e.settle()
		e.want("live|1|1; old|10|10")
		// The table has a batch by now that the version is not proven to have.
		if _, err := e.planner.Start(t.Context(), e.id, stream.PlanRequest{Kind: sluice.RunCopy}, tester); sluice.CodeOf(err) != "SLUICE-BACKFILL-BEHIND" {
			t.Fatal(err)
		}
		checks := []stream.Check{{Name: "rows", SQL: "SELECT count(*) FROM {table}", Expected: 31, Tolerance: 0.5}}
		ask := stream.PlanRequest{Kind: sluice.RunCopy, CoveredAnswer: "all", Options: stream.PlanOptions{Checks: checks}}
		if _, err := e.planner.Start(t.Context(), e.id, ask, tester); err != nil {
			t.Fatal(err)
		}
		e.settle()
		e.wantPlan(stream.PlanHalted)
		e.want("live|1|1; old|10|10")
		if _, err := e.planner.Cancel(t.Context(), e.id, tester, false); err != nil {
			t.Fatal(err)
		}
		ask.Options.Checks[0].Tolerance = 1
		if _, err := e.planner.Start(t.Context(), e.id, ask, tester); err != nil {
			t.Fatal(err)
		}
		e.settle()
		e.want("new|20|20; old|10|10")
		report, err := e.planner.Verify(t.Context(), e.id, stream.PlanRequest{Options: ask.Options}, true)
		if err != nil || !report.OK || report.Rows != 30 {
			t.Errorf("%+v, %v", report, err)
		}
		report, err = e.planner.Verify(t.Context(), e.id, stream.PlanRequest{Version: new(int64)}, true)
		if err != nil || report.OK || len(report.Differences) != 1 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// Case 31: a table that has lost a file fails the look at its rows, though the catalog knows their number.
func TestVerifyOpensTheFiles(t *testing.T) {
	t.Parallel()
	e := newEnv(t, kinds{})
	e.incremental()
	e.history.commit([]backfill.File{e.file(0, 1000, "h")})
	e.settle()
	found, err := filepath.Glob(filepath.Join(e.House.Dir, string(e.Org), "data", "*", "*", "*.parquet"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := e.planner.Verify(t.Context(), e.id, stream.PlanRequest{}, false); err == nil {
		t.Errorf("%+v", r)
	}
}
