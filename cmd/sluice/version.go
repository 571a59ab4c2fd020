package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"sluice/internal/app"
)

func newVersionCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this binary and of its engine",
		Example: "  sluice version --json",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return runVersion(out) },
	}
	addJSON(c.Flags(), out)
	return c
}

func runVersion(out *output) error {
	v := app.BuildVersion()
	return out.result(v, func() {
		commit := v.Commit
		if v.Modified {
			commit += " (with changes)"
		}
		facts := []string{"sluice", v.Version, "commit", commit, "go", v.Go + " " + v.Platform, "duckdb", v.DuckDB}
		for _, name := range slices.Sorted(maps.Keys(v.Extensions)) {
			facts = append(facts, name, v.Extensions[name])
		}
		out.facts(facts...)
	})
}
