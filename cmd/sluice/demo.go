package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/app/demo"
	"sluice/internal/config"
)

func newDemoCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Load the flights sample end to end, kill the loader in the middle, and check every row",
		Long: "Load the flights sample that is inside this binary: all departures from New York's airports from August to December\n" +
			"2013. A server runs in this process, a loader in another, which is killed once in the middle. Then every table is\n" +
			"compared with the files by SQL. The data stay in --data, by default demo below the data directory; the directory of a\n" +
			"former demo is replaced, anything else is refused.",
		Example: "  sluice demo\n  sluice demo --data /tmp/flights --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			dir := cfg.Data
			if !c.Flags().Changed("data") {
				dir = cfg.Path("demo")
			}
			return runDemo(c.Context(), cfg, dir, out)
		},
	}
	config.AddFlags(c.Flags(), "warehouse.extensions")
	addJSON(c.Flags(), out)
	return c
}

func runDemo(ctx context.Context, cfg *config.Loaded, dir string, out *output) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	out.note("the demo's data are in %s", dir)
	bar := newProgress(out, "batches applied")
	r, err := demo.Run(ctx, demo.Options{
		Data: dir, Executable: exe, Extensions: cfg.Warehouse.Extensions,
		Progress: bar.set, Note: bar.note,
	})
	bar.end()
	if len(r.Tables) > 0 {
		if perr := out.result(r, func() { printDemo(r, out) }); err == nil {
			err = perr
		}
	}
	return err
}

func printDemo(r demo.Report, out *output) {
	var rows [][]string
	for _, t := range r.Tables {
		ok := "yes"
		if !t.OK {
			ok = "NO"
		}
		rows = append(rows, []string{t.Table, fmt.Sprint(t.Batches), fmt.Sprint(t.Rows), fmt.Sprint(t.Expected), ok})
	}
	out.line("")
	out.table([]string{"TABLE", "BATCHES", "ROWS", "EXPECTED", "OK"}, rows)
	out.line("")
	middle := ""
	if r.Killed.Executing != "" {
		middle = fmt.Sprintf(", in the middle of a batch of %s", r.Killed.Stream)
	}
	out.line("history: version %d of a Delta table, %d rows in %d chunk; %d of the queued batches were covered by it", r.History.Version, r.History.Rows,
		r.History.Chunks, r.Covered)
	out.line("flights: %d rows, %d different ids, %d corrected delays", r.Flights.Rows, r.Flights.IDs, r.Flights.Corrected)
	out.line("killed:  the loader (pid %d) after %d of %d batches%s; pid %d went on", r.Killed.PID, r.Killed.After, r.Batches, middle, r.Killed.NextPID)
	out.line("checked: every row against the files, by SQL; %d of %d batches marked as applied exactly once", r.Markers, r.Batches)
	if !r.OK {
		return
	}
	data := r.Data
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, data); err == nil && len(rel) < len(data) {
			data = rel
		}
	}
	out.line("took:    %.1f s", r.Seconds)
	out.line("")
	out.line("Look around:")
	out.line("  sluice serve --data %s", data)
	out.line("  psql \"host=127.0.0.1 port=15432 user=me dbname=%s\" -c 'SELECT carrier, count(*) FROM %s.nyc_flights GROUP BY 1'", demo.Org, demo.Schema)
	out.line("  sluice status --data %s", data)
}
