package queue

import (
	"context"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// supersedeIfDue applies loader.md §9.1: a run whose batch 0 replaces the table, and that waits for nothing but older
// runs, ends these. It tells whether it changed anything.
func (s *Store) supersedeIfDue(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) (bool, error) {
	seq, due, err := statedb.One(ctx, tx, queries.Get("RunReplaceDue"), statedb.Args{"stream_id": id}, statedb.Value[int64])
	if err != nil || !due {
		return false, err
	}
	return true, s.supersede(ctx, tx, id, seq)
}

// supersede ends everything of a stream below a run's seq, except what is being applied: that batch ends by itself, and
// its run after it (run.superseded_by). Only lower seq is touched.
func (s *Store) supersede(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, seq int64) error {
	args := func() statedb.Args { return statedb.Args{"stream_id": id, "seq": seq} }
	batches, err := ids(ctx, tx, "BatchSupersede", args())
	if err != nil {
		return err
	}
	if err := history(ctx, tx, batches); err != nil {
		return err
	}
	if err := closeQuarantine(ctx, tx, batches, "superseded", "", "a newer run replaces the table"); err != nil {
		return err
	}
	for _, query := range []string{"RunSupersede", "RunSupersedeLater"} {
		type row struct {
			id   sluice.RunID
			kind sluice.RunKind
		}
		runs, err := statedb.All(ctx, tx, queries.Get(query), args(), func(scan statedb.Scan) (r row, err error) {
			return r, scan(&r.id, &r.kind)
		})
		if err != nil {
			return err
		}
		for _, r := range runs {
			if r.kind != sluice.RunLive {
				if err := stream.SupersedePlan(ctx, tx, id, r.id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
