package queuetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// lost checks that a write was refused because the lease or the state was lost.
func (e *Env) lost(what string, err error) {
	e.t.Helper()
	if !errors.Is(err, queue.ErrLeaseLost) {
		e.t.Fatalf("%s: %v, want lease lost", what, err)
	}
}

// everyWrite tries each of a loader's writes and wants all of them refused.
func (e *Env) everyWrite(l sluice.Lease, id sluice.BatchID) {
	e.t.Helper()
	before, _, err := e.Queue.Batch(e.ctx(), id)
	e.must(err)
	_, err = e.Queue.Start(e.ctx(), l, id)
	e.lost("start", err)
	e.lost("succeed", e.Queue.Succeed(e.ctx(), l, queue.Applied{BatchID: id, FenceSeq: 99}))
	_, err = e.Queue.Retry(e.ctx(), l, Fails(id, true, 0))
	e.lost("retry", err)
	_, err = e.Queue.Quarantine(e.ctx(), l, Fails(id, true, 0))
	e.lost("quarantine", err)
	after, _, err := e.Queue.Batch(e.ctx(), id)
	e.must(err)
	if before.LoadState != after.LoadState || before.Attempt != after.Attempt || before.ErrorCode != after.ErrorCode {
		e.t.Fatalf("a refused write changed the batch: %+v, %+v", before, after)
	}
}

// The tables of loader.md §3.
var stateCases = map[string]func(t *testing.T, open Open){
	"queued to succeeded, with history, mirror and progress": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0, Final))
		l := e.ClaimOne("a")
		w := e.Start(l)
		if again, err := e.Queue.Next(e.ctx(), l); err != nil || !again.PrevExecuting || again.Batch.Attempt != 1 {
			e.t.Fatalf("%+v, %v", again, err)
		}
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		b, history, err := e.Queue.Batch(e.ctx(), w.Batch.BatchID)
		e.must(err)
		if b.LoadState != sluice.Succeeded || b.Op != sluice.OpInsert {
			e.t.Fatalf("%+v", b)
		}
		if len(history) != 3 || history[2].RowsWritten == nil || *history[2].RowsWritten != 5 || history[2].Owner != "a" ||
			history[0].LoadState != sluice.Queued || history[1].LoadState != sluice.Executing || len(history[2].Phases) == 0 {
			e.t.Fatalf("%+v", history)
		}
		r, err := e.Queue.Run(e.ctx(), id, "r1")
		e.must(err)
		if r.NextIndex != 1 || r.State != sluice.RunSucceeded || r.EndedAt == nil {
			e.t.Fatalf("%+v", r)
		}
		e.everyWrite(l, w.Batch.BatchID) // terminal is never overwritten
	}),
	"success and the start of the next batch in one": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1), B(2), B(3))
		e.Enqueue(id, "r2", B(0), B(1, Waiting))
		l := e.ClaimOne("a")
		w := e.Start(l)
		next, err := e.Queue.Advance(e.ctx(), l, e.applied(w))
		e.must(err)
		if next == nil || next.Batch.BatchIndex != 1 || next.Batch.Attempt != 1 || next.PrevExecuting || next.Run.RunID != "r1" || next.Batch.LoadState != sluice.Executing {
			e.t.Fatalf("next: %+v", next)
		}
		e.HeadsRight()
		if again, err := e.Queue.Next(e.ctx(), l); err != nil || again.Batch.BatchID != next.Batch.BatchID || !again.PrevExecuting {
			e.t.Fatalf("it is begun: %+v, %v", again, err)
		}
		_, history, err := e.Queue.Batch(e.ctx(), next.Batch.BatchID)
		e.must(err)
		if len(history) != 2 || history[1].LoadState != sluice.Executing || history[1].Attempt != 1 || history[1].Owner != "a" {
			e.t.Fatalf("history: %+v", history)
		}
		if _, err := e.Queue.Advance(e.ctx(), l, e.applied(w)); !errors.Is(err, queue.ErrLeaseLost) {
			e.t.Fatalf("twice: %v", err)
		}
		if paths, err := e.Queue.Upcoming(e.ctx(), l, 2); err != nil || len(paths) != 2 {
			e.t.Fatalf("upcoming: %v, %v", paths, err)
		}

		e.must(e.Streams.SetPaused(e.ctx(), id, true, by))
		if n, err := e.Queue.Advance(e.ctx(), l, e.applied(*next)); err != nil || n != nil {
			e.t.Fatalf("a paused stream goes on: %+v, %v", n, err)
		}
		e.HeadsRight()
		e.must(e.Streams.SetPaused(e.ctx(), id, false, by))
		w = e.Start(l)
		if next, err = e.Queue.Advance(e.ctx(), l, e.applied(w)); err != nil || next == nil || next.Batch.BatchIndex != 3 {
			e.t.Fatalf("%+v, %v", next, err)
		}
		if next, err = e.Queue.Advance(e.ctx(), l, e.applied(*next)); err != nil || next == nil || next.Run.RunID != "r2" {
			e.t.Fatalf("the next run: %+v, %v", next, err)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
		if n, err := e.Queue.Advance(e.ctx(), l, e.applied(*next)); err != nil || n != nil {
			e.t.Fatalf("a batch whose upstream waits is begun: %+v, %v", n, err)
		}
		e.BlockedBy(id, "E9")
		e.HeadsRight()
	}),
	"a file is pinned by the first try that reads it": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		for _, pin := range []queue.Pin{{}, {ETag: "e1", ByteSize: 9}, {ETag: "e2", ByteSize: 8}, {}} {
			f := Fails(e.Start(l).Batch.BatchID, false, 0)
			f.Pin = pin
			_, err := e.Queue.Retry(e.ctx(), l, f)
			e.must(err)
		}
		if w := e.Start(l); w.Batch.ETag != "e1" || w.Batch.ByteSize == nil || *w.Batch.ByteSize != 9 {
			e.t.Fatalf("%+v", w.Batch)
		}
	}),
	"counted retries end in quarantine": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		for try := 1; try <= 5; try++ {
			w := e.Start(l)
			state, err := e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, true, time.Second))
			e.must(err)
			if want := map[bool]sluice.LoadState{true: sluice.Quarantined, false: sluice.RetryWait}[try == 5]; state != want {
				e.t.Fatalf("try %d ended in %s", try, state)
			}
			if try < 5 {
				if _, err := e.Queue.Next(e.ctx(), l); !errors.Is(err, queue.ErrNoWork) {
					e.t.Fatalf("it does not rest: %v", err)
				}
				e.Advance(time.Second)
			}
		}
		e.RunState(id, "r1", sluice.RunHalted)
		row := e.BlockedBy(id, "E10 quarantined SLUICE-LOAD-CONNECT")
		if row.ErrorCode != "SLUICE-LOAD-CONNECT" || row.Next == "" {
			e.t.Fatalf("%+v", row)
		}
		q, _, err := e.Queue.Quarantined(e.ctx(), queue.Filter{StreamID: id, State: "open"})
		e.must(err)
		if len(q) != 1 || q[0].Attempts != 5 || q[0].Path != "s3://x/0.parquet" {
			e.t.Fatalf("%+v", q)
		}
	}),
	"deferrals use no attempt": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		for range 8 {
			w := e.Start(l)
			_, err := e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, false, 0))
			e.must(err)
		}
		w, err := e.Queue.Next(e.ctx(), l)
		e.must(err)
		if w.Batch.Attempt != 0 || w.Batch.Deferrals != 8 {
			e.t.Fatalf("%+v", w.Batch)
		}
	}),
	"an attempt is counted before the apply": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.Start(e.ClaimOne("a")) // and the process dies
		for try := 2; try <= 5; try++ {
			e.Advance(queue.DefaultTTL + time.Second)
			l := e.ClaimOne(fmt.Sprint("loader", try))
			w, err := e.Queue.Next(e.ctx(), l)
			e.must(err)
			if !w.PrevExecuting {
				e.t.Fatalf("%+v", w)
			}
			f := Fails(w.Batch.BatchID, true, 0)
			f.Code = "SLUICE-LOAD-INTERRUPTED"
			_, err = e.Queue.Retry(e.ctx(), l, f)
			e.must(err)
			if a, err := e.Queue.Start(e.ctx(), l, w.Batch.BatchID); err != nil || a != try {
				e.t.Fatalf("attempt %d, %v", a, err)
			}
		}
		e.Advance(queue.DefaultTTL + time.Second)
		l := e.ClaimOne("last")
		w, err := e.Queue.Next(e.ctx(), l)
		e.must(err)
		state, err := e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
		e.must(err)
		if state != sluice.Quarantined {
			e.t.Fatalf("a batch that kills its loader is %s", state)
		}
	}),
	"recovery finds it done": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1, Final))
		old := e.ClaimOne("a")
		w := e.Start(old)
		e.NoClaim() // a live lease keeps an executing batch, however old
		e.Advance(queue.DefaultTTL + time.Second)
		l := e.ClaimOne("b")
		e.everyWrite(old, w.Batch.BatchID)
		a := e.applied(w)
		a.Origin, a.Reason = sluice.OriginRecovered, sluice.ReasonAlreadyApplied
		e.must(e.Queue.Succeed(e.ctx(), l, a))
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/1]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"start takes the head only": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		_, err := e.Queue.Start(e.ctx(), l, res[1].BatchID)
		e.lost("start of a later batch", err)
		e.lost("succeed without start", e.Queue.Succeed(e.ctx(), l, queue.Applied{BatchID: res[0].BatchID}))
	}),
	"history says what the row says": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		w := e.Start(l)
		_, err := e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
		e.must(err)
		e.Enqueue(id, "r2", B(0), B(1, Final))
		e.Drain(l)
		n, _, err := statedb.One(e.ctx(), e.DB, sql("OrphanHistory"), nil, statedb.Value[int64])
		e.must(err)
		if n != 0 {
			e.t.Fatalf("%d batches whose last history row differs", n)
		}
	}),
	"long and binary error texts are cut": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		w := e.Start(l)
		f := Fails(w.Batch.BatchID, true, 0)
		for range 3000 {
			f.Text += "é\x00\xff"
		}
		_, err := e.Queue.Quarantine(e.ctx(), l, f)
		e.must(err)
	}),
	"halt and resume of a stream": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.must(e.Queue.Halt(e.ctx(), l, "SLUICE-LOAD-FENCE-AHEAD", "the lake has seq 9"))
		e.must(e.Queue.Release(e.ctx(), l))
		e.NoClaim()
		if row := e.BlockedBy(id, "halted SLUICE-LOAD-FENCE-AHEAD"); row.ErrorCode != "SLUICE-LOAD-FENCE-AHEAD" {
			e.t.Fatalf("%+v", row)
		}
		_, err := e.Queue.Resume(e.ctx(), id, queue.Operator{Who: "op"})
		e.must(err)
		e.ClaimOne("a")
		_, err = e.Queue.Resume(e.ctx(), id, queue.Operator{Who: "op"})
		e.Refused(err, "SLUICE-LOAD-STATE")
	}),
}

// Rules E1 to E18 of loader.md §4.
var eligibilityCases = map[string]func(t *testing.T, open Open){
	"E1 disabled stream": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.must(e.Streams.SetEnabled(e.ctx(), id, false, by))
		e.NoClaim()
		e.BlockedBy(id, "E1")
		e.must(e.Streams.SetEnabled(e.ctx(), id, true, by))
		e.ClaimOne("a")
	}),
	"E1 removed stream": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		w := e.Start(l)
		e.must(e.Streams.Remove(e.ctx(), id, by))
		e.NoClaim()
		e.everyWrite(l, w.Batch.BatchID)
		_, err := e.TryEnqueue(id, "r2", B(0))
		e.Refused(err, "SLUICE-LOAD-NO-STREAM")
	}),
	"E2 stream that no planner has looked at": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 4)
		id := e.AddStream(org, team, sluice.Incremental, "s3://d/t")
		e.Enqueue(id, "r1", B(0))
		e.NoClaim()
		e.BlockedBy(id, "E8 pending_backfill")
		e.FirstEver(id, "r2", B(0)) // E8 is open by the replace head, E2 is not
		e.NoClaim()
		e.BlockedBy(id, "E2")
	}),
	"E3 live, expired and maintenance leases": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		first := e.ClaimOne("a")
		e.NoClaim()
		e.Advance(queue.DefaultTTL + time.Second)
		second := e.ClaimOne("b")
		if second.Epoch <= first.Epoch {
			e.t.Fatalf("epoch %d after %d", second.Epoch, first.Epoch)
		}
		e.must(e.Queue.Release(e.ctx(), second))
		m, err := e.Queue.Acquire(e.ctx(), id, "m", sluice.PurposeMaintain, 0)
		e.must(err)
		e.NoClaim()
		_, err = e.Queue.Acquire(e.ctx(), id, "n", sluice.PurposeMaintain, 0)
		e.lost("acquire of a held stream", err)
		w, err := e.Queue.Next(e.ctx(), m)
		e.must(err)
		_, err = e.Queue.Start(e.ctx(), m, w.Batch.BatchID)
		e.lost("start under a maintenance lease", err)
		e.must(e.Queue.Release(e.ctx(), m))
		e.ClaimOne("c")
	}),
	"E4 stream in flight in the asking process": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		leases, err := e.Queue.Claim(e.ctx(), queue.ClaimRequest{Owner: "a", Free: 4, InFlight: []sluice.StreamID{id}})
		e.must(err)
		if len(leases) != 0 {
			e.t.Fatal(leases)
		}
		if contended, err := e.Queue.Contended(e.ctx(), []sluice.StreamID{id}); err != nil || contended {
			e.t.Fatal(contended, err)
		}
		if contended, err := e.Queue.Contended(e.ctx(), nil); err != nil || !contended {
			e.t.Fatal(contended, err)
		}
	}),
	"E5 budget of an org": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 2)
		for range 4 {
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		l := e.Claim("a", 8)
		if len(l) != 2 {
			e.t.Fatalf("%d leases with a budget of 2", len(l))
		}
		e.NoClaim()
		e.must(e.Queue.Release(e.ctx(), l[0]))
		if got := len(e.Claim("b", 8)); got != 1 {
			e.t.Fatalf("%d leases after one was released", got)
		}
	}),
	"E5 no limit": solo(func(e *Env) {
		org, team := e.AddOrg("acme", -1)
		for range 6 {
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		if got := len(e.Claim("a", 8)); got != 6 {
			e.t.Fatalf("%d of 6", got)
		}
	}),
	"E6 paused stream, org that is not ready": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.must(e.Streams.SetPaused(e.ctx(), id, true, by))
		e.NoClaim()
		e.BlockedBy(id, "E6 stream is paused")
		e.must(e.Streams.SetPaused(e.ctx(), id, false, by))
		for _, state := range []sluice.OrgState{sluice.OrgPending, sluice.OrgProvisioning, sluice.OrgPaused, sluice.OrgDraining, sluice.OrgFailed} {
			e.must(e.Control.SetOrgState(e.ctx(), "acme", state, by))
			e.NoClaim()
			e.BlockedBy(id, "E6 warehouse is "+string(state))
		}
		e.must(e.Control.SetOrgState(e.ctx(), "acme", sluice.OrgReady, by))
		l := e.ClaimOne("a")
		e.must(e.Streams.SetPaused(e.ctx(), id, true, by))
		if _, err := e.Queue.Next(e.ctx(), l); !errors.Is(err, queue.ErrNoWork) {
			e.t.Fatalf("a paused stream goes on: %v", err)
		}
	}),
	"E7 no work": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.NoClaim()
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		if _, err := e.Queue.Next(e.ctx(), l); !errors.Is(err, queue.ErrNoWork) {
			e.t.Fatal(err)
		}
	}),
	"E8 lifecycle and replace heads": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.park(id)
		e.Enqueue(id, "r2", B(0, Resume), B(1))
		e.NoClaim()
		e.BlockedBy(id, "E8 needs_resync")
		e.Enqueue(id, "r3", B(0), B(1, Final))
		l := e.ClaimOne("a")
		if got := fmt.Sprint(e.Drain(l)); got != "[r3/0 r3/1]" { // the whole run, also after batch 0
			e.t.Fatal(got)
		}
		e.Lifecycle(id, sluice.Primed)
		e.Enqueue(id, "r4", B(0, Resume, Final))
		if got := fmt.Sprint(e.Drain(l)); got != "[r4/0]" {
			e.t.Fatal(got)
		}
	}),
	"E8, E12, E13 chunks": solo(func(e *Env) {
		id, chunks := e.backfilling(3)
		e.Enqueue(id, "r1", B(0))
		e.slot(id, false)
		e.NoClaim()
		e.BlockedBy(id, "E8 no slot")
		e.slot(id, true)
		l := e.ClaimOne("a")
		for i, want := range chunks {
			w := e.Start(l)
			if w.Batch.BatchID != want || len(w.Spec) == 0 {
				e.t.Fatalf("chunk %d is %s with spec %s", i, w.Batch.BatchID, w.Spec)
			}
			e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		}
		e.Lifecycle(id, sluice.Primed)
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0]" {
			e.t.Fatal(got)
		}
	}),
	"covered batches end with the swap": solo(func(e *Env) {
		id, chunks := e.backfilling(1)
		e.Enqueue(id, "r1", B(0), B(1), B(2), B(3, Final))
		for _, i := range []int64{0, 1, 3} {
			e.exec("CoverBatch", statedb.Args{"stream_id": id, "run_id": "r1", "index": i, "plan_id": planID})
		}
		e.exec("CoverBatch", statedb.Args{"stream_id": id, "run_id": "r2", "index": int64(0), "plan_id": planID})
		l := e.ClaimOne("a")
		w := e.Start(l)
		if w.Batch.BatchID != chunks[0] {
			e.t.Fatal(w.Batch)
		}
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		e.WantStates(id, "r1", "succeeded/covered_by_snapshot succeeded/covered_by_snapshot queued succeeded/covered_by_snapshot")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/2]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
		e.Enqueue(id, "r2", B(0), B(1, Final)) // recognised on arrival
		e.WantStates(id, "r2", "succeeded/covered_by_snapshot queued")
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/1]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r2", sluice.RunSucceeded)
	}),
	"E10 retry_wait": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		w := e.Start(l)
		_, err := e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, true, time.Minute))
		e.must(err)
		e.must(e.Queue.Release(e.ctx(), l))
		e.NoClaim() // and nothing behind it goes first
		e.BlockedBy(id, "E10 tried again at")
		e.Advance(time.Minute)
		if w := e.Start(e.ClaimOne("b")); w.Batch.BatchIndex != 0 || w.Batch.Attempt != 1 {
			e.t.Fatalf("%+v", w.Batch)
		}
	}),
	"deferred before it was begun": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		w, err := e.Queue.Next(e.ctx(), l)
		e.must(err)
		e.must(e.Queue.Defer(e.ctx(), l, Fails(w.Batch.BatchID, false, time.Minute)))
		e.must(e.Queue.Release(e.ctx(), l))
		e.NoClaim()
		e.Advance(time.Minute)
		l = e.ClaimOne("b")
		w = e.Start(l)
		if w.Batch.Attempt != 0 || w.Batch.Deferrals != 1 {
			e.t.Fatalf("a batch that was not begun: %+v", w.Batch)
		}
		if err := e.Queue.Defer(e.ctx(), l, Fails(w.Batch.BatchID, false, time.Minute)); !errors.Is(err, queue.ErrLeaseLost) {
			e.t.Fatalf("a batch that is executing was deferred: %v", err)
		}
		other := l
		other.Epoch--
		if err := e.Queue.Defer(e.ctx(), other, Fails(w.Batch.BatchID, false, time.Minute)); !errors.Is(err, queue.ErrLeaseLost) {
			e.t.Fatalf("a stale owner deferred a batch: %v", err)
		}
	}),
	"E12 older run that waits for an index": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(2, Final))
		e.Enqueue(id, "r2", B(0))
		l := e.ClaimOne("a")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0]" {
			e.t.Fatal(got)
		}
		e.BlockedBy(id, "E11 missing index 1")
		e.Enqueue(id, "r1", B(1))
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/1 r1/2 r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"E12 older run whose last index is missing": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), Marker(1, Total(2)))
		e.Enqueue(id, "r2", B(0))
		l := e.ClaimOne("a")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0]" {
			e.t.Fatal(got)
		}
		e.BlockedBy(id, "E12")
	}),
	"E15 gap in a run that was given up": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0), B(2), B(3))
		e.Enqueue(id, "r2", B(0, Final))
		l := e.ClaimOne("a")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunHalted)
		e.BlockedBy(id, "E10 quarantined SLUICE-LOAD-RUN-GAP")
		_, err := e.Queue.QuarantineRetry(e.ctx(), res[1].BatchID, queue.Operator{Who: "op"})
		e.must(err)
		e.BlockedBy(id, "E10 quarantined SLUICE-LOAD-RUN-GAP") // the gap is still there
		_, err = e.Queue.QuarantineDiscard(e.ctx(), res[1].BatchID, queue.Operator{Who: "op"})
		e.must(err)
		e.Lifecycle(id, sluice.NeedsResync)
		e.BlockedBy(id, "E8 needs_resync")
		e.WantStates(id, "r1", "succeeded failed/discarded queued")
	}),
	"E16 age is no rule": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.Advance(100 * 24 * time.Hour)
		e.ClaimOne("a")
	}),
	"E17 free places, half of them for chunks": solo(func(e *Env) {
		e.One(sluice.Append)
		for i := range 4 {
			org, team := e.AddOrg(fmt.Sprint("chunky", i), 4)
			e.backfillingOf(org, team, 1, fmt.Sprintf("00000000-0000-4000-8000-0000000000%02d", i+20))
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		if got := len(e.Claim("a", 3)); got != 3 {
			e.t.Fatalf("%d leases for 3 places", got)
		}
		leases := e.Claim("b", 8)
		if len(leases) != 5 {
			e.t.Fatalf("%d of the other 5", len(leases))
		}
		none, err := e.Queue.Claim(e.ctx(), queue.ClaimRequest{Owner: "c", Free: 4, FreeChunk: -1})
		e.must(err)
		if len(none) != 0 {
			e.t.Fatal(none)
		}
	}),
	"E18 a saturated org fills no window": solo(func(e *Env) {
		big, team := e.AddOrg("big", 1)
		for range 30 {
			e.Enqueue(e.AddStream(big, team, sluice.Append, ""), "r1", B(0))
		}
		e.Claim("a", 1)
		e.Advance(time.Second)
		small, team := e.AddOrg("small", 1)
		e.Enqueue(e.AddStream(small, team, sluice.Append, ""), "r1", B(0))
		if l := e.Claim("b", 1); len(l) != 1 || l[0].Org != small {
			e.t.Fatalf("%v", l)
		}
	}),
	"orgs take turns": solo(func(e *Env) {
		big, team := e.AddOrg("big", -1)
		for range 50 {
			e.Enqueue(e.AddStream(big, team, sluice.Append, ""), "r1", B(0))
		}
		e.Advance(time.Second)
		for i := range 5 {
			org, team := e.AddOrg(fmt.Sprint("small", i), 4)
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		served := map[sluice.Org]int{}
		for _, l := range e.Claim("a", 8) {
			served[l.Org]++
		}
		if len(served) != 6 || served["big"] != 3 {
			e.t.Fatalf("%v", served)
		}
	}),
}
