package fanout

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

//go:embed *.sql
var sqlFiles embed.FS

var queries = statedb.MustLoad(sqlFiles, "*.sql")

// Store is the registry of fan-outs and their destinations in a state DB, and the leases of their shards.
type Store struct{ db *statedb.DB }

// NewStore makes a Store. It starts nothing.
func NewStore(db *statedb.DB) *Store { return &Store{db} }

// By names who changes something, for the audit log.
type By = control.By

func scanFanout(scan statedb.Scan) (*Fanout, error) {
	var f Fanout
	var config, code, detail string
	var halted *time.Time
	if err := scan(&f.ID, &f.Name, &f.Lake, &f.Source.Schema, &f.Source.Name, &config, &f.Shards, &f.Desired, statedb.Text(&code), statedb.Text(&detail),
		statedb.TimePtr(&halted), statedb.Time(&f.Created), statedb.Time(&f.Updated)); err != nil {
		return nil, err
	}
	if halted != nil {
		f.Halt = &Halt{sluice.Code(code), detail, *halted}
	}
	if err := json.Unmarshal([]byte(config), &f.Def); err != nil {
		return nil, fmt.Errorf("read the definition of fan-out %s: %w", f.Name, err)
	}
	return &f, nil
}

func scanDestination(scan statedb.Scan) (d Destination, err error) {
	err = scan(&d.ID, &d.Fanout, &d.Org, &d.Team, &d.Route, &d.Origin, &d.Target.Schema, &d.Target.Name, &d.State, statedb.Text(&d.Before), statedb.Text(&d.Code),
		statedb.Text(&d.Detail), statedb.TimePtr(&d.Since), &d.Tries, statedb.TimePtr(&d.RetryAt), &d.MissingPolls, &d.Cursor, &d.Empty.From, &d.Empty.Through,
		&d.Empty.Hash, &d.Pinned, &d.Generation, statedb.Time(&d.Updated))
	return d, err
}

// List gives all fan-outs by name.
func (s *Store) List(ctx context.Context) ([]*Fanout, error) {
	return statedb.All(ctx, s.db, queries.Get("List"), nil, scanFanout)
}

// Get looks a fan-out up by name.
func (s *Store) Get(ctx context.Context, name string) (*Fanout, error) {
	f, found, err := statedb.One(ctx, s.db, queries.Get("ByName"), statedb.Args{"name": name}, scanFanout)
	if err == nil && !found {
		err = sluice.E("SLUICE-FANOUT-NOT-FOUND", fmt.Sprintf("find fan-out %s", name), "there is no such fan-out", "see `sluice fanout list`", nil)
	}
	return f, err
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Insert registers a fan-out.
func (s *Store) Insert(ctx context.Context, f *Fanout, by By) error {
	doing := fmt.Sprintf("add fan-out %s", f.Name)
	if !nameForm.MatchString(f.Name) {
		return sluice.E("SLUICE-FANOUT-INVALID", doing, "the name is not allowed", "use lower-case letters, digits and underscores, at most 48, beginning with a letter", nil)
	}
	if f.ID == "" {
		f.ID = uuid.NewString()
	}
	if f.Shards == 0 {
		f.Shards = DefaultShards
	}
	config, err := json.Marshal(f.Def)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := control.OrgIn(ctx, tx, f.Lake); err != nil {
			return err
		}
		if _, err := statedb.Exec(ctx, tx, queries.Get("Insert"), statedb.Args{
			"fanout_id": f.ID, "name": f.Name, "lake": f.Lake, "source_schema": f.Source.Schema, "source_table": f.Source.Name,
			"config": string(config), "shards": int64(f.Shards),
		}); err != nil {
			return err
		}
		for shard := range f.Shards {
			if _, err := statedb.Exec(ctx, tx, queries.Get("ShardInsert"), statedb.Args{"fanout_id": f.ID, "shard": int64(shard)}); err != nil {
				return err
			}
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: "fanout.add", Org: f.Lake, Object: "fanout " + f.Name, After: f.Def})
	})
	if statedb.Unique(err) {
		return sluice.E("SLUICE-FANOUT-EXISTS", doing, "a fan-out has this name", "see `sluice fanout list`", err)
	}
	return err
}

// DefaultShards is how many parts a fan-out's destinations are shared out in.
const DefaultShards = 16

// change runs one statement about a fan-out, with an audit row.
func (s *Store) change(ctx context.Context, f *Fanout, query, action string, args statedb.Args, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		args["fanout_id"] = f.ID
		if _, err := statedb.Exec(ctx, tx, queries.Get(query), args); err != nil {
			return err
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: action, Org: f.Lake, Object: "fanout " + f.Name})
	})
}

// SetDesired stores whether the fan-out is to run.
func (s *Store) SetDesired(ctx context.Context, f *Fanout, desired string, by By) error {
	return s.change(ctx, f, "SetDesired", "fanout."+desired, statedb.Args{"desired": desired}, by)
}

// Resume ends a halt or a pause of the whole fan-out.
func (s *Store) Resume(ctx context.Context, f *Fanout, by By) error {
	return s.change(ctx, f, "Resume", "fanout.resume", statedb.Args{}, by)
}

// Halt stops a fan-out until somebody resumes it.
func (s *Store) Halt(ctx context.Context, f *Fanout, code sluice.Code, detail string) error {
	return s.exec(ctx, "Halt", statedb.Args{"fanout_id": f.ID, "code": code, "detail": cut(detail)})
}

// Delete takes a fan-out with its destinations out of the registry. What is in the lakes stays.
func (s *Store) Delete(ctx context.Context, f *Fanout, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		for _, q := range []string{"DestinationsDelete", "ShardsDelete", "Delete"} {
			if _, err := statedb.Exec(ctx, tx, queries.Get(q), statedb.Args{"fanout_id": f.ID}); err != nil {
				return err
			}
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: "fanout.remove", Org: f.Lake, Object: "fanout " + f.Name, Before: f.Def})
	})
}

// cut shortens a text to what the state DB takes, without splitting a letter.
func cut(s string) string {
	const most = 2000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "…"
}

func (s *Store) exec(ctx context.Context, query string, args statedb.Args) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		_, err := statedb.Exec(ctx, tx, queries.Get(query), args)
		return err
	})
}

// Destinations lists the destinations of a fan-out.
func (s *Store) Destinations(ctx context.Context, f *Fanout) ([]Destination, error) {
	return statedb.All(ctx, s.db, queries.Get("Destinations"), statedb.Args{"fanout_id": f.ID}, scanDestination)
}

// Generation is that of the last good answer of discovery.
func (s *Store) Generation(ctx context.Context, f *Fanout) (int64, error) {
	g, _, err := statedb.One(ctx, s.db, queries.Get("Generation"), statedb.Args{"fanout_id": f.ID}, statedb.Value[int64])
	return g, err
}

// Polled stores what a poll of discovery changes.
func (s *Store) Polled(ctx context.Context, f *Fanout, p Poll) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		for _, c := range p.Changes {
			if err := applyChange(ctx, tx, c); err != nil {
				return err
			}
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("SetGeneration"), statedb.Args{"fanout_id": f.ID, "generation": p.Generation})
		return err
	})
}

func applyChange(ctx context.Context, tx *statedb.Tx, c Change) error {
	d := c.Destination
	if c.New {
		m := Moved(d, c.Event, c.Code, c.Detail, 0)
		_, err := statedb.Exec(ctx, tx, queries.Get("DestinationInsert"), statedb.Args{
			"destination_id": d.ID, "fanout_id": d.Fanout, "org": d.Org, "team_id": d.Team, "route": d.Route, "origin": d.Origin,
			"target_schema": d.Target.Schema, "target_table": d.Target.Name, "state": m.State, "before": statedb.Null(m.Before),
			"code": statedb.Null(m.Code), "detail": statedb.Null(cut(m.Detail)),
		})
		return err
	}
	if c.Event == "" {
		_, err := statedb.Exec(ctx, tx, queries.Get("DestinationCount"), statedb.Args{"destination_id": d.ID, "missing_polls": int64(d.MissingPolls), "origin": d.Origin})
		return err
	}
	_, err := move(ctx, tx, d, c.Event, c.Code, c.Detail, 0)
	return err
}

// Moved gives a destination after an event; where the event means nothing it stays as it is.
func Moved(d Destination, e Event, code sluice.Code, detail string, rest time.Duration) Destination {
	to, back, ok := Next(d.State, d.Before, e)
	if !ok {
		return d
	}
	d.State, d.Before = to, back
	switch e {
	case EventFail:
		d.Code, d.Detail = code, detail
		d.Tries++
		at := time.Now().Add(rest)
		d.RetryAt = &at
	case EventHalt:
		d.Code, d.Detail, d.RetryAt = code, detail, nil
	case EventReseed, EventReturn:
		d.Code, d.Detail, d.Tries, d.RetryAt = "", "", 0, nil
		if e == EventReseed {
			d.Generation++
		}
	case EventApplied, EventFollow, EventResume, EventWritable, EventSeed:
		d.Code, d.Detail, d.Tries, d.RetryAt = "", "", 0, nil
	case EventUnwritable, EventPause, EventRemove:
		d.RetryAt = nil
	}
	return d
}

func move(ctx context.Context, tx *statedb.Tx, d Destination, e Event, code sluice.Code, detail string, rest time.Duration) (Destination, error) {
	m := Moved(d, e, code, detail, rest)
	n, err := statedb.Exec(ctx, tx, queries.Get("DestinationMove"), statedb.Args{
		"destination_id": d.ID, "old_state": d.State, "state": m.State, "before": statedb.Null(m.Before), "code": statedb.Null(m.Code),
		"detail": statedb.Null(cut(m.Detail)), "attempts": int64(m.Tries), "rest": rest, "missing_polls": int64(m.MissingPolls), "origin": m.Origin,
		"seed_generation": m.Generation,
	})
	if err == nil && n == 0 {
		return d, errMoved
	}
	return m, err
}

// errMoved says that somebody else has changed the destination meanwhile: what they did stands.
var errMoved = fmt.Errorf("the destination's state was changed by somebody else")

// Move stores what an event does to a destination. It gives errMoved if its state is another one by now.
func (s *Store) Move(ctx context.Context, d Destination, e Event, code sluice.Code, detail string, rest time.Duration) (m Destination, err error) {
	if _, _, ok := Next(d.State, d.Before, e); !ok {
		return d, nil
	}
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		m, err = move(ctx, tx, d, e, code, detail, rest)
		return err
	})
	return m, err
}

// MoveBy is Move for an operator, with an audit row.
func (s *Store) MoveBy(ctx context.Context, f *Fanout, d Destination, e Event, by By) error {
	if _, _, ok := Next(d.State, d.Before, e); !ok {
		return sluice.E("SLUICE-FANOUT-STATE", fmt.Sprintf("%s destination %s/%d of fan-out %s", e, d.Org, d.Team, f.Name), fmt.Sprintf("it is %s", d.State),
			"see `sluice fanout status`", nil)
	}
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := move(ctx, tx, d, e, "", "", 0); err != nil {
			return err
		}
		return control.Audit(ctx, tx, by, control.Entry{
			Action: "fanout." + string(e), Org: d.Org, Object: fmt.Sprintf("fanout %s team %d", f.Name, d.Team),
			Before: map[string]any{"state": d.State, "code": d.Code},
		})
	})
}

// Bind gives a destination another table, which is seeded anew.
func (s *Store) Bind(ctx context.Context, f *Fanout, d Destination, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := statedb.Exec(ctx, tx, queries.Get("DestinationBind"), statedb.Args{
			"destination_id": d.ID, "target_schema": d.Target.Schema, "target_table": d.Target.Name,
		}); err != nil {
			return err
		}
		return control.Audit(ctx, tx, by, control.Entry{
			Action: "fanout.rebind", Org: d.Org, Object: fmt.Sprintf("fanout %s team %d", f.Name, d.Team), After: map[string]string{"table": d.Target.String()},
		})
	})
}

// SetCursor copies a destination's cursor from the lake.
func (s *Store) SetCursor(ctx context.Context, id string, cursor int64) error {
	return s.exec(ctx, "DestinationCursor", statedb.Args{"destination_id": id, "cursor": cursor})
}

// Pin keeps a snapshot of the source from expiring; 0 lets it go.
func (s *Store) Pin(ctx context.Context, id string, snapshot int64) error {
	return s.exec(ctx, "DestinationPin", statedb.Args{"destination_id": id, "snapshot": snapshot})
}

// SetEmpty stores how far there is nothing behind the cursors of destinations, by id.
func (s *Store) SetEmpty(ctx context.Context, empty map[string]Empty) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		for id, e := range empty {
			if _, err := statedb.Exec(ctx, tx, queries.Get("DestinationEmpty"), statedb.Args{
				"destination_id": id, "empty_from": e.From, "empty_through": e.Through, "route_hash": e.Hash,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// LeastPosition is the oldest snapshot of a lake that some destination still needs; ok is false if none does.
func (s *Store) LeastPosition(ctx context.Context, lake sluice.Org) (position int64, ok bool, err error) {
	p, _, err := statedb.One(ctx, s.db, queries.Get("LeastPosition"), statedb.Args{"lake": lake}, statedb.Value[*int64])
	if err != nil || p == nil {
		return 0, false, err
	}
	return *p, true, nil
}
