package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/sluice"
)

// deltaKeys are the configuration that the commands use.
var deltaKeys = []string{
	"store.endpoint", "store.region", "store.path_style", "store.credentials.mode", "store.credentials.key_id", "store.credentials.secret",
	"store.credentials.role", "store.credentials.session", "delta.partition_timezone", "delta.allowed_roots", "delta.strict",
}

func newDeltaCommand(out *output) *cobra.Command {
	return group("delta", "Look at a Delta table, or export a version of it; no server is needed",
		newDeltaInfoCommand(out), newDeltaFilesCommand(out), newDeltaExportCommand(out))
}

// deltaOptions choose the version.
type deltaOptions struct {
	URI       string
	Version   int64 // delta.Latest: the newest one
	Timestamp string
	at        time.Time // of Timestamp; zero without one
}

// AddFlags adds the flags that choose the version.
func (o *deltaOptions) AddFlags(fset *pflag.FlagSet) {
	fset.Int64Var(&o.Version, "version", delta.Latest, "version of the table (default the newest one)")
	fset.Lookup("version").DefValue = ""
	fset.StringVar(&o.Timestamp, "timestamp", "", "the last version committed at or before this time, like 2024-06-01T12:00:00Z")
}

func (o *deltaOptions) check(c *cobra.Command, args []string) error {
	o.URI = args[0]
	if c.Flags().Changed("version") && o.Version < 0 {
		return usage(c, "--version must be 0 or more")
	}
	if o.Timestamp == "" {
		return nil
	}
	if c.Flags().Changed("version") {
		return usage(c, "give --version or --timestamp, not both")
	}
	var err error
	if o.at, err = time.Parse(time.RFC3339Nano, o.Timestamp); err != nil {
		return usage(c, fmt.Sprintf("%q is no time like 2024-06-01T12:00:00Z", o.Timestamp))
	}
	return nil
}

// open opens the table and finds the version that is meant.
func (o *deltaOptions) open(ctx context.Context, cfg *config.Config) (*delta.Table, int64, error) {
	t, err := app.OpenDelta(ctx, cfg, o.URI)
	if err != nil || o.at.IsZero() {
		return t, o.Version, err
	}
	version, err := t.VersionAt(ctx, o.at)
	return t, version, err
}

// deltaCommand makes a command on a table.
func deltaCommand(out *output, c *cobra.Command, o *deltaOptions, run func(context.Context, *config.Config) error) *cobra.Command {
	c.Args = exactly("URI")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.check(c, args); err != nil {
			return err
		}
		cfg, err := loadConfig(c)
		if err != nil {
			return err
		}
		return run(c.Context(), &cfg.Config)
	}
	config.AddFlags(c.Flags(), deltaKeys...)
	addJSON(c.Flags(), out)
	return c
}

type deltaInfoOptions struct {
	deltaOptions
	NoFooters bool
}

func newDeltaInfoCommand(out *output) *cobra.Command {
	var o deltaInfoOptions
	c := &cobra.Command{
		Use:   "info URI",
		Short: "Show version, files, rows, schema and what keeps a table from being read",
		Long: "Show what is known of a version of a Delta table. A table that cannot be read is shown as well, with the reason. Where\n" +
			"the log does not know the number of rows, the footers of the data files are read.",
		Example: "  sluice delta info /data/orders\n  sluice delta info s3://bucket/orders --version 41 --json",
	}
	o.AddFlags(c.Flags())
	c.Flags().BoolVar(&o.NoFooters, "no-footers", false, "read no data files, even where the number of rows is not known")
	return deltaCommand(out, c, &o.deltaOptions, func(ctx context.Context, cfg *config.Config) error {
		return runDeltaInfo(ctx, cfg, o, out)
	})
}

func runDeltaInfo(ctx context.Context, cfg *config.Config, o deltaInfoOptions, out *output) error {
	t, version, err := o.open(ctx, cfg)
	if err != nil {
		return err
	}
	info, infoErr := describe.Version(ctx, t, version, !o.NoFooters)
	if err := out.result(info, func() { printDeltaInfo(out, info) }); err != nil {
		return err
	}
	if infoErr != nil && out.json { // it is in the object
		return exitCode(sluice.ExitCode(infoErr))
	}
	return infoErr
}

func printDeltaInfo(out *output, i describe.Info) {
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	out.facts("table", i.URI, "version", number(i.Version), "earliest version", number(i.EarliestVersion), "files", number(i.NumFiles),
		"bytes", number(i.SizeBytes), "rows", number(i.NumRows), "deleted rows", number(i.DeletedRows), "reader version", number(i.MinReader),
		"features", strings.Join(i.Features, ", "), "not supported", strings.Join(i.Refused, ", "),
		"partitioned by", strings.Join(i.PartitionColumns, ", "))
	for _, w := range i.Warnings {
		out.facts("warning", w)
	}
	if len(i.Schema) > 0 {
		var rows [][]string
		for _, c := range i.Schema {
			rows = append(rows, []string{c.Name, c.Type})
		}
		out.line("")
		out.table([]string{"COLUMN", "TYPE"}, rows)
	}
}

func newDeltaFilesCommand(out *output) *cobra.Command {
	var o deltaOptions
	c := &cobra.Command{
		Use:   "files URI",
		Short: "List the data files of a version with their rows and deletion vectors",
		Long: "List the data files of a version, in no order. With --json there is one object per line. The list is complete only if the\n" +
			"command ends with exit code 0.",
		Example: "  sluice delta files /data/orders\n  sluice delta files s3://bucket/orders --version 41 --json",
	}
	o.AddFlags(c.Flags())
	return deltaCommand(out, c, &o, func(ctx context.Context, cfg *config.Config) error {
		return runDeltaFiles(ctx, cfg, o, out)
	})
}

func runDeltaFiles(ctx context.Context, cfg *config.Config, o deltaOptions, out *output) error {
	t, version, err := o.open(ctx, cfg)
	if err != nil {
		return err
	}
	s, err := t.Snapshot(ctx, version)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out.w)
	encoder.SetEscapeHTML(false)
	if !out.json {
		out.line("%12s  %12s  %12s  %s", "BYTES", "ROWS", "DELETED", "FILE") // not as wide as needed: nothing waits for the last line
	}
	for f, err := range describe.Files(ctx, s) {
		if err != nil {
			return err
		}
		if out.json {
			if err := encoder.Encode(f); err != nil {
				return fmt.Errorf("print the files: %w", err)
			}
			continue
		}
		rows, deleted := "?", "0"
		if f.LiveRows != delta.Unknown {
			rows = strconv.FormatInt(int64(f.LiveRows), 10)
		}
		if f.DV != nil {
			deleted = strconv.FormatInt(f.DV.Cardinality, 10)
		}
		out.line("%12d  %12s  %12s  %s", f.Size, rows, deleted, oneLine(f.Path))
	}
	return nil
}
