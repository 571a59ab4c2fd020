package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

func newBackfillCommand(out *output) *cobra.Command {
	return group("backfill", "Load the history of a stream, then its live batches on top",
		newBackfillPlanCommand(out), newBackfillStartCommand(out), newBackfillStatusCommand(out), newBackfillReplanCommand(out),
		newBackfillActCommand(out, "pause", "Pause a plan after the step that is being applied"),
		newBackfillActCommand(out, "cancel", "End a plan before its swap; the stream goes back to where it was"))
}

// planOptions are what a plan of a history is asked with.
type planOptions struct {
	Org, URI, Covered, CheckFile string
	Version                      int64
	Priority                     int64
	KeepExtra, DryRun, Wait      bool
}

// AddFlags adds the flags of a plan.
func (o *planOptions) AddFlags(fset *pflag.FlagSet) {
	addOrg(fset, &o.Org)
	fset.StringVar(&o.URI, "uri", "", "Delta table (default the stream's)")
	fset.Int64Var(&o.Version, "version", -1, "version of the table (default the newest)")
	fset.StringVar(&o.Covered, "covered", "", "batches that the version holds where nothing proves it: RUN:INDEX,…, all or none")
	fset.Int64Var(&o.Priority, "priority", 0, "higher ones get their slot first")
	fset.BoolVar(&o.KeepExtra, "keep-extra-columns", false, "columns that only the live table has stay, as NULL")
	fset.StringVar(&o.CheckFile, "check", "", "YAML file with checks of your own, made before the swap")
}

func (o *planOptions) body(kind sluice.RunKind) (api.Backfill, error) {
	b := api.Backfill{Kind: string(kind), URI: absolute(o.URI), Covered: o.Covered, Priority: o.Priority, KeepExtraColumns: o.KeepExtra, DryRun: o.DryRun}
	if o.Version >= 0 {
		b.Version = &o.Version
	}
	var err error
	b.Checks, err = readChecks(o.CheckFile)
	return b, err
}

// absolute makes a local path one that means the same to the server.
func absolute(uri string) string {
	if uri == "" || strings.Contains(uri, ":") || filepath.IsAbs(uri) {
		return uri
	}
	if full, err := filepath.Abs(uri); err == nil {
		return full
	}
	return uri
}

// readChecks reads a file of checks: a list of {name, sql, expected, tolerance}.
func readChecks(path string) ([]stream.Check, error) {
	if path == "" {
		return nil, nil
	}
	doing := "read the checks in " + path
	f, err := os.Open(path)
	if err != nil {
		return nil, sluice.E("SLUICE-USAGE", doing, err.Error(), "name a YAML file", err)
	}
	defer func() { _ = f.Close() }()
	var checks []stream.Check
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(&checks); err != nil {
		return nil, sluice.E("SLUICE-USAGE", doing, err.Error(), "write a list like: - {name: total, sql: \"SELECT sum(x) FROM {table}\", expected: 10, tolerance: 0.5}", err)
	}
	for _, c := range checks {
		if c.Name == "" || c.SQL == "" || c.Tolerance < 0 {
			return nil, sluice.E("SLUICE-USAGE", doing, "a check has no name or no sql, or a negative tolerance", "give each check name, sql and expected", nil)
		}
	}
	return checks, nil
}

// onStream runs fn with the stream that a command names.
func onStream(c *cobra.Command, org, ref string, fn func(ctx context.Context, s *server, x api.Stream) error) error {
	return withServer(c, false, func(ctx context.Context, s *server) error {
		x, err := s.findStream(ctx, org, ref)
		if err != nil {
			return err
		}
		return fn(ctx, s, x)
	})
}

func backfillPath(x api.Stream, what string) string {
	return "/streams/" + url.PathEscape(string(x.StreamID)) + "/backfill" + what
}

func newBackfillPlanCommand(out *output) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use: "plan STREAM", Short: "Show what a backfill would do; nothing is written", Args: exactly("a stream"),
		Example: "  sluice backfill plan 7/stripe/invoices --json",
		RunE: func(c *cobra.Command, args []string) error {
			return onStream(c, o.Org, args[0], func(ctx context.Context, s *server, x api.Stream) error {
				return runPlan(ctx, s, x, o, sluice.RunBackfill, out)
			})
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

func runPlan(ctx context.Context, s *server, x api.Stream, o planOptions, kind sluice.RunKind, out *output) error {
	body, err := o.body(kind)
	if err != nil {
		return err
	}
	p, err := client.Post[stream.PlanPreview](ctx, s.Client, backfillPath(x, "/plan"), body)
	if err != nil {
		return err
	}
	return out.result(p, func() { printPlan(p, out) })
}

func printPlan(p stream.PlanPreview, out *output) {
	eta := ""
	if p.EtaSeconds != nil {
		eta = seconds(*p.EtaSeconds)
	}
	out.line("%s of %s into %s", p.Kind, p.SourceURI, p.Target)
	out.facts("  version", fmt.Sprint(p.Version), "  files", fmt.Sprint(p.Files), "  bytes", size(p.Bytes), "  rows", orUnknown(p.Rows),
		"  deleted rows", nonZero(p.DeletedRows), "  chunks", fmt.Sprint(p.Chunks), "  partitioned by", strings.Join(p.Partition, ", "), "  takes about", eta,
		"  covered batches", fmt.Sprint(len(p.Covered)), "  unproven batches", strings.Join(p.Unproven, ", "), "  batches it lacks", strings.Join(p.Behind, ", "),
		"  columns that end", strings.Join(p.Ending, ", "), "  read, not registered", p.Fallback)
	var rows [][]string
	for _, c := range p.Columns {
		rows = append(rows, []string{c.Name, c.Type})
	}
	out.line("")
	out.table([]string{"COLUMN", "TYPE"}, rows)
	out.line("")
	for _, q := range p.SQL {
		out.line("%s;", oneLine(q))
	}
	for _, w := range p.Warnings {
		out.line("warning: %s", w)
	}
	for _, r := range p.Refused {
		out.line("refused: %s (%s)", r.Message, r.Code)
		if r.Hint != "" {
			out.line("  hint: %s", r.Hint)
		}
	}
}

func orUnknown(n *int64) string {
	if n == nil {
		return "not known before they are read"
	}
	return fmt.Sprint(*n)
}

func nonZero(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// size shows bytes in a unit that people read.
func size(n int64) string {
	f, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for f >= 1024 && unit < len(units)-1 {
		f /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[unit])
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func newBackfillStartCommand(out *output) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use: "start STREAM", Short: "Load a stream's history, or let a paused plan go on", Args: exactly("a stream"),
		Example: "  sluice backfill start 7/stripe/invoices --wait",
		RunE: func(c *cobra.Command, args []string) error {
			return onStream(c, o.Org, args[0], func(ctx context.Context, s *server, x api.Stream) error {
				return runStart(ctx, s, x, o, sluice.RunBackfill, "/start", out)
			})
		},
	}
	o.AddFlags(c.Flags())
	addDryRun(c.Flags(), &o.DryRun)
	addWait(c.Flags(), &o.Wait)
	addJSON(c.Flags(), out)
	return c
}

func addWait(fset *pflag.FlagSet, wait *bool) {
	fset.BoolVar(wait, "wait", false, "show how far it is until it is done")
}

func newBackfillReplanCommand(out *output) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use: "replan STREAM", Short: "Make a new plan in the place of the active one", Args: exactly("a stream"),
		Example: "  sluice backfill replan 7/stripe/invoices --covered none",
		RunE: func(c *cobra.Command, args []string) error {
			return onStream(c, o.Org, args[0], func(ctx context.Context, s *server, x api.Stream) error {
				return runStart(ctx, s, x, o, "", "/replan", out)
			})
		},
	}
	o.AddFlags(c.Flags())
	addDryRun(c.Flags(), &o.DryRun)
	addWait(c.Flags(), &o.Wait)
	addJSON(c.Flags(), out)
	return c
}

// runStart makes a plan and, if asked, follows it to its end.
func runStart(ctx context.Context, s *server, x api.Stream, o planOptions, kind sluice.RunKind, path string, out *output) error {
	body, err := o.body(kind)
	if err != nil {
		return err
	}
	st, err := client.Post[stream.PlanStatus](ctx, s.Client, backfillPath(x, path), body)
	if err != nil {
		return err
	}
	if o.Wait && !o.DryRun {
		if st, err = follow(ctx, s, x, st.PlanID, out); err != nil {
			return err
		}
	}
	if err := out.result(st, func() {
		verb := "is"
		if o.DryRun {
			verb = "would be"
		}
		out.line("the %s of stream %s %s %s (generation %d)", st.Kind, st.StreamID, verb, st.State, st.Generation)
		printNext(st, out)
	}); err != nil {
		return err
	}
	if o.Wait && !o.DryRun && st.State != stream.PlanDone {
		return exitCode(1)
	}
	return nil
}

func printNext(st stream.PlanStatus, out *output) {
	if st.LastError != nil {
		out.line("  %s (%s)", oneLine(*st.LastError), st.ErrorCode)
	}
	if st.Next != nil {
		out.line("  next: %s", *st.Next)
	}
}

// followEvery is how often a plan is looked at.
const followEvery = 500 * time.Millisecond

// follow shows how far a plan is, until it is done or needs somebody.
func follow(ctx context.Context, s *server, x api.Stream, planID string, out *output) (stream.PlanStatus, error) {
	if s.local {
		out.note("no server runs: the plan waits for one. Start it with: sluice serve")
	}
	bar := newProgress(out, "backfill")
	defer bar.end()
	said := ""
	for {
		st, err := client.Get[stream.PlanStatus](ctx, s.Client, backfillPath(x, ""), nil)
		if err != nil || s.local {
			return st, err
		}
		if st.Chunks.Of != nil {
			bar.set(st.Chunks.Done, *st.Chunks.Of)
		}
		if now := eta(st); now != said && now != "" {
			bar.note("%s", now)
			said = now
		}
		switch {
		case st.PlanID != planID, !st.State.Active(), st.State == stream.PlanHalted, st.State == stream.PlanPaused, st.Failures > 0 && st.LastError != nil:
			return st, nil
		}
		if err := sleep(ctx, followEvery); err != nil {
			return st, err
		}
	}
}

// eta says when a plan will be done, in steps that are worth a line.
func eta(st stream.PlanStatus) string {
	if st.EtaSeconds == nil || !st.State.Active() {
		return ""
	}
	about := "about"
	if st.EtaAtLeast {
		about = "≥"
	}
	left := time.Duration(*st.EtaSeconds * float64(time.Second))
	switch {
	case left < 10*time.Second:
		return fmt.Sprintf("ready in %s 10s", about)
	case left < 2*time.Minute:
		left = left.Round(10 * time.Second)
	default:
		left = left.Round(time.Minute)
	}
	return fmt.Sprintf("ready in %s %s", about, left)
}

type backfillStatusOptions struct {
	Org   string
	Watch bool
}

func newBackfillStatusCommand(out *output) *cobra.Command {
	var o backfillStatusOptions
	c := &cobra.Command{
		Use: "status [STREAM]", Short: "Show the plans that are under way, or one with its steps",
		Example: "  sluice backfill status --watch\n  sluice backfill status 7/stripe/invoices --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return sluice.E("SLUICE-USAGE", "read the arguments", "there is more than one stream", "give one, or none for all", nil)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runBackfillStatus(ctx, s, o, args, out) })
		},
	}
	addOrg(c.Flags(), &o.Org)
	c.Flags().BoolVar(&o.Watch, "watch", false, "show it again and again")
	addJSON(c.Flags(), out)
	return c
}

func runBackfillStatus(ctx context.Context, s *server, o backfillStatusOptions, args []string, out *output) error {
	for {
		if o.Watch && isTerminalWriter(out.w) && !out.json {
			out.line("\x1b[H\x1b[2J\x1b[3J%s", stampNow())
		}
		if err := showBackfills(ctx, s, o, args, out); err != nil || !o.Watch {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func showBackfills(ctx context.Context, s *server, o backfillStatusOptions, args []string, out *output) error {
	if len(args) == 0 {
		all, err := client.Get[api.Backfills](ctx, s.Client, "/backfills", query("org", o.Org))
		if err != nil {
			return err
		}
		return out.result(all.Backfills, func() { printBackfills(all.Backfills, out) })
	}
	x, err := s.findStream(ctx, o.Org, args[0])
	if err != nil {
		return err
	}
	st, err := client.Get[stream.PlanStatus](ctx, s.Client, backfillPath(x, ""), nil)
	if err != nil {
		return err
	}
	return out.result(st, func() { printBackfill(st, out) })
}

func printBackfills(all []stream.PlanStatus, out *output) {
	if len(all) == 0 {
		out.line("no plan is under way")
		return
	}
	var rows [][]string
	for _, st := range all {
		rows = append(rows, []string{
			string(st.Org), st.Name, string(st.Kind), string(st.State), part(st.Chunks), rate(st), etaCell(st), fmt.Sprint(st.Waiting), string(st.ErrorCode),
		})
	}
	out.table([]string{"ORG", "STREAM", "KIND", "STATE", "CHUNKS", "RATE", "ETA", "WAITING", "ERROR"}, rows)
}

func part(p stream.Part) string {
	if p.Of == nil {
		return fmt.Sprintf("%d / ?", p.Done)
	}
	return fmt.Sprintf("%d / %d", p.Done, *p.Of)
}

func rate(st stream.PlanStatus) string {
	if st.Rate == nil {
		return "-"
	}
	return size(int64(*st.Rate)) + "/s"
}

func etaCell(st stream.PlanStatus) string {
	switch {
	case st.EtaSeconds == nil:
		return "-"
	case st.EtaAtLeast:
		return "≥ " + seconds(*st.EtaSeconds)
	}
	return seconds(*st.EtaSeconds)
}

func printBackfill(st stream.PlanStatus, out *output) {
	out.line("stream %s (%s) is %s", st.StreamID, st.Name, st.Lifecycle)
	if st.PlanID == "" {
		out.facts("  reason", st.Reason)
		printNext(st, out)
		return
	}
	version := ""
	if st.Version != nil {
		version = fmt.Sprint(*st.Version)
	}
	slot := "yes"
	if !st.Slot {
		slot = "no"
	}
	notBefore := ""
	if st.NotBefore != nil {
		notBefore = stamp(st.NotBefore)
	}
	out.facts("  kind", string(st.Kind), "  state", string(st.State), "  generation", fmt.Sprint(st.Generation), "  version", version, "  run", string(st.RunID),
		"  chunks", part(st.Chunks), "  rate", rate(st), "  eta", etaCell(st), "  covered batches", fmt.Sprint(st.Covered), "  waiting batches", fmt.Sprint(st.Waiting),
		"  slot", slot, "  waits because", st.DeferReason, "  not before", notBefore, "  ended because", st.EndReason, "  read, not registered", st.Fallback)
	if st.Stalled {
		out.line("  stalled: nothing has moved for half an hour")
	}
	printNext(st, out)
	if len(st.Steps) == 0 {
		return
	}
	var rows [][]string
	for _, x := range st.Steps {
		took := "-"
		if x.Seconds != nil {
			took = fmt.Sprintf("%.1fs", *x.Seconds)
		}
		bytes := "-"
		if x.Bytes != nil {
			bytes = size(*x.Bytes)
		}
		rows = append(rows, []string{fmt.Sprint(x.BatchIndex), string(x.Op), string(x.LoadState), bytes, orDashInt(x.Rows), took, fmt.Sprint(x.Attempt), string(x.ErrorCode)})
	}
	out.line("")
	out.table([]string{"STEP", "OP", "STATE", "BYTES", "ROWS", "TOOK", "ATTEMPT", "ERROR"}, rows)
}

func orDashInt(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func newBackfillActCommand(out *output, verb, short string) *cobra.Command {
	var org string
	var dryRun bool
	c := &cobra.Command{
		Use: verb + " STREAM", Short: short, Args: exactly("a stream"), Example: "  sluice backfill " + verb + " 7/stripe/invoices",
		RunE: func(c *cobra.Command, args []string) error {
			return onStream(c, org, args[0], func(ctx context.Context, s *server, x api.Stream) error {
				st, err := client.Post[stream.PlanStatus](ctx, s.Client, backfillPath(x, "/"+verb), api.BackfillAct{DryRun: dryRun})
				if err != nil {
					return err
				}
				return out.result(st, func() {
					out.line("the %s of stream %s is %s; the stream is %s", st.Kind, st.StreamID, st.State, st.Lifecycle)
					printNext(st, out)
				})
			})
		},
	}
	addOrg(c.Flags(), &org)
	addDryRun(c.Flags(), &dryRun)
	addJSON(c.Flags(), out)
	return c
}
