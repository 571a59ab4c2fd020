package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/delta/export"
)

type deltaExportOptions struct {
	deltaOptions
	Out   string
	Force bool
}

func newDeltaExportCommand(out *output) *cobra.Command {
	var o deltaExportOptions
	c := &cobra.Command{
		Use:   "export URI --out FILE",
		Short: "Write the rows of a version as one Parquet file",
		Long: "Write exactly the live rows of a version, under the table's names and types, as one Parquet file, in no order. The file is\n" +
			"whole or absent: it is written beside its place, its rows are counted, and it is renamed.",
		Example: "  sluice delta export /data/orders --out orders.parquet\n" +
			"  sluice delta export s3://bucket/orders --version 41 --out orders-41.parquet --json",
	}
	o.AddFlags(c.Flags())
	c.Flags().StringVar(&o.Out, "out", "", "the Parquet file to write")
	c.Flags().BoolVar(&o.Force, "force", false, "replace the file if it exists")
	c = deltaCommand(out, c, &o.deltaOptions, func(ctx context.Context, cfg *config.Config) error {
		if o.Out == "" {
			return usage(c, "--out is needed")
		}
		return runDeltaExport(ctx, cfg, o, out)
	})
	config.AddFlags(c.Flags(), "warehouse.threads", "warehouse.extensions")
	return c
}

func runDeltaExport(ctx context.Context, cfg *config.Config, o deltaExportOptions, out *output) error {
	t, version, err := o.open(ctx, cfg)
	if err != nil {
		return err
	}
	var bar *progress
	phase := ""
	r, err := app.ExportDelta(ctx, cfg, t, version, export.Options{Out: o.Out, Force: o.Force}, func(now string, done, total int64) {
		if now != phase {
			if bar != nil {
				bar.end()
			}
			bar, phase = newProgress(out, now), now
		}
		bar.set(done, total)
	})
	if bar != nil {
		if err == nil {
			bar.set(r.Rows, r.Rows)
		}
		bar.end()
	}
	if err != nil {
		return err
	}
	return out.result(r, func() {
		out.line("%s: version %d, %d rows of %d files, %d bytes, %.1f s (%s rows/s)", oneLine(r.Out), r.Version, r.Rows, r.Files, r.Bytes, r.Seconds,
			fmt.Sprintf("%.0f", float64(r.Rows)/max(r.Seconds, 0.001)))
	})
}
