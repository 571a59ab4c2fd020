package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/sluice"
)

func newFanoutCommand(out *output) *cobra.Command {
	return group("fanout", "Follow a table into the lakes of many orgs, exactly once",
		newFanoutAddCommand(out), newFanoutListCommand(out), newFanoutStatusCommand(out),
		newFanoutVerbCommand(out, "pause", "Stop a fan-out in order, or some of its destinations", "paused"),
		newFanoutVerbCommand(out, "resume", "End pauses and halts, of the fan-out or of some of its destinations", "goes on"),
		newFanoutVerbCommand(out, "reseed", "Build tables of destinations anew from the source; readers see the old one until the new one is whole", "is built anew"),
		newFanoutRebindCommand(out), newFanoutVerifyCommand(out), newFanoutRemoveCommand(out))
}

func fanoutPath(name, verb string) string {
	p := "/fanouts/" + url.PathEscape(name)
	if verb != "" {
		p += "/" + verb
	}
	return p
}

type fanoutAddOptions struct {
	api.NewFanout
	File   string
	Source string
}

// AddFlags adds the flags of `sluice fanout add`.
func (o *fanoutAddOptions) AddFlags(fset *pflag.FlagSet) {
	addOrg(fset, &o.Lake)
	fset.StringVar(&o.Source, "source", "", "the source table, SCHEMA.TABLE of the org's lake")
	fset.StringVar(&o.File, "config-file", "", "file with the definition, YAML or JSON")
	fset.IntVar(&o.Shards, "shards", 0, "parts that processes share out; fixed at creation (default 16)")
	addDryRun(fset, &o.DryRun)
}

func newFanoutAddCommand(out *output) *cobra.Command {
	var o fanoutAddOptions
	c := &cobra.Command{
		Use: "add NAME --org ORG --source SCHEMA.TABLE --config-file FILE", Short: "Look at a source, and follow it from then on",
		Long: "Look at the source table, print the columns and destinations that would come of it, and follow it from then on: each team's rows go to the team's\n" +
			"table in its org's warehouse.\n\nExit codes: 2 if the definition does not fit the source, 4 if the name is taken.",
		Example: "  sluice fanout add persons --org feeds --source changelog.persons --config-file persons.yaml --dry-run", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			var ok bool
			if o.Schema, o.Table, ok = strings.Cut(o.Source, "."); !ok || o.Lake == "" || o.File == "" {
				return usage(c, "--org, --source SCHEMA.TABLE and --config-file are needed")
			}
			o.Name = args[0]
			return withServer(c, false, func(ctx context.Context, s *server) error { return runFanoutAdd(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func runFanoutAdd(ctx context.Context, s *server, o fanoutAddOptions, out *output) (err error) {
	if o.Config, err = readDefinition(o.File); err != nil {
		return err
	}
	added, err := client.Post[api.AddedFanout](ctx, s.Client, "/fanouts", o.NewFanout)
	if err != nil {
		return err
	}
	return out.result(added, func() {
		var rows [][]string
		for _, col := range added.Columns {
			rows = append(rows, []string{col.Name, col.Type})
		}
		out.table([]string{"COLUMN", "TYPE"}, rows)
		if len(added.Dropped) > 0 {
			out.line("left out: %s", strings.Join(added.Dropped, ", "))
		}
		out.line("%d destinations as of now", len(added.Destinations))
		if o.DryRun {
			out.line("nothing was made")
			return
		}
		out.line("fan-out %s follows %s of org %s", added.Fanout.Name, o.Source, added.Fanout.Lake)
	})
}

func newFanoutListCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List fan-outs", Example: "  sluice fanout list", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runFanoutList(ctx, s, out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runFanoutList(ctx context.Context, s *server, out *output) error {
	list, err := client.Get[api.FanoutList](ctx, s.Client, "/fanouts", nil)
	if err != nil {
		return err
	}
	return out.result(list, func() {
		var rows [][]string
		for _, f := range list.Fanouts {
			rows = append(rows, []string{f.Name, f.Desired, f.Lake, f.Schema + "." + f.Table, f.Mode, string(f.HaltCode)})
		}
		out.table([]string{"NAME", "DESIRED", "ORG", "SOURCE", "MODE", "CODE"}, rows)
	})
}

func addSelection(fset *pflag.FlagSet, sel *api.FanoutSelection) {
	fset.StringVar(&sel.Org, "org", "", "only destinations of this org")
	fset.Int64Var(&sel.TeamID, "team", 0, "only destinations of this team")
}

func newFanoutStatusCommand(out *output) *cobra.Command {
	var sel api.FanoutSelection
	watch := false
	c := &cobra.Command{
		Use: "status NAME", Short: "Show a fan-out's destinations and how far they are behind", Example: "  sluice fanout status persons --org acme", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				for {
					if err := runFanoutStatus(ctx, s, args[0], sel, out); err != nil || !watch {
						return err
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(2 * time.Second):
					}
				}
			})
		},
	}
	addSelection(c.Flags(), &sel)
	c.Flags().BoolVar(&watch, "watch", false, "show it again every two seconds")
	addJSON(c.Flags(), out)
	return c
}

func runFanoutStatus(ctx context.Context, s *server, name string, sel api.FanoutSelection, out *output) error {
	q := url.Values{}
	if sel.Org != "" {
		q.Set("org", sel.Org)
	}
	if sel.TeamID != 0 {
		q.Set("team_id", fmt.Sprint(sel.TeamID))
	}
	st, err := client.Get[api.FanoutStatus](ctx, s.Client, fanoutPath(name, ""), q)
	if err != nil {
		return err
	}
	return out.result(st, func() {
		out.facts("name", st.Name, "source", st.Lake+" "+st.Schema+"."+st.Table, "desired", st.Desired, "head", fmt.Sprint(st.HeadSnapshot), "code", string(st.HaltCode),
			"detail", st.HaltDetail, "problem", st.Problem)
		var rows [][]string
		for _, d := range st.Destinations {
			rows = append(rows, []string{d.Org, fmt.Sprint(d.TeamID), d.Table, d.State, string(d.Code), fmt.Sprint(d.CursorSnapshot), fmt.Sprint(d.LagSnapshots), fmt.Sprintf("%.1f", d.LagSeconds)})
		}
		out.table([]string{"ORG", "TEAM", "TABLE", "STATE", "CODE", "CURSOR", "LAG", "LAG_S"}, rows)
		for _, route := range sortedNames(st.Unrouted) {
			out.line("%d rows of %q lead nowhere", st.Unrouted[route], route)
		}
	})
}

func newFanoutVerbCommand(out *output, verb, short, done string) *cobra.Command {
	var sel api.FanoutSelection
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Long: short + ".\n\nExit codes: 3 if there is no such fan-out or destination, 4 if its state does not allow it.",
		Example: "  sluice fanout " + verb + " persons --org acme --team 7", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				res, err := client.Post[api.FanoutDone](ctx, s.Client, fanoutPath(args[0], verb), sel)
				if err != nil {
					return err
				}
				return out.result(res, func() { out.line("fan-out %s%s %s", args[0], meant(sel), done) })
			})
		},
	}
	addSelection(c.Flags(), &sel)
	addJSON(c.Flags(), out)
	return c
}

// meant says which destinations of a fan-out are meant.
func meant(sel api.FanoutSelection) string {
	out := ""
	if sel.Org != "" {
		out += ", org " + sel.Org
	}
	if sel.TeamID != 0 {
		out += fmt.Sprintf(", team %d,", sel.TeamID)
	}
	return out
}

func newFanoutRebindCommand(out *output) *cobra.Command {
	var sel api.FanoutSelection
	var table string
	c := &cobra.Command{
		Use: "rebind NAME --org ORG --team TEAM", Short: "Give a destination another table: the one that discovery names, or --table. The old one is kept",
		Example: "  sluice fanout rebind persons --org acme --team 7", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			schema, name, ok := strings.Cut(table, ".")
			if sel.Org == "" || sel.TeamID == 0 || table != "" && !ok {
				return usage(c, "--org and --team are needed, and --table is SCHEMA.TABLE")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error {
				res, err := client.Post[api.FanoutDone](ctx, s.Client, fanoutPath(args[0], "rebind"), map[string]any{"org": sel.Org, "team_id": sel.TeamID, "schema": schema, "table": name})
				if err != nil {
					return err
				}
				return out.result(res, func() { out.line("team %d of org %s now goes to %s", sel.TeamID, sel.Org, res.Table) })
			})
		},
	}
	addSelection(c.Flags(), &sel)
	c.Flags().StringVar(&table, "table", "", "SCHEMA.TABLE (default what discovery names)")
	addJSON(c.Flags(), out)
	return c
}

func newFanoutVerifyCommand(out *output) *cobra.Command {
	var sel api.FanoutSelection
	c := &cobra.Command{
		Use: "verify NAME", Short: "Compare destinations with what the source says, row by row",
		Long: "Compute from the source's history what each destination's table must hold as of its cursor, and compare row by row.\n\n" +
			"Exit codes: 1 if a table differs, with the first keys that do.",
		Example: "  sluice fanout verify persons --org acme", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runFanoutVerify(ctx, s, args[0], sel, out) })
		},
	}
	addSelection(c.Flags(), &sel)
	addJSON(c.Flags(), out)
	return c
}

func runFanoutVerify(ctx context.Context, s *server, name string, sel api.FanoutSelection, out *output) error {
	res, err := client.Post[api.FanoutVerdicts](ctx, s.Client, fanoutPath(name, "verify"), sel)
	if err != nil {
		return err
	}
	if err := out.result(res, func() {
		var rows [][]string
		for _, v := range res.Destinations {
			rows = append(rows, []string{v.Org, fmt.Sprint(v.TeamID), fmt.Sprint(v.Snapshot), fmt.Sprint(v.Rows), fmt.Sprint(v.Missing), fmt.Sprint(v.Surplus)})
		}
		out.table([]string{"ORG", "TEAM", "SNAPSHOT", "ROWS", "MISSING", "SURPLUS"}, rows)
		for _, v := range res.Destinations {
			for _, k := range v.Keys {
				out.line("org %s team %d: key %s differs", v.Org, v.TeamID, k)
			}
		}
	}); err != nil {
		return err
	}
	if !res.Equal {
		return sluice.E("SLUICE-FANOUT-DIFFERS", "verify fan-out "+name, "a destination is not what the source says", "look who has written to it; `sluice fanout reseed` builds it anew", nil)
	}
	return nil
}

func newFanoutRemoveCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "remove NAME", Short: "Take a fan-out away; the destinations' tables stay as they are", Example: "  sluice fanout remove persons", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				res, err := client.Post[api.FanoutDone](ctx, s.Client, fanoutPath(args[0], "remove"), struct{}{})
				if err != nil {
					return err
				}
				return out.result(res, func() { out.line("fan-out %s is gone; its tables stay", args[0]) })
			})
		},
	}
	addJSON(c.Flags(), out)
	return c
}
