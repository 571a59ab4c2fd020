package queuetest

import (
	"encoding/json"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

var by = control.By{Who: "test"}

const planID = "00000000-0000-4000-8000-000000000099"

func (e *Env) exec(query string, args statedb.Args) {
	e.t.Helper()
	_, err := statedb.Exec(e.ctx(), e.DB, sql(query), args)
	e.must(err)
}

// backfilling makes a stream whose plan has n chunks, as the planner will store it.
func (e *Env) backfilling(n int) (sluice.StreamID, []sluice.BatchID) {
	e.t.Helper()
	org, team := e.AddOrg("acme", 4)
	return e.backfillingOf(org, team, n, planID)
}

func (e *Env) backfillingOf(org sluice.Org, team sluice.TeamID, n int, plan string) (sluice.StreamID, []sluice.BatchID) {
	e.t.Helper()
	id := e.AddStream(org, team, sluice.Incremental, "s3://d/t")
	chunks := make([]sluice.BatchID, n)
	rows := make([]queue.Chunk, n)
	for i := range rows {
		chunks[i] = queue.BatchID(id, "plan-run", int64(i))
		rows[i] = queue.Chunk{BatchIndex: int64(i), IsFinal: i == n-1, Op: sluice.OpInsert, Spec: json.RawMessage(`{"files": []}`)}
	}
	steps := func(fn func(tx *statedb.Tx) error) {
		e.t.Helper()
		e.must(e.DB.Tx(e.ctx(), func(tx *statedb.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return e.Queue.Changed(e.ctx(), tx, id)
		}))
	}
	steps(func(tx *statedb.Tx) error {
		_, err := e.Queue.BeginChunks(e.ctx(), tx, queue.ChunkRun{StreamID: id, RunID: "plan-run", Kind: sluice.RunBackfill})
		return err
	})
	for range 2 { // a slice may be stored again
		steps(func(tx *statedb.Tx) error { return e.Queue.AddChunks(e.ctx(), tx, id, "plan-run", rows) })
	}
	e.BlockedBy(id, "E14 run is planning")
	steps(func(tx *statedb.Tx) error {
		if err := e.Queue.SealChunks(e.ctx(), tx, id, "plan-run", int64(n)); sluice.CodeOf(err) != "SLUICE-LOAD-STATE" {
			e.t.Fatalf("sealed with a chunk missing: %v", err)
		}
		if err := e.Queue.SealChunks(e.ctx(), tx, id, "plan-run", int64(n-1)); err != nil {
			return err
		}
		return e.Queue.SetSlot(e.ctx(), tx, id, "plan-run", true)
	})
	e.exec("PlanInsert", statedb.Args{"stream_id": id, "run_id": "plan-run", "plan_id": plan})
	e.exec("StreamBackfilling", statedb.Args{"stream_id": id, "plan_id": plan})
	e.slot(id, true)
	return id, chunks
}

// slot gives or takes a plan's permission to run, as the planner does.
func (e *Env) slot(id sluice.StreamID, granted bool) {
	e.t.Helper()
	e.must(e.DB.Tx(e.ctx(), func(tx *statedb.Tx) error {
		if err := e.Queue.SetSlot(e.ctx(), tx, id, "plan-run", granted); err != nil {
			return err
		}
		return e.Queue.Changed(e.ctx(), tx, id)
	}))
}

// park makes a stream needs_resync by discarding a batch of its first run.
func (e *Env) park(id sluice.StreamID) {
	e.t.Helper()
	e.Enqueue(id, "lost", B(0, Resume, Final))
	l := e.ClaimOne("parker")
	w := e.Start(l)
	_, err := e.Queue.Quarantine(e.ctx(), l, Fails(w.Batch.BatchID, true, 0))
	e.must(err)
	_, err = e.Queue.QuarantineDiscard(e.ctx(), w.Batch.BatchID, operator)
	e.must(err)
	e.must(e.Queue.Release(e.ctx(), l))
	e.Lifecycle(id, sluice.NeedsResync)
}
