package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
)

func newBatchCommand(out *output) *cobra.Command {
	return group("batch", "Show and retry batches: Parquet files to apply", newBatchListCommand(out), newBatchShowCommand(out), newBatchRetryCommand(out))
}

func newBatchListCommand(out *output) *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use: "list", Short: "List batches in stream order", Example: "  sluice batch list --stream 7/stripe/invoices --run 2026-03-01", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runBatchList(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags(), "queued, executing, retry_wait, quarantined, succeeded, failed or superseded")
	c.Flags().StringVar(&o.Run, "run", "", "run")
	addJSON(c.Flags(), out)
	return c
}

func runBatchList(ctx context.Context, s *server, o listOptions, out *output) error {
	q, err := o.values(ctx, s)
	if err != nil {
		return err
	}
	batches, err := pages(ctx, s, "/batches", q, o.Most, func(p api.Batches) ([]api.Batch, string) { return p.Batches, p.NextCursor })
	if err != nil {
		return err
	}
	return out.result(api.Batches{Batches: batches}, func() {
		var rows [][]string
		for _, b := range batches {
			rows = append(rows, []string{string(b.BatchID), string(b.RunID), fmt.Sprint(b.BatchIndex), string(b.LoadState), string(b.Op), why(b)})
		}
		out.table([]string{"BATCH", "RUN", "INDEX", "STATE", "OP", "REASON"}, rows)
	})
}

// why tells the reason of a batch's state.
func why(b api.Batch) string {
	if b.LoadReason != "" {
		return b.LoadReason
	}
	return string(b.ErrorCode)
}

func newBatchShowCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "show BATCH_ID", Short: "Show a batch and its history", Example: "  sluice batch show 0b7f… --json", Args: exactly("the id of a batch"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runBatchShow(ctx, s, args[0], out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runBatchShow(ctx context.Context, s *server, id string, out *output) error {
	b, err := client.Get[api.BatchDetail](ctx, s.Client, "/batches/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return out.result(b, func() {
		out.facts("batch_id", string(b.BatchID), "stream_id", string(b.StreamID), "run_id", string(b.RunID), "batch_index", fmt.Sprint(b.BatchIndex),
			"path", b.Path, "is_final", fmt.Sprint(b.IsFinal), "op", string(b.Op), "upstream_state", string(b.UpstreamState), "load_state", string(b.LoadState),
			"load_reason", b.LoadReason, "attempt", fmt.Sprint(b.Attempt), "next_attempt_at", stamp(b.NextAttemptAt), "error_code", string(b.ErrorCode), "error_text", b.ErrorText)
		var rows [][]string
		for _, h := range b.History {
			reason := h.Reason
			if h.ErrorCode != "" {
				reason = string(h.ErrorCode)
			}
			rows = append(rows, []string{stamp(&h.CreatedAt), string(h.LoadState), fmt.Sprint(h.Attempt), reason, h.ErrorText})
		}
		if len(rows) > 0 {
			out.line("")
			out.table([]string{"AT", "STATE", "ATTEMPT", "REASON", "TEXT"}, rows)
		}
	})
}

func newBatchRetryCommand(out *output) *cobra.Command {
	var o actOptions
	c := &cobra.Command{
		Use: "retry BATCH_ID", Short: "Make a waiting batch claimable at once, with all its attempts", Args: exactly("the id of a batch"),
		Example: "  sluice batch retry 0b7f… --dry-run",
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return runAct(ctx, s, "/batches/"+url.PathEscape(args[0])+"/retry", o, "tried again", out)
			})
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}
