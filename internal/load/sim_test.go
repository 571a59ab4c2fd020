package load

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/lake/laketest"
	"sluice/internal/sluice"
)

var (
	simDuration  = flag.Duration("sim.duration", 8*time.Second, "how long TestSimulation goes on")
	simSchedules = flag.Int("sim.schedules", 0, "how many schedules TestSimulation runs; 0: as many as fit into -sim.duration")
	simWorkers   = flag.Int("sim.workers", 2, "how many schedules run at once")
)

// TestSimulation runs random schedules: four loaders, up to 20 streams of five orgs with budgets, producers that repeat,
// reorder, give up and forget files, faults of every call, crashes, processes that stop past the end of their leases and go on, late
// COMMITs. Whatever happens, each table must be what the producer's batches say, applied in order, once.
//
// A schedule depends on its seed alone: SLUICE_SEED=n runs that one again.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if s := os.Getenv("SLUICE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := simulate(t, seed)
		t.Logf("seed %d: trace %x\n%s", seed, r.hash(), strings.Join(r.trace, "\n"))
		if r.err != nil {
			t.Fatal(r.err)
		}
		return
	}
	base := uint64(time.Now().UnixNano())
	var next, calls, steps atomic.Int64
	stop := time.Now().Add(*simDuration)
	var wg sync.WaitGroup
	for range *simWorkers {
		wg.Go(func() {
			for !t.Failed() {
				n := next.Add(1)
				if *simSchedules > 0 && n > int64(*simSchedules) || *simSchedules == 0 && n > 1 && time.Now().After(stop) {
					next.Add(-1)
					return
				}
				seed := base + uint64(n)
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					r := simulate(t, seed)
					calls.Add(int64(r.calls))
					steps.Add(int64(len(r.trace)))
					if r.err != nil {
						t.Errorf("SLUICE_SEED=%d: %v\n%s", seed, r.err, r.tail())
					}
				})
			}
		})
	}
	wg.Wait()
	t.Logf("%d schedules, %d calls", next.Load(), calls.Load())
}

// One seed gives one schedule: else a failure that was found could not be looked at.
func TestSimulationIsDeterministic(t *testing.T) {
	t.Parallel()
	a, b := simulate(t, 7), simulate(t, 7)
	if a.hash() != b.hash() {
		for i := range a.trace {
			if i >= len(b.trace) || a.trace[i] != b.trace[i] {
				t.Fatalf("line %d differs:\n%s\n%s", i, a.trace[i], b.trace[min(i, len(b.trace)-1)])
			}
		}
		t.Fatal("the second trace is longer")
	}
	if a.err != nil {
		t.Fatal(a.err)
	}
}

func simulate(t *testing.T, seed uint64) *rig {
	t.Helper()
	r := newRig(t, seed)
	defer r.close()
	rng := r.rng
	for o := range 5 {
		r.addOrg(fmt.Sprintf("org%d", o+1), int64(1+rng.IntN(3)), sluice.TeamID(o+1))
	}
	types := []sluice.SyncType{sluice.FullRefresh, sluice.Incremental, sluice.Append}
	for range 4 + rng.IntN(17) {
		o := rng.IntN(5)
		s := r.addStream(fmt.Sprintf("org%d", o+1), sluice.TeamID(o+1), types[rng.IntN(3)])
		s.plan(rng, func(path string, rows []laketest.Record) {
			if rng.IntN(30) == 0 {
				r.absent[path] = rows
				return
			}
			r.file(path, rows)
		})
	}
	faults := []float64{0, 0.01, 0.05, 0.15}[rng.IntN(4)] // how often a call fails
	crashes := []float64{0, 0.003, 0.02}[rng.IntN(3)]
	freezes := []float64{0, 0.003, 0.01}[rng.IntN(3)]
	burst := 0 // faults come together: a network that loses one call loses the next ones, too
	r.fate = func(call string) fate {
		if burst = max(burst-1, 0); rng.Float64() >= faults && (burst == 0 || rng.IntN(2) == 0) {
			return fate{}
		}
		if rng.IntN(3) == 0 {
			burst = 2 + rng.IntN(20)
		}
		if call == "apply" {
			return fate{fault: laketest.LoseConn + laketest.Fault(rng.IntN(5)), die: rng.IntN(8) == 0}
		}
		if lakeReads[call] && rng.IntN(4) == 0 {
			return fate{fault: laketest.Conflict}
		}
		return fate{fault: laketest.LoseConn + laketest.Fault(rng.IntN(2)), die: rng.IntN(20) == 0}
	}
	for range 4 {
		r.startSkewed()
	}
	for range 300 + rng.IntN(1500) {
		if r.err != nil {
			return r
		}
		r.simStep(crashes, freezes)
	}
	for _, s := range r.streams {
		for len(s.planned) > 0 {
			r.deliver(s)
		}
	}
	for _, p := range r.procs { // some live on, frozen or not
		if rng.IntN(2) == 0 {
			r.crash(p)
		}
	}
	if rng.IntN(2) == 0 {
		r.settle()
	}
	r.heal()
	r.settle()
	r.check()
	return r
}

func (r *rig) startSkewed() {
	r.start().skew = time.Duration(r.rng.IntN(240)-120) * time.Second
}

// simStep does one thing.
func (r *rig) simStep(crashes, freezes float64) {
	rng := r.rng
	r.timers(0.2) // a process that goes on after a stop does not run its timers first
	r.reap()
	var live []*proc
	var ready []*task
	dead := 4
	for _, p := range r.procs {
		if p.dead {
			continue
		}
		dead--
		if !p.alive() {
			continue
		}
		live = append(live, p)
		for _, t := range p.tasks {
			if t.ready() {
				ready = append(ready, t)
			}
		}
	}
	if dead > 0 && rng.IntN(20) == 0 {
		r.startSkewed()
	}
	if len(live) > 0 {
		p := live[rng.IntN(len(live))]
		if rng.Float64() < crashes {
			r.crash(p)
			return
		}
		if rng.Float64() < freezes {
			d := time.Duration(1+rng.IntN(180)) * time.Second
			r.note("%s stops for %s", p.name, d)
			p.frozen = r.now.Add(d)
			return
		}
	}
	switch n := rng.IntN(100); {
	case n < 70 && len(ready) > 0:
		r.run(ready[rng.IntN(len(ready))])
	case n < 80:
		if s := r.streams[rng.IntN(len(r.streams))]; len(s.planned) > 0 {
			r.deliver(s)
		}
	case n < 88 && len(live) > 0:
		live[rng.IntN(len(live))].look()
	case n < 91 && len(live) > 0:
		live[rng.IntN(len(live))].beat()
	case n < 92 && len(live) > 0:
		live[rng.IntN(len(live))].sweep()
	case n < 93:
		r.settle()
	case n < 94 && rng.IntN(4) == 0:
		r.operate()
	case n < 99:
		r.advance(time.Duration(rng.IntN(3000)) * time.Millisecond)
	default:
		r.advance(time.Duration(rng.IntN(90)) * time.Second)
	}
}
