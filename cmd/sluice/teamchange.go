package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
	"sluice/internal/stream"
)

func newTeamUpdateCommand(out *output) *cobra.Command {
	var org, events, persons, imports, earliest string
	var enabled, backfill, dry bool
	c := &cobra.Command{
		Use: "update TEAM_ID --org ORG", Short: "Change a team", Args: exactly("the id of a team"),
		Example: "  sluice team update 7 --org acme --persons-table people\n  sluice team update 7 --org acme --enabled=false",
	}
	f := c.Flags()
	addOrg(f, &org)
	f.StringVar(&events, "events-table", "", "table of its events; empty: events")
	f.StringVar(&persons, "persons-table", "", "table of its persons; empty: persons")
	f.StringVar(&imports, "imports-schema", "", "schema of streams that get their table later; empty: <schema>_data_imports")
	f.StringVar(&earliest, "earliest-event-date", "", "like 2026-03-01; empty removes it")
	f.BoolVar(&enabled, "enabled", true, "whether it is served; it never stops ingestion")
	f.BoolVar(&backfill, "backfill-enabled", true, "whether backfills are planned")
	addDryRun(f, &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		id, err := teamID(c, args[0])
		if err != nil {
			return err
		}
		body := api.UpdateTeam{
			EventsTable: optional(c, "events-table", events), PersonsTable: optional(c, "persons-table", persons),
			ImportsSchema: optional(c, "imports-schema", imports), EarliestEventDate: optional(c, "earliest-event-date", earliest),
		}
		if f.Changed("enabled") {
			body.Enabled = api.Set(enabled)
		}
		if f.Changed("backfill-enabled") {
			body.BackfillEnabled = api.Set(backfill)
		}
		at := pathOf("orgs", org, "teams", args[0])
		ch := change{at, fmt.Sprintf("team %d of org %s is changed", id, org), fmt.Sprintf("would change team %d of org %s", id, org), dry}
		return patched[control.Team](ctx, s, out, ch, at, body)
	})
}

func newTeamDeleteCommand(out *output) *cobra.Command {
	var org string
	var dry bool
	c := &cobra.Command{
		Use: "delete TEAM_ID --org ORG", Short: "Remove a team from the configuration; its data stays", Args: exactly("the id of a team"),
		Example: "  sluice team delete 7 --org acme",
	}
	addOrg(c.Flags(), &org)
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		id, err := teamID(c, args[0])
		if err != nil {
			return err
		}
		ch := change{
			pathOf("orgs", org, "teams", args[0]), fmt.Sprintf("team %d of org %s is deleted; its data stays", id, org),
			fmt.Sprintf("would delete team %d of org %s; its data stays", id, org), dry,
		}
		return removed[control.Team](ctx, s, out, ch, nil)
	})
}

func newTeamTransferCommand(out *output) *cobra.Command {
	var org, to string
	var dry bool
	c := &cobra.Command{
		Use: "transfer TEAM_ID --org ORG --to ORG", Short: "Move a team with its streams to another org", Args: exactly("the id of a team"),
		Long: "Move a team with its streams to another org. Batches that are being applied end first; from then on nothing is written through\n" +
			"the old warehouse. The tables stay there, and are filled anew in the new one.",
		Example: "  sluice team transfer 7 --org acme --to beta --dry-run",
	}
	addOrg(c.Flags(), &org)
	c.Flags().StringVar(&to, "to", "", "id of the org that it moves to")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		id, err := teamID(c, args[0])
		if err != nil {
			return err
		}
		if to == "" {
			return usage(c, "--to is needed")
		}
		t, err := client.Post[stream.Transfer](ctx, s.Client, pathOf("orgs", org, "teams", args[0], "transfer"), api.TransferTeam{ToOrg: to, DryRun: dry})
		if err != nil {
			return err
		}
		return out.result(t, func() {
			verb := "is moved"
			if dry {
				verb = "would be moved"
			}
			out.line("team %d %s from org %s to org %s with %d streams", id, verb, t.FromOrg, t.ToOrg, len(t.Streams))
			var rows [][]string
			for _, m := range t.Streams {
				if m.LeftTable != "" {
					rows = append(rows, []string{string(m.StreamID), m.LeftTable})
				}
			}
			if len(rows) > 0 {
				out.table([]string{"STREAM", "TABLE THAT STAYS IN THE OLD WAREHOUSE"}, rows)
			}
			for _, name := range t.Disabled {
				out.line("login %s was limited to the team and is disabled", name)
			}
		})
	})
}
