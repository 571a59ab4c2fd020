package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/queue"
)

func newRunCommand(out *output) *cobra.Command {
	return group("run", "Show and cancel runs: ordered sets of batches", newRunListCommand(out), newRunShowCommand(out), newRunCancelCommand(out))
}

// listOptions select rows of the queue.
type listOptions struct {
	Org, Stream, Run, State string
	Most                    int
}

// AddFlags adds the flags of a listing.
func (o *listOptions) AddFlags(fset *pflag.FlagSet, states string) {
	addOrg(fset, &o.Org)
	fset.StringVar(&o.Stream, "stream", "", "stream: UUID, team/source_type/name, schema.table or table")
	fset.StringVar(&o.State, "state", "", "state: "+states)
	addMost(fset, &o.Most)
}

// values are the URL parameters of the options; a stream is looked up first.
func (o *listOptions) values(ctx context.Context, s *server) (url.Values, error) {
	q := query("org", o.Org, "run_id", o.Run, "state", o.State, "limit", fmt.Sprint(clamp(o.Most)))
	if o.Stream != "" {
		x, err := s.findStream(ctx, o.Org, o.Stream)
		if err != nil {
			return nil, err
		}
		q.Set("stream_id", string(x.StreamID))
	}
	return q, nil
}

func newRunListCommand(out *output) *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Example: "  sluice run list --stream 7/stripe/invoices --state halted", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runRunList(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags(), "open, sealed, halted, succeeded, failed, superseded or cancelled")
	addJSON(c.Flags(), out)
	return c
}

func runRunList(ctx context.Context, s *server, o listOptions, out *output) error {
	q, err := o.values(ctx, s)
	if err != nil {
		return err
	}
	runs, err := pages(ctx, s, "/runs", q, o.Most, func(p api.Runs) ([]api.Run, string) { return p.Runs, p.NextCursor })
	if err != nil {
		return err
	}
	return out.result(api.Runs{Runs: runs}, func() {
		var rows [][]string
		for _, r := range runs {
			rows = append(rows, []string{string(r.StreamID), string(r.RunID), string(r.State), applied(r), stamp(r.FirstBatchAt), r.Reason})
		}
		out.table([]string{"STREAM", "RUN", "STATE", "APPLIED", "FIRST BATCH", "REASON"}, rows)
	})
}

// applied shows how many batches are applied, of how many.
func applied(r api.Run) string {
	if r.FinalIndex == nil {
		return fmt.Sprintf("%d of ?", r.NextIndex)
	}
	return fmt.Sprintf("%d of %d", r.NextIndex, *r.FinalIndex+1)
}

func newRunShowCommand(out *output) *cobra.Command {
	var org, stream string
	c := &cobra.Command{
		Use: "show RUN --stream S", Short: "Show a run", Example: "  sluice run show 2026-03-01 --stream 7/stripe/invoices", Args: exactly("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runRunShow(ctx, s, org, stream, args[0], out) })
		},
	}
	addStream(c.Flags(), &org, &stream)
	addJSON(c.Flags(), out)
	return c
}

func addStream(fset *pflag.FlagSet, org, stream *string) {
	addOrg(fset, org)
	fset.StringVar(stream, "stream", "", "stream: UUID, team/source_type/name, schema.table or table")
}

func runPath(stream, run string) string {
	return "/streams/" + url.PathEscape(stream) + "/runs/" + url.PathEscape(run)
}

func runRunShow(ctx context.Context, s *server, org, stream, run string, out *output) error {
	x, err := s.findStream(ctx, org, stream)
	if err != nil {
		return err
	}
	r, err := client.Get[api.Run](ctx, s.Client, runPath(string(x.StreamID), run), nil)
	if err != nil {
		return err
	}
	return out.result(r, func() {
		out.facts("stream_id", string(r.StreamID), "run_id", string(r.RunID), "kind", string(r.Kind), "sync_type", string(r.SyncType),
			"is_first_ever", fmt.Sprint(r.IsFirstEver), "state", string(r.State), "reason", r.Reason, "applied", applied(r),
			"first_batch_at", stamp(r.FirstBatchAt), "sealed_at", stamp(r.SealedAt), "ended_at", stamp(r.EndedAt))
	})
}

// actOptions are those of an operator's command.
type actOptions struct {
	Note   string
	DryRun bool
}

// AddFlags adds the flags of an operator's command.
func (o *actOptions) AddFlags(fset *pflag.FlagSet) {
	fset.StringVar(&o.Note, "note", "", "kept in the audit log")
	addDryRun(fset, &o.DryRun)
}

func newRunCancelCommand(out *output) *cobra.Command {
	var org, stream string
	var o actOptions
	c := &cobra.Command{
		Use: "cancel RUN --stream S", Short: "End a run; batches that are not applied are given up", Args: exactly("a run"),
		Example: "  sluice run cancel 2026-03-01 --stream 7/stripe/invoices --dry-run",
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				x, err := s.findStream(ctx, org, stream)
				if err != nil {
					return err
				}
				return runAct(ctx, s, runPath(string(x.StreamID), args[0])+"/cancel", o, "cancelled", out)
			})
		},
	}
	addStream(c.Flags(), &org, &stream)
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

// runAct posts an operator's command and prints what changed.
func runAct(ctx context.Context, s *server, path string, o actOptions, done string, out *output) error {
	change, err := client.Post[queue.Change](ctx, s.Client, path, api.Act{DryRun: o.DryRun, Note: o.Note})
	if err != nil {
		return err
	}
	return out.result(change, func() {
		verb := done
		if o.DryRun {
			verb = "would be " + done
		}
		out.line("run %s of stream %s: %d batches %s; the stream is %s", change.RunID, change.StreamID, len(change.Batches), verb, change.Lifecycle)
	})
}
