package backfill_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"sluice/internal/backfill"
	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
	"sluice/internal/testkit/pg"
)

// desk is a planner over a real state DB, without a lake: what chunks do is played by the test.
type desk struct {
	testing.TB
	open    func() *statedb.DB
	db      *statedb.DB
	control *control.Store
	queue   *queue.Store
	streams *stream.Store
	history *history
	lakes   *noLakes
	planner *backfill.Planner
	now     time.Time
	id      sluice.StreamID
}

// noLakes are lakes without tables, in which markers can be put.
type noLakes struct{ applied map[sluice.BatchID]bool }

func (l *noLakes) Layout(context.Context, sluice.Org, lake.Table) (lake.Layout, error) {
	return lake.Layout{}, nil
}

func (l *noLakes) Exists(context.Context, sluice.Org, lake.Table) (bool, error) { return false, nil }

func (l *noLakes) Applied(_ context.Context, _ sluice.Org, _ sluice.StreamID, b sluice.BatchID) (bool, error) {
	return l.applied[b], nil
}

func (l *noLakes) Verify(context.Context, sluice.Org, lake.Table, *lake.Verify) (lake.Verified, error) {
	return lake.Verified{}, nil
}

// onBoth runs a test on both kinds of state DB.
func onBoth(t *testing.T, fn func(d *desk)) {
	t.Helper()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dsn := filepath.Join(t.TempDir(), "state.db")
			if kind == statedb.PostgreSQL {
				dsn = pg.New(t)
			}
			open := func() *statedb.DB {
				db, err := statedb.Open(t.Context(), dsn)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				return db
			}
			d := &desk{TB: t, open: open, db: open(), history: &history{columns: columns("id", "BIGINT", "v", "VARCHAR")}, lakes: &noLakes{applied: map[sluice.BatchID]bool{}}}
			if err := d.db.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			d.advance(0)
			d.control = control.New(d.db)
			d.queue = queue.New(d.db, queue.Config{Paths: func(context.Context, sluice.Org, string) error { return nil }})
			d.streams = stream.New(d.db, d.queue)
			d.planner = d.plannerOn(d.db, "p1", backfill.Caps{Global: 5, PerOrg: 1})
			d.org("acme", 1)
			fn(d)
		})
	}
}

func (d *desk) plannerOn(db *statedb.DB, owner string, caps backfill.Caps) *backfill.Planner {
	q := queue.New(db, queue.Config{})
	return backfill.New(backfill.Config{Owner: owner, Instance: owner, Caps: caps, Quiet: time.Minute}, backfill.Deps{
		DB: db, Queue: q, Streams: stream.New(db, q), Source: d.history, Lakes: d.lakes,
	})
}

func (d *desk) advance(by time.Duration) {
	d.now = d.now.Add(by)
	now := d.now
	d.db.SetNow(&now)
}

func (d *desk) org(name string, team int64) {
	d.Helper()
	if _, err := d.control.CreateOrg(d.Context(), control.NewOrg{Org: sluice.Org(name), State: sluice.OrgReady, Limits: &control.Limits{}}, tester); err != nil {
		d.Fatal(err)
	}
	if _, err := d.control.CreateTeam(d.Context(), control.NewTeam{Org: sluice.Org(name), TeamID: sluice.TeamID(team)}, tester); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) stream(org string, team int64, sync sluice.SyncType, uri string) sluice.StreamID {
	d.Helper()
	n := stream.NewStream{Org: sluice.Org(org), TeamID: sluice.TeamID(team), SourceType: "pg", Name: fmt.Sprintf("t%d", d.now.UnixNano()), SyncType: sync, DeltaURI: uri}
	n.Options.PrimaryKeys = []string{"id"}
	s, err := d.streams.Add(d.Context(), n, tester)
	if err != nil {
		d.Fatal(err)
	}
	d.advance(time.Millisecond)
	return s.StreamID
}

func (d *desk) incremental() { d.id = d.stream("acme", 1, sluice.Incremental, "file:///history") }

// files are files that nobody reads.
func files(n int) []backfill.File {
	out := make([]backfill.File, n)
	for i := range out {
		out[i] = backfill.File{Path: fmt.Sprintf("f%d", i), Size: 2 << 30, Rows: 10, Raw: []byte(fmt.Sprintf(`{"Path":"f%d","Rows":10}`, i))}
	}
	return out
}

func (d *desk) pass() {
	d.Helper()
	if err := d.planner.Pass(d.Context()); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) lifecycle(want sluice.Lifecycle) {
	d.Helper()
	s, err := d.streams.Detail(d.Context(), d.id)
	if err != nil || s.Lifecycle != want {
		d.Fatalf("the stream is %s (%s), want %s: %v", s.Lifecycle, s.LifecycleReason, want, err)
	}
}

func (d *desk) plan(want stream.PlanState) stream.Plan {
	d.Helper()
	p, found, err := stream.LastPlan(d.Context(), d.db, d.id)
	if err != nil || !found || p.State != want {
		d.Fatalf("the plan is %s (%s, %s, deferred %s), want %s: %v", p.State, p.ErrorCode, p.LastError, p.DeferReason, want, err)
	}
	return p
}

func (d *desk) noPlan() {
	d.Helper()
	if p, found, err := stream.LastPlan(d.Context(), d.db, d.id); err != nil || found {
		d.Fatalf("%+v, %v", p, err)
	}
}

func (d *desk) enqueue(run string, first bool, n int, up sluice.UpstreamState, final bool) {
	d.Helper()
	r := queue.EnqueueRequest{StreamID: d.id, RunID: sluice.RunID(run), IsFirstEver: first}
	for i := range n {
		r.Batches = append(r.Batches, queue.NewBatch{BatchIndex: int64(i), Path: fmt.Sprintf("/x/%s-%d.parquet", run, i), IsFinal: final && i == n-1, UpstreamState: up})
	}
	if _, err := d.queue.Enqueue(d.Context(), r); err != nil {
		d.Fatal(err)
	}
}

// apply plays a loader for at most n batches, each with a fence value of its own, and gives what it applied.
func (d *desk) apply(n int) (done []string) {
	d.Helper()
	leases, err := d.queue.Claim(d.Context(), queue.ClaimRequest{Owner: "loader", Free: 1, FreeChunk: 1})
	if err != nil || len(leases) == 0 {
		return nil
	}
	defer func() { _ = d.queue.Release(d.Context(), leases[0]) }()
	for range n {
		w, err := d.queue.Next(d.Context(), leases[0])
		if err != nil {
			return done
		}
		if _, err := d.queue.Start(d.Context(), leases[0], w.Batch.BatchID); err != nil {
			d.Fatal(err)
		}
		d.advance(time.Second)
		fence := d.now.Unix()
		if err := d.queue.Succeed(d.Context(), leases[0], queue.Applied{BatchID: w.Batch.BatchID, Op: w.Batch.Op, FenceSeq: fence, RowsWritten: 10}); err != nil {
			d.Fatal(err)
		}
		done = append(done, fmt.Sprintf("%s/%d", w.Run.Kind, w.Batch.BatchIndex))
	}
	return done
}

// Cases 2 and 23, and the rest of the bootstrap: nothing is claimed before a planner has looked, and an empty moment or an
// error is never taken for "no history".
func TestBootstrap(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.incremental()
		d.enqueue("r1", false, 1, sluice.UpstreamSucceeded, true)
		if got := d.apply(1); len(got) > 0 {
			d.Fatal(got)
		}
		d.history.commit(nil) // a log without files
		d.pass()
		d.lifecycle(sluice.PendingBackfill)
		d.advance(30 * time.Second)
		d.pass()
		d.lifecycle(sluice.PendingBackfill)
		d.history.fail(sluice.E("SLUICE-DELTA-STORE", "read", "403", "", nil))
		d.advance(10 * time.Minute)
		d.pass()
		d.lifecycle(sluice.PendingBackfill)
		d.noPlan()
		st, err := d.planner.Status(d.Context(), d.id)
		if err != nil || st.ErrorCode != "SLUICE-DELTA-STORE" || !st.Failing {
			d.Errorf("%+v, %v", st, err)
		}
		d.history.fail(nil)
		d.history.commit(files(1)) // the purge is over
		d.advance(time.Hour)
		d.pass()
		d.plan(stream.PlanRunning)
		// One that is really empty.
		d.history.versions, d.history.named = nil, nil
		d.history.commit(nil)
		d.incremental()
		d.pass()
		d.advance(61 * time.Second)
		d.pass()
		d.lifecycle(sluice.Primed)
		// No log at all: primed after ten minutes, unless there have been batches.
		d.history.versions, d.history.named = nil, nil
		d.incremental()
		quiet := d.id
		d.incremental()
		d.enqueue("r1", false, 1, sluice.UpstreamSucceeded, true)
		for range 40 {
			d.pass()
			d.advance(20 * time.Second)
		}
		d.lifecycle(sluice.PendingBackfill)
		if st, err := d.planner.Status(d.Context(), d.id); err != nil || st.ErrorCode != "SLUICE-BACKFILL-NO-TABLE" {
			d.Errorf("%+v, %v", st, err)
		}
		d.id = quiet
		d.lifecycle(sluice.Primed)
	})
}

// Case 9: a run that replaces the table defers planning, without a slot; one that comes while the history loads supersedes
// it. Cases 10 and 11: only its completion is the proof.
func TestReplaceRunAndPlan(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.history.commit(files(2))
		d.incremental()
		d.enqueue("refresh", true, 2, sluice.UpstreamSucceeded, true)
		d.pass()
		p := d.plan(stream.PlanWanted)
		if p.SlotAt != nil || p.DeferReason != "replace_run" || p.Failures != 0 {
			d.Errorf("%+v", p)
		}
		if got := fmt.Sprint(d.apply(9)); got != "[live/0 live/1]" {
			d.Fatal(got)
		}
		d.lifecycle(sluice.Primed) // the refresh was the whole table
		d.plan(stream.PlanCancelled)

		d.incremental()
		d.pass()
		p = d.plan(stream.PlanRunning)
		if got := fmt.Sprint(d.apply(2)); got != "[backfill/0 backfill/1]" {
			d.Fatal(got)
		}
		d.enqueue("refresh", true, 3, sluice.UpstreamSucceeded, true)
		d.plan(stream.PlanSuperseded)
		d.lifecycle(sluice.NeedsResync)
		if got := fmt.Sprint(d.apply(2)); got != "[live/0 live/1]" {
			d.Fatal(got)
		}
		d.lifecycle(sluice.NeedsResync) // not before it is complete
		d.apply(1)
		d.lifecycle(sluice.Primed)
		// A refresh that was complete before the parking proves nothing.
		if _, err := d.queue.Reset(d.Context(), d.id, queue.Operator{Who: "test"}); err != nil {
			d.Fatal(err)
		}
		d.pass()
		d.lifecycle(sluice.NeedsResync)
		d.start()
		d.pass()
		d.apply(9)
		d.lifecycle(sluice.Primed)
	})
}

func (d *desk) start() {
	d.Helper()
	n := stream.NewPlan{Kind: sluice.RunBackfill, SourceURI: "file:///history"}
	if _, err := d.planner.Store().Start(d.Context(), d.id, n, tester, false); err != nil {
		d.Fatal(err)
	}
}

// Case 7: what is not proven is asked for, never guessed.
func TestCoverageIsAskedFor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.history.commit(files(1))
		d.incremental()
		d.enqueue("r1", false, 1, sluice.UpstreamNone, true)
		d.pass()
		p := d.plan(stream.PlanWanted)
		if p.ErrorCode != "SLUICE-BACKFILL-COVERAGE" || p.SlotAt != nil || p.Failures != 1 || p.NotBefore == nil {
			d.Errorf("%+v", p)
		}
		st, err := d.planner.Status(d.Context(), d.id)
		if err != nil || st.Next == nil || *st.Next != fmt.Sprintf("sluice backfill replan %s --covered …", d.id) {
			d.Errorf("%+v, %v", st, err)
		}
		preview, err := d.planner.Preview(d.Context(), d.id, stream.PlanRequest{})
		if err != nil || len(preview.Unproven) != 1 || len(preview.Refused) != 1 {
			d.Errorf("%+v, %v", preview, err)
		}
		if _, err := d.planner.Replan(d.Context(), d.id, stream.PlanRequest{CoveredAnswer: "r1:0"}, tester); err != nil {
			d.Fatal(err)
		}
		d.pass()
		p = d.plan(stream.PlanRunning)
		if p.Generation != 2 || p.Covered != 1 {
			d.Errorf("%+v", p)
		}
		d.apply(9)
		d.lifecycle(sluice.Primed)
		if b, _, err := d.queue.Batch(d.Context(), queue.BatchID(d.id, "r1", 0)); err != nil || b.LoadReason != sluice.ReasonCoveredBySnapshot {
			d.Errorf("%+v, %v", b, err)
		}
	})
}

// Case 15: planners of many processes never exceed the caps, and each plan has one run. Case 16: deleted streams hold nothing.
func TestCapsHold(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		const orgs, perOrg, global = 8, 3, 5
		d.history.commit(files(1))
		caps := backfill.Caps{Global: global, PerOrg: 1}
		ids := map[sluice.StreamID]bool{}
		for o := range orgs {
			org := fmt.Sprintf("org-%d", o)
			d.org(org, int64(100+o))
			for range perOrg {
				ids[d.stream(org, int64(100+o), sluice.Incremental, "file:///history")] = true
			}
		}
		var planners []*backfill.Planner
		for n := range 3 {
			db := d.open()
			planners = append(planners, d.plannerOn(db, fmt.Sprint("planner", n), caps))
		}
		check := func() {
			used := map[sluice.Org]int{}
			plans, err := stream.OpenPlans(d.Context(), d.db, "")
			if err != nil {
				d.Fatal(err)
			}
			total := 0
			for _, p := range plans {
				if p.SlotAt != nil {
					used[p.Org]++
					total++
				}
				if used[p.Org] > 1 {
					d.Fatalf("org %s has %d slots", p.Org, used[p.Org])
				}
			}
			if total > global {
				d.Fatalf("%d slots", total)
			}
		}
		for range 12 {
			var wg sync.WaitGroup
			for _, p := range planners {
				wg.Go(func() {
					if err := p.Pass(d.Context()); err != nil {
						d.Error(err)
					}
				})
			}
			wg.Wait()
			check()
			// Whoever has a slot is deleted: the slot is free at once, without a pass.
			plans, err := stream.OpenPlans(d.Context(), d.db, "")
			if err != nil {
				d.Fatal(err)
			}
			for _, p := range plans {
				if p.SlotAt == nil {
					continue
				}
				if p.State != stream.PlanRunning {
					d.Fatalf("%+v", p)
				}
				runs, _, err := d.queue.Runs(d.Context(), queue.Filter{StreamID: p.StreamID})
				if err != nil || len(runs) != 1 {
					d.Fatalf("%d runs of one plan: %v", len(runs), err)
				}
				if err := d.streams.Remove(d.Context(), p.StreamID, tester); err != nil {
					d.Fatal(err)
				}
				delete(ids, p.StreamID)
			}
			check()
			if len(ids) == 0 {
				return
			}
		}
		d.Fatalf("%d streams were never served", len(ids))
	})
}

// Case 17 and pausing: what does not move holds no slot, and waits for one again, before new ones.
func TestNothingThatStandsStillHoldsASlot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.history.commit(files(2))
		d.incremental()
		first := d.id
		d.pass()
		d.plan(stream.PlanRunning)
		d.incremental()
		second := d.id
		d.pass()
		if p := d.plan(stream.PlanWanted); p.SlotAt != nil {
			d.Error("two slots of one org")
		}
		d.id = first
		if _, err := d.planner.Pause(d.Context(), first, tester, false); err != nil {
			d.Fatal(err)
		}
		if got := d.apply(1); len(got) > 0 {
			d.Errorf("a paused plan goes on: %v", got)
		}
		d.id = second
		d.pass()
		d.plan(stream.PlanRunning)
		d.id = first
		if _, err := d.planner.Start(d.Context(), first, stream.PlanRequest{}, tester); err != nil {
			d.Fatal(err)
		}
		d.pass()
		if p := d.plan(stream.PlanRunning); p.SlotAt != nil {
			d.Error("it has a slot beside the other")
		}
		if got := fmt.Sprint(d.apply(9)); got != "[backfill/0 backfill/1 backfill/2 backfill/3]" {
			d.Fatal(got)
		}
		d.id = second
		d.lifecycle(sluice.Primed)
		d.pass()
		d.apply(9)
		d.id = first
		d.lifecycle(sluice.Primed)
	})
}

// Cases 18 and 19: steps are there however old they are; steps that a restored state DB lacks are made again at the pinned
// version, and a swap that only the lake knows primes the stream.
func TestLostStepsAreMadeAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.history.commit(files(3))
		d.incremental()
		d.pass()
		p := d.plan(stream.PlanRunning)
		d.apply(1)
		d.history.commit(files(1)) // a newer version, which the pinned plan does not see
		d.lose(p.RunID, 2, 4)
		d.advance(8 * 24 * time.Hour)
		if _, err := d.queue.Sweep(d.Context(), "sweeper"); err != nil {
			d.Fatal(err)
		}
		d.pass()
		if got := fmt.Sprint(d.apply(9)); got != "[backfill/1 backfill/2 backfill/3 backfill/4]" {
			d.Fatal(got)
		}
		d.lifecycle(sluice.Primed)

		d.incremental()
		d.pass()
		p = d.plan(stream.PlanRunning)
		d.lakes.applied[queue.BatchID(d.id, p.RunID, *p.ChunkCount+1)] = true
		d.pass()
		d.plan(stream.PlanRunning) // it may be under way: it is asked only after some quiet
		d.advance(2 * time.Minute)
		d.pass()
		d.plan(stream.PlanDone)
		d.lifecycle(sluice.Primed)
	})
}

var lost = statedb.MustLoad(fstest.MapFS{"lost.sql": {Data: []byte("-- name: Lose\nDELETE FROM batch WHERE batch_id = :id;\n")}}, "*.sql")

// lose removes steps as a restored backup would.
func (d *desk) lose(run sluice.RunID, indexes ...int64) {
	d.Helper()
	for _, i := range indexes {
		err := d.db.Tx(d.Context(), func(tx *statedb.Tx) error {
			_, err := statedb.Exec(d.Context(), tx, lost.Get("Lose"), statedb.Args{"id": queue.BatchID(d.id, run, i)})
			return err
		})
		if err != nil {
			d.Fatal(err)
		}
	}
}

// Case 38: a planner that stands still inside a plan, beyond its lease, stores nothing any more.
func TestPlannerThatSleptStoresNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(d *desk) {
		d.history.commit(files(1))
		d.incremental()
		other := d.plannerOn(d.db, "p2", backfill.Caps{Global: 5, PerOrg: 1})
		slept := false
		d.lakesSleep(func() {
			if slept {
				return
			}
			slept = true
			d.advance(10 * time.Minute)
			if err := other.Pass(d.Context()); err != nil {
				d.Error(err)
			}
		})
		d.pass()
		p := d.plan(stream.PlanRunning)
		runs, _, err := d.queue.Runs(d.Context(), queue.Filter{StreamID: d.id, State: string(sluice.RunSealed)})
		if err != nil || len(runs) != 1 || runs[0].RunID != p.RunID || !slept {
			d.Errorf("%+v, %v", runs, err)
		}
		d.apply(9)
		d.lifecycle(sluice.Primed)
	})
}

// lakesSleep makes the planner's look at a lake take a while.
func (d *desk) lakesSleep(fn func()) {
	d.planner = backfill.New(backfill.Config{Owner: "p1", Instance: "p1", Quiet: time.Minute}, backfill.Deps{
		DB: d.db, Queue: d.queue, Streams: d.streams, Source: d.history, Lakes: sleepyLakes{d.lakes, fn},
	})
}

type sleepyLakes struct {
	*noLakes
	fn func()
}

func (l sleepyLakes) Layout(ctx context.Context, org sluice.Org, t lake.Table) (lake.Layout, error) {
	l.fn()
	return l.noLakes.Layout(ctx, org, t)
}
