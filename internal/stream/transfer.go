package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

const (
	// drainFor is how long a transfer waits for batches that are being applied.
	drainFor = 30 * time.Second
	// holdFor is how long the streams rest at most, should the transfer die half way.
	holdFor = drainFor + 30*time.Second
	// drainPoll is how often it looks.
	drainPoll = 100 * time.Millisecond
)

// TransferOptions say how a team moves.
type TransferOptions struct {
	Drain  time.Duration // how long to wait for batches under way; 0: 30 s
	DryRun bool
}

// Transfer tells what has become of a team that moved.
type Transfer struct {
	Team     control.Team  `json:"team"`
	FromOrg  sluice.Org    `json:"from_org"`
	ToOrg    sluice.Org    `json:"to_org"`
	DryRun   bool          `json:"dry_run"`
	Streams  []MovedStream `json:"streams"`
	Disabled []string      `json:"disabled_users"` // logins that were limited to the team in the old org
}

// MovedStream is a stream that is to be filled anew in the new warehouse.
type MovedStream struct {
	StreamID  sluice.StreamID `json:"stream_id"`
	LeftTable string          `json:"left_table" doc:"the table that stays in the old warehouse; empty if there is none"`
}

// TransferTeam moves a team with its streams to another org (control-plane.md §7). Its streams rest until no batch is being
// applied; then one transaction changes the org and takes every lease of theirs away. From its commit on nothing is written
// through the old warehouse. The streams keep the names of their tables and are filled anew; what they had stays where it is.
func (s *Store) TransferTeam(ctx context.Context, org sluice.Org, id sluice.TeamID, to sluice.Org, o TransferOptions, by By) (Transfer, error) {
	doing := fmt.Sprintf("transfer team %d from org %s to org %s", id, org, to)
	if o.Drain == 0 {
		o.Drain = drainFor
	}
	if org == to {
		return Transfer{}, sluice.E("SLUICE-CONTROL-INVALID", doing, "it is there already", "name another org", nil)
	}
	if err := s.hold(ctx, org, id, to, !o.DryRun); err != nil {
		return Transfer{}, fmt.Errorf("%s: %w", doing, err)
	}
	if !o.DryRun {
		if err := s.drain(ctx, doing, org, id, o.Drain); err != nil {
			return Transfer{}, s.unhold(ctx, org, id, err)
		}
	}
	var out Transfer
	err := s.db.Tx(ctx, func(tx *statedb.Tx) (err error) {
		out, err = s.transfer(ctx, tx, org, id, to, by)
		if err == nil && o.DryRun {
			err = errDryRun
		}
		return err
	})
	switch {
	case err == nil:
		return out, nil
	case o.DryRun && err == errDryRun: //nolint:errorlint // it is ours, unwrapped: it was only there to roll back
		out.DryRun = true
		return out, nil
	case sluice.CodeOf(err) == "" && statedb.Unique(err):
		err = sluice.E("SLUICE-NAME-TAKEN", doing, fmt.Sprintf("org %s has a table with the name of one of its streams' tables", to),
			"see `sluice stream list` of both orgs; a table keeps its name", err)
	}
	if o.DryRun {
		return Transfer{}, err
	}
	return Transfer{}, s.unhold(ctx, org, id, err)
}

// hold checks that the move is possible and lets the team's streams rest.
func (s *Store) hold(ctx context.Context, org sluice.Org, id sluice.TeamID, to sluice.Org, rest bool) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		for _, o := range []sluice.Org{org, to} {
			if _, err := control.OrgIn(ctx, tx, o); err != nil {
				return err
			}
		}
		if _, err := control.TeamIn(ctx, tx, org, id); err != nil {
			return err
		}
		if !rest {
			return nil
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("TeamHold"), statedb.Args{"org": org, "team_id": id, "ttl": holdFor})
		return err
	})
}

// unhold lets the streams go on after a transfer that did not come about, and gives its error.
func (s *Store) unhold(ctx context.Context, org sluice.Org, id sluice.TeamID, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// Without it they go on by themselves within a minute.
	_, _ = statedb.Exec(ctx, s.db, queries.Get("TeamUnhold"), statedb.Args{"org": org, "team_id": id})
	return cause
}

// drain waits until no batch of the team is being applied.
func (s *Store) drain(ctx context.Context, doing string, org sluice.Org, id sluice.TeamID, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	last := sluice.BatchID("")
	for {
		batch, err := s.heads.Executing(ctx, org, id)
		switch {
		case err == nil && batch == "":
			return nil
		case err == nil:
			last = batch
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sluice.E("SLUICE-CONTROL-REFUSED", doing, fmt.Sprintf("batch %s is still being applied", last),
				"its streams go on; try again when it has ended, see `sluice status`", context.Cause(ctx))
		}
	}
}

// transfer is the transaction: the lease rows first, as everywhere.
func (s *Store) transfer(ctx context.Context, tx *statedb.Tx, org sluice.Org, id sluice.TeamID, to sluice.Org, by By) (Transfer, error) {
	out := Transfer{FromOrg: org, ToOrg: to, Streams: []MovedStream{}}
	list := func(of sluice.Org) ([]sluice.StreamID, error) {
		return statedb.All(ctx, tx, queries.Get("TeamStreams"), statedb.Args{"org": of, "team_id": id}, statedb.Value[sluice.StreamID])
	}
	before, err := list(org)
	if err != nil {
		return out, err
	}
	for _, stream := range before {
		if err := s.heads.Lock(ctx, tx, stream); err != nil {
			return out, err
		}
	}
	target, err := control.OrgIn(ctx, tx, to)
	if err != nil {
		return out, err
	}
	old, team, disabled, err := control.MoveTeamIn(ctx, tx, org, id, to, by)
	if err != nil {
		return out, err
	}
	out.Team, out.Disabled = team, append([]string{}, disabled...)
	// A stream that was added meanwhile has come along by its foreign key.
	streams, err := list(to)
	if err != nil {
		return out, err
	}
	for _, stream := range streams {
		if !slices.Contains(before, stream) {
			if err := s.heads.Lock(ctx, tx, stream); err != nil {
				return out, err
			}
		}
		moved, err := s.moveStream(ctx, tx, stream, org, target.Org, by)
		if err != nil {
			return out, err
		}
		out.Streams = append(out.Streams, moved)
	}
	schemas := []string{old.SchemaName, old.Tables().ImportsSchema}
	_, err = statedb.Exec(ctx, tx, queries.Get("NameReserveMoved"), statedb.Args{"org": org, "to_org": to, "schemas": schemas})
	return out, err
}

// moveStream moves one stream; its table stays, and nobody of the old org takes it for theirs.
func (s *Store) moveStream(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, from, to sluice.Org, by By) (MovedStream, error) {
	before, err := Lock(ctx, tx, id)
	if err != nil {
		return MovedStream{}, err
	}
	out := MovedStream{StreamID: id}
	reason := fmt.Sprintf("moved from org %s; the table is filled anew", from)
	for query, args := range map[string]statedb.Args{
		"CancelWantedPlan": {"id": id}, "StreamMoved": {"id": id, "reason": reason}, "HistoryForget": {"id": id},
	} {
		if _, err := statedb.Exec(ctx, tx, queries.Get(query), args); err != nil {
			return out, err
		}
	}
	if err := s.heads.Moved(ctx, tx, id, to); err != nil {
		return out, err
	}
	if before.TargetTable != "" {
		out.LeftTable = before.TargetSchema + "." + before.TargetTable
		if err := Reserve(ctx, tx, from, before.TargetSchema, before.TargetTable, fmt.Sprintf("stream %s, which moved to org %s", id, to)); err != nil {
			return out, err
		}
	}
	after, err := detail(ctx, tx, "StreamDetail", id)
	if err != nil {
		return out, err
	}
	return out, control.Audit(ctx, tx, by, control.Entry{Action: "stream.transfer", Org: to, Object: object(id), Before: before, After: after})
}

// RemoveTeam removes a team from the configuration; its data stays. A team with streams keeps them: it is refused.
func (s *Store) RemoveTeam(ctx context.Context, org sluice.Org, id sluice.TeamID, version int64, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		args := func() statedb.Args { return statedb.Args{"org": org, "team_id": id} }
		streams, err := statedb.All(ctx, tx, queries.Get("TeamStreams"), args(), statedb.Value[sluice.StreamID])
		if err != nil {
			return err
		}
		if len(streams) > 0 {
			return sluice.E("SLUICE-CONTROL-REFUSED", fmt.Sprintf("delete team %d of org %s", id, org), fmt.Sprintf("it has %d streams", len(streams)),
				"delete them first: `sluice stream delete`", nil)
		}
		rows, _, err := statedb.One(ctx, tx, queries.Get("TeamTombstones"), args(), statedb.Value[int64])
		if err != nil {
			return err
		}
		return control.RemoveTeamIn(ctx, tx, org, id, version, rows > 0, by)
	})
}

// RemoveOrg takes an org out of service. While streams of it have open batches it is refused, unless forced; then they stay
// as they are and nobody applies them.
func (s *Store) RemoveOrg(ctx context.Context, org sluice.Org, version int64, force bool, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := control.OrgIn(ctx, tx, org); err != nil {
			return err
		}
		open, err := s.heads.OpenWork(ctx, tx, org)
		if err != nil {
			return err
		}
		if open > 0 && !force {
			return sluice.E("SLUICE-CONTROL-REFUSED", fmt.Sprintf("delete org %s", org), fmt.Sprintf("%d of its streams have open batches", open),
				"let them end, or delete it with force", nil)
		}
		return control.DeleteOrgIn(ctx, tx, org, version, by)
	})
}
