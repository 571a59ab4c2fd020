package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/config"
	"sluice/internal/sluice"
)

// exitCodes end each command's help.
const exitCodes = `Exit codes:
  0 ok, 1 failure, 2 usage, 3 not found, 4 refused, 5 input not supported, 130 interrupted`

const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 98 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsagesWrapped 98 | trimTrailingWhitespaces}}{{end}}

` + exitCodes + `{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" tells more about a command.{{end}}
`

// newRoot makes the command tree.
func newRoot(out *output) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Keep DuckLake warehouses in step with their sources",
		Long: "Sluice keeps DuckLake warehouses exactly in step with their sources and serves them over the PostgreSQL\n" +
			"protocol. Start with `sluice demo`, or with `sluice serve` and `sluice org create`.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	cobra.EnableCommandSorting = false // the order of the list below is the order of use
	root.SetOut(out.w)
	root.SetErr(out.errw)
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(c, err.Error())
	})
	config.AddFlags(root.PersistentFlags(), "data", "server")
	for _, make := range commands {
		root.AddCommand(make(out))
	}
	return root
}

// commands in the order of the help.
var commands = []func(*output) *cobra.Command{
	newDemoCommand, newServeCommand, newDoctorCommand, newOrgCommand, newTeamCommand, newUserCommand, newCredentialCommand, newTokenCommand, newAuditCommand,
	newStreamCommand, newEnqueueCommand, newStatusCommand, newRunCommand,
	newBatchCommand, newQuarantineCommand, newDeltaCommand, newNameCommand, newConfigCommand, newMigrateCommand, newVersionCommand, newChangelogCommand, newFanoutCommand,
	newBackfillCommand, newCopyCommand, newVerifyCommand,
}

// usage is the error of a malformed command line.
func usage(c *cobra.Command, what string) error {
	return sluice.E("SLUICE-USAGE", "read the command line", strings.TrimSpace(what), "see "+c.CommandPath()+" --help", nil)
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasAvailableSubCommands() {
		what := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			what += "; did you mean " + near[0] + "?"
		}
		return usage(c, what)
	}
	return usage(c, fmt.Sprintf("%s takes no arguments, got %q", c.CommandPath(), args[0]))
}

// exactly wants n arguments, named as in the usage line.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usage(c, fmt.Sprintf("%s wants %s, got %d arguments", c.CommandPath(), strings.Join(names, " and "), len(args)))
	}
}

// group is a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArguments, RunE: func(c *cobra.Command, _ []string) error {
		return usage(c, "a subcommand is needed: "+subcommands(c))
	}}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(subs...)
	return c
}

func subcommands(c *cobra.Command) string {
	var names []string
	for _, s := range c.Commands() {
		names = append(names, s.Name())
	}
	return strings.Join(names, ", ")
}

// addJSON adds the flag --json, which the output looks at.
func addJSON(fset *pflag.FlagSet, out *output) {
	fset.BoolVar(&out.json, "json", false, "print JSON")
}

// addDryRun adds the flag --dry-run.
func addDryRun(fset *pflag.FlagSet, dry *bool) {
	fset.BoolVar(dry, "dry-run", false, "only say what would be done")
}

// loadConfig reads the configuration with the flags of c.
func loadConfig(c *cobra.Command) (*config.Loaded, error) {
	return config.Load(config.Sources{Flags: c.Flags()})
}
