package load

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/lake/laketest"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// TestFaultSweep fails the n-th call of a small workload, for every n, in every way: the call has no effect, or its reply
// is lost; a COMMIT lands, is lost, or arrives late; the process goes on, or is killed in the call. Afterwards everything
// must come to its end by itself, each row once.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	ways := []fate{
		{fault: laketest.LoseConn},
		{fault: laketest.LoseReply},
		{fault: laketest.LoseCommit},
		{fault: laketest.LateCommit},
		{fault: laketest.LoseConn, die: true},
		{fault: laketest.LoseReply, die: true},
		{fault: laketest.LoseCommit, die: true},
		{fault: laketest.LateCommit, die: true},
		{fault: laketest.Conflict},
	}
	base := newRig(t, 1)
	sweepWorkload(base)
	base.close()
	var next, faults atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !t.Failed() {
				n := int(next.Add(1) - 1)
				hit := false
				for _, way := range ways {
					r, name := sweep(t, base, n, way)
					if name == "" {
						continue // past the end, or not a way of this call
					}
					hit = true
					faults.Add(1)
					if r.err != nil {
						t.Errorf("call %d, %s, fault %d, killed %v: %v\n%s", n, name, way.fault, way.die, r.err, r.tail())
						return
					}
				}
				if !hit {
					if n < 50 {
						t.Errorf("the workload has only %d calls", n)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls, %d faults", next.Load()-2, faults.Load())
}

// sweep runs the workload with one fault and gives the name of the call that failed; empty if none did.
func sweep(t *testing.T, base *rig, n int, way fate) (*rig, string) {
	t.Helper()
	r := newRigOn(t, 1, base.data)
	for _, s := range base.streams {
		mine := *s
		r.streams = append(r.streams, &mine)
	}
	name := ""
	r.fate = func(call string) fate {
		if r.calls != n || name != "" {
			return fate{}
		}
		if way.fault == laketest.Conflict && call != "apply" && !lakeReads[call] {
			return fate{}
		}
		if way.fault != laketest.Conflict && call != "apply" && way.fault > laketest.LoseReply || lakeReads[call] && way.fault > laketest.LoseConn && way.fault != laketest.Conflict {
			return fate{} // the same as another way
		}
		if way.die && way.fault == laketest.LoseConn && call != "apply" && n > 0 {
			return fate{} // the same as dying after the call before
		}
		name = call
		return way
	}
	for path, rows := range base.files {
		r.file(path, rows)
	}
	p := r.start()
	for range 6 { // as Run does: a look, a heartbeat, the time goes on
		p.look()
		r.runReady()
		p.beat()
		r.runReady()
		r.timers(1)
		if p.dead {
			break
		}
		r.advance(500 * time.Millisecond)
	}
	defer r.close()
	if name == "" {
		return r, ""
	}
	late := rand.New(rand.NewPCG(uint64(n), uint64(way.fault))).IntN(3)
	if late == 0 {
		r.settle()
	}
	r.crash(p)
	if late == 1 {
		r.advance(30 * time.Second) // while the lease of the dead process lasts
		r.settle()
	}
	r.heal()
	r.settle()
	r.check()
	return r, name
}

// lakeReads have no effect that could be lost with their reply.
var lakeReads = map[string]bool{
	"open": true, "read control": true, "describe file": true, "describe target": true, "describe keys": true, "table exists": true,
	"missing files": true, "ensure control": true, "create schema": true,
}

func sweepWorkload(r *rig) {
	r.addOrg("acme", 2, 1)
	for i, sync := range []sluice.SyncType{sluice.FullRefresh, sluice.Incremental, sluice.Append} {
		s := r.addStream("acme", 1, sync)
		runs := 1
		if i == 0 {
			runs = 2
		}
		for n := range runs {
			run := &modelRun{id: fmt.Sprintf("r%d", n+1), firstEver: i == 1, batches: map[int64]*modelBatch{}, wanted: 2}
			for b := range int64(2) {
				data := &modelBatch{rows: []laketest.Record{
					{"id": fmt.Sprint("k", b), "v": fmt.Sprint(run.id, b)}, {"id": "both", "v": fmt.Sprint(run.id, b)},
				}}
				path := fmt.Sprintf("s3://x/%s/%s/%d.parquet", s.id, run.id, b)
				r.file(path, data.rows)
				s.planned = append(s.planned, &delivery{
					run: run, final: b == 1, data: map[int64]*modelBatch{b: data},
					rows: []queue.NewBatch{{BatchIndex: b, Path: path, IsFinal: b == 1, UpstreamState: sluice.UpstreamNone}},
				})
			}
		}
		for len(s.planned) > 0 {
			r.deliver(s)
		}
	}
}
