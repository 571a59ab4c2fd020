package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/queue"
)

func newQuarantineCommand(out *output) *cobra.Command {
	return group("quarantine", "Show, retry and discard batches that cannot be applied",
		newQuarantineListCommand(out), newQuarantineShowCommand(out),
		newQuarantineActCommand(out, "retry", "Queue a quarantined batch again; its run goes on", "queued again"),
		newQuarantineActCommand(out, "discard", "Accept the loss of a batch; its stream needs a resync", "discarded"))
}

func newQuarantineListCommand(out *output) *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use: "list", Short: "List quarantined batches, newest first", Example: "  sluice quarantine list --org acme", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runQuarantineList(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags(), "open (default), retried, discarded, superseded or all")
	addJSON(c.Flags(), out)
	return c
}

func runQuarantineList(ctx context.Context, s *server, o listOptions, out *output) error {
	switch o.State {
	case "":
		o.State = "open"
	case "all":
		o.State = ""
	}
	q, err := o.values(ctx, s)
	if err != nil {
		return err
	}
	found, err := pages(ctx, s, "/quarantine", q, o.Most, func(p api.Quarantine) ([]queue.QuarantineRow, string) { return p.Quarantine, p.NextCursor })
	if err != nil {
		return err
	}
	return out.result(api.Quarantine{Quarantine: found}, func() {
		var rows [][]string
		for _, r := range found {
			rows = append(rows, []string{string(r.BatchID), string(r.Code), r.State, r.Message})
		}
		out.table([]string{"BATCH", "CODE", "STATE", "MESSAGE"}, rows)
	})
}

func newQuarantineShowCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "show BATCH_ID", Short: "Show why a batch is in quarantine", Example: "  sluice quarantine show 0b7f…", Args: exactly("the id of a batch"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runQuarantineShow(ctx, s, args[0], out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runQuarantineShow(ctx context.Context, s *server, id string, out *output) error {
	r, err := client.Get[queue.QuarantineRow](ctx, s.Client, "/quarantine/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return out.result(r, func() {
		out.facts("batch_id", string(r.BatchID), "stream_id", string(r.StreamID), "org", string(r.Org), "run_id", string(r.RunID),
			"batch_index", fmt.Sprint(r.BatchIndex), "code", string(r.Code), "message", r.Message, "hint", r.Hint, "path", r.Path,
			"attempts", fmt.Sprint(r.Attempts), "state", r.State, "opened_at", stamp(&r.OpenedAt), "closed_at", stamp(r.ClosedAt),
			"closed_by", r.ClosedBy, "note", r.Note)
	})
}

func newQuarantineActCommand(out *output, verb, short, done string) *cobra.Command {
	var o actOptions
	c := &cobra.Command{
		Use: verb + " BATCH_ID", Short: short, Example: "  sluice quarantine " + verb + " 0b7f… --note 'mended at the source'", Args: exactly("the id of a batch"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return runAct(ctx, s, "/quarantine/"+url.PathEscape(args[0])+"/"+verb, o, done, out)
			})
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}
