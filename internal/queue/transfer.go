package queue

import (
	"context"
	"fmt"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Executing gives a batch of a team that is being applied, or whose outcome is not known yet; empty if there is none.
func (s *Store) Executing(ctx context.Context, org sluice.Org, team sluice.TeamID) (sluice.BatchID, error) {
	id, _, err := statedb.One(ctx, s.db, queries.Get("TeamExecuting"), statedb.Args{"org": org, "team_id": team}, statedb.Value[sluice.BatchID])
	return id, err
}

// OpenWork counts the streams of an org that have open batches.
func (s *Store) OpenWork(ctx context.Context, tx *statedb.Tx, org sluice.Org) (int64, error) {
	n, _, err := statedb.One(ctx, tx, queries.Get("OrgOpenWork"), statedb.Args{"org": org}, statedb.Value[int64])
	return n, err
}

// Moved takes a stream's queue over to another org, after the stream itself: its owner loses the lease, so nothing is begun
// through the old warehouse any more. A batch that is being applied refuses the move. Chunks were made for the old
// warehouse, so their runs end; a refresh whose first batches lie there is none any more. The caller has called Lock.
func (s *Store) Moved(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, to sluice.Org) error {
	doing := fmt.Sprintf("move stream %s to org %s", id, to)
	batch, executing, err := statedb.One(ctx, tx, queries.Get("StreamExecuting"), statedb.Args{"stream_id": id}, statedb.Value[sluice.BatchID])
	if err != nil {
		return err
	}
	if executing {
		return refuse(doing, fmt.Sprintf("batch %s is being applied", batch), "try again when it has ended; see `sluice status`")
	}
	chunks, err := statedb.All(ctx, tx, queries.Get("RunOpenChunks"), statedb.Args{"stream_id": id}, statedb.Value[sluice.RunID])
	if err != nil {
		return err
	}
	for _, run := range chunks {
		if err := s.EndChunks(ctx, tx, id, run, sluice.ReasonReplanned); err != nil {
			return err
		}
	}
	for query, args := range map[string]statedb.Args{
		"RunNoRefresh": {"stream_id": id}, "LeaseMove": {"stream_id": id, "org": to},
	} {
		if err := exec(ctx, tx, query, args); err != nil {
			return err
		}
	}
	return s.Changed(ctx, tx, id)
}
