package queuetest

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// loader.md §9.
var supersedeCases = map[string]func(t *testing.T, open Open){
	"replace head ends what is queued before it": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		e.Enqueue(id, "r2", B(0), B(1, Final))
		e.WantStates(id, "r1", "superseded/superseded_by_replace superseded/superseded_by_replace")
		e.RunState(id, "r1", sluice.RunSuperseded)
		if got := fmt.Sprint(e.Drain(e.ClaimOne("a"))); got != "[r2/0 r2/1]" {
			e.t.Fatal(got)
		}
		_, err := e.TryEnqueue(id, "r1", B(2))
		e.Refused(err, "SLUICE-LOAD-RUN-SEALED")
	}),
	"executing batch is left to finish": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1), B(2, Final))
		l := e.ClaimOne("a")
		e.Apply(l)
		w := e.Start(l)
		e.Enqueue(id, "r2", B(0, Final))
		e.WantStates(id, "r1", "succeeded executing superseded/superseded_by_replace")
		e.RunState(id, "r1", sluice.RunSealed)
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		e.RunState(id, "r1", sluice.RunSuperseded)
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"executing batch that fails is superseded after it": solo(func(e *Env) {
		for i, permanent := range []bool{false, true} {
			org, team := e.AddOrg(fmt.Sprint("acme", i), 4)
			id := e.AddStream(org, team, sluice.FullRefresh, "")
			e.Enqueue(id, "r1", B(0), B(1))
			l := e.ClaimOne("a")
			w := e.Start(l)
			e.Enqueue(id, "r2", B(0, Final))
			fail := e.Queue.Retry
			if permanent {
				fail = e.Queue.Quarantine
			}
			state, err := fail(e.ctx(), l, Fails(w.Batch.BatchID, true, time.Hour))
			e.must(err)
			if state != sluice.Superseded {
				e.t.Fatal(state)
			}
			e.RunState(id, "r1", sluice.RunSuperseded)
			if got := fmt.Sprint(e.Drain(l)); got != "[r2/0]" {
				e.t.Fatal(got)
			}
			e.RunState(id, "r2", sluice.RunSucceeded)
		}
	}),
	"owner of the executing batch is gone": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0))
		e.Start(e.ClaimOne("a"))
		e.Enqueue(id, "r2", B(0, Final))
		e.Advance(queue.DefaultTTL + time.Second)
		l := e.ClaimOne("b")
		w, err := e.Queue.Next(e.ctx(), l)
		e.must(err)
		if !w.PrevExecuting || w.Run.RunID != "r1" {
			e.t.Fatalf("%+v", w)
		}
		state, err := e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
		e.must(err)
		if state != sluice.Superseded {
			e.t.Fatal(state)
		}
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"only once upstream holds the replace head": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		first := e.Enqueue(id, "r1", B(0, Waiting))
		res := e.Enqueue(id, "r2", B(0, Waiting, Final))
		e.WantStates(id, "r1", "queued")
		e.must(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamSucceeded))
		e.WantStates(id, "r1", "superseded/superseded_by_replace")
		e.must(e.Queue.Upstream(e.ctx(), first[0].BatchID, sluice.UpstreamSucceeded)) // kept, without effect
		if got := fmt.Sprint(e.Drain(e.ClaimOne("a"))); got != "[r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"not a head: plain incremental, append, resumed": solo(func(e *Env) {
		org, team := e.AddOrg("acme", -1)
		inc := e.AddStream(org, team, sluice.Incremental, "")
		app := e.AddStream(org, team, sluice.Append, "")
		full := e.AddStream(org, team, sluice.FullRefresh, "")
		cdc := e.AddStream(org, team, sluice.CDC, "")
		for _, id := range []sluice.StreamID{inc, app, full, cdc} {
			e.Enqueue(id, "r1", B(0))
			if id == full {
				e.Enqueue(id, "r2", B(0, Resume))
			} else {
				e.Enqueue(id, "r2", B(0))
			}
			e.WantStates(id, "r1", "queued")
		}
		e.FirstEver(app, "r3", B(0))
		e.WantStates(app, "r1", "queued")
		e.FirstEver(inc, "r3", B(0))
		e.WantStates(inc, "r1", "superseded/superseded_by_replace")
	}),
	"applied head supersedes nothing, newer runs are untouched": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		e.Apply(l)
		e.Enqueue(id, "r2", B(0, Resume))
		e.WantStates(id, "r2", "queued")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/1 r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"quarantine is superseded and its row closed": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		w := e.Start(l)
		_, err := e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
		e.must(err)
		e.Enqueue(id, "r2", B(0, Final))
		e.RunState(id, "r1", sluice.RunSuperseded)
		q, _, err := e.Queue.Quarantined(e.ctx(), queue.Filter{StreamID: id})
		e.must(err)
		if len(q) != 1 || q[0].State != "superseded" || q[0].ClosedAt == nil {
			e.t.Fatalf("%+v", q)
		}
		e.Drain(l)
	}),
	"plan and its chunks": solo(func(e *Env) {
		id, _ := e.backfilling(2)
		e.FirstEver(id, "r1", B(0), B(1, Final))
		e.WantStates(id, "plan-run", "superseded/superseded_by_replace superseded/superseded_by_replace")
		e.Lifecycle(id, sluice.NeedsResync)
		if got := fmt.Sprint(e.Drain(e.ClaimOne("a"))); got != "[r1/0 r1/1]" {
			e.t.Fatal(got)
		}
		e.Lifecycle(id, sluice.Primed) // by the proof, not by the supersede
	}),
	"superseded while a chunk executes": solo(func(e *Env) {
		id, _ := e.backfilling(1)
		l := e.ClaimOne("a")
		w := e.Start(l)
		e.FirstEver(id, "r1", B(0, Final))
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w))) // the swap's success stands by itself
		e.Lifecycle(id, sluice.NeedsResync)
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0]" {
			e.t.Fatal(got)
		}
		e.Lifecycle(id, sluice.Primed)
	}),
	"refresh without a final row proves nothing": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.park(id)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.Enqueue(id, "r2", B(0, Waiting))
		e.RunState(id, "r1", sluice.RunSucceeded)
		e.Lifecycle(id, sluice.NeedsResync)
	}),
	"sweep finds nothing": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0))
		e.Enqueue(id, "r2", B(0))
		rep, err := e.Queue.Sweep(e.ctx(), "s")
		e.must(err)
		if !rep.Ran || rep.HeadsRepaired != 0 || rep.SupersedeRepairs != 0 {
			e.t.Fatalf("%+v", rep)
		}
		if other, err := e.Queue.Sweep(e.ctx(), "t"); err != nil || other.Ran {
			e.t.Fatalf("two sweepers: %+v, %v", other, err)
		}
	}),
	"sweep repairs a head": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0))
		e.exec("SpoilHead", statedb.Args{"stream_id": id})
		e.NoClaim()
		rep, err := e.Queue.Sweep(e.ctx(), "s")
		e.must(err)
		if rep.HeadsRepaired != 1 {
			e.t.Fatalf("%+v", rep)
		}
		e.ClaimOne("a")
	}),
	"retention": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1, Final))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.Enqueue(id, "r2", B(0), B(1)) // stays open
		e.Apply(l)
		sweep := func(d time.Duration) queue.SweepReport {
			e.Advance(d)
			rep, err := e.Queue.Sweep(e.ctx(), "s")
			e.must(err)
			return rep
		}
		if rep := sweep(6 * 24 * time.Hour); rep.BatchesRemoved != 0 {
			e.t.Fatalf("%+v", rep)
		}
		if rep := sweep(2 * 24 * time.Hour); rep.BatchesRemoved != 2 {
			e.t.Fatalf("%+v", rep)
		}
		e.WantStates(id, "r2", "succeeded queued") // its run has not ended
		_, err := e.TryEnqueue(id, "r1", B(0))
		e.Refused(err, "SLUICE-LOAD-RUN-SEALED")                      // never applied twice
		if rep := sweep(400 * 24 * time.Hour); rep.RowsRemoved != 3 { // 2 markers and the run; those of r2, which goes on, stay
			e.t.Fatalf("%+v", rep)
		}
	}),
}
