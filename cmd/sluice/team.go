package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
)

func newTeamCommand(out *output) *cobra.Command {
	return group("team", "Make and show teams: projects of an org with a schema each",
		newTeamCreateCommand(out), newTeamListCommand(out), newTeamShowCommand(out), newTeamUpdateCommand(out), newTeamDeleteCommand(out),
		newTeamTransferCommand(out))
}

type teamCreateOptions struct {
	Org                   string
	TeamID                int64
	Schema, ImportsSchema string
	DryRun                bool
}

// AddFlags adds the flags of `sluice team create`.
func (o *teamCreateOptions) AddFlags(fset *pflag.FlagSet) {
	addOrg(fset, &o.Org)
	fset.StringVar(&o.Schema, "schema", "", "schema of the team (default team_<id>)")
	fset.StringVar(&o.ImportsSchema, "imports-schema", "", "schema of its imported tables (default <schema>_data_imports)")
	addDryRun(fset, &o.DryRun)
}

func addOrg(fset *pflag.FlagSet, org *string) { fset.StringVar(org, "org", "", "id of the org") }

// teamID reads a team's number.
func teamID(c *cobra.Command, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usage(c, fmt.Sprintf("%q is not a team id: a number from 1", text))
	}
	return n, nil
}

func newTeamCreateCommand(out *output) *cobra.Command {
	var o teamCreateOptions
	c := &cobra.Command{
		Use: "create TEAM_ID --org ORG", Short: "Make a team", Example: "  sluice team create 7 --org acme", Args: exactly("the id of a team"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.TeamID, err = teamID(c, args[0]); err != nil {
				return err
			}
			if o.Org == "" {
				return usage(c, "--org is needed")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runTeamCreate(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func teamsPath(org string) string { return "/orgs/" + url.PathEscape(org) + "/teams" }

func runTeamCreate(ctx context.Context, s *server, o teamCreateOptions, out *output) error {
	t, err := client.Post[control.Team](ctx, s.Client, teamsPath(o.Org), api.CreateTeam{
		TeamID: o.TeamID, SchemaName: o.Schema, ImportsSchema: o.ImportsSchema, DryRun: o.DryRun,
	})
	if err != nil {
		return err
	}
	return out.result(t, func() {
		verb := "is created"
		if o.DryRun {
			verb = "would be created"
		}
		out.line("team %d of org %s %s", t.TeamID, t.Org, verb)
	})
}

func newTeamListCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "list --org ORG", Short: "List the teams of an org", Example: "  sluice team list --org acme", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if org == "" {
				return usage(c, "--org is needed")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runTeamList(ctx, s, org, out) })
		},
	}
	addOrg(c.Flags(), &org)
	addJSON(c.Flags(), out)
	return c
}

func runTeamList(ctx context.Context, s *server, org string, out *output) error {
	teams, err := client.Get[api.Teams](ctx, s.Client, teamsPath(org), nil)
	if err != nil {
		return err
	}
	return out.result(teams, func() {
		var rows [][]string
		for _, t := range teams.Teams {
			rows = append(rows, []string{fmt.Sprint(t.TeamID), t.SchemaName, fmt.Sprint(t.Enabled), stamp(&t.CreatedAt)})
		}
		out.table([]string{"TEAM", "SCHEMA", "ENABLED", "CREATED"}, rows)
	})
}

func newTeamShowCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "show TEAM_ID --org ORG", Short: "Show a team", Example: "  sluice team show 7 --org acme", Args: exactly("the id of a team"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := teamID(c, args[0])
			if err != nil {
				return err
			}
			if org == "" {
				return usage(c, "--org is needed")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runTeamShow(ctx, s, org, id, out) })
		},
	}
	addOrg(c.Flags(), &org)
	addJSON(c.Flags(), out)
	return c
}

func runTeamShow(ctx context.Context, s *server, org string, id int64, out *output) error {
	t, err := client.Get[control.Team](ctx, s.Client, fmt.Sprintf("%s/%d", teamsPath(org), id), nil)
	if err != nil {
		return err
	}
	return out.result(t, func() {
		out.facts("team", fmt.Sprint(t.TeamID), "org", string(t.Org), "schema_name", t.SchemaName, "imports_schema", t.ImportsSchema,
			"events_table", t.EventsTable, "persons_table", t.PersonsTable, "enabled", fmt.Sprint(t.Enabled), "created_at", stamp(&t.CreatedAt))
	})
}
