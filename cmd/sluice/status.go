package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

type statusOptions struct {
	Org, Stream string
	Most        int
	Watch       bool
	Interval    time.Duration
}

// AddFlags adds the flags of `sluice status`.
func (o *statusOptions) AddFlags(fset *pflag.FlagSet) {
	addStream(fset, &o.Org, &o.Stream)
	addMost(fset, &o.Most)
	fset.BoolVar(&o.Watch, "watch", false, "show it again and again")
	fset.DurationVar(&o.Interval, "interval", 2*time.Second, "how often, with --watch")
}

func newStatusCommand(out *output) *cobra.Command {
	var o statusOptions
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show how the server and each stream stand, and what to do about those that do not move",
		Example: "  sluice status --org acme\n  sluice status --watch",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runStatus(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

// statusJSON is what the command prints with --json.
type statusJSON struct {
	Server  *api.Server       `json:"server"` // null: none runs
	Streams []queue.StatusRow `json:"streams"`
}

func runStatus(ctx context.Context, s *server, o statusOptions, out *output) error {
	for {
		st, err := readStatus(ctx, s, o)
		if err != nil {
			return err
		}
		if o.Watch && isTerminalWriter(out.w) && !out.json {
			out.line("\x1b[H\x1b[2J\x1b[3J%s", stampNow())
		}
		if err := out.result(st, func() { printStatus(st, out) }); err != nil {
			return err
		}
		if !o.Watch {
			return nil
		}
		if err := sleep(ctx, max(o.Interval, 100*time.Millisecond)); err != nil {
			return err
		}
	}
}

func stampNow() string {
	now := time.Now()
	return stamp(&now)
}

func readStatus(ctx context.Context, s *server, o statusOptions) (statusJSON, error) {
	list := listOptions{Org: o.Org, Stream: o.Stream, Most: o.Most}
	q, err := list.values(ctx, s)
	if err != nil {
		return statusJSON{}, err
	}
	st := statusJSON{}
	st.Streams, err = pages(ctx, s, "/status", q, o.Most, func(p api.Status) ([]queue.StatusRow, string) {
		if !s.local {
			st.Server = &p.Server
		}
		return p.Streams, p.NextCursor
	})
	return st, err
}

func printStatus(st statusJSON, out *output) {
	if st.Server == nil {
		out.line("no server runs: nothing is loaded. Start one with: sluice serve")
	} else {
		printServer(*st.Server, out)
	}
	open, byLife := int64(0), map[sluice.Lifecycle]int{}
	for _, r := range st.Streams {
		open += r.Open
		byLife[r.Lifecycle]++
	}
	var lives []string
	for _, l := range []sluice.Lifecycle{sluice.Primed, sluice.PendingBackfill, sluice.Backfilling, sluice.NeedsResync} {
		if byLife[l] > 0 {
			lives = append(lives, fmt.Sprintf("%d %s", byLife[l], l))
		}
	}
	out.line("%d streams (%s), %d open batches", len(st.Streams), strings.Join(lives, ", "), open)
	if len(st.Streams) == 0 {
		return
	}
	var rows [][]string
	for _, r := range st.Streams {
		rows = append(rows, []string{
			string(r.Org), sourceName(int64(r.TeamID), r.SourceType, r.Prefix, r.Name), string(r.Lifecycle), fmt.Sprint(r.Open), now(r), stamp(r.LastAt),
		})
	}
	out.line("")
	out.table([]string{"ORG", "STREAM", "LIFECYCLE", "OPEN", "NOW", "LAST APPLIED"}, rows)
	for _, r := range st.Streams {
		if r.ErrorCode == "" && r.BlockedBy == "" && r.Next == "" {
			continue
		}
		out.line("")
		out.line("%s of %s: %s", sourceName(int64(r.TeamID), r.SourceType, r.Prefix, r.Name), r.Org, now(r))
		out.facts("  code", string(r.ErrorCode), "  text", r.ErrorText, "  blocked by", r.BlockedBy, "  next", r.Next)
	}
}

// now says in a few words what a stream does.
func now(r queue.StatusRow) string {
	switch {
	case r.HeadState == sluice.Quarantined, r.HeadState == sluice.RetryWait:
		return string(r.HeadState) + " " + string(r.ErrorCode)
	case r.HeadState == sluice.Executing:
		return "executing"
	case r.BlockedBy != "":
		return r.BlockedBy
	case r.HeadState != "":
		return string(r.HeadState)
	}
	return "in step"
}

func printServer(s api.Server, out *output) {
	var roles []string
	for _, r := range s.Roles {
		name := r.Role
		if !r.Up {
			name += " (down)"
		}
		roles = append(roles, name)
	}
	state := ""
	if s.Draining {
		state = ", stopping"
	}
	out.line("server %s (pid %d%s): %s; http %s, warehouse %s", s.Version, s.PID, state, strings.Join(roles, ", "), s.HTTP, orDash(s.Warehouse))
	if s.Loader != nil && s.Loader.LastError != "" {
		out.line("loader: %d streams now, %d batches since the start; last error: %s", s.Loader.Streams, s.Loader.Batches, oneLine(s.Loader.LastError))
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
