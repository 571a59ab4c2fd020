package changelog

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

//go:embed *.sql
var sqlFiles embed.FS

var queries = statedb.MustLoad(sqlFiles, "*.sql")

// Store is the registry of changelogs in a state DB, and the leases of their slots.
type Store struct{ db *statedb.DB }

// NewStore makes a Store. It starts nothing.
func NewStore(db *statedb.DB) *Store { return &Store{db} }

// By names who changes something, for the audit log.
type By = control.By

// Now is the clock of the state DB.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.db.Now(ctx) }

func scanChangelog(scan statedb.Scan) (*Changelog, error) {
	var c Changelog
	var code, detail, config, list string
	var halted *time.Time
	if err := scan(&c.ID, &c.Name, &c.Lake, &c.Table.Schema, &c.Table.Name, &c.Cluster, &c.Topic, statedb.Text(&c.TopicID), &c.Slots, &c.Desired, &c.Status,
		statedb.Text(&code), statedb.Text(&detail), statedb.TimePtr(&halted), &config, statedb.Text(&list), statedb.Time(&c.Created), statedb.Time(&c.Updated)); err != nil {
		return nil, err
	}
	if halted != nil {
		c.Halt = &Halt{sluice.Code(code), detail, *halted}
	}
	if err := json.Unmarshal([]byte(config), &c.Def); err != nil {
		return nil, fmt.Errorf("read the config of changelog %s: %w", c.Name, err)
	}
	if list != "" {
		c.Values = &Values{}
		if err := json.Unmarshal([]byte(list), c.Values); err != nil {
			return nil, fmt.Errorf("read the list of changelog %s: %w", c.Name, err)
		}
	}
	return &c, nil
}

// List gives all changelogs by name.
func (s *Store) List(ctx context.Context) ([]*Changelog, error) {
	return statedb.All(ctx, s.db, queries.Get("List"), nil, scanChangelog)
}

// Get looks a changelog up by name.
func (s *Store) Get(ctx context.Context, name string) (*Changelog, error) {
	c, found, err := statedb.One(ctx, s.db, queries.Get("ByName"), statedb.Args{"name": name}, scanChangelog)
	if err == nil && !found {
		err = noChangelog(name)
	}
	return c, err
}

func noChangelog(name string) error {
	return sluice.E("SLUICE-CHANGELOG-NOT-FOUND", fmt.Sprintf("find changelog %s", name), "there is no such changelog", "see `sluice changelog list`", nil)
}

// Start lets the slots of a changelog whose tables are made be taken.
func (s *Store) Start(ctx context.Context, c *Changelog) error {
	return s.exec(ctx, "Start", statedb.Args{"changelog_id": c.ID})
}

// Insert registers a changelog; it stands until Start.
func (s *Store) Insert(ctx context.Context, c *Changelog, by By) error {
	if c.ID == "" {
		c.ID = uuid.NewString()
	}
	config, err := json.Marshal(c.Def)
	if err != nil {
		return fmt.Errorf("add changelog %s: %w", c.Name, err)
	}
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := control.OrgIn(ctx, tx, c.Lake); err != nil {
			return err
		}
		if _, err := statedb.Exec(ctx, tx, queries.Get("Insert"), statedb.Args{
			"changelog_id": c.ID, "name": c.Name, "lake": c.Lake, "table_schema": c.Table.Schema, "table_name": c.Table.Name, "cluster": c.Cluster,
			"topic": c.Topic, "topic_id": statedb.Null(c.TopicID), "slots": int64(c.Slots), "config": string(config),
		}); err != nil {
			return err
		}
		for slot := range c.Slots {
			if _, err := statedb.Exec(ctx, tx, queries.Get("SlotInsert"), statedb.Args{"changelog_id": c.ID, "slot": int64(slot)}); err != nil {
				return err
			}
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: "changelog.add", Org: c.Lake, Object: object(c), After: c.Def})
	})
	if statedb.Unique(err) {
		return sluice.E("SLUICE-CHANGELOG-EXISTS", fmt.Sprintf("add changelog %s", c.Name), "a changelog has this name or this table", "see `sluice changelog list`", err)
	}
	return err
}

func object(c *Changelog) string { return "changelog " + c.Name }

// change runs one statement about a changelog, with an audit row.
func (s *Store) change(ctx context.Context, c *Changelog, query, action string, args statedb.Args, by By, after any) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		args["changelog_id"] = c.ID
		if _, err := statedb.Exec(ctx, tx, queries.Get(query), args); err != nil {
			return err
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: action, Org: c.Lake, Object: object(c), After: after})
	})
}

// SetDesired stores whether the changelog is to run.
func (s *Store) SetDesired(ctx context.Context, c *Changelog, desired string, by By) error {
	return s.change(ctx, c, "SetDesired", "changelog."+desired, statedb.Args{"desired": desired}, by, nil)
}

// SetConfig replaces the definition.
func (s *Store) SetConfig(ctx context.Context, c *Changelog, d Definition, by By) error {
	config, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("configure changelog %s: %w", c.Name, err)
	}
	return s.change(ctx, c, "SetConfig", "changelog.configure", statedb.Args{"config": string(config)}, by, d)
}

// Halt stops a changelog until somebody resumes it; the first halt counts.
func (s *Store) Halt(ctx context.Context, c *Changelog, code sluice.Code, detail string) error {
	return s.exec(ctx, "Halt", statedb.Args{"changelog_id": c.ID, "code": code, "detail": cut(detail, 2000)})
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "…"
}

// Resume ends a halt or a pause.
func (s *Store) Resume(ctx context.Context, c *Changelog, topicID string, how string, by By) error {
	return s.change(ctx, c, "Resume", "changelog.resume", statedb.Args{"topic_id": statedb.Null(topicID)}, by, map[string]string{"how": how})
}

// Running notes that a slot of the changelog works.
func (s *Store) Running(ctx context.Context, c *Changelog) error {
	return s.exec(ctx, "Running", statedb.Args{"changelog_id": c.ID})
}

// SetList stores the list of an include_values filter.
func (s *Store) SetList(ctx context.Context, c *Changelog, v Values) error {
	list, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store the list of changelog %s: %w", c.Name, err)
	}
	return s.exec(ctx, "SetList", statedb.Args{"changelog_id": c.ID, "list": string(list)})
}

// Delete takes a changelog out of the registry.
func (s *Store) Delete(ctx context.Context, c *Changelog, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		for _, q := range []string{"SlotsDelete", "Delete"} {
			if _, err := statedb.Exec(ctx, tx, queries.Get(q), statedb.Args{"changelog_id": c.ID}); err != nil {
				return err
			}
		}
		return control.Audit(ctx, tx, by, control.Entry{Action: "changelog.drop", Org: c.Lake, Object: object(c), Before: c.Def})
	})
}

func (s *Store) exec(ctx context.Context, query string, args statedb.Args) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		_, err := statedb.Exec(ctx, tx, queries.Get(query), args)
		return err
	})
}

// Lease is the right of a process to work on a slot.
type Lease struct {
	ChangelogID string
	Slot        int
	Owner       string
	Epoch       int64
	Live        bool
}

func scanLease(scan statedb.Scan) (Lease, error) {
	var l Lease
	var live *bool
	err := scan(&l.ChangelogID, &l.Slot, statedb.Text(&l.Owner), &l.Epoch, &live)
	l.Live = l.Owner != "" && live != nil && *live
	return l, err
}

// Slots lists the slots that are to be worked on, with who does.
func (s *Store) Slots(ctx context.Context) ([]Lease, error) {
	return statedb.All(ctx, s.db, queries.Get("Slots"), nil, scanLease)
}

// SlotsOf lists the slots of one changelog.
func (s *Store) SlotsOf(ctx context.Context, c *Changelog) ([]Lease, error) {
	return statedb.All(ctx, s.db, queries.Get("SlotsOf"), statedb.Args{"changelog_id": c.ID}, scanLease)
}

// Join says that a process is there, and tells how many are.
func (s *Store) Join(ctx context.Context, owner string, ttl time.Duration) (members int64, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := statedb.Exec(ctx, tx, queries.Get("MemberBeat"), statedb.Args{"owner": owner, "ttl": ttl}); err != nil {
			return err
		}
		members, _, err = statedb.One(ctx, tx, queries.Get("Members"), nil, statedb.Value[int64])
		return err
	})
	return members, err
}

// Leave takes a process out.
func (s *Store) Leave(ctx context.Context, owner string) error {
	return s.exec(ctx, "MemberLeave", statedb.Args{"owner": owner})
}

// Take takes a slot that nobody has; ok is false if somebody has it.
func (s *Store) Take(ctx context.Context, l Lease, owner string, ttl time.Duration) (got Lease, ok bool, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		var err error
		got.Epoch, ok, err = statedb.One(ctx, tx, queries.Get("SlotTake"),
			statedb.Args{"changelog_id": l.ChangelogID, "slot": int64(l.Slot), "owner": owner, "ttl": ttl}, statedb.Value[int64])
		return err
	})
	got.ChangelogID, got.Slot, got.Owner, got.Live = l.ChangelogID, l.Slot, owner, ok
	return got, ok, err
}

// Beat renews a lease; false: it is lost.
func (s *Store) Beat(ctx context.Context, l Lease, ttl time.Duration) (kept bool, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		n, err := statedb.Exec(ctx, tx, queries.Get("SlotBeat"), l.args(ttl))
		kept = n == 1
		return err
	})
	return kept, err
}

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, l Lease) error {
	return s.exec(ctx, "SlotRelease", l.args(0))
}

func (l Lease) args(ttl time.Duration) statedb.Args {
	a := statedb.Args{"changelog_id": l.ChangelogID, "slot": int64(l.Slot), "owner": l.Owner, "epoch": l.Epoch}
	if ttl > 0 {
		a["ttl"] = ttl
	}
	return a
}
