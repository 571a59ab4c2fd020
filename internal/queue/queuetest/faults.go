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

var errFault = errors.New("the fault of this test")

// sweep fails the first statement of a call, then the second, and so on, until the call succeeds. After each failure
// nothing may have changed; an error that is swallowed shows as a call that succeeds too early, or as a difference.
func (e *Env) sweep(call func() error) {
	e.t.Helper()
	for n := range 200 {
		before := e.everything()
		left, hit := n, ""
		e.DB.SetFault(func(query string) error {
			if left == 0 {
				hit = query
				left--
				return errFault
			}
			left--
			return nil
		})
		err := call()
		e.DB.SetFault(nil)
		if hit == "" {
			e.must(err)
			if n < 3 {
				e.t.Fatalf("only %d statements", n)
			}
			return
		}
		if !errors.Is(err, errFault) {
			e.t.Fatalf("a fault in statement %d, %s, came back as %v", n, hit, err)
		}
		if after := e.everything(); before != after {
			e.t.Fatalf("a fault in statement %d, %s, left traces:\n%s\n%s", n, hit, before, after)
		}
		e.HeadsRight()
	}
	e.t.Fatal("the call never ends")
}

// everything is the state of the queue as text.
func (e *Env) everything() string {
	e.t.Helper()
	f := queue.Filter{Limit: 1000}
	batches, _, err := e.Queue.Batches(e.ctx(), f)
	e.must(err)
	out := ""
	for _, b := range batches {
		_, history, err := e.Queue.Batch(e.ctx(), b.BatchID)
		e.must(err)
		out += fmt.Sprintf("%s/%d %s %s %d %d %s %d; ", b.RunID, b.BatchIndex, b.LoadState, b.LoadReason, b.Attempt, b.Deferrals, b.UpstreamState, len(history))
	}
	runs, _, err := e.Queue.Runs(e.ctx(), f)
	e.must(err)
	for _, r := range runs {
		out += fmt.Sprintf("%s %s %d %s; ", r.RunID, r.State, r.NextIndex, r.Reason)
	}
	rows, _, err := e.Queue.Quarantined(e.ctx(), f)
	e.must(err)
	for _, q := range rows {
		out += fmt.Sprintf("%s %s; ", q.BatchID, q.State)
	}
	audits, err := e.Control.AuditLog(e.ctx(), "", 0, 1000)
	e.must(err)
	return out + e.blocked() + fmt.Sprint(len(audits))
}

// Everything that a call does is one transaction: loader.md §11.
var faultCases = map[string]func(t *testing.T, open Open){
	"enqueue that supersedes": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		w := e.Start(l)
		_, err := e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
		e.must(err)
		e.sweep(func() error { return second(e.TryEnqueue(id, "r2", B(0), B(1, Final))) })
		e.WantStates(id, "r1", "superseded/superseded_by_replace superseded/superseded_by_replace")
	}),
	"upstream reports": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0, Waiting), B(1, Waiting))
		e.sweep(func() error { return e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamSucceeded) })
		e.sweep(func() error { return e.Queue.Upstream(e.ctx(), res[1].BatchID, sluice.UpstreamFailed) })
	}),
	"start, retry, succeed": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0, Final))
		l := e.ClaimOne("a")
		batch := queue.BatchID(id, "r1", 0)
		e.sweep(func() error { return second(e.Queue.Start(e.ctx(), l, batch)) })
		e.sweep(func() error { return second(e.Queue.Retry(e.ctx(), l, Fails(batch, true, 0))) })
		e.sweep(func() error { return second(e.Queue.Start(e.ctx(), l, batch)) })
		e.sweep(func() error {
			return e.Queue.Succeed(e.ctx(), l, queue.Applied{BatchID: batch, Op: sluice.OpInsert, FenceSeq: 3, Phases: map[string]int64{"data": 1}})
		})
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"swap that primes": solo(func(e *Env) {
		id, chunks := e.backfilling(1)
		e.Enqueue(id, "r1", B(0), B(1, Final))
		e.exec("CoverBatch", statedb.Args{"stream_id": id, "run_id": "r1", "index": int64(0), "plan_id": planID})
		l := e.ClaimOne("a")
		e.Start(l)
		e.sweep(func() error { return e.Queue.Succeed(e.ctx(), l, queue.Applied{BatchID: chunks[0], FenceSeq: 3}) })
		e.Lifecycle(id, sluice.Primed)
		e.WantStates(id, "r1", "succeeded/covered_by_snapshot queued")
	}),
	"quarantine, retry, discard, reset": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		batch := e.Start(l).Batch.BatchID
		e.sweep(func() error { return second(e.Queue.Quarantine(e.ctx(), l, Fails(batch, true, 0))) })
		e.sweep(func() error { return second(e.Queue.QuarantineRetry(e.ctx(), batch, operator)) })
		e.Start(l)
		e.sweep(func() error { return second(e.Queue.Quarantine(e.ctx(), l, Fails(batch, true, 0))) })
		e.sweep(func() error { return second(e.Queue.QuarantineDiscard(e.ctx(), batch, operator)) })
		e.sweep(func() error { return second(e.Queue.Reset(e.ctx(), id, operator)) })
		e.Lifecycle(id, sluice.NeedsResync)
	}),
	"cancel": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1))
		e.sweep(func() error { return second(e.Queue.CancelRun(e.ctx(), id, "r1", operator)) })
		e.Lifecycle(id, sluice.NeedsResync)
	}),
	"superseded while it executes": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		batch := e.Start(l).Batch.BatchID
		e.Enqueue(id, "r2", B(0, Final))
		e.sweep(func() error { return second(e.Queue.Retry(e.ctx(), l, Fails(batch, true, time.Hour))) })
		e.RunState(id, "r1", sluice.RunSuperseded)
	}),
	"claim": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 1)
		e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		e.sweep(func() error { return second(e.Queue.Claim(e.ctx(), queue.ClaimRequest{Owner: "b", Free: 4})) })
	}),
	"remove": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1))
		e.sweep(func() error { return e.Streams.Remove(e.ctx(), id, by) })
	}),
}
