package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
)

func newServeCommand(*output) *cobra.Command {
	var migrate bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the server with all roles, or some of them",
		Long: "Run the server. By default one process does everything, with its state in the data directory, and listens on\n" +
			"loopback only. Each key of the configuration is a flag. It ends in order on SIGINT or SIGTERM: batches under way may\n" +
			"end within loader.drain_timeout; a second signal ends it at once, and nothing is lost by that either.",
		Example: "  sluice serve\n  sluice serve --roles loader --state-dsn env:STATE_DSN --loader.concurrency 8",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			return runServe(c.Context(), cfg, migrate)
		},
	}
	config.AddFlags(c.Flags())
	c.Flags().BoolVar(&migrate, "migrate", false, "bring a PostgreSQL state DB to this binary's schema first")
	return c
}

func runServe(ctx context.Context, cfg *config.Loaded, migrate bool) error {
	log := app.NewLogger(os.Stderr, cfg.Log)
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	a, err := app.New(ctx, &cfg.Config, app.Options{Log: log, Migrate: migrate, Create: true})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
