package stream

import (
	"context"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// ReaderBinding tells a reader which table a stream is in. It comes from the stored name only.
type ReaderBinding struct {
	StreamID     sluice.StreamID  `json:"stream_id"`
	TeamID       sluice.TeamID    `json:"team_id"`
	SourceType   string           `json:"source_type"`
	Prefix       string           `json:"prefix"`
	Name         string           `json:"name"`
	TargetSchema string           `json:"target_schema" doc:"empty until the stream is bound"`
	TargetTable  string           `json:"target_table"`
	Lifecycle    sluice.Lifecycle `json:"lifecycle" enum:"pending_backfill,backfilling,primed,needs_resync"`
	Queryable    bool             `json:"queryable" doc:"false until the table exists"`
}

// Bindings lists the tables of an org's streams for readers.
func (s *Store) Bindings(ctx context.Context, org sluice.Org) ([]ReaderBinding, error) {
	if _, err := control.OrgIn(ctx, s.db, org); err != nil {
		return nil, err
	}
	return statedb.All(ctx, s.db, queries.Get("StreamBindings"), statedb.Args{"org": org}, func(scan statedb.Scan) (b ReaderBinding, err error) {
		var queryable int64
		err = scan(&b.StreamID, &b.TeamID, &b.SourceType, &b.Prefix, &b.Name, statedb.Text(&b.TargetSchema), statedb.Text(&b.TargetTable), &b.Lifecycle, &queryable)
		b.Queryable = queryable == 1
		return b, err
	})
}
