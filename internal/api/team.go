package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Teams is a list of teams.
type Teams struct {
	Teams []control.Team `json:"teams"`
}

// CreateTeam is the body that makes a team.
type CreateTeam struct {
	TeamID        int64  `json:"team_id" minimum:"1"`
	SchemaName    string `json:"schema_name,omitempty" doc:"default team_<id>"`
	ImportsSchema string `json:"imports_schema,omitempty" doc:"default <schema_name>_data_imports"`
	EventsTable   string `json:"events_table,omitempty"`
	PersonsTable  string `json:"persons_table,omitempty"`
	DryRun        bool   `json:"dry_run,omitempty"`
}

// TeamPath names the object in the path of a route.
type TeamPath struct {
	Org    string `path:"org"`
	TeamID int64  `path:"team_id"`
}

func teamRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/orgs/{org}/teams", "list-teams", "List the teams of an org", http.StatusOK,
		func(ctx context.Context, in *OrgPath) (*body[Teams], error) {
			if _, err := d.Control.Org(ctx, sluice.Org(in.Org)); err != nil {
				return nil, err
			}
			teams, err := d.Control.Teams(ctx, sluice.Org(in.Org))
			return answer(Teams{nonNil(teams)}, err)
		})
	route(api, d, http.MethodGet, "/orgs/{org}/teams/{team_id}", "get-team", "Show a team", http.StatusOK,
		func(ctx context.Context, in *TeamPath) (*body[control.Team], error) {
			return answer(d.Control.Team(ctx, sluice.Org(in.Org), sluice.TeamID(in.TeamID)))
		})
	route(api, d, http.MethodPost, "/orgs/{org}/teams", "create-team", "Make a team", http.StatusCreated,
		func(ctx context.Context, in *struct {
			OrgPath
			Body CreateTeam
		},
		) (*body[control.Team], error) {
			return answer(createTeam(ctx, d, sluice.Org(in.Org), in.Body))
		})
}

func createTeam(ctx context.Context, d Deps, org sluice.Org, in CreateTeam) (control.Team, error) {
	n := control.NewTeam{
		Org: org, TeamID: sluice.TeamID(in.TeamID), SchemaName: in.SchemaName, EventsTable: in.EventsTable,
		PersonsTable: in.PersonsTable, ImportsSchema: in.ImportsSchema,
	}
	if !in.DryRun {
		return d.Control.CreateTeam(ctx, n, by(ctx))
	}
	if _, err := d.Control.Org(ctx, org); err != nil {
		return control.Team{}, err
	}
	if _, err := d.Control.Team(ctx, org, n.TeamID); err == nil {
		return control.Team{}, sluice.E("SLUICE-CONTROL-EXISTS", "create a team", "the team exists already", "", nil)
	} else if sluice.CodeOf(err) != "SLUICE-CONTROL-NO-TEAM" {
		return control.Team{}, err
	}
	return control.Team{
		Org: org, TeamID: n.TeamID, SchemaName: n.SchemaName, EventsTable: n.EventsTable, PersonsTable: n.PersonsTable, ImportsSchema: n.ImportsSchema,
	}, nil
}
