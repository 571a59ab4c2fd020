package stream

import (
	"context"
	"fmt"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// The functions of this file are steps of other stores' transactions (backfill.md §2). The caller holds the stream's
// lease row and recomputes its head afterwards. Those that return a bool tell whether the guard held.

func step(ctx context.Context, tx *statedb.Tx, query string, args statedb.Args) (bool, error) {
	n, err := statedb.Exec(ctx, tx, queries.Get(query), args)
	return n > 0, err
}

// NextSeq takes the next order number of a run.
func NextSeq(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) (int64, error) {
	seq, found, err := statedb.One(ctx, tx, queries.Get("NextSeq"), statedb.Args{"id": id}, statedb.Value[int64])
	if err == nil && !found {
		err = noStream(id)
	}
	return seq, err
}

// FenceSeen stores the highest fence seq that a success was written with.
func FenceSeen(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, fenceSeq int64) error {
	_, err := step(ctx, tx, "FenceSeen", statedb.Args{"id": id, "fence_seq": fenceSeq})
	return err
}

// Park says that the stream has, or may have, a gap: primed → needs_resync. A stream that is parked already is parked
// anew, so that a refresh that was complete before this gap is no proof.
func Park(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, reason string) (bool, error) {
	return step(ctx, tx, "Park", statedb.Args{"id": id, "reason": reason})
}

// Prove ends a parking or a wait for history by a complete refresh whose first batch was applied with fenceSeq, above
// the one the stream was parked with. An active plan is cancelled: there is nothing left to load.
func Prove(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, fenceSeq int64) (bool, error) {
	ok, err := step(ctx, tx, "Prove", statedb.Args{"id": id, "fence_seq": fenceSeq})
	if err != nil || !ok {
		return ok, err
	}
	_, err = step(ctx, tx, "CancelWantedPlan", statedb.Args{"id": id})
	return true, err
}

// SupersedePlan ends the plan of a chunk run that a replace run supersedes; a backfilling stream is parked.
func SupersedePlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID) error {
	reason := fmt.Sprintf("the plan's run %s is superseded by a full refresh; the refresh is the proof", run)
	if _, err := step(ctx, tx, "LifecycleSuperseded", statedb.Args{"id": id, "run_id": run, "reason": reason}); err != nil {
		return err
	}
	_, err := step(ctx, tx, "PlanSuperseded", statedb.Args{"id": id, "run_id": run})
	return err
}

// HaltPlan follows a chunk's quarantine: the plan rests and gives its slot back.
func HaltPlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID, reason string) error {
	_, err := step(ctx, tx, "PlanHalted", statedb.Args{"id": id, "run_id": run, "reason": reason})
	return err
}

// ResumePlan follows a chunk's retry; the planner grants a slot again.
func ResumePlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID) error {
	_, err := step(ctx, tx, "PlanResumed", statedb.Args{"id": id, "run_id": run})
	return err
}

// Progress counts an applied chunk.
func Progress(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID, rows, bytes int64) error {
	_, err := step(ctx, tx, "PlanProgress", statedb.Args{"id": id, "run_id": run, "rows": rows, "bytes": bytes})
	return err
}

// Prime follows the swap of a plan's run: plan → done and backfilling → primed. If the stream is no longer backfilling
// this plan (superseded meanwhile), the plan id is empty and nothing has changed: the swap's success stands by itself.
func Prime(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID) (planID string, err error) {
	planID, found, err := statedb.One(ctx, tx, queries.Get("PlanDone"), statedb.Args{"id": id, "run_id": run}, statedb.Value[string])
	if err != nil || !found {
		return "", err
	}
	ok, err := step(ctx, tx, "Prime", statedb.Args{"id": id, "plan_id": planID})
	if err == nil && !ok {
		err = fmt.Errorf("prime stream %s: its plan %s was running, but it is not backfilling it", id, planID)
	}
	return planID, err
}

// CancelPlan ends the plan of a chunk run before its swap; the stream goes back to where it was.
func CancelPlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID) error {
	type row struct{ plan, returnTo string }
	r, found, err := statedb.One(ctx, tx, queries.Get("PlanCancelled"), statedb.Args{"id": id, "run_id": run},
		func(scan statedb.Scan) (r row, err error) { return r, scan(&r.plan, &r.returnTo) })
	if err != nil || !found {
		return err
	}
	_, err = step(ctx, tx, "LifecycleReturn", statedb.Args{"id": id, "plan_id": r.plan, "return_to": r.returnTo})
	return err
}
