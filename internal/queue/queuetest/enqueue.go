package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// The rules of loader.md §2 and its edge cases 1 to 9.
var enqueueCases = map[string]func(t *testing.T, open Open){
	"repeated call is duplicate": solo(func(e *Env) {
		id := e.One(sluice.Append)
		first := e.Enqueue(id, "r1", B(0), B(1))
		again := e.Enqueue(id, "r1", B(0), B(1))
		for i := range first {
			if first[i].Result != queue.Accepted || again[i].Result != queue.Duplicate || first[i].BatchID != again[i].BatchID {
				e.t.Fatalf("%v then %v", first[i], again[i])
			}
		}
		if first[0].BatchID != queue.BatchID(id, "r1", 0) {
			e.t.Fatal("the id is not made of the key")
		}
	}),
	"other content is a conflict and changes nothing": solo(func(e *Env) {
		id := e.One(sluice.Append)
		size := int64(5)
		e.Enqueue(id, "r1", B(0, func(b *queue.NewBatch) { b.ByteSize = &size; b.ETag = "a" }))
		other := int64(6)
		for name, mod := range map[string]func(*queue.NewBatch){
			"path": Path("s3://x/other"), "size": func(b *queue.NewBatch) { b.ByteSize = &other },
			"etag": func(b *queue.NewBatch) { b.ETag = "b" }, "resume": Resume,
			"id":         func(b *queue.NewBatch) { b.BatchID = "00000000-0000-4000-8000-000000000001" },
			"final path": func(b *queue.NewBatch) { b.Path = "s3://x/other"; b.IsFinal = true },
		} {
			_, err := e.TryEnqueue(id, "r1", B(1), B(0, mod))
			if sluice.CodeOf(err) != "SLUICE-LOAD-BATCH-CONFLICT" {
				e.t.Errorf("%s: %v", name, err)
			}
		}
		e.WantStates(id, "r1", "queued")
	}),
	"final flag on the data row": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1, Final, Total(2)))
		e.RunState(id, "r1", sluice.RunSealed)
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"final marker with the index of the last row": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1))
		if r := e.Enqueue(id, "r1", Marker(1)); r[0].Result != queue.Accepted {
			e.t.Fatal(r)
		}
		if r := e.Enqueue(id, "r1", Marker(1)); r[0].Result != queue.Duplicate {
			e.t.Fatal(r)
		}
		if r := e.Enqueue(id, "r1", B(1, Final)); r[0].Result != queue.Duplicate {
			e.t.Fatal(r)
		}
		e.WantStates(id, "r1", "queued queued")
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"final marker with the same index and the same path": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.Enqueue(id, "r1", B(0, Final))
		e.WantStates(id, "r1", "queued")
		e.RunState(id, "r1", sluice.RunSealed)
	}),
	"final marker with the next index": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1), Marker(2, Total(2)))
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
		_, err := e.TryEnqueue(id, "r1", B(2))
		e.Refused(err, "SLUICE-LOAD-RUN-SEALED")
	}),
	"marker of the next index without a total": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), Marker(1))
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"marker before its data row, same index": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), Marker(1))
		e.Enqueue(id, "r1", B(1))
		l := e.ClaimOne("a")
		if got := fmt.Sprint(e.Drain(l)); got != "[r1/0 r1/1]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"marker before its data row, after the run has ended without it": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", Marker(0))
		e.RunState(id, "r1", sluice.RunSucceeded)
		e.Enqueue(id, "r1", B(0))
		e.RunState(id, "r1", sluice.RunSealed)
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"marker with a total before its data rows": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", Marker(1, Total(2)))
		e.RunState(id, "r1", sluice.RunSealed)
		e.Enqueue(id, "r1", B(1))
		e.BlockedBy(id, "E11 missing index 0")
		e.NoClaim()
		e.Enqueue(id, "r1", B(0))
		if got := fmt.Sprint(e.Drain(e.ClaimOne("a"))); got != "[r1/0 r1/1]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"wrong total": solo(func(e *Env) {
		id := e.One(sluice.Append)
		_, err := e.TryEnqueue(id, "r1", B(0), B(1, Final, Total(3)))
		e.Refused(err, "SLUICE-LOAD-RUN-COUNT")
		_, err = e.TryEnqueue(id, "r1", B(0), Marker(5, Total(2)))
		e.Refused(err, "SLUICE-LOAD-RUN-COUNT")
		_, err = e.TryEnqueue(id, "r1", B(0), B(1), Marker(0))
		e.Refused(err, "SLUICE-LOAD-RUN-COUNT")
	}),
	"two different finals": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0), B(1), Marker(1, Total(2)))
		_, err := e.TryEnqueue(id, "r1", Marker(0, Total(1)))
		e.Refused(err, "SLUICE-LOAD-BATCH-CONFLICT")
	}),
	"newer run seals the older one": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		e.Enqueue(id, "r2", B(0, Final))
		e.RunState(id, "r1", sluice.RunSealed)
		_, err := e.TryEnqueue(id, "r1", B(1))
		e.Refused(err, "SLUICE-LOAD-RUN-SEALED")
		if r := e.Enqueue(id, "r1", B(0)); r[0].Result != queue.Duplicate {
			e.t.Fatal(r)
		}
		if got := fmt.Sprint(e.Drain(e.ClaimOne("a"))); got != "[r1/0 r2/0]" {
			e.t.Fatal(got)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
		e.RunState(id, "r2", sluice.RunSucceeded)
	}),
	"newer run ends an older one that has applied everything": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.RunState(id, "r1", sluice.RunOpen)
		e.Enqueue(id, "r2", B(0))
		e.RunState(id, "r1", sluice.RunSucceeded)
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"empty refresh becomes batch 0": solo(func(e *Env) {
		id := e.One(sluice.FullRefresh)
		e.Enqueue(id, "r1", Marker(0, Total(0)))
		w := e.Apply(e.ClaimOne("a"))
		if w.Batch.Path != "" || w.Batch.BatchIndex != 0 {
			e.t.Fatalf("%+v", w.Batch)
		}
		e.RunState(id, "r1", sluice.RunSucceeded)
		if r := e.Enqueue(id, "r1", Marker(0, Total(0))); r[0].Result != queue.Duplicate {
			e.t.Fatal(r)
		}
	}),
	"empty run without effect": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", Marker(0, Total(0)))
		e.RunState(id, "r1", sluice.RunSucceeded)
		e.NoClaim()
	}),
	"path, stream, team, sync type and size of the call": solo(func(e *Env) {
		id := e.One(sluice.Append)
		_, err := e.TryEnqueue(id, "r1", B(0, Path("s3://other/a")))
		e.Refused(err, "SLUICE-LOAD-PATH-REFUSED")
		_, err = e.TryEnqueue("7b000000-0000-4000-8000-000000000000", "r1", B(0))
		e.Refused(err, "SLUICE-LOAD-NO-STREAM")
		_, err = e.TryEnqueue("no uuid", "r1", B(0))
		e.Refused(err, "SLUICE-LOAD-NO-STREAM")
		other := sluice.TeamID(999_999)
		_, err = e.Queue.Enqueue(e.ctx(), queue.EnqueueRequest{StreamID: id, RunID: "r1", TeamID: &other, Batches: []queue.NewBatch{B(0)}})
		e.Refused(err, "SLUICE-LOAD-NO-STREAM")
		_, err = e.Queue.Enqueue(e.ctx(), queue.EnqueueRequest{StreamID: id, RunID: "r1", SyncType: sluice.CDC, Batches: []queue.NewBatch{B(0)}})
		e.Refused(err, "SLUICE-LOAD-SYNC-TYPE")
		many := make([]queue.NewBatch, 1001)
		for i := range many {
			many[i] = B(int64(i))
		}
		_, err = e.TryEnqueue(id, "r1", many...)
		e.Refused(err, "SLUICE-USAGE")
		for run, b := range map[string]queue.NewBatch{
			"r1": B(0, Path("")), "r2": B(0, Path("s3://x/a\x00b")), "r3": B(0, Path("s3://x/\xff")), "r\x00": B(0), "": B(0), "r4": B(-1),
			strings.Repeat("r", 201): B(0), "r5": B(0, func(b *queue.NewBatch) { b.UpstreamState = "perhaps" }),
			"r6": B(0, func(b *queue.NewBatch) { b.BatchID = "7" }),
		} {
			_, err = e.TryEnqueue(id, run, b)
			e.Refused(err, "SLUICE-USAGE")
		}
		if _, err = e.Queue.Run(e.ctx(), id, "r1"); sluice.CodeOf(err) != "SLUICE-LOAD-NO-RUN" {
			e.t.Fatalf("a refused call left a run: %v", err)
		}
		e.Enqueue(id, "r1", many[:1000]...)
	}),
	"batch id of another batch": solo(func(e *Env) {
		id := e.One(sluice.Append)
		own := func(b *queue.NewBatch) { b.BatchID = "00000000-0000-4000-8000-000000000001" }
		e.Enqueue(id, "r1", B(0, own))
		_, err := e.TryEnqueue(id, "r2", B(0, own))
		e.Refused(err, "SLUICE-LOAD-BATCH-CONFLICT")
		_, err = e.TryEnqueue(id, "r1", B(1, own))
		e.Refused(err, "SLUICE-LOAD-BATCH-CONFLICT")
	}),
	"upstream gates and is final": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0, Waiting))
		e.NoClaim()
		e.BlockedBy(id, "E9 upstream waiting")
		e.must(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamSucceeded))
		e.must(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamSucceeded))
		e.Refused(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamFailed), "SLUICE-LOAD-STATE")
		e.Refused(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamNone), "SLUICE-USAGE")
		e.Refused(e.Queue.Upstream(e.ctx(), "00000000-0000-4000-8000-00000000000f", sluice.UpstreamFailed), "SLUICE-LOAD-NO-BATCH")
		e.ClaimOne("a")
	}),
	"upstream of a stream with a Delta table is waiting unless said otherwise": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 4)
		id := e.AddStream(org, team, sluice.FullRefresh, "s3://d/t")
		res := e.Enqueue(id, "r1", B(0, func(b *queue.NewBatch) { b.UpstreamState = "" }), B(1))
		for i, want := range []sluice.UpstreamState{sluice.UpstreamWaiting, sluice.UpstreamNone} {
			if b, _, err := e.Queue.Batch(e.ctx(), res[i].BatchID); err != nil || b.UpstreamState != want {
				e.t.Fatalf("%+v, %v", b, err)
			}
		}
		e.NoClaim()
	}),
	"upstream failed for the second of three": solo(func(e *Env) {
		id := e.One(sluice.Append)
		res := e.Enqueue(id, "r1", B(0, Waiting), B(1, Waiting), B(2, Waiting, Final))
		e.must(e.Queue.Upstream(e.ctx(), res[0].BatchID, sluice.UpstreamSucceeded))
		e.must(e.Queue.Upstream(e.ctx(), res[1].BatchID, sluice.UpstreamFailed))
		e.WantStates(id, "r1", "queued failed/upstream_failed failed/upstream_failed")
		e.RunState(id, "r1", sluice.RunSealed)
		l := e.ClaimOne("a")
		e.Drain(l)
		e.RunState(id, "r1", sluice.RunFailed)
		e.Lifecycle(id, sluice.Primed)
		e.Enqueue(id, "r2", B(0, Final))
		if got := fmt.Sprint(e.Drain(l)); got != "[r2/0]" {
			e.t.Fatal(got)
		}
	}),
	"inbox": solo(func(e *Env) {
		id := e.One(sluice.Append)
		insert := func(kind, run string, index int, path any, state string) {
			_, err := statedb.Exec(e.ctx(), e.DB, sql("InboxInsert"), statedb.Args{
				"kind": kind, "stream_id": id, "run_id": run, "index": index, "path": path, "upstream": state,
			})
			e.must(err)
		}
		insert("batch", "r1", 0, "s3://x/a", "waiting")
		insert("batch", "r1", 1, "s3://other/b", "none")
		insert("batch", "r1", 1, "s3://x/b", "none")
		insert("batch", "r1", 1, "s3://x/b", "none")
		insert("final", "r1", 1, nil, "none")
		insert("upstream", "r1", 0, nil, "succeeded")
		insert("upstream", "r9", 0, nil, "succeeded")
		n, err := e.Queue.DrainInbox(e.ctx(), 100)
		e.must(err)
		results, err := statedb.All(e.ctx(), e.DB, sql("InboxResults"), nil, statedb.Value[string])
		e.must(err)
		if got := fmt.Sprint(n, results); got != "7 [accepted refused accepted duplicate accepted accepted refused]" {
			e.t.Fatal(got)
		}
		e.Drain(e.ClaimOne("a"))
		e.RunState(id, "r1", sluice.RunSucceeded)
	}),
	"two processes enqueue one run at once": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		id := e.One(sluice.Append)
		const processes = 4
		type answer struct {
			res []queue.EnqueueResult
			err error
		}
		answers := make(chan answer, processes)
		for range processes {
			p := NewEnv(t, open)
			go func() {
				res, err := p.TryEnqueue(id, "r1", B(0), B(1), B(2, Final, Total(3)))
				answers <- answer{res, err}
			}()
		}
		accepted := 0
		var errs error
		for range processes {
			a := <-answers
			errs = errors.Join(errs, a.err)
			for _, r := range a.res {
				if r.Result == queue.Accepted {
					accepted++
				}
			}
		}
		e.must(errs)
		if accepted != 3 {
			t.Fatalf("%d rows accepted instead of 3", accepted)
		}
		e.WantStates(id, "r1", "queued queued queued")
		e.HeadsRight()
	},
	"two runs at the same instant": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		id := e.One(sluice.Append)
		errs := make(chan error, 8)
		for i := range cap(errs) {
			p := NewEnv(t, open)
			go func() {
				_, err := p.TryEnqueue(id, fmt.Sprintf("r%d", i), B(0, Final))
				errs <- err
			}()
		}
		for range cap(errs) {
			e.must(<-errs)
		}
		runs, _, err := e.Queue.Runs(e.ctx(), queue.Filter{StreamID: id})
		e.must(err)
		seen := map[int64]bool{}
		for _, r := range runs {
			seen[r.Seq] = true
		}
		if len(seen) != cap(errs) {
			t.Fatalf("%d order numbers for %d runs", len(seen), cap(errs))
		}
		if got := e.Drain(e.ClaimOne("a")); len(got) != cap(errs) {
			t.Fatal(got)
		}
	},
}
