package queuetest

import (
	"fmt"

	"sluice/internal/control"
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

// changed recomputes a head after a change behind the queue's back, as the planner's transactions do.
func (e *Env) changed(id sluice.StreamID) {
	e.t.Helper()
	e.must(e.DB.Tx(e.ctx(), func(tx *statedb.Tx) error {
		if err := e.Queue.Lock(e.ctx(), tx, id); err != nil {
			return err
		}
		return e.Queue.Changed(e.ctx(), tx, id)
	}))
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
	e.exec("ChunkRun", statedb.Args{"stream_id": id, "run_id": "plan-run", "final_index": n - 1})
	e.exec("ChunkSeq", statedb.Args{"stream_id": id})
	chunks := make([]sluice.BatchID, n)
	for i := range chunks {
		chunks[i] = sluice.BatchID(fmt.Sprintf("%s%04d", id[:32], i))
		e.exec("ChunkBatch", statedb.Args{"stream_id": id, "run_id": "plan-run", "batch_id": chunks[i], "index": i})
	}
	e.exec("PlanInsert", statedb.Args{"stream_id": id, "run_id": "plan-run", "plan_id": plan})
	e.exec("StreamBackfilling", statedb.Args{"stream_id": id, "plan_id": plan})
	e.changed(id)
	return id, chunks
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
