package stream

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

//go:embed *.sql
var files embed.FS

var queries = statedb.MustLoad(files, "*.sql")

// Heads is what the registry needs of the queue: the row that says what may be worked on.
type Heads interface {
	// Lock takes the stream's lease row for the transaction, so that nobody else changes its head meanwhile. It comes
	// before any other lock of the stream.
	Lock(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error
	// Created makes the lease row of a new stream.
	Created(ctx context.Context, tx *statedb.Tx, s sluice.Stream) error
	// Changed recomputes the head of a stream whose lifecycle or state has changed.
	Changed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error
	// Removed ends the open runs of a deleted stream and removes its lease row.
	Removed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error
	// Moved takes the queue of a stream over to another org; its owner loses the lease.
	Moved(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, to sluice.Org) error
	// Executing gives a batch of a team that is being applied, empty if there is none.
	Executing(ctx context.Context, org sluice.Org, team sluice.TeamID) (sluice.BatchID, error)
	// OpenWork counts the streams of an org that have open batches.
	OpenWork(ctx context.Context, tx *statedb.Tx, org sluice.Org) (int64, error)
}

// Store is the registry in a state DB.
type Store struct {
	db    *statedb.DB
	heads Heads
}

// New makes a Store; *queue.Store is its Heads. It starts nothing.
func New(db *statedb.DB, heads Heads) *Store { return &Store{db: db, heads: heads} }

// By names who changes something, for the audit log.
type By = control.By

// NewStream is what a caller says about a stream; StreamID empty means a new UUID.
type NewStream struct {
	StreamID   sluice.StreamID
	Org        sluice.Org
	TeamID     sluice.TeamID
	SourceType string
	Prefix     string
	Name       string
	SyncType   sluice.SyncType
	DeltaURI   string
	Options    sluice.Options
}

// Detail is a stream with what only some callers need.
type Detail struct {
	sluice.Stream
	Paused          bool
	DeletedAt       *time.Time
	LifecycleReason string
	LifecycleAt     time.Time
	LastFenceSeq    *int64
	ParkedFenceSeq  *int64
	PlanID          string
	PlanGeneration  int64
	Version         int64
}

func noStream(id sluice.StreamID) error {
	return sluice.E("SLUICE-LOAD-NO-STREAM", fmt.Sprintf("find stream %s", id), "there is no such stream",
		"see `sluice stream list`", nil)
}

// ParseID checks and normalises a stream id; what is not a UUID is no stream.
func ParseID(id sluice.StreamID) (sluice.StreamID, error) {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return "", noStream(id)
	}
	return sluice.StreamID(u.String()), nil
}

func (n *NewStream) complete() error {
	doing := fmt.Sprintf("add stream %s", n.Name)
	invalid := func(what, hint string) error { return sluice.E("SLUICE-CONTROL-INVALID", doing, what, hint, nil) }
	if n.StreamID == "" {
		n.StreamID = sluice.StreamID(uuid.NewString())
	}
	u, err := uuid.Parse(string(n.StreamID))
	if err != nil {
		return invalid(fmt.Sprintf("stream_id %q is not a UUID", n.StreamID), "leave it out for a new one")
	}
	n.StreamID = sluice.StreamID(u.String())
	switch {
	case !n.SyncType.Valid():
		return invalid(fmt.Sprintf("sync_type %q is unknown", n.SyncType), "use full_refresh, incremental, append or cdc")
	case n.Name == "":
		return invalid("the name is empty", "name the source table")
	case len(n.Name) > 500 || len(n.Prefix) > 500 || len(n.SourceType) > 200 || len(n.DeltaURI) > 2000:
		return invalid("a text is too long", "name and prefix: 500 bytes, source_type: 200, delta_uri: 2,000")
	case !utf8.ValidString(n.Name+n.Prefix+n.SourceType+n.DeltaURI) || strings.ContainsRune(n.Name+n.Prefix+n.SourceType+n.DeltaURI, 0):
		return invalid("a text is not UTF-8, or holds a NUL", "send UTF-8")
	case n.SyncType == sluice.CDC && (n.Options.CDC == nil || len(n.Options.CDC.OrderColumns) == 0):
		return invalid("a cdc stream has no cdc.order_columns", "name the columns that order the changes")
	case n.SyncType == sluice.CDC && len(n.Options.PrimaryKeys) == 0:
		return invalid("a cdc stream has no primary_keys", "name the key columns")
	}
	return nil
}

// Add registers a stream, with its lease row. A stream that has no history to load (no Delta table, or each run is the
// whole table) is primed at once; any other waits as pending_backfill until a planner has looked at it (backfill.md §3).
func (s *Store) Add(ctx context.Context, n NewStream, by By) (sluice.Stream, error) {
	if err := n.complete(); err != nil {
		return sluice.Stream{}, err
	}
	options, err := json.Marshal(n.Options)
	if err != nil {
		return sluice.Stream{}, fmt.Errorf("add stream %s: %w", n.Name, err)
	}
	lifecycle, bootstrapped := sluice.PendingBackfill, false
	if n.DeltaURI == "" || n.SyncType == sluice.FullRefresh {
		lifecycle, bootstrapped = sluice.Primed, true
	}
	var added sluice.Stream
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := control.OrgIn(ctx, tx, n.Org); err != nil {
			return err
		}
		if _, err := control.TeamIn(ctx, tx, n.Org, n.TeamID); err != nil {
			return err
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("StreamInsert"), statedb.Args{
			"stream_id": n.StreamID, "org": n.Org, "team_id": n.TeamID, "source_type": n.SourceType, "prefix": n.Prefix,
			"name": n.Name, "sync_type": n.SyncType, "delta_uri": statedb.Null(n.DeltaURI), "options": string(options),
			"lifecycle": lifecycle, "bootstrapped": bootstrapped,
		})
		if err != nil {
			return err
		}
		if added, err = get(ctx, tx, n.StreamID); err != nil {
			return err
		}
		if err := s.heads.Created(ctx, tx, added); err != nil {
			return err
		}
		return record(ctx, tx, by, control.Entry{Action: "stream.add", Org: n.Org, Object: object(n.StreamID), After: added})
	})
	if statedb.Unique(err) {
		return sluice.Stream{}, sluice.E("SLUICE-CONTROL-EXISTS", fmt.Sprintf("add stream %s", n.StreamID),
			"the stream id is taken", "leave stream_id out for a new one", err)
	}
	return added, err
}

func object(id sluice.StreamID) string { return "stream " + string(id) }

// record writes the audit row and raises the generation.
func record(ctx context.Context, tx *statedb.Tx, by By, e control.Entry) error {
	if err := control.Audit(ctx, tx, by, e); err != nil {
		return err
	}
	return control.Bump(ctx, tx)
}

func dest(st *sluice.Stream, options *string) []any {
	return []any{
		&st.StreamID, &st.Org, &st.TeamID, &st.SourceType, &st.Prefix, &st.Name, &st.SyncType, statedb.Text(&st.DeltaURI),
		options, statedb.Text(&st.TargetSchema), statedb.Text(&st.TargetTable), &st.Enabled, &st.Lifecycle,
		statedb.TimePtr(&st.BootstrappedAt), &st.NextRunSeq, statedb.Time(&st.CreatedAt),
	}
}

func scanStream(scan statedb.Scan) (sluice.Stream, error) {
	var st sluice.Stream
	var options string
	if err := scan(dest(&st, &options)...); err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(options), &st.Options)
}

func scanDetail(scan statedb.Scan) (Detail, error) {
	var d Detail
	var options string
	err := scan(append(dest(&d.Stream, &options), &d.Paused, statedb.TimePtr(&d.DeletedAt), statedb.Text(&d.LifecycleReason),
		statedb.Time(&d.LifecycleAt), &d.LastFenceSeq, &d.ParkedFenceSeq, statedb.Text(&d.PlanID), &d.PlanGeneration, &d.Version)...)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(options), &d.Options)
}

func get(ctx context.Context, r statedb.Runner, id sluice.StreamID) (sluice.Stream, error) {
	id, err := ParseID(id)
	if err != nil {
		return sluice.Stream{}, err
	}
	st, found, err := statedb.One(ctx, r, queries.Get("StreamGet"), statedb.Args{"id": id}, scanStream)
	if err == nil && !found {
		err = noStream(id)
	}
	return st, err
}

// Get gives a stream, or SLUICE-LOAD-NO-STREAM.
func (s *Store) Get(ctx context.Context, id sluice.StreamID) (sluice.Stream, error) {
	return get(ctx, s.db, id)
}

// Detail gives a stream with its lifecycle's details; deleted ones too.
func (s *Store) Detail(ctx context.Context, id sluice.StreamID) (Detail, error) {
	return detail(ctx, s.db, "StreamDetail", id)
}

func detail(ctx context.Context, r statedb.Runner, query string, id sluice.StreamID) (Detail, error) {
	id, err := ParseID(id)
	if err != nil {
		return Detail{}, err
	}
	d, found, err := statedb.One(ctx, r, queries.Get(query), statedb.Args{"id": id}, scanDetail)
	if err == nil && !found {
		err = noStream(id)
	}
	return d, err
}

// Lock reads a stream and keeps its row for the transaction; a deleted one is SLUICE-LOAD-NO-STREAM.
func Lock(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) (Detail, error) {
	d, err := detail(ctx, tx, "StreamLock", id)
	if err == nil && d.DeletedAt != nil {
		err = noStream(id)
	}
	return d, err
}

// Filter of List; empty fields do not filter.
type Filter struct {
	Org    sluice.Org
	TeamID *sluice.TeamID
	After  sluice.StreamID // cursor: streams are listed by stream_id
	Limit  int             // 0: 100; at most 1,000
}

// List lists streams by id.
func (s *Store) List(ctx context.Context, f Filter) ([]sluice.Stream, error) {
	after := sluice.StreamID(uuid.Nil.String())
	if f.After != "" {
		var err error
		if after, err = ParseID(f.After); err != nil {
			return nil, err
		}
	}
	limit := 100
	if f.Limit > 0 {
		limit = min(f.Limit, 1000)
	}
	args := statedb.Args{"org": statedb.Null(f.Org), "team_id": f.TeamID, "after": after, "limit": limit}
	return statedb.All(ctx, s.db, queries.Get("StreamList"), args, scanStream)
}

// change runs a mutation of one stream: its lease row first, then the rest, its head and its audit row.
func (s *Store) change(ctx context.Context, id sluice.StreamID, action string, by By, fn func(tx *statedb.Tx, before Detail) error) error {
	id, err := ParseID(id)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if err := s.heads.Lock(ctx, tx, id); err != nil {
			return err
		}
		before, err := Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := fn(tx, before); err != nil {
			return err
		}
		after, err := detail(ctx, tx, "StreamDetail", id)
		if err != nil {
			return err
		}
		if after.DeletedAt == nil {
			if err := s.heads.Changed(ctx, tx, id); err != nil {
				return err
			}
		}
		return record(ctx, tx, by, control.Entry{Action: action, Org: before.Org, Object: object(id), Before: before, After: after})
	})
}

// Update changes what may be changed of a stream: its options, Delta table and switch. version 0 means any.
func (s *Store) Update(ctx context.Context, id sluice.StreamID, version int64, by By, fn func(st *sluice.Stream) error) (Detail, error) {
	var out Detail
	doing := fmt.Sprintf("change stream %s", id)
	err := s.change(ctx, id, "stream.update", by, func(tx *statedb.Tx, before Detail) error {
		if err := control.CheckVersion(doing, version, before.Version); err != nil {
			return err
		}
		after := before.Stream
		if err := fn(&after); err != nil {
			return err
		}
		n := NewStream{
			StreamID: after.StreamID, Org: after.Org, TeamID: after.TeamID, SourceType: after.SourceType, Prefix: after.Prefix, Name: after.Name,
			SyncType: after.SyncType, DeltaURI: after.DeltaURI, Options: after.Options,
		}
		if err := n.complete(); err != nil {
			return err
		}
		options, err := json.Marshal(after.Options)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		_, err = statedb.Exec(ctx, tx, queries.Get("StreamUpdate"), statedb.Args{
			"id": before.StreamID, "enabled": after.Enabled, "delta_uri": statedb.Null(after.DeltaURI), "options": string(options),
		})
		if err != nil {
			return err
		}
		out, err = detail(ctx, tx, "StreamDetail", before.StreamID)
		return err
	})
	return out, err
}

// SetEnabled switches a stream on or off; off, it is not claimed and accepts batches all the same.
func (s *Store) SetEnabled(ctx context.Context, id sluice.StreamID, enabled bool, by By) error {
	return s.change(ctx, id, "stream.set_enabled", by, func(tx *statedb.Tx, d Detail) error {
		_, err := statedb.Exec(ctx, tx, queries.Get("StreamEnabled"), statedb.Args{"id": d.StreamID, "enabled": enabled})
		return err
	})
}

// SetPaused pauses a stream or lets it go on; a batch that is being applied ends first.
func (s *Store) SetPaused(ctx context.Context, id sluice.StreamID, paused bool, by By) error {
	return s.change(ctx, id, "stream.set_paused", by, func(tx *statedb.Tx, d Detail) error {
		_, err := statedb.Exec(ctx, tx, queries.Get("StreamPaused"), statedb.Args{"id": d.StreamID, "paused": paused})
		return err
	})
}

// Remove deletes a stream, see RemoveAt.
func (s *Store) Remove(ctx context.Context, id sluice.StreamID, by By) error {
	return s.RemoveAt(ctx, id, 0, by)
}

// RemoveAt deletes a stream that still has a version, 0 means any: its plan and open runs are cancelled, its lease row goes. Its table and its name stay.
func (s *Store) RemoveAt(ctx context.Context, id sluice.StreamID, version int64, by By) error {
	return s.change(ctx, id, "stream.remove", by, func(tx *statedb.Tx, d Detail) error {
		if err := control.CheckVersion(fmt.Sprintf("delete stream %s", id), version, d.Version); err != nil {
			return err
		}
		if _, err := statedb.Exec(ctx, tx, queries.Get("CancelWantedPlan"), statedb.Args{"id": d.StreamID}); err != nil {
			return err
		}
		if err := s.heads.Removed(ctx, tx, d.StreamID); err != nil {
			return err
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("StreamRemove"), statedb.Args{"id": d.StreamID})
		return err
	})
}
