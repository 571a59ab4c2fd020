package main

import (
	"context"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
)

func newDoctorCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that a server needs, with a hint for each thing that is wrong",
		Long: "Check the engine and its extensions, the data directory and its disk, the state DB, the catalogs' PostgreSQL, each org's\n" +
			"lake, and the ports. Each check is OK, WARN or FAIL; the exit code is 1 if one is FAIL.",
		Example: "  sluice doctor\n  sluice doctor --data /srv/sluice --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			return runDoctor(c.Context(), &cfg.Config, out)
		},
	}
	config.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

// doctorJSON is what the command prints with --json.
type doctorJSON struct {
	OK       bool          `json:"ok"` // nothing is FAIL
	Findings []app.Finding `json:"findings"`
}

func runDoctor(ctx context.Context, cfg *config.Config, out *output) error {
	var server *app.ServeFile
	if f, found, err := app.Running(ctx, cfg); err == nil && found {
		server = &f
	}
	r := doctorJSON{true, app.Doctor(ctx, cfg, server)}
	for _, f := range r.Findings {
		if f.Verdict == app.Fail {
			r.OK = false
		}
	}
	err := out.result(r, func() {
		for _, f := range r.Findings {
			out.line("%-4s  %s: %s", f.Verdict, f.Check, oneLine(f.Text))
			if f.Hint != "" {
				out.line("      hint: %s", oneLine(f.Hint))
			}
		}
	})
	if err == nil && !r.OK {
		return exitCode(1)
	}
	return err
}
