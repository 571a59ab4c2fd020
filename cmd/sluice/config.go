package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/config"
)

func newConfigCommand(out *output) *cobra.Command {
	check := &cobra.Command{
		Use:     "check",
		Short:   "Check the configuration and name every mistake",
		Example: "  sluice config check --config /etc/sluice/sluice.yaml",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := loadConfig(c)
			if err != nil {
				return err
			}
			return runConfigCheck(l, out)
		},
	}
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show every key with its value and where it came from; secrets as ***",
		Example: "  sluice config show\n  SLUICE_LOADER__CONCURRENCY=4 sluice config show --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := loadConfig(c)
			if err != nil {
				return err
			}
			return runConfigShow(l, out)
		},
	}
	for _, c := range []*cobra.Command{check, show} {
		config.AddFlags(c.Flags())
		addJSON(c.Flags(), out)
	}
	return group("config", "Check and show the configuration", check, show)
}

type configCheckJSON struct {
	OK   bool   `json:"ok"`
	File string `json:"file"`
}

func runConfigCheck(l *config.Loaded, out *output) error {
	return out.result(configCheckJSON{true, l.File}, func() {
		file := l.File
		if file == "" {
			file = "no file; defaults, environment and flags"
		}
		out.line("OK (%s)", file)
	})
}

type configShowJSON struct {
	File     string           `json:"file"`
	Settings []config.Setting `json:"settings"`
}

func runConfigShow(l *config.Loaded, out *output) error {
	settings := l.Settings()
	return out.result(configShowJSON{l.File, settings}, func() {
		var rows [][]string
		for _, s := range settings {
			rows = append(rows, []string{s.Key, s.Source, s.Value})
		}
		out.table([]string{"KEY", "SOURCE", "VALUE"}, rows)
	})
}
