package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/sluice"
)

func newChangelogCommand(out *output) *cobra.Command {
	return group("changelog", "Keep Kafka topics in tables of a lake, exactly once",
		newChangelogAddCommand(out), newChangelogListCommand(out), newChangelogStatusCommand(out), newChangelogPauseCommand(out),
		newChangelogResumeCommand(out), newChangelogConfigureCommand(out), newChangelogReplayCommand(out),
		group("quarantine", "Show and discard messages that could not be rows", newChangelogMessagesCommand(out, false), newChangelogMessagesCommand(out, true), newChangelogDiscardCommand(out)),
		newChangelogDropCommand(out))
}

func changelogPath(name, verb string) string {
	p := "/changelogs/" + url.PathEscape(name)
	if verb != "" {
		p += "/" + verb
	}
	return p
}

type changelogAddOptions struct {
	api.NewChangelog
	File string
}

// AddFlags adds the flags of `sluice changelog add`.
func (o *changelogAddOptions) AddFlags(fset *pflag.FlagSet) {
	addOrg(fset, &o.Lake)
	fset.StringVar(&o.Topic, "topic", "", "the topic")
	fset.StringVar(&o.Schema, "schema", "", "schema of the table (default changelog)")
	fset.StringVar(&o.Table, "table", "", "name of the table (default the changelog's)")
	fset.IntVar(&o.Slots, "slots", 1, "how many processes may share the work, 1 to 64; fixed at creation")
	fset.StringVar(&o.File, "config-file", "", "file with the definition, YAML or JSON (docs/changelog.md)")
	addDryRun(fset, &o.DryRun)
}

func newChangelogAddCommand(out *output) *cobra.Command {
	var o changelogAddOptions
	c := &cobra.Command{
		Use: "add NAME --org ORG --topic TOPIC", Short: "Look at a topic's first messages, and keep it in a table from then on",
		Long: "Look at a topic's first messages, print the table that would come of them and how many messages could not be rows, and keep the topic in a\n" +
			"table of the org's lake from then on. Messages that a filter leaves out cannot be had later without Kafka.\n\nExit codes: 4 if the name or the table is taken, 5 if the decoder is not built.",
		Example: "  sluice changelog add events --org acme --topic app.events --dry-run", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Lake == "" || o.Topic == "" {
				return usage(c, "--org and --topic are needed")
			}
			o.Name = args[0]
			return withServer(c, false, func(ctx context.Context, s *server) error { return runChangelogAdd(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func readDefinition(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", sluice.E("SLUICE-USAGE", "read the definition", err.Error(), "check --config-file", err)
	}
	return string(b), nil
}

func runChangelogAdd(ctx context.Context, s *server, o changelogAddOptions, out *output) (err error) {
	if o.Config, err = readDefinition(o.File); err != nil {
		return err
	}
	added, err := client.Post[api.AddedChangelog](ctx, s.Client, "/changelogs", o.NewChangelog)
	if err != nil {
		return err
	}
	return out.result(added, func() {
		p := added.Preview
		out.line("topic %s: %d partitions; of %d messages looked at, %d cannot be rows%s, %d are left out by the filter", o.Topic, p.Partitions, p.Messages, sum(p.Poison), reasons(p.Poison), p.Filtered)
		var rows [][]string
		for _, col := range p.Columns {
			rows = append(rows, []string{col.Name, col.Type})
		}
		out.table([]string{"COLUMN", "TYPE"}, rows)
		for _, name := range sortedNames(p.Others) {
			out.line("no column for %q: %s; its values go to _extra", name, p.Others[name])
		}
		if o.DryRun {
			out.line("nothing was made")
			return
		}
		out.line("changelog %s writes to %s.%s of org %s", added.Changelog.Name, added.Changelog.Schema, added.Changelog.Table, added.Changelog.Lake)
	})
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

func reasons(m map[string]int64) string {
	var parts []string
	for _, r := range sortedNames(m) {
		parts = append(parts, fmt.Sprintf("%d %s", m[r], r))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func newChangelogListCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List changelogs", Example: "  sluice changelog list", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runChangelogList(ctx, s, out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runChangelogList(ctx context.Context, s *server, out *output) error {
	list, err := client.Get[api.ChangelogList](ctx, s.Client, "/changelogs", nil)
	if err != nil {
		return err
	}
	return out.result(list, func() {
		var rows [][]string
		for _, l := range list.Changelogs {
			rows = append(rows, []string{l.Name, l.Status, l.Topic, l.Lake, l.Schema + "." + l.Table, string(l.HaltCode)})
		}
		out.table([]string{"NAME", "STATUS", "TOPIC", "ORG", "TABLE", "CODE"}, rows)
	})
}

func newChangelogStatusCommand(out *output) *cobra.Command {
	watch := false
	c := &cobra.Command{
		Use: "status NAME", Short: "Show a changelog's lag, partitions and quarantine, from its lake and Kafka alone", Example: "  sluice changelog status events --watch",
		Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				for {
					if err := runChangelogStatus(ctx, s, args[0], out); err != nil || !watch {
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
	c.Flags().BoolVar(&watch, "watch", false, "show it again every two seconds")
	addJSON(c.Flags(), out)
	return c
}

func runChangelogStatus(ctx context.Context, s *server, name string, out *output) error {
	st, err := client.Get[api.ChangelogStatus](ctx, s.Client, changelogPath(name, ""), nil)
	if err != nil {
		return err
	}
	return out.result(st, func() {
		out.facts("name", st.Name, "topic", st.Topic, "org", st.Lake, "table", st.Schema+"."+st.Table, "status", st.Status, "lag", fmt.Sprintf("%d messages, %.1f s", st.LagRecords, st.LagSeconds),
			"quarantine", fmt.Sprintf("%d open%s", sum(st.Quarantine), reasons(st.Quarantine)), "code", string(st.HaltCode), "detail", st.HaltDetail, "problem", st.Problem)
		var rows [][]string
		for _, p := range st.Partitions {
			rows = append(rows, []string{fmt.Sprint(p.Partition), fmt.Sprint(p.Slot), fmt.Sprint(p.NextOffset), fmt.Sprint(p.EndOffset), fmt.Sprint(p.LagRecords), fmt.Sprintf("%.1f", p.LagSeconds), stamp(p.LastFlush), shortOwner(p.Owner)})
		}
		out.table([]string{"PARTITION", "SLOT", "NEXT", "END", "LAG", "LAG_S", "LAST FLUSH", "OWNER"}, rows)
		for _, r := range st.Running {
			out.line("slot %d of this process: %d messages buffered, %.0f rows/s in its last flush %s", r.Slot, r.Buffered, r.RowsPerSecond, r.Error)
		}
	})
}

func shortOwner(s string) string { return s[:min(len(s), 12)] }

// changelogDone posts what has no answer of its own.
func changelogDone(ctx context.Context, s *server, name, verb string, in any, text string, out *output) error {
	d, err := client.Post[api.ChangelogDone](ctx, s.Client, changelogPath(name, verb), in)
	if err != nil {
		return err
	}
	return out.result(d, func() { out.line("changelog %s: %s", name, text) })
}

func newChangelogPauseCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "pause NAME", Short: "Stop a changelog in order: what is buffered is written", Example: "  sluice changelog pause events", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return changelogDone(ctx, s, args[0], "pause", nil, "paused", out)
			})
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func newChangelogResumeCommand(out *output) *cobra.Command {
	var gap, truncation, epoch bool
	c := &cobra.Command{
		Use: "resume NAME", Short: "End a pause or a halt; a halt for lost messages needs the flag that accepts the loss",
		Example: "  sluice changelog resume events --accept-gap", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			accept := map[string]string{}
			for _, f := range []struct {
				set  bool
				word string
			}{{gap, "accept_gap"}, {truncation, "accept_truncation"}, {epoch, "new_epoch"}} {
				if f.set && len(accept) > 0 {
					return usage(c, "only one loss can be accepted at a time")
				}
				if f.set {
					accept["accept"] = f.word
				}
			}
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return changelogDone(ctx, s, args[0], "resume", accept, "resumed", out)
			})
		},
	}
	c.Flags().BoolVar(&gap, "accept-gap", false, "go on behind messages that the topic has lost; noted in quarantine")
	c.Flags().BoolVar(&truncation, "accept-truncation", false, "go on at the end of a topic that was cut, in a new epoch")
	c.Flags().BoolVar(&epoch, "new-epoch", false, "take a topic that was made anew from its beginning")
	addJSON(c.Flags(), out)
	return c
}

func newChangelogConfigureCommand(out *output) *cobra.Command {
	file := ""
	c := &cobra.Command{
		Use: "configure NAME --config-file F", Short: "Replace a changelog's definition; its slots take it up at once", Example: "  sluice changelog configure events --config-file events.yaml",
		Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readDefinition(file)
			if err != nil {
				return err
			}
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return changelogDone(ctx, s, args[0], "configure", map[string]string{"config": text}, "configured", out)
			})
		},
	}
	c.Flags().StringVar(&file, "config-file", "", "file with the definition, YAML or JSON (docs/changelog.md)")
	addJSON(c.Flags(), out)
	return c
}

type selectOptions struct {
	Reason    string
	Partition int32
	Offsets   string
}

// AddFlags adds the flags that choose messages of a quarantine.
func (o *selectOptions) AddFlags(fset *pflag.FlagSet) {
	fset.StringVar(&o.Reason, "reason", "", "only messages with this reason")
	fset.Int32Var(&o.Partition, "partition", -1, "only messages of this partition")
	fset.StringVar(&o.Offsets, "offsets", "", "only these offsets, like 100-200")
}

func (o *selectOptions) selection(c *cobra.Command) (api.ChangelogSelection, error) {
	sel := api.ChangelogSelection{Reason: o.Reason}
	if o.Partition >= 0 {
		sel.Partition = &o.Partition
	}
	if o.Offsets != "" {
		if n, err := fmt.Sscanf(o.Offsets, "%d-%d", &sel.From, &sel.To); err != nil || n != 2 || sel.From > sel.To {
			return sel, usage(c, fmt.Sprintf("--offsets %q is not like 100-200", o.Offsets))
		}
	}
	return sel, nil
}

func newChangelogReplayCommand(out *output) *cobra.Command {
	var o selectOptions
	c := &cobra.Command{
		Use: "replay NAME", Short: "Decode messages of the quarantine again, with today's definition", Example: "  sluice changelog replay events --reason malformed_json", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			sel, err := o.selection(c)
			if err != nil {
				return err
			}
			return withServer(c, false, func(ctx context.Context, s *server) error {
				r, err := client.Post[api.ChangelogReplay](ctx, s.Client, changelogPath(args[0], "replay"), sel)
				if err != nil {
					return err
				}
				return out.result(r, func() { out.line("%d messages became rows; %d still cannot%s", r.Rows, sum(r.Still), reasons(r.Still)) })
			})
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func newChangelogMessagesCommand(out *output, show bool) *cobra.Command {
	var o selectOptions
	most := 100
	use, short := "list NAME", "List open messages of the quarantine"
	if show {
		use, short = "show NAME", "Show open messages of the quarantine with their bytes"
	}
	c := &cobra.Command{
		Use: use, Short: short, Example: "  sluice changelog quarantine " + strings.Fields(use)[0] + " events --partition 3", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			sel, err := o.selection(c)
			if err != nil {
				return err
			}
			q := query("reason", sel.Reason, "limit", fmt.Sprint(most))
			if sel.Partition != nil {
				q.Set("partition", fmt.Sprint(*sel.Partition))
			}
			if sel.To > 0 {
				q.Set("from", fmt.Sprint(sel.From))
				q.Set("to", fmt.Sprint(sel.To))
			}
			if show {
				q.Set("bytes", "true")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runChangelogMessages(ctx, s, args[0], q, show, out) })
		},
	}
	o.AddFlags(c.Flags())
	c.Flags().IntVar(&most, "limit", most, "most messages to show, up to 1000")
	addJSON(c.Flags(), out)
	return c
}

func runChangelogMessages(ctx context.Context, s *server, name string, q url.Values, show bool, out *output) error {
	found, err := client.Get[api.ChangelogQuarantine](ctx, s.Client, changelogPath(name, "quarantine"), q)
	if err != nil {
		return err
	}
	return out.result(found, func() {
		head := []string{"EPOCH", "PARTITION", "OFFSET", "REASON", "BYTES", "AT", "DETAIL"}
		if show {
			head = append(head, "VALUE")
		}
		var rows [][]string
		for _, m := range found.Messages {
			row := []string{fmt.Sprint(m.TopicEpoch), fmt.Sprint(m.Partition), fmt.Sprint(m.Offset), m.Reason, fmt.Sprint(m.SizeBytes), stamp(&m.At), m.Detail}
			if show {
				row = append(row, fmt.Sprintf("%.200q", m.Value))
			}
			rows = append(rows, row)
		}
		out.table(head, rows)
	})
}

func newChangelogDiscardCommand(out *output) *cobra.Command {
	var o selectOptions
	c := &cobra.Command{
		Use: "discard NAME", Short: "Settle messages of the quarantine without making rows of them", Example: "  sluice changelog quarantine discard events --reason gap", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			sel, err := o.selection(c)
			if err != nil {
				return err
			}
			return withServer(c, false, func(ctx context.Context, s *server) error {
				d, err := client.Post[api.ChangelogDone](ctx, s.Client, changelogPath(args[0], "discard"), sel)
				if err != nil {
					return err
				}
				return out.result(d, func() { out.line("%d messages discarded", d.Messages) })
			})
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func newChangelogDropCommand(out *output) *cobra.Command {
	keep := false
	c := &cobra.Command{
		Use: "drop NAME", Short: "Take a paused or halted changelog away, with its table", Example: "  sluice changelog drop events --keep-table", Args: exactly("a name"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return changelogDone(ctx, s, args[0], "drop", map[string]bool{"keep_table": keep}, "dropped", out)
			})
		},
	}
	c.Flags().BoolVar(&keep, "keep-table", false, "keep the table and the quarantine")
	addJSON(c.Flags(), out)
	return c
}
