package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

func newStreamCommand(out *output) *cobra.Command {
	return group("stream", "Register and show streams: source tables that are kept in step",
		newStreamAddCommand(out), newStreamListCommand(out), newStreamShowCommand(out), newStreamBindCommand(out), newStreamResetCommand(out), newStreamDeleteCommand(out))
}

type streamAddOptions struct {
	Org, StreamID, SourceType, Prefix, Name, SyncType string
	DeltaURI                                          string
	TeamID                                            int64
	Keys, DedupeOrder                                 []string
	SchemaPolicy, OptionsJSON                         string
	UniqueKeys, DryRun                                bool
}

// AddFlags adds the flags of `sluice stream add`.
func (o *streamAddOptions) AddFlags(fset *pflag.FlagSet) {
	addOrg(fset, &o.Org)
	fset.Int64Var(&o.TeamID, "team", 0, "id of the team")
	fset.StringVar(&o.StreamID, "stream-id", "", "UUID of the stream (default a new one)")
	fset.StringVar(&o.SourceType, "source-type", "", "source type, like stripe or postgres")
	fset.StringVar(&o.Prefix, "prefix", "", "prefix of the source")
	fset.StringVar(&o.Name, "name", "", "name of the source table")
	fset.StringVar(&o.SyncType, "sync-type", "", "full_refresh, incremental, append or cdc")
	fset.StringVar(&o.DeltaURI, "delta-uri", "", "Delta table with the stream's history: a path, or a file: or s3: URI")
	fset.StringSliceVar(&o.Keys, "primary-key", nil, "column of the primary key; may be repeated")
	fset.StringSliceVar(&o.DedupeOrder, "dedupe-order", nil, "column whose greatest value is the newest row; may be repeated")
	fset.BoolVar(&o.UniqueKeys, "unique-keys", false, "the producer vouches for unique keys in a first-ever run")
	fset.StringVar(&o.SchemaPolicy, "schema-policy", "", "evolve (default), freeze or quarantine")
	fset.StringVar(&o.OptionsJSON, "options", "", "further options as a JSON object, like {\"cdc\":{\"order_columns\":[\"lsn\"]}}")
	addDryRun(fset, &o.DryRun)
}

// options are the stream's options: the JSON object, with the flags over it.
func (o *streamAddOptions) options() (sluice.Options, error) {
	var out sluice.Options
	if o.OptionsJSON != "" {
		dec := json.NewDecoder(strings.NewReader(o.OptionsJSON))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&out); err != nil {
			return out, sluice.E("SLUICE-USAGE", "read --options", "", "give a JSON object like {\"null_keys\":\"match\"}", err)
		}
	}
	if len(o.Keys) > 0 {
		out.PrimaryKeys = o.Keys
	}
	if len(o.DedupeOrder) > 0 {
		out.DedupeOrder = o.DedupeOrder
	}
	if o.SchemaPolicy != "" {
		out.SchemaPolicy = sluice.SchemaPolicy(o.SchemaPolicy)
	}
	out.UniqueKeys = out.UniqueKeys || o.UniqueKeys
	return out, nil
}

func newStreamAddCommand(out *output) *cobra.Command {
	var o streamAddOptions
	c := &cobra.Command{
		Use:     "add --org ORG --team T --source-type S --name N --sync-type TYPE",
		Short:   "Register a stream",
		Example: "  sluice stream add --org acme --team 7 --source-type stripe --name invoices --sync-type incremental --primary-key id",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, f := range []struct {
				flag, value string
			}{{"org", o.Org}, {"source-type", o.SourceType}, {"name", o.Name}, {"sync-type", o.SyncType}} {
				if f.value == "" {
					return usage(c, "--"+f.flag+" is needed")
				}
			}
			if o.TeamID < 1 {
				return usage(c, "--team is needed: a number from 1")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runStreamAdd(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func runStreamAdd(ctx context.Context, s *server, o streamAddOptions, out *output) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	added, err := client.Post[api.Stream](ctx, s.Client, "/orgs/"+url.PathEscape(o.Org)+"/streams", api.AddStream{
		StreamID: o.StreamID, TeamID: o.TeamID, SourceType: o.SourceType, Prefix: o.Prefix, Name: o.Name, SyncType: o.SyncType,
		DeltaURI: absolute(o.DeltaURI), Options: options, DryRun: o.DryRun,
	})
	if err != nil {
		return err
	}
	return out.result(added, func() {
		if o.DryRun {
			out.line("would add stream %s of org %s", streamName(added), added.Org)
			return
		}
		out.line("stream %s (%s) of org %s is added, %s", added.StreamID, streamName(added), added.Org, added.Lifecycle)
	})
}

// streamName is what people call a stream.
func streamName(s api.Stream) string {
	return sourceName(int64(s.TeamID), s.SourceType, s.Prefix, s.Name)
}

func sourceName(team int64, sourceType, prefix, name string) string {
	parts := []string{fmt.Sprint(team), sourceType}
	if prefix != "" {
		parts = append(parts, prefix)
	}
	return strings.Join(append(parts, name), "/")
}

func target(s api.Stream) string {
	if s.TargetTable == "" {
		return "-"
	}
	return s.TargetSchema + "." + s.TargetTable
}

func newStreamListCommand(out *output) *cobra.Command {
	var org string
	var team int64
	var most int
	c := &cobra.Command{
		Use: "list", Short: "List streams", Example: "  sluice stream list --org acme --team 7", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runStreamList(ctx, s, org, team, most, out) })
		},
	}
	addOrg(c.Flags(), &org)
	c.Flags().Int64Var(&team, "team", 0, "id of the team")
	addMost(c.Flags(), &most)
	addJSON(c.Flags(), out)
	return c
}

func addMost(fset *pflag.FlagSet, most *int) { fset.IntVar(most, "limit", 1000, "most rows to show") }

func runStreamList(ctx context.Context, s *server, org string, team int64, most int, out *output) error {
	q := query("org", org, "limit", fmt.Sprint(clamp(most)))
	if team != 0 {
		q.Set("team_id", fmt.Sprint(team))
	}
	streams, err := pages(ctx, s, "/streams", q, most, func(p api.Streams) ([]api.Stream, string) { return p.Streams, p.NextCursor })
	if err != nil {
		return err
	}
	return out.result(api.Streams{Streams: streams}, func() {
		var rows [][]string
		for _, x := range streams {
			rows = append(rows, []string{string(x.Org), streamName(x), string(x.SyncType), string(x.Lifecycle), target(x)})
		}
		out.table([]string{"ORG", "STREAM", "SYNC TYPE", "LIFECYCLE", "TABLE"}, rows)
	})
}

// clamp is the page size for a number of rows.
func clamp(most int) int { return max(1, min(most, 1000)) }

func newStreamShowCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "show STREAM", Short: "Show a stream", Args: exactly("a stream"),
		Long:    "Show a stream. It is named by its UUID, team/source_type/name, schema.table or table.",
		Example: "  sluice stream show 7/stripe/invoices",
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runStreamShow(ctx, s, org, args[0], out) })
		},
	}
	addOrg(c.Flags(), &org)
	addJSON(c.Flags(), out)
	return c
}

func runStreamShow(ctx context.Context, s *server, org, ref string, out *output) error {
	x, err := s.findStream(ctx, org, ref)
	if err != nil {
		return err
	}
	return out.result(x, func() {
		options, _ := json.Marshal(x.Options) // strings, numbers and booleans only
		out.facts("stream_id", string(x.StreamID), "org", string(x.Org), "name", streamName(x), "sync_type", string(x.SyncType),
			"lifecycle", string(x.Lifecycle), "table", target(x), "enabled", fmt.Sprint(x.Enabled), "options", string(options),
			"created_at", stamp(&x.CreatedAt))
	})
}

func newStreamBindCommand(out *output) *cobra.Command {
	var org, table string
	var dry bool
	c := &cobra.Command{
		Use: "bind STREAM", Short: "Give a stream its table, once", Args: exactly("a stream"),
		Long:    "Give a stream its table. The loader does it by itself; this is for a table that exists already, or to see the name.",
		Example: "  sluice stream bind 7/stripe/invoices --table stripe_invoices\n  sluice stream bind 7/stripe/invoices --dry-run",
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error {
				return runStreamBind(ctx, s, org, args[0], table, dry, out)
			})
		},
	}
	addOrg(c.Flags(), &org)
	c.Flags().StringVar(&table, "table", "", "name of the table (default derived by the org's policy)")
	addDryRun(c.Flags(), &dry)
	addJSON(c.Flags(), out)
	return c
}

func runStreamBind(ctx context.Context, s *server, org, ref, table string, dry bool, out *output) error {
	x, err := s.findStream(ctx, org, ref)
	if err != nil {
		return err
	}
	b, err := client.Post[stream.Binding](ctx, s.Client, "/streams/"+string(x.StreamID)+"/bind", api.BindStream{Table: table, DryRun: dry})
	if err != nil {
		return err
	}
	return out.result(b, func() {
		verb := "is bound to"
		switch {
		case x.TargetTable != "":
			verb = "was bound before, to"
		case dry:
			verb = "would be bound to"
		}
		out.line("stream %s %s %s.%s", x.StreamID, verb, b.TargetSchema, b.TargetTable)
	})
}
