package control

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/naming"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Team is a project inside an org. Enabled is about serving only; it never stops ingestion.
type Team struct {
	Org               sluice.Org    `json:"org"`
	TeamID            sluice.TeamID `json:"team_id"`
	SchemaName        string        `json:"schema_name"`
	Enabled           bool          `json:"enabled"`
	BackfillEnabled   bool          `json:"backfill_enabled"`
	EventsTable       string        `json:"events_table,omitempty"`
	PersonsTable      string        `json:"persons_table,omitempty"`
	ImportsSchema     string        `json:"imports_schema,omitempty"`
	EarliestEventDate string        `json:"earliest_event_date,omitempty"` // 2026-03-01
	PersonsPrepared   bool          `json:"persons_prepared"`              // the raw tables exist
	PersonsKind       string        `json:"persons_kind"`                  // table or view
	Version           int64         `json:"version"`
	CreatedAt         time.Time     `json:"created_at"`
}

// What readers find under a team's persons name.
const (
	PersonsTable = "table" // written by batch exports
	PersonsView  = "view"  // over the raw tables
)

// NewTeam is what a caller says about a team; SchemaName empty means team_<id>.
type NewTeam struct {
	Org               sluice.Org
	TeamID            sluice.TeamID
	SchemaName        string
	EventsTable       string
	PersonsTable      string
	ImportsSchema     string
	EarliestEventDate string
}

// Tables are the resolved names of a team; every reader and writer takes them from here. Those of tables are schema.table.
type Tables struct {
	Events                string `json:"events_table"`
	Persons               string `json:"persons_table"`
	PersonsDistinctIDs    string `json:"persons_distinct_ids_table"`
	PersonsRaw            string `json:"persons_raw_table" doc:"empty until it exists"`
	PersonsDistinctIDsRaw string `json:"persons_distinct_ids_raw_table" doc:"empty until it exists"`
	PersonsKind           string `json:"persons_kind" enum:"table,view"`
	ImportsSchema         string `json:"data_imports_schema"`
}

func or(override, name string) string {
	if override != "" {
		return override
	}
	return name
}

// Tables resolves the names of the team.
func (t Team) Tables() Tables {
	at := func(name string) string { return t.SchemaName + "." + name }
	out := Tables{
		Events: at(or(t.EventsTable, "events")), PersonsKind: or(t.PersonsKind, PersonsTable),
		ImportsSchema: or(t.ImportsSchema, t.SchemaName+"_data_imports"),
	}
	persons, err := t.Persons()
	if err != nil { // a stored name was checked when it was stored
		out.Persons = at(or(t.PersonsTable, "persons"))
		return out
	}
	out.Persons, out.PersonsDistinctIDs = at(persons.Table), at(persons.DistinctIDs)
	if t.PersonsPrepared {
		out.PersonsRaw, out.PersonsDistinctIDsRaw = at(persons.Raw), at(persons.DistinctIDsRaw)
	}
	return out
}

// Persons gives the bare names of the team's persons tables.
func (t Team) Persons() (naming.Persons, error) {
	return naming.PersonsTables(or(t.PersonsTable, "persons"))
}

// Owned lists the bare names in the team's schema that belong to other writers than streams.
func (t Team) Owned() []string {
	names := []string{or(t.EventsTable, "events")}
	if p, err := t.Persons(); err == nil {
		names = append(names, p.All()...)
	}
	return names
}

// check finds what is wrong with the names of a team.
func (t Team) check(doing string) error {
	for _, f := range []struct{ field, value string }{
		{"schema_name", t.SchemaName}, {"events_table", t.EventsTable}, {"persons_table", t.PersonsTable}, {"imports_schema", t.ImportsSchema},
	} {
		if (f.value != "" || f.field == "schema_name") && !identifier.MatchString(f.value) {
			return invalid(doing, fmt.Sprintf("%s %q is not a bare identifier", f.field, f.value),
				"use lower-case letters, digits and underscores, at most 63, not beginning with a digit")
		}
	}
	if resolved := t.Tables().ImportsSchema; len(resolved) > 63 {
		return invalid(doing, fmt.Sprintf("the imports schema %s is longer than 63 bytes", resolved), "choose a shorter schema name or set imports_schema")
	}
	persons, err := t.Persons()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for _, name := range persons.All() {
		if name == or(t.EventsTable, "events") {
			return invalid(doing, fmt.Sprintf("events and persons would both be called %s", name), "choose another events_table or persons_table")
		}
	}
	if t.EarliestEventDate != "" {
		if _, err := time.Parse(time.DateOnly, t.EarliestEventDate); err != nil {
			return invalid(doing, fmt.Sprintf("earliest_event_date %q is not a date", t.EarliestEventDate), "write it like 2026-03-01")
		}
	}
	return nil
}

func teamObject(id sluice.TeamID) string { return fmt.Sprintf("team %d", id) }

// CreateTeam registers a team. A team is in one org at a time; an id or schema that is taken is SLUICE-CONTROL-EXISTS.
func (s *Store) CreateTeam(ctx context.Context, n NewTeam, by By) (Team, error) {
	doing := fmt.Sprintf("create team %d of org %s", n.TeamID, n.Org)
	if n.SchemaName == "" {
		n.SchemaName = fmt.Sprintf("team_%d", n.TeamID)
	}
	if n.TeamID <= 0 {
		return Team{}, invalid(doing, "the team id is not positive", "use 1 or more")
	}
	if err := (Team{
		SchemaName: n.SchemaName, EventsTable: n.EventsTable, PersonsTable: n.PersonsTable, ImportsSchema: n.ImportsSchema,
		EarliestEventDate: n.EarliestEventDate,
	}).check(doing); err != nil {
		return Team{}, err
	}
	taken := func(cause error) error {
		return sluice.E("SLUICE-CONTROL-EXISTS", doing, "the team id or its schema is taken",
			"see `sluice team list`; a team of another org is moved by `sluice team transfer`", cause)
	}
	var team Team
	err := s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		if _, err := orgIn(ctx, tx, "OrgGet", n.Org); err != nil {
			return Entry{}, err
		}
		made, err := statedb.Exec(ctx, tx, queries.Get("TeamInsert"), statedb.Args{
			"org": n.Org, "team_id": n.TeamID, "schema_name": n.SchemaName, "events_table": statedb.Null(n.EventsTable),
			"persons_table": statedb.Null(n.PersonsTable), "imports_schema": statedb.Null(n.ImportsSchema),
			"earliest_event_date": statedb.Null(n.EarliestEventDate),
		})
		if err != nil {
			return Entry{}, err
		}
		if made == 0 {
			return Entry{}, taken(nil)
		}
		team, err = TeamIn(ctx, tx, n.Org, n.TeamID)
		return Entry{Action: "team.create", Org: n.Org, Object: teamObject(n.TeamID), After: team}, err
	})
	if statedb.Unique(err) {
		return Team{}, taken(err)
	}
	return team, err
}

func scanTeam(scan statedb.Scan) (t Team, err error) {
	return t, scan(&t.Org, &t.TeamID, &t.SchemaName, &t.Enabled, &t.BackfillEnabled, statedb.Text(&t.EventsTable),
		statedb.Text(&t.PersonsTable), statedb.Text(&t.ImportsSchema), statedb.Text(&t.EarliestEventDate),
		&t.PersonsPrepared, &t.PersonsKind, &t.Version, statedb.Time(&t.CreatedAt))
}

func teamIn(ctx context.Context, r statedb.Runner, query string, org sluice.Org, id sluice.TeamID) (Team, error) {
	t, found, err := statedb.One(ctx, r, queries.Get(query), statedb.Args{"org": org, "team_id": id}, scanTeam)
	if err == nil && !found {
		err = sluice.E("SLUICE-CONTROL-NO-TEAM", fmt.Sprintf("find team %d of org %s", id, org), "there is no such team",
			"see `sluice team list`", nil)
	}
	return t, err
}

// TeamIn reads a team inside a transaction of another store.
func TeamIn(ctx context.Context, r statedb.Runner, org sluice.Org, id sluice.TeamID) (Team, error) {
	return teamIn(ctx, r, "TeamGet", org, id)
}

// TeamsIn lists the teams of an org inside a transaction of another store.
func TeamsIn(ctx context.Context, r statedb.Runner, org sluice.Org) ([]Team, error) {
	return statedb.All(ctx, r, queries.Get("TeamList"), statedb.Args{"org": org}, scanTeam)
}

// OrgIn reads an org inside a transaction of another store.
func OrgIn(ctx context.Context, r statedb.Runner, id sluice.Org) (Org, error) {
	return orgIn(ctx, r, "OrgGet", id)
}

// Team gives a team, or SLUICE-CONTROL-NO-TEAM.
func (s *Store) Team(ctx context.Context, org sluice.Org, id sluice.TeamID) (Team, error) {
	return TeamIn(ctx, s.db, org, id)
}

// Teams lists the teams of an org by id.
func (s *Store) Teams(ctx context.Context, org sluice.Org) ([]Team, error) {
	return TeamsIn(ctx, s.db, org)
}

// UpdateTeam changes a team under its row lock: fn gets it as it is. Its id, org and schema stay. version 0 means any;
// another one that is not the present is SLUICE-CONTROL-CONFLICT.
func (s *Store) UpdateTeam(ctx context.Context, org sluice.Org, id sluice.TeamID, version int64, by By, fn func(t *Team) error) (Team, error) {
	var out Team
	err := s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		e, after, err := updateTeam(ctx, tx, "team.update", org, id, version, fn)
		out = after
		return e, err
	})
	return out, err
}

func updateTeam(ctx context.Context, tx *statedb.Tx, action string, org sluice.Org, id sluice.TeamID, version int64, fn func(t *Team) error) (Entry, Team, error) {
	doing := fmt.Sprintf("change team %d of org %s", id, org)
	before, err := teamIn(ctx, tx, "TeamLock", org, id)
	if err != nil {
		return Entry{}, Team{}, err
	}
	if err := checkVersion(doing, version, before.Version); err != nil {
		return Entry{}, Team{}, err
	}
	after := before
	if err := fn(&after); err != nil {
		return Entry{}, Team{}, err
	}
	if after.SchemaName != before.SchemaName || after.TeamID != id || after.Org != org {
		return Entry{}, Team{}, refused(doing, "a team keeps its id, org and schema", "make another team, or transfer this one to another org")
	}
	if before.PersonsPrepared && after.PersonsPrepared && after.PersonsTable != before.PersonsTable {
		return Entry{}, Team{}, refused(doing, "its persons tables are prepared under their present name", "roll the preparation back first")
	}
	if err := after.check(doing); err != nil {
		return Entry{}, Team{}, err
	}
	n, err := statedb.Exec(ctx, tx, queries.Get("TeamUpdate"), statedb.Args{
		"org": org, "team_id": id, "version": before.Version, "enabled": after.Enabled, "backfill_enabled": after.BackfillEnabled,
		"events_table": statedb.Null(after.EventsTable), "persons_table": statedb.Null(after.PersonsTable),
		"imports_schema": statedb.Null(after.ImportsSchema), "earliest_event_date": statedb.Null(after.EarliestEventDate),
		"persons_prepared": after.PersonsPrepared, "persons_kind": after.PersonsKind,
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("%s: the row changed under its lock", doing)
	}
	after.Version++
	return Entry{Action: action, Org: org, Object: teamObject(id), Before: before, After: after}, after, err
}

// SetPersons says, in a transaction of another store, whether a team's raw persons tables exist and what its persons name is.
func SetPersons(ctx context.Context, tx *statedb.Tx, org sluice.Org, id sluice.TeamID, prepared bool, kind string, by By) error {
	e, _, err := updateTeam(ctx, tx, "team.set_persons", org, id, 0, func(t *Team) error {
		t.PersonsPrepared, t.PersonsKind = prepared, kind
		return nil
	})
	if err != nil {
		return err
	}
	if err := Audit(ctx, tx, by, e); err != nil {
		return err
	}
	return Bump(ctx, tx)
}

// RemoveTeamIn removes a team from the configuration inside a transaction of the store that has looked at its streams;
// its data stays. With keepRow its row stays as a tombstone, because streams refer to it. An org keeps its last team.
func RemoveTeamIn(ctx context.Context, tx *statedb.Tx, org sluice.Org, id sluice.TeamID, version int64, keepRow bool, by By) error {
	doing := fmt.Sprintf("delete team %d of org %s", id, org)
	if _, err := orgIn(ctx, tx, "OrgLock", org); err != nil { // two teams cannot both see the other one as the last
		return err
	}
	before, err := teamIn(ctx, tx, "TeamLock", org, id)
	if err != nil {
		return err
	}
	if err := checkVersion(doing, version, before.Version); err != nil {
		return err
	}
	teams, err := TeamsIn(ctx, tx, org)
	if err != nil {
		return err
	}
	if len(teams) == 1 {
		return refused(doing, "it is the org's last team", "delete the org instead")
	}
	query := "TeamDelete"
	if keepRow {
		query = "TeamBury"
	}
	if _, err := statedb.Exec(ctx, tx, queries.Get(query), statedb.Args{"org": org, "team_id": id}); err != nil {
		return err
	}
	if _, err := disableUsers(ctx, tx, org, &id); err != nil {
		return err
	}
	if err := Audit(ctx, tx, by, Entry{Action: "team.delete", Org: org, Object: teamObject(id), Before: before}); err != nil {
		return err
	}
	return Bump(ctx, tx)
}

// MoveTeamIn moves a team to another org inside a transaction of the store that moves its streams. Logins that were limited
// to the team are disabled; their names are given. The foreign keys of streams follow by themselves.
func MoveTeamIn(ctx context.Context, tx *statedb.Tx, org sluice.Org, id sluice.TeamID, to sluice.Org, by By) (before, after Team, logins []string, err error) {
	doing := fmt.Sprintf("transfer team %d from org %s to org %s", id, org, to)
	if before, err = teamIn(ctx, tx, "TeamLock", org, id); err != nil {
		return before, after, nil, err
	}
	there, err := TeamsIn(ctx, tx, to)
	if err != nil {
		return before, after, nil, err
	}
	for _, t := range there {
		if t.SchemaName == before.SchemaName {
			return before, after, nil, sluice.E("SLUICE-CONTROL-EXISTS", doing, fmt.Sprintf("team %d of org %s has the same schema, %s", t.TeamID, to, t.SchemaName),
				"a team keeps its schema, so the two cannot be in one org", nil)
		}
	}
	if _, err = statedb.Exec(ctx, tx, queries.Get("TeamMove"), statedb.Args{"org": org, "team_id": id, "to_org": to}); err != nil {
		return before, after, nil, err // unique: a stream's table has a namesake there
	}
	if logins, err = disableUsers(ctx, tx, org, &id); err != nil {
		return before, after, nil, err
	}
	if after, err = teamIn(ctx, tx, "TeamGet", to, id); err != nil {
		return before, after, nil, err
	}
	for _, o := range []sluice.Org{org, to} { // both find it in their log
		if err := Audit(ctx, tx, by, Entry{Action: "team.transfer", Org: o, Object: teamObject(id), Before: before, After: after}); err != nil {
			return before, after, nil, err
		}
	}
	return before, after, logins, Bump(ctx, tx)
}
