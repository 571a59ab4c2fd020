package main

import (
	"context"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/control"
)

func newOrgUpdateCommand(out *output) *cobra.Command {
	var display, alias string
	var dry bool
	c := &cobra.Command{
		Use: "update ORG", Short: "Change an org's names for people and clients", Args: exactly("the id of an org"),
		Example: "  sluice org update acme --display-name 'Acme Inc.' --hostname-alias acme-eu\n  sluice org update acme --hostname-alias ''",
	}
	c.Flags().StringVar(&display, "display-name", "", "name for people")
	c.Flags().StringVar(&alias, "hostname-alias", "", "another name of its warehouse's host; empty removes it")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		at := pathOf("orgs", args[0])
		body := api.UpdateOrg{DisplayName: optional(c, "display-name", display), HostnameAlias: optional(c, "hostname-alias", alias)}
		return patched[control.Org](ctx, s, out, change{at, "org " + args[0] + " is changed", "would change org " + args[0], dry}, at, body)
	})
}

func newOrgSetLimitsCommand(out *output) *cobra.Command {
	var sessions, streams, backfills, memory, threads int64
	var dry bool
	c := &cobra.Command{
		Use: "set-limits ORG", Short: "Change the limits of an org; -1 is no limit", Args: exactly("the id of an org"),
		Example: "  sluice org set-limits acme --max-streams 8\n  sluice org set-limits acme --max-sessions -1",
	}
	f := c.Flags()
	f.Int64Var(&sessions, "max-sessions", 0, "client sessions of its warehouse")
	f.Int64Var(&streams, "max-streams", 0, "sessions of loaders, busy and idle, in all processes")
	f.Int64Var(&backfills, "backfill-per-org", 0, "backfills at once")
	f.Int64Var(&memory, "memory-bytes", 0, "memory of its engine")
	f.Int64Var(&threads, "threads", 0, "threads of its engine")
	addDryRun(f, &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		body := api.UpdateLimits{
			MaxSessions: optionalInt(c, "max-sessions", sessions), MaxStreams: optionalInt(c, "max-streams", streams),
			BackfillPerOrg: optionalInt(c, "backfill-per-org", backfills), MemoryBytes: optionalInt(c, "memory-bytes", memory),
			Threads: optionalInt(c, "threads", threads),
		}
		ch := change{pathOf("orgs", args[0], "limits"), "the limits of org " + args[0] + " are changed", "would change the limits of org " + args[0], dry}
		return patched[control.Org](ctx, s, out, ch, pathOf("orgs", args[0]), body)
	})
}

func newOrgPauseCommand(out *output) *cobra.Command {
	return orgSwitch(out, "pause", "Stop loading an org; readers are served all the while", "is paused")
}

func newOrgResumeCommand(out *output) *cobra.Command {
	return orgSwitch(out, "resume", "Load an org again", "is loaded again")
}

func orgSwitch(out *output, verb, short, done string) *cobra.Command {
	var dry bool
	c := &cobra.Command{Use: verb + " ORG", Short: short, Example: "  sluice org " + verb + " acme", Args: exactly("the id of an org")}
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		ch := change{pathOf("orgs", args[0], verb), "org " + args[0] + " " + done, "would " + verb + " org " + args[0], dry}
		return posted[control.Org](ctx, s, out, ch, pathOf("orgs", args[0]))
	})
}

func newOrgDeleteCommand(out *output) *cobra.Command {
	var force, dry bool
	c := &cobra.Command{
		Use: "delete ORG", Short: "Take an org out of service; its lake stays", Args: exactly("the id of an org"),
		Long: "Take an org out of service: it is neither loaded nor served, and every login to it ends at once. Its users are forgotten after\n" +
			"7 days. Its id is never given again, and its lake is not touched.",
		Example: "  sluice org delete acme --dry-run\n  sluice org delete acme --force",
	}
	c.Flags().BoolVar(&force, "force", false, "also while batches are open; they are not applied any more")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		q := query("force", map[bool]string{true: "true"}[force])
		ch := change{pathOf("orgs", args[0]), "org " + args[0] + " is deleted; its lake stays", "would delete org " + args[0] + "; its lake stays", dry}
		return removed[control.Org](ctx, s, out, ch, q)
	})
}
