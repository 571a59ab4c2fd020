package main

import (
	"context"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/queue"
)

func newStreamResetCommand(out *output) *cobra.Command {
	var org, note string
	var dry bool
	c := &cobra.Command{
		Use: "reset STREAM", Short: "Say that a stream's table is not trusted", Args: exactly("a stream"),
		Long:    "Say that a stream's table is not trusted: its batches wait until a full refresh or a backfill has filled it anew.",
		Example: "  sluice stream reset 7/stripe/invoices --note 'loaded from the wrong account'",
	}
	addOrg(c.Flags(), &org)
	c.Flags().StringVar(&note, "note", "", "kept with what was done")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		x, err := s.findStream(ctx, org, args[0])
		if err != nil {
			return err
		}
		done, err := client.Post[queue.Change](ctx, s.Client, pathOf("streams", string(x.StreamID), "reset"), api.Act{DryRun: dry, Note: note})
		if err != nil {
			return err
		}
		return out.result(done, func() {
			verb := "needs"
			if dry {
				verb = "would need"
			}
			out.line("stream %s %s a full refresh or a backfill", x.StreamID, verb)
		})
	})
}

func newStreamDeleteCommand(out *output) *cobra.Command {
	var org string
	var dry bool
	c := &cobra.Command{
		Use: "delete STREAM", Short: "Remove a stream; its table and the table's name stay", Args: exactly("a stream"),
		Example: "  sluice stream delete 7/stripe/invoices --dry-run",
	}
	addOrg(c.Flags(), &org)
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		x, err := s.findStream(ctx, org, args[0])
		if err != nil {
			return err
		}
		id := string(x.StreamID)
		ch := change{pathOf("streams", id), "stream " + id + " is deleted; its table stays", "would delete stream " + id + "; its table stays", dry}
		return removed[api.Stream](ctx, s, out, ch, nil)
	})
}
