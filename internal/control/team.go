package control

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Team is a project inside an org. Enabled is about serving only; it never stops ingestion.
type Team struct {
	Org             sluice.Org    `json:"org"`
	TeamID          sluice.TeamID `json:"team_id"`
	SchemaName      string        `json:"schema_name"`
	Enabled         bool          `json:"enabled"`
	BackfillEnabled bool          `json:"backfill_enabled"`
	EventsTable     string        `json:"events_table,omitempty"`
	PersonsTable    string        `json:"persons_table,omitempty"`
	ImportsSchema   string        `json:"imports_schema,omitempty"`
	Version         int64         `json:"version"`
	CreatedAt       time.Time     `json:"created_at"`
}

// NewTeam is what a caller says about a team; SchemaName empty means team_<id>.
type NewTeam struct {
	Org           sluice.Org
	TeamID        sluice.TeamID
	SchemaName    string
	EventsTable   string
	PersonsTable  string
	ImportsSchema string
}

// Tables are the resolved names of a team; every reader and writer takes them from here.
type Tables struct {
	Events        string `json:"events_table"`  // schema.table
	Persons       string `json:"persons_table"` // schema.table
	ImportsSchema string `json:"data_imports_schema"`
}

// Tables resolves the names of the team.
func (t Team) Tables() Tables {
	or := func(override, name string) string {
		if override != "" {
			return override
		}
		return name
	}
	return Tables{
		Events:        t.SchemaName + "." + or(t.EventsTable, "events"),
		Persons:       t.SchemaName + "." + or(t.PersonsTable, "persons"),
		ImportsSchema: or(t.ImportsSchema, t.SchemaName+"_data_imports"),
	}
}

// CreateTeam registers a team. A team is in one org at a time; an id or schema that is taken is SLUICE-CONTROL-EXISTS.
func (s *Store) CreateTeam(ctx context.Context, n NewTeam, by By) (Team, error) {
	doing := fmt.Sprintf("create team %d of org %s", n.TeamID, n.Org)
	if n.SchemaName == "" {
		n.SchemaName = fmt.Sprintf("team_%d", n.TeamID)
	}
	if n.TeamID <= 0 {
		return Team{}, invalid(doing, "the team id is not positive", "use 1 or more")
	}
	for field, v := range map[string]string{
		"schema_name": n.SchemaName, "events_table": n.EventsTable, "persons_table": n.PersonsTable, "imports_schema": n.ImportsSchema,
	} {
		if (v != "" || field == "schema_name") && !identifier.MatchString(v) {
			return Team{}, invalid(doing, fmt.Sprintf("%s %q is not a bare identifier", field, v),
				"use lower-case letters, digits and underscores, at most 63, not beginning with a digit")
		}
	}
	if resolved := (Team{SchemaName: n.SchemaName, ImportsSchema: n.ImportsSchema}).Tables().ImportsSchema; len(resolved) > 63 {
		return Team{}, invalid(doing, fmt.Sprintf("the imports schema %s is longer than 63 bytes", resolved), "choose a shorter schema name or set imports_schema")
	}
	var team Team
	err := s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		if _, err := orgIn(ctx, tx, "OrgGet", n.Org); err != nil {
			return Entry{}, err
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("TeamInsert"), statedb.Args{
			"org": n.Org, "team_id": n.TeamID, "schema_name": n.SchemaName, "events_table": statedb.Null(n.EventsTable),
			"persons_table": statedb.Null(n.PersonsTable), "imports_schema": statedb.Null(n.ImportsSchema),
		})
		if err != nil {
			return Entry{}, err
		}
		team, err = TeamIn(ctx, tx, n.Org, n.TeamID)
		return Entry{Action: "team.create", Org: n.Org, Object: fmt.Sprintf("team %d", n.TeamID), After: team}, err
	})
	if statedb.Unique(err) {
		return Team{}, sluice.E("SLUICE-CONTROL-EXISTS", doing, "the team id or its schema is taken",
			"see `sluice team list`; a team of another org is moved by a transfer", err)
	}
	return team, err
}

func scanTeam(scan statedb.Scan) (t Team, err error) {
	return t, scan(&t.Org, &t.TeamID, &t.SchemaName, &t.Enabled, &t.BackfillEnabled, statedb.Text(&t.EventsTable),
		statedb.Text(&t.PersonsTable), statedb.Text(&t.ImportsSchema), &t.Version, statedb.Time(&t.CreatedAt))
}

// TeamIn reads a team inside a transaction of another store.
func TeamIn(ctx context.Context, r statedb.Runner, org sluice.Org, id sluice.TeamID) (Team, error) {
	t, found, err := statedb.One(ctx, r, queries.Get("TeamGet"), statedb.Args{"org": org, "team_id": id}, scanTeam)
	if err == nil && !found {
		err = sluice.E("SLUICE-CONTROL-NO-TEAM", fmt.Sprintf("find team %d of org %s", id, org), "there is no such team",
			"see `sluice team list`", nil)
	}
	return t, err
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
	return statedb.All(ctx, s.db, queries.Get("TeamList"), statedb.Args{"org": org}, scanTeam)
}
