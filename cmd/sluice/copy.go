package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

func newCopyCommand(out *output) *cobra.Command {
	var o planOptions
	var ref string
	c := &cobra.Command{
		Use: "copy --stream S", Short: "Copy a Delta table over a stream's table; readers see the old one until it is whole", Args: noArguments,
		Example: "  sluice copy --stream 7/stripe/invoices --check checks.yaml --wait\n  sluice copy --stream 7/stripe/invoices --version 41 --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			return onStream(c, o.Org, ref, func(ctx context.Context, s *server, x api.Stream) error {
				if o.DryRun {
					return runPlan(ctx, s, x, o, sluice.RunCopy, out)
				}
				return runStart(ctx, s, x, o, sluice.RunCopy, "/start", out)
			})
		},
	}
	o.AddFlags(c.Flags())
	c.Flags().StringVar(&ref, "stream", "", "stream: UUID, team/source_type/name, schema.table or table")
	addDryRun(c.Flags(), &o.DryRun)
	addWait(c.Flags(), &o.Wait)
	addJSON(c.Flags(), out)
	return c
}

func newVerifyCommand(out *output) *cobra.Command {
	var org, ref, uri, checkFile string
	var version int64
	var compare bool
	c := &cobra.Command{
		Use: "verify --stream S", Short: "Check a stream's live table; nothing is changed", Args: noArguments,
		Example: "  sluice verify --stream 7/stripe/invoices --check checks.yaml\n  sluice verify --stream 7/stripe/invoices --compare",
		RunE: func(c *cobra.Command, _ []string) error {
			return onStream(c, org, ref, func(ctx context.Context, s *server, x api.Stream) error {
				checks, err := readChecks(checkFile)
				if err != nil {
					return err
				}
				body := api.VerifyTable{URI: absolute(uri), Compare: compare || uri != "" || version >= 0, Checks: checks}
				if version >= 0 {
					body.Version = &version
				}
				return runVerify(ctx, s, x, body, out)
			})
		},
	}
	addStream(c.Flags(), &org, &ref)
	c.Flags().BoolVar(&compare, "compare", false, "compare the number of rows with the stream's Delta table, too")
	c.Flags().StringVar(&uri, "uri", "", "compare with this Delta table")
	c.Flags().Int64Var(&version, "version", -1, "compare with this version")
	c.Flags().StringVar(&checkFile, "check", "", "YAML file with checks of your own")
	addJSON(c.Flags(), out)
	return c
}

func runVerify(ctx context.Context, s *server, x api.Stream, body api.VerifyTable, out *output) error {
	r, err := client.Post[stream.VerifyReport](ctx, s.Client, "/streams/"+url.PathEscape(string(x.StreamID))+"/verify", body)
	if err != nil {
		return err
	}
	if err := out.result(r, func() {
		for _, d := range r.Differences {
			out.line("different: %s", d)
		}
		word := "is right"
		if !r.OK {
			word = "is not as it must be"
		}
		out.line("%s has %d rows and %s", r.Table, r.Rows, word)
	}); err != nil {
		return err
	}
	if !r.OK {
		return exitCode(1)
	}
	return nil
}
