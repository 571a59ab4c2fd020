package queuetest

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// loader.md §5 and the lingering leases of §7.
func (e *Env) lingering(owner string) []queue.Lingerer {
	e.t.Helper()
	held, err := e.Queue.Lingering(e.ctx(), owner)
	e.must(err)
	return held
}

var leaseCases = map[string]func(t *testing.T, open Open){
	"heartbeat keeps, expiry is terminal": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		w := e.Start(l)
		for range 20 { // much longer than the TTL
			e.Advance(15 * time.Second)
			lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0)
			e.must(err)
			if len(lost) != 0 {
				e.t.Fatal(lost)
			}
			e.NoClaim()
		}
		e.Advance(queue.DefaultTTL)
		e.everyWrite(l, w.Batch.BatchID)
		lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0)
		e.must(err)
		if len(lost) != 1 || lost[0] != id { // although nobody has taken it
			e.t.Fatal(lost)
		}
		again := e.ClaimOne("a")
		if again.Epoch <= l.Epoch {
			e.t.Fatalf("epoch %d after %d", again.Epoch, l.Epoch)
		}
		if lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0); err != nil || len(lost) != 1 {
			e.t.Fatalf("the old epoch is renewed: %v, %v", lost, err)
		}
		e.everyWrite(l, w.Batch.BatchID)
		e.must(e.Queue.Succeed(e.ctx(), again, e.applied(w)))
	}),
	"heartbeat of many, some lost": solo(func(e *Env) {
		org, team := e.AddOrg("acme", -1)
		for range 5 {
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		l := e.Claim("a", 5)
		e.must(e.Queue.Release(e.ctx(), l[1]))
		e.must(e.Queue.Release(e.ctx(), l[3]))
		lost, err := e.Queue.Heartbeat(e.ctx(), "a", l, 0)
		e.must(err)
		if fmt.Sprint(lost) != fmt.Sprint([]sluice.StreamID{l[1].StreamID, l[3].StreamID}) {
			e.t.Fatal(lost)
		}
	}),
	"release is for the owner only": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		old := e.ClaimOne("a")
		e.Advance(queue.DefaultTTL + time.Second)
		l := e.ClaimOne("b")
		e.must(e.Queue.Release(e.ctx(), old)) // no error, no effect
		e.NoClaim()
		e.must(e.Queue.Release(e.ctx(), l))
		e.ClaimOne("c")
	}),
	"next on a lost lease": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Advance(queue.DefaultTTL)
		_, err := e.Queue.Next(e.ctx(), l)
		e.lost("next", err)
		e.lost("linger", e.Queue.Linger(e.ctx(), l))
	}),
	"lingering counts, and gives way at the budget": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 1)
		first := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(first, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		second := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(second, "r1", B(0))
		e.NoClaim() // its session is still open: it is asked for
		held := e.lingering("a")
		if len(held) != 1 || !held[0].Asked || held[0].StreamID != first || held[0].Epoch != l.Epoch || held[0].HasWork {
			e.t.Fatalf("%+v", held)
		}
		e.must(e.Queue.Release(e.ctx(), l)) // the owner has closed it
		if other := e.ClaimOne("b"); other.StreamID != second {
			e.t.Fatal(other)
		}
		e.Enqueue(first, "r2", B(0))
		e.NoClaim() // the budget is used by real work now
	}),
	"who does not answer for a lingering lease loses it": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 1)
		first := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(first, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		second := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(second, "r1", B(0))
		e.NoClaim()
		beat := func() int {
			lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0)
			e.must(err)
			return len(lost)
		}
		e.Advance(10 * time.Second)
		if beat() != 0 {
			e.t.Fatal("it has time to answer")
		}
		e.Advance(10 * time.Second)
		if beat() != 1 {
			e.t.Fatal("it is renewed for ever")
		}
		e.NoClaim() // its session may be open until the lease's end
		e.Advance(queue.DefaultTTL - 10*time.Second)
		if other := e.ClaimOne("b"); other.StreamID != second {
			e.t.Fatal(other)
		}
	}),
	"what an owner sees of its lingering leases": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 2)
		id := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		if held := e.lingering("a"); len(held) != 0 {
			e.t.Fatalf("%+v", held)
		}
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		if held := e.lingering("a"); len(held) != 1 || held[0].HasWork || held[0].Asked || !held[0].OrgReady {
			e.t.Fatalf("%+v", held)
		}
		e.Enqueue(id, "r1", B(1))
		if held := e.lingering("a"); !held[0].HasWork {
			e.t.Fatalf("%+v", held)
		}
		e.must(e.Control.SetOrgState(e.ctx(), org, sluice.OrgPaused, control.By{}))
		if held := e.lingering("a"); held[0].OrgReady {
			e.t.Fatalf("%+v", held)
		}
		if held := e.lingering("b"); len(held) != 0 {
			e.t.Fatalf("%+v", held)
		}
		e.Advance(queue.DefaultTTL)
		if held := e.lingering("a"); len(held) != 0 {
			e.t.Fatalf("%+v", held)
		}
	}),
	"lingering lease below the budget stays": solo(func(e *Env) {
		org, team := e.AddOrg("acme", 2)
		first := e.AddStream(org, team, sluice.Append, "")
		e.Enqueue(first, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		e.ClaimOne("b")
		if lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0); err != nil || len(lost) != 0 {
			e.t.Fatal(lost, err)
		}
	}),
	"owner of a lingering lease goes on first": solo(func(e *Env) {
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Drain(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		e.Enqueue(id, "r1", B(1))
		e.NoClaim()
		e.Apply(l)
		e.must(e.Queue.Linger(e.ctx(), l))
		e.Enqueue(id, "r1", B(2))
		e.NoClaim()
		if held := e.lingering("a"); held[0].Asked {
			e.t.Fatalf("%+v", held)
		}
		e.Advance(6 * time.Second) // it does not react: it is asked to let others have it
		if _, err := e.Queue.Sweep(e.ctx(), "s"); err != nil {
			e.t.Fatal(err)
		}
		e.NoClaim()
		if held := e.lingering("a"); !held[0].Asked {
			e.t.Fatalf("%+v", held)
		}
	}),
	"executing for an hour, then its owner is gone": func(t *testing.T, open Open) {
		e, other := NewEnv(t, open), NewEnv(t, open)
		id := e.One(sluice.Append)
		e.Enqueue(id, "r1", B(0))
		l := e.ClaimOne("a")
		e.Start(l)
		for range 120 {
			e.Advance(30 * time.Second)
			lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, queue.DefaultTTL)
			if err != nil || len(lost) > 0 {
				t.Fatalf("heartbeat: %v, %v", lost, err)
			}
			e.NoClaim()
		}
		e.WantStates(id, "r1", "executing")
		e.Advance(queue.DefaultTTL + time.Second)
		other.SetNow(*e.now)
		claimed := make(chan int, 2)
		for _, p := range []*Env{e, other} {
			go func() { claimed <- len(p.Claim(fmt.Sprintf("%p", p), 8)) }()
		}
		if n := <-claimed + <-claimed; n != 1 {
			t.Fatalf("%d of two claimers recover it", n)
		}
	},
	"short batches in a row, longer than the TTL": solo(func(e *Env) {
		id := e.One(sluice.Append)
		rows := make([]queue.NewBatch, 60)
		for i := range rows {
			rows[i] = B(int64(i))
		}
		e.Enqueue(id, "r1", rows...)
		l := e.ClaimOne("a")
		for range rows {
			e.Advance(2 * time.Second)
			if lost, err := e.Queue.Heartbeat(e.ctx(), "a", []sluice.Lease{l}, 0); err != nil || len(lost) > 0 {
				e.t.Fatal(lost, err)
			}
			e.Apply(l)
		}
	}),
}
