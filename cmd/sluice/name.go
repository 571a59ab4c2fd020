package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/naming"
	"sluice/internal/sluice"
)

type nameOptions struct {
	Policy, SourceType, Prefix, Name string
}

// AddFlags adds the flags of `sluice name`.
func (o *nameOptions) AddFlags(fset *pflag.FlagSet) {
	fset.StringVar(&o.Policy, "policy", string(sluice.PolicyCopyV1), "naming policy: copy_v1 or legacy_batch_v1")
	fset.StringVar(&o.SourceType, "source-type", "", "source type of the stream")
	fset.StringVar(&o.Prefix, "prefix", "", "prefix of the source")
	fset.StringVar(&o.Name, "name", "", "name of the source table")
}

func newNameCommand(out *output) *cobra.Command {
	var o nameOptions
	c := &cobra.Command{
		Use:     "name --source-type T --name N",
		Short:   "Show the table name that a policy derives",
		Long:    "Show the table name that a policy derives from a source, before collisions with other streams are looked at.",
		Example: "  sluice name --policy copy_v1 --source-type stripe --prefix eu --name Invoices --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.SourceType == "" && o.Name == "" {
				return usage(c, "--source-type and --name are needed")
			}
			return runName(o, out)
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func runName(o nameOptions, out *output) error {
	d, err := naming.Name(sluice.NamingPolicy(o.Policy), o.SourceType, o.Prefix, o.Name)
	if err != nil {
		return err
	}
	return out.result(d, func() { out.line("%s", d.Name) })
}
