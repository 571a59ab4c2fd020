package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/stream"
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
	EarliestDate  string `json:"earliest_event_date,omitempty" doc:"like 2026-03-01"`
	DryRun        bool   `json:"dry_run,omitempty"`
}

// UpdateTeam is the body that changes a team; what is left out stays, null clears.
type UpdateTeam struct {
	Enabled           Opt[bool]   `json:"enabled,omitzero" doc:"whether it is served; it never stops ingestion"`
	BackfillEnabled   Opt[bool]   `json:"backfill_enabled,omitzero"`
	EventsTable       Opt[string] `json:"events_table,omitzero" maxLength:"63"`
	PersonsTable      Opt[string] `json:"persons_table,omitzero" maxLength:"63"`
	ImportsSchema     Opt[string] `json:"imports_schema,omitzero" maxLength:"63" doc:"for streams that get their table later"`
	EarliestEventDate Opt[string] `json:"earliest_event_date,omitzero" maxLength:"10"`
}

// TransferTeam is the body that moves a team to another org.
type TransferTeam struct {
	ToOrg  string `json:"to_org" minLength:"1" maxLength:"63"`
	DryRun bool   `json:"dry_run,omitempty"`
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
		func(ctx context.Context, in *TeamPath) (*versioned[control.Team], error) {
			t, err := d.Control.Team(ctx, sluice.Org(in.Org), sluice.TeamID(in.TeamID))
			return answerVersion(t, t.Version, err)
		})
	route(api, d, http.MethodPatch, "/orgs/{org}/teams/{team_id}", "update-team", "Change a team", http.StatusOK,
		func(ctx context.Context, in *struct {
			TeamPath
			IfMatch
			Body UpdateTeam
		},
		) (*versioned[control.Team], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			doing := fmt.Sprintf("change team %d", in.TeamID)
			t, err := d.Control.UpdateTeam(ctx, sluice.Org(in.Org), sluice.TeamID(in.TeamID), version, by(ctx), func(t *control.Team) error {
				b := in.Body
				b.Enabled.to(&t.Enabled)
				b.BackfillEnabled.to(&t.BackfillEnabled)
				b.EventsTable.to(&t.EventsTable)
				b.PersonsTable.to(&t.PersonsTable)
				b.ImportsSchema.to(&t.ImportsSchema)
				b.EarliestEventDate.to(&t.EarliestEventDate)
				return errors.Join(b.Enabled.notNull(doing, "enabled"), b.BackfillEnabled.notNull(doing, "backfill_enabled"))
			})
			return answerVersion(t, t.Version, err)
		})
	route(api, d, http.MethodDelete, "/orgs/{org}/teams/{team_id}", "delete-team", "Remove a team from the configuration; its data stays", http.StatusNoContent,
		func(ctx context.Context, in *struct {
			TeamPath
			IfMatch
		},
		) (*struct{}, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return nil, d.Streams.RemoveTeam(ctx, sluice.Org(in.Org), sluice.TeamID(in.TeamID), version, by(ctx))
		})
	route(api, d, http.MethodPost, "/orgs/{org}/teams/{team_id}/transfer", "transfer-team", "Move a team with its streams to another org; their tables stay and are filled anew there", http.StatusOK,
		func(ctx context.Context, in *struct {
			TeamPath
			Body TransferTeam
		},
		) (*body[stream.Transfer], error) {
			o := stream.TransferOptions{DryRun: in.Body.DryRun}
			t, err := d.Streams.TransferTeam(ctx, sluice.Org(in.Org), sluice.TeamID(in.TeamID), sluice.Org(in.Body.ToOrg), o, stream.By(by(ctx)))
			return answer(t, err)
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
		PersonsTable: in.PersonsTable, ImportsSchema: in.ImportsSchema, EarliestEventDate: in.EarliestDate,
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
