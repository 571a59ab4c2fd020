package queuetest

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

var operator = queue.Operator{Who: "op", Note: "mended"}

func (e *Env) quarantined(sync sluice.SyncType) (sluice.StreamID, sluice.Lease, sluice.BatchID) {
	e.t.Helper()
	id := e.One(sync)
	e.Enqueue(id, "r1", B(0), B(1), B(2, Final))
	l := e.ClaimOne("a")
	e.Apply(l)
	w := e.Start(l)
	state, err := e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
	e.must(err)
	if state != sluice.Quarantined {
		e.t.Fatal(state)
	}
	return id, l, w.Batch.BatchID
}

func (e *Env) audits(action string, want int64) {
	e.t.Helper()
	n, _, err := statedb.One(e.ctx(), e.DB, sql("AuditCount"), statedb.Args{"action": action}, statedb.Value[int64])
	e.must(err)
	if n != want {
		e.t.Fatalf("%d audit rows for %s, want %d", n, action, want)
	}
}

// What operators do (loader.md §3, §8, §15.7).
var operatorCases = map[string]func(t *testing.T, open Open){
	"quarantine retry heals without a gap": solo(func(e *Env) {
		id, l, batch := e.quarantined(sluice.Append)
		e.Enqueue(id, "r2", B(0, Final))
		if _, err := e.Queue.Next(e.ctx(), l); err == nil {
			e.t.Fatal("something behind a quarantined batch is applied")
		}
		dry := operator
		dry.DryRun = true
		c, err := e.Queue.QuarantineRetry(e.ctx(), batch, dry)
		e.must(err)
		if !c.DryRun || len(c.Batches) != 1 {
			e.t.Fatalf("%+v", c)
		}
		e.WantStates(id, "r1", "succeeded quarantined queued")
		e.audits("quarantine.retry", 0)
		_, err = e.Queue.QuarantineRetry(e.ctx(), batch, operator)
		e.must(err)
		e.audits("quarantine.retry", 1)
		if w, err := e.Queue.Next(e.ctx(), l); err != nil || w.Batch.Attempt != 0 {
			e.t.Fatalf("%+v, %v", w, err)
		}
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/1 r1/2 r2/0]" {
			e.t.Fatal(got)
		}
		_, err = e.Queue.QuarantineRetry(e.ctx(), batch, operator)
		e.Refused(err, "SLUICE-LOAD-STATE")
		q, _, err := e.Queue.Quarantined(e.ctx(), queue.Filter{StreamID: id})
		e.must(err)
		if q[0].State != "retried" || q[0].ClosedBy != "op" || q[0].Note != "mended" {
			e.t.Fatalf("%+v", q[0])
		}
	}),
	"quarantine discard parks the stream": solo(func(e *Env) {
		id, l, batch := e.quarantined(sluice.FullRefresh)
		c, err := e.Queue.QuarantineDiscard(e.ctx(), batch, operator)
		e.must(err)
		if c.Lifecycle != sluice.NeedsResync {
			e.t.Fatalf("%+v", c)
		}
		e.WantStates(id, "r1", "succeeded failed/discarded queued")
		row := e.BlockedBy(id, "E8 needs_resync")
		if row.Next == "" || row.ErrorText == "" {
			e.t.Fatalf("%+v", row)
		}
		e.audits("quarantine.discard", 1)
		e.Enqueue(id, "r2", B(0), B(1, Final))
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/0 r2/1]" {
			e.t.Fatal(got)
		}
		e.Lifecycle(id, sluice.Primed)
	}),
	"discard of the last batch ends the run failed": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.park(id)
		e.RunState(id, "lost", sluice.RunFailed)
	}),
	"discard of a chunk is refused": solo(func(e *Env) {
		id, chunks := e.backfilling(2)
		l := e.ClaimOne("a")
		e.Start(l)
		_, err := e.Queue.Quarantine(e.ctx(), l, Fails(chunks[0], true, 0))
		e.must(err)
		_, err = e.Queue.QuarantineDiscard(e.ctx(), chunks[0], operator)
		e.Refused(err, "SLUICE-LOAD-STATE")
		_, err = e.Queue.QuarantineRetry(e.ctx(), chunks[0], operator)
		e.must(err)
		e.Lifecycle(id, sluice.Backfilling)
		e.BlockedBy(id, "E8 no slot") // a halted plan has given it back
		e.slot(id, true)
		e.Drain(l)
		e.Lifecycle(id, sluice.Primed)
	}),
	"run cancel": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0), B(1))
		l := e.ClaimOne("a")
		w := e.Start(l)
		_, err := e.Queue.CancelRun(e.ctx(), id, "r1", operator)
		e.Refused(err, "SLUICE-LOAD-STATE") // a batch is being applied
		e.WantStates(id, "r1", "executing queued")
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		c, err := e.Queue.CancelRun(e.ctx(), id, "r1", operator)
		e.must(err)
		if len(c.Batches) != 1 || c.Lifecycle != sluice.NeedsResync {
			e.t.Fatalf("%+v", c)
		}
		e.WantStates(id, "r1", "succeeded failed/cancelled")
		e.RunState(id, "r1", sluice.RunCancelled)
		_, err = e.Queue.CancelRun(e.ctx(), id, "r1", operator)
		e.Refused(err, "SLUICE-LOAD-STATE")
		_, err = e.Queue.CancelRun(e.ctx(), id, "none", operator)
		e.Refused(err, "SLUICE-LOAD-NO-RUN")
		e.audits("run.cancel", 1)
	}),
	"cancel between claim and start": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		_, err := e.Queue.CancelRun(e.ctx(), id, "r1", operator)
		e.must(err)
		e.everyWrite(l, res[0].BatchID)
	}),
	"run cancel of a plan returns to where the stream was": solo(func(e *Env) {
		id, _ := e.backfilling(2)
		_, err := e.Queue.CancelRun(e.ctx(), id, "plan-run", operator)
		e.must(err)
		e.Lifecycle(id, sluice.PendingBackfill)
		e.NoClaim()
	}),
	"batch retry": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0))
		_, err := e.Queue.BatchRetry(e.ctx(), res[0].BatchID, operator)
		e.Refused(err, "SLUICE-LOAD-STATE")
		l := e.ClaimOne("a")
		e.Start(l)
		_, err = e.Queue.Retry(e.ctx(), l, Fails(res[0].BatchID, true, time.Hour))
		e.must(err)
		_, err = e.Queue.BatchRetry(e.ctx(), res[0].BatchID, operator)
		e.must(err)
		e.Apply(l)
		e.audits("batch.retry", 1)
	}),
	"replan ends the chunks": solo(func(e *Env) {
		id, chunks := e.backfilling(2)
		end := func() error {
			return e.DB.Tx(e.ctx(), func(tx *statedb.Tx) error {
				if err := e.Queue.EndChunks(e.ctx(), tx, id, "plan-run", sluice.ReasonReplanned); err != nil {
					return err
				}
				return e.Queue.Changed(e.ctx(), tx, id)
			})
		}
		l := e.ClaimOne("a")
		w := e.Start(l)
		e.Refused(end(), "SLUICE-LOAD-STATE") // a chunk is being applied
		e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
		e.must(end())
		e.must(end())
		e.WantStates(id, "plan-run", "succeeded failed/replanned")
		e.RunState(id, "plan-run", sluice.RunCancelled)
		e.everyWrite(l, chunks[1])
	}),
	"reset parks and ends a halt": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", B(0, Resume))
		l := e.ClaimOne("a")
		e.must(e.Queue.Halt(e.ctx(), l, "SLUICE-LAKE-DAMAGED", "files are missing"))
		e.must(e.Queue.Release(e.ctx(), l))
		c, err := e.Queue.Reset(e.ctx(), id, operator)
		e.must(err)
		if c.Lifecycle != sluice.NeedsResync {
			e.t.Fatalf("%+v", c)
		}
		e.BlockedBy(id, "E8 needs_resync")
		e.Enqueue(id, "r2", B(0, Final))
		e.Drain(e.ClaimOne("b"))
		e.Lifecycle(id, sluice.Primed)
		e.audits("stream.reset", 1)
	}),
	"gauges": solo(func(e *Env) {
		id, _, _ := e.quarantined(sluice.Append)
		org, team := e.AddOrg("other", 1)
		e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0), B(1))
		e.Advance(30 * time.Second)
		l := e.Claim("b", 1)
		e.must(e.Queue.Linger(e.ctx(), l[0]))
		g, err := e.Queue.Gauges(e.ctx())
		e.must(err)
		if g.ReadyStreams != 2 || g.OldestReady != 30*time.Second || g.BlockedStreams["E10"] != 1 || g.OpenBatches["acme"] != 2 ||
			g.OpenBatches["other"] != 3 || g.RunsHalted != 1 || g.LeasesHeld != 2 || g.LeasesIdle != 1 || g.OrgsAtBudget != 1 ||
			g.Quarantined["SLUICE-LOAD-CONNECT"] != 1 {
			e.t.Fatalf("%+v of %s", g, id)
		}
	}),
	"listings page": solo(func(e *Env) {
		id := e.One(sluice.Append)
		rows := make([]queue.NewBatch, 25)
		for i := range rows {
			rows[i] = B(int64(i))
		}
		e.Enqueue(id, "r1", rows...)
		cursor, seen := "", 0
		for {
			page, next, err := e.Queue.Batches(e.ctx(), queue.Filter{StreamID: id, State: "queued", Limit: 10, Cursor: cursor})
			e.must(err)
			for _, b := range page {
				if b.BatchIndex != int64(seen) {
					e.t.Fatalf("index %d at place %d", b.BatchIndex, seen)
				}
				seen++
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if seen != 25 {
			e.t.Fatal(seen)
		}
		row, _, err := e.Queue.Status(e.ctx(), queue.Filter{Org: "acme"})
		e.must(err)
		if len(row) != 1 || row[0].Open != 25 || row[0].OldestAt == nil {
			e.t.Fatalf("%+v", row)
		}
	}),
}
