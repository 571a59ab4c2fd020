package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/statedb"
)

func newMigrateCommand(out *output) *cobra.Command {
	return group("migrate", "Bring the state DB to another version of its schema",
		newMigrateStep(out, "up", "Migrate to the newest version that this binary knows", (*statedb.DB).Up),
		newMigrateStep(out, "down", "Undo the newest migration", (*statedb.DB).Down),
		newMigrateStep(out, "status", "Show the migrations and when each was applied", nil))
}

// migrateJSON is what the commands print with --json.
type migrateJSON struct {
	Version    int64                     `json:"version"` // of the schema, afterwards
	Newest     int64                     `json:"newest"`  // that this binary knows
	DryRun     bool                      `json:"dry_run"`
	Migrations []statedb.MigrationStatus `json:"migrations"`
}

func newMigrateStep(out *output, use, short string, step func(*statedb.DB, context.Context) error) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: use, Short: short, Example: "  sluice migrate " + use + " --state-dsn env:SLUICE_STATE", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			if dry {
				return runMigrate(c.Context(), &cfg.Config, nil, true, out)
			}
			return runMigrate(c.Context(), &cfg.Config, step, false, out)
		},
	}
	config.AddFlags(c.Flags(), "state.dsn")
	if step != nil {
		addDryRun(c.Flags(), &dry)
	}
	addJSON(c.Flags(), out)
	return c
}

func runMigrate(ctx context.Context, cfg *config.Config, step func(*statedb.DB, context.Context) error, dry bool, out *output) error {
	db, err := app.OpenState(ctx, cfg, step != nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if step != nil {
		if err := step(db, ctx); err != nil {
			return fmt.Errorf("migrate the state DB: %w", err)
		}
	}
	have, want, err := db.Version(ctx)
	if err != nil {
		return fmt.Errorf("read the state DB's version: %w", err)
	}
	all, err := db.Status(ctx)
	if err != nil {
		return fmt.Errorf("list the migrations: %w", err)
	}
	return out.result(migrateJSON{have, want, dry, all}, func() {
		var rows [][]string
		for _, m := range all {
			rows = append(rows, []string{fmt.Sprint(m.Version), m.Name, stamp(m.AppliedAt)})
		}
		out.table([]string{"VERSION", "NAME", "APPLIED"}, rows)
		out.line("the schema has version %d; this binary knows up to %d", have, want)
	})
}
