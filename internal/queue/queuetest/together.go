package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Several processes, and random operations.
var togetherCases = map[string]func(t *testing.T, open Open){
	"budgets under 8 claimers": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		const budget, streams = 4, 12
		rounds := 30 // SLUICE_TEST_ROUNDS=1000 for the long version
		if n, err := strconv.Atoi(os.Getenv("SLUICE_TEST_ROUNDS")); err == nil {
			rounds = n
		}
		org, team := e.AddOrg("acme", budget)
		for range streams {
			e.Enqueue(e.AddStream(org, team, sluice.Append, ""), "r1", B(0))
		}
		var wg sync.WaitGroup
		var over, claims atomic.Int64
		for i := range 8 {
			p := NewEnv(t, open)
			wg.Go(func() {
				owner := fmt.Sprint("claimer", i)
				for range rounds {
					l, err := p.Queue.Claim(p.ctx(), queue.ClaimRequest{Owner: owner, Free: 3})
					if err != nil {
						t.Error(err)
						return
					}
					held, _, err := statedb.One(p.ctx(), p.DB, sql("LeasesHeld"), statedb.Args{"org": org}, statedb.Value[int64])
					if err != nil {
						t.Error(err)
						return
					}
					if held > budget {
						over.Add(1)
					}
					claims.Add(int64(len(l)))
					for j, lease := range l {
						if j == 0 {
							if err := p.Queue.Linger(p.ctx(), lease); err != nil && !errors.Is(err, queue.ErrLeaseLost) {
								t.Error(err)
							}
						}
						if err := p.Queue.Release(p.ctx(), lease); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if over.Load() > 0 {
			t.Errorf("the budget of %d was exceeded %d times", budget, over.Load())
		}
		if claims.Load() == 0 {
			t.Error("nothing was ever claimed")
		}
	},
	"many loaders, each batch once and in order": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		org, team := e.AddOrg("acme", -1)
		const streams, batches = 6, 8
		for range streams {
			id := e.AddStream(org, team, sluice.Append, "")
			for i := range int64(batches) {
				e.Enqueue(id, "r1", B(i))
			}
		}
		var mu sync.Mutex
		next := map[sluice.StreamID]int64{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var left atomic.Int64
		left.Store(streams * batches)
		var wg sync.WaitGroup
		for i := range 4 {
			p := NewEnv(t, open)
			wg.Go(func() {
				for left.Load() > 0 && ctx.Err() == nil {
					leases, err := p.Queue.Claim(ctx, queue.ClaimRequest{Owner: fmt.Sprint("loader", i), Free: 1})
					if err != nil {
						t.Error(err)
						return
					}
					for _, l := range leases {
						w, err := p.Queue.Next(ctx, l)
						if err == nil {
							_, err = p.Queue.Start(ctx, l, w.Batch.BatchID)
						}
						if err == nil {
							mu.Lock()
							if w.Batch.BatchIndex != next[l.StreamID] {
								t.Errorf("batch %d after %d", w.Batch.BatchIndex, next[l.StreamID]-1)
							}
							next[l.StreamID]++
							mu.Unlock()
							err = p.Queue.Succeed(ctx, l, p.applied(w))
							left.Add(-1)
						}
						if err != nil {
							t.Error(err)
							return
						}
						if err := p.Queue.Release(ctx, l); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if left.Load() != 0 {
			t.Errorf("%d batches left", left.Load())
		}
		e.HeadsRight()
	},
	"enqueue beside loading keeps the head": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		id := e.One(sluice.Append)
		const batches = 60
		errs := make(chan error, 1)
		p := NewEnv(t, open)
		go func() {
			for i := range int64(batches) {
				if _, err := p.TryEnqueue(id, "r1", B(i)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		done := 0
		var l *sluice.Lease
		for deadline := time.Now().Add(time.Minute); done < batches && time.Now().Before(deadline); {
			if l == nil {
				if got := e.Claim("a", 1); len(got) == 1 {
					l = &got[0]
				}
				continue
			}
			w, err := e.Queue.Next(e.ctx(), *l)
			if errors.Is(err, queue.ErrNoWork) {
				continue
			}
			e.must(err)
			_, err = e.Queue.Start(e.ctx(), *l, w.Batch.BatchID)
			e.must(err)
			e.must(e.Queue.Succeed(e.ctx(), *l, e.applied(w)))
			done++
		}
		e.must(<-errs)
		if done != batches {
			t.Fatalf("%d of %d: a head was lost: %s", done, batches, e.blocked())
		}
		e.HeadsRight()
	},
	"wake-ups": solo(func(e *Env) {
		ctx, cancel := context.WithCancel(e.ctx())
		defer cancel()
		wake := e.Queue.Wake(ctx)
		id := e.One(sluice.Append)
		if e.DB.Dialect() == statedb.PostgreSQL {
			<-wake // it listens
		}
		e.Enqueue(id, "r1", B(0))
		select {
		case <-wake:
		case <-time.After(30 * time.Second):
			e.t.Fatal("nobody woke up")
		}
	}),
	"random operations keep the invariants": func(t *testing.T, open Open) {
		e := NewEnv(t, open)
		org, team := e.AddOrg("acme", 2)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		m := &model{
			e: e, leases: map[string]sluice.Lease{}, ended: map[sluice.BatchID]sluice.LoadState{}, applied: map[sluice.StreamID][2]int64{},
		}
		for _, sync := range []sluice.SyncType{sluice.FullRefresh, sluice.Incremental, sluice.Append} {
			m.streams = append(m.streams, e.AddStream(org, team, sync, ""))
		}
		for step := range 250 {
			what := m.step(r)
			if wrong, err := e.Queue.HeadsRight(e.ctx()); err != nil || len(wrong) > 0 {
				t.Fatalf("seed %d, step %d, after %s: wrong heads %v, %v: %s", seed, step, what, wrong, err, e.blocked())
			}
			if wrong := m.check(); wrong != "" {
				t.Fatalf("seed %d, step %d, after %s: %s", seed, step, what, wrong)
			}
		}
		rep, err := e.Queue.Sweep(e.ctx(), "s")
		e.must(err)
		if rep.HeadsRepaired+rep.SupersedeRepairs != 0 {
			t.Fatalf("seed %d: the sweep found something: %+v", seed, rep)
		}
		n, _, err := statedb.One(e.ctx(), e.DB, sql("OrphanHistory"), nil, statedb.Value[int64])
		e.must(err)
		if n != 0 {
			t.Fatalf("seed %d: %d batches whose last history row differs", seed, n)
		}
	},
}

// model does random things to a queue and checks what each answer must be.
type model struct {
	e       *Env
	streams []sluice.StreamID
	leases  map[string]sluice.Lease
	batches []sluice.BatchID
	runs    int
	ended   map[sluice.BatchID]sluice.LoadState
	applied map[sluice.StreamID][2]int64 // run seq and index of the last applied batch
	wrong   string
}

// check looks at what must hold after every step: what is terminal stays as it is, batches are applied in the order of
// their streams, and runs agree with their batches.
func (m *model) check() string {
	e := m.e
	for _, id := range m.streams {
		all, _, err := e.Queue.Batches(e.ctx(), queue.Filter{StreamID: id, Limit: 1000})
		e.must(err)
		for _, b := range all {
			if before, ok := m.ended[b.BatchID]; ok && before != b.LoadState {
				return fmt.Sprintf("batch %d of run %s was %s and is %s", b.BatchIndex, b.RunID, before, b.LoadState)
			}
			if !b.LoadState.Open() {
				m.ended[b.BatchID] = b.LoadState
			}
		}
	}
	n, _, err := statedb.One(e.ctx(), e.DB, sql("RunsAmiss"), nil, statedb.Value[int64])
	e.must(err)
	if n > 0 {
		return fmt.Sprintf("%d runs do not agree with their batches", n)
	}
	return m.wrong
}

func (m *model) ok(err error) bool {
	m.e.t.Helper()
	if err != nil && sluice.CodeOf(err) == "" && !errors.Is(err, queue.ErrLeaseLost) && !errors.Is(err, queue.ErrNoWork) {
		m.e.t.Fatal(err)
	}
	return err == nil
}

func (m *model) step(r *rand.Rand) string {
	e := m.e
	id := m.streams[r.IntN(len(m.streams))]
	owner := fmt.Sprint("o", r.IntN(3))
	pick := func() sluice.BatchID {
		if len(m.batches) == 0 {
			return "00000000-0000-4000-8000-00000000000f"
		}
		return m.batches[r.IntN(len(m.batches))]
	}
	switch n := r.IntN(20); n {
	case 0, 1, 2, 3:
		if r.IntN(2) == 0 {
			m.runs++
		}
		var mods []func(*queue.NewBatch)
		for _, x := range []func(*queue.NewBatch){Final, Resume, Waiting} {
			if r.IntN(4) == 0 {
				mods = append(mods, x)
			}
		}
		res, err := e.Queue.Enqueue(e.ctx(), queue.EnqueueRequest{
			StreamID: id, RunID: sluice.RunID(fmt.Sprint("r", m.runs)), IsFirstEver: r.IntN(3) == 0,
			Batches: []queue.NewBatch{B(int64(r.IntN(4)), mods...)},
		})
		if m.ok(err) {
			m.batches = append(m.batches, res[0].BatchID)
		}
		return "enqueue"
	case 4:
		m.ok(second(e.TryEnqueue(id, fmt.Sprint("r", m.runs), Marker(int64(r.IntN(4))))))
		return "marker"
	case 5, 6:
		m.ok(e.Queue.Upstream(e.ctx(), pick(), []sluice.UpstreamState{sluice.UpstreamSucceeded, sluice.UpstreamSucceeded, sluice.UpstreamFailed}[r.IntN(3)]))
		return "upstream"
	case 7, 8, 9:
		for _, l := range e.Claim(owner, 1+r.IntN(2)) {
			m.leases[owner] = l
		}
		return "claim"
	case 10, 11, 12, 13, 14, 15:
		return m.work(r, owner)
	case 16:
		m.ok(second(e.Queue.QuarantineRetry(e.ctx(), pick(), operator)))
		return "quarantine retry"
	case 17:
		m.ok(second(e.Queue.QuarantineDiscard(e.ctx(), pick(), operator)))
		return "discard"
	case 18:
		if r.IntN(3) == 0 {
			m.ok(second(e.Queue.CancelRun(e.ctx(), id, sluice.RunID(fmt.Sprint("r", r.IntN(m.runs+1))), operator)))
		}
		return "cancel"
	default:
		e.Advance(time.Duration(r.IntN(90)) * time.Second)
		return "time"
	}
}

func second[T any](_ T, err error) error { return err }

func (m *model) work(r *rand.Rand, owner string) string {
	e := m.e
	l, ok := m.leases[owner]
	if !ok {
		return "nothing"
	}
	w, err := e.Queue.Next(e.ctx(), l)
	if !m.ok(err) {
		if r.IntN(2) == 0 {
			m.ok(e.Queue.Release(e.ctx(), l))
			delete(m.leases, owner)
		}
		return "next"
	}
	if !w.PrevExecuting {
		if !m.ok(second(e.Queue.Start(e.ctx(), l, w.Batch.BatchID))) || r.IntN(3) == 0 {
			return "start"
		}
	}
	switch r.IntN(5) {
	case 0:
		m.ok(second(e.Queue.Retry(e.ctx(), l, Fails(w.Batch.BatchID, r.IntN(2) == 0, time.Duration(r.IntN(20))*time.Second))))
		return "retry"
	case 1:
		m.ok(second(e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))))
		return "quarantine"
	}
	if m.ok(e.Queue.Succeed(e.ctx(), l, e.applied(w))) {
		now, last := [2]int64{w.Batch.RunSeq, w.Batch.BatchIndex}, m.applied[l.StreamID]
		if now[0] < last[0] || now[0] == last[0] && now[1] <= last[1] {
			m.wrong = fmt.Sprintf("run %d batch %d was applied after run %d batch %d", now[0], now[1], last[0], last[1])
		}
		m.applied[l.StreamID] = now
	}
	return "succeed"
}
