package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

type enqueueOptions struct {
	Org, Stream, Run, Upstream       string
	FirstEver, Resume, Wait, NoFinal bool
	AsIs, DryRun                     bool
	Timeout                          time.Duration
	Files                            []string
}

// AddFlags adds the flags of `sluice enqueue`.
func (o *enqueueOptions) AddFlags(fset *pflag.FlagSet) {
	addStream(fset, &o.Org, &o.Stream)
	fset.StringVar(&o.Run, "run", "", "id of the run (default derived from the files' contents, so that a repeated call changes nothing)")
	fset.BoolVar(&o.FirstEver, "first-ever", false, "first run of the stream: its first file replaces the table")
	fset.BoolVar(&o.Resume, "resume", false, "the run goes on after an interruption: its first file replaces nothing")
	fset.BoolVar(&o.NoFinal, "no-final", false, "more files of the run will follow")
	fset.StringVar(&o.Upstream, "upstream", "", "whether the authoritative store holds the batches: none (default), waiting, succeeded or failed")
	fset.BoolVar(&o.AsIs, "as-is", false, "hand the paths in as they are: copy nothing, and look at no file")
	fset.BoolVar(&o.Wait, "wait", false, "wait until the run is applied")
	fset.DurationVar(&o.Timeout, "timeout", 0, "longest time to wait (default no limit)")
	addDryRun(fset, &o.DryRun)
}

func newEnqueueCommand(out *output) *cobra.Command {
	var o enqueueOptions
	c := &cobra.Command{
		Use:   "enqueue --stream S FILE…",
		Short: "Hand in Parquet files as the batches of a run",
		Long: "Hand in Parquet files as the batches of one run, in the order of the arguments; the last one is final. A file outside of\n" +
			"the org's extract prefixes is copied into its own extract directory first, under a name made of its contents: so\n" +
			"repeating the command changes nothing, and another content for the same batch is a conflict.",
		Example: "  sluice enqueue --stream 7/stripe/invoices --run 2026-03-01 --wait invoices-*.parquet",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(c, "at least one file is needed")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Files = args
			return withServer(c, false, func(ctx context.Context, s *server) error { return runEnqueue(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

// enqueueJSON is what the command prints with --json.
type enqueueJSON struct {
	StreamID   sluice.StreamID    `json:"stream_id"`
	RunID      string             `json:"run_id"`
	DryRun     bool               `json:"dry_run"`
	Accepted   int                `json:"accepted"`
	Duplicates int                `json:"duplicates"`
	Copied     int                `json:"copied"`
	State      sluice.RunState    `json:"state,omitempty"` // with --wait
	Batches    []enqueueBatchJSON `json:"batches"`
}

type enqueueBatchJSON struct {
	queue.EnqueueResult
	Path       string `json:"path"`
	CopiedFrom string `json:"copied_from,omitempty"`
}

// perCall is the most batches of one call.
const perCall = 1000

func runEnqueue(ctx context.Context, s *server, o enqueueOptions, out *output) error {
	if o.Wait && s.local {
		return sluice.E("SLUICE-SERVER-AWAY", "wait for the run", "no server runs that would apply it", "start one with sluice serve, or leave --wait out", nil)
	}
	x, err := s.findStream(ctx, o.Org, o.Stream)
	if err != nil {
		return err
	}
	files, err := inspect(o.Files, o.AsIs)
	if err != nil {
		return err
	}
	if o.Run == "" {
		o.Run = runIDOf(files)
	}
	org, err := client.Get[control.Org](ctx, s.Client, "/orgs/"+url.PathEscape(string(x.Org)), nil)
	if err != nil {
		return err
	}
	result := enqueueJSON{StreamID: x.StreamID, RunID: o.Run, DryRun: o.DryRun, Batches: []enqueueBatchJSON{}}
	for i := range files {
		if err := files[i].place(org.Lake.ExtractPrefixes, x.StreamID, o.Run, i, o.DryRun); err != nil {
			return err
		}
		if files[i].copied() {
			result.Copied++
		}
	}
	if err := hand(ctx, s, x, o, files, &result); err != nil {
		return err
	}
	if o.Wait && !o.DryRun {
		if result.State, err = waitForRun(ctx, s, x, o, out); err != nil {
			return err
		}
	}
	return out.result(result, func() { printEnqueued(result, files, out) })
}

// hand calls the server with the batches, or with --dry-run only says what they are.
func hand(ctx context.Context, s *server, x api.Stream, o enqueueOptions, files []extract, result *enqueueJSON) error {
	for from := 0; from < len(files); from += perCall {
		to := min(from+perCall, len(files))
		call := api.Enqueue{IsFirstEver: o.FirstEver}
		for i := from; i < to; i++ {
			b := api.NewBatch{BatchIndex: int64(i), Path: files[i].path, IsResume: o.Resume, UpstreamState: o.Upstream}
			if i == len(files)-1 && !o.NoFinal {
				total := int64(len(files))
				b.IsFinal, b.TotalBatches = true, &total
			}
			call.Batches = append(call.Batches, b)
		}
		answer := api.Enqueued{}
		if !o.DryRun {
			var err error
			if answer, err = client.Post[api.Enqueued](ctx, s.Client, runPath(string(x.StreamID), o.Run)+"/batches", call); err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			b := enqueueBatchJSON{EnqueueResult: queue.EnqueueResult{BatchIndex: int64(i)}, Path: files[i].path}
			if files[i].copied() {
				b.CopiedFrom = files[i].from
			}
			if i-from < len(answer.Batches) {
				b.EnqueueResult = answer.Batches[i-from]
			}
			switch b.Result {
			case queue.Accepted:
				result.Accepted++
			case queue.Duplicate:
				result.Duplicates++
			}
			result.Batches = append(result.Batches, b)
		}
	}
	return nil
}

func printEnqueued(r enqueueJSON, files []extract, out *output) {
	if r.DryRun {
		out.line("would enqueue %d batches as run %s of stream %s", len(r.Batches), r.RunID, r.StreamID)
	} else {
		out.line("run %s of stream %s: %d batches accepted, %d were there already", r.RunID, r.StreamID, r.Accepted, r.Duplicates)
	}
	if r.Copied > 0 {
		verb := "copied"
		if r.DryRun {
			verb = "would be copied"
		}
		for _, f := range files {
			if f.copied() {
				out.line("  %s %s to %s", f.from, verb, f.path)
			}
		}
	}
	if r.State != "" {
		out.line("the run is %s", r.State)
	}
}

// waitPoll is how often --wait looks.
const waitPoll = 200 * time.Millisecond

// waitForRun waits until a run has ended, or until its stream is stopped by a batch that cannot be applied.
func waitForRun(ctx context.Context, s *server, x api.Stream, o enqueueOptions, out *output) (sluice.RunState, error) {
	doing := fmt.Sprintf("wait for run %s", o.Run)
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, sluice.E("SLUICE-LOAD-TIMEOUT", doing, fmt.Sprintf("it is not applied after %s; it goes on", o.Timeout),
			"sluice status tells what it waits for", nil))
		defer cancel()
	}
	bar := newProgress(out, "applied")
	defer bar.end()
	for {
		r, err := client.Get[api.Run](ctx, s.Client, runPath(string(x.StreamID), o.Run), nil)
		if err != nil {
			return "", err
		}
		if r.FinalIndex != nil {
			bar.set(r.NextIndex, *r.FinalIndex+1)
		}
		switch {
		case r.State == sluice.RunSucceeded:
			return r.State, nil
		case r.State.Terminal():
			return r.State, sluice.E("SLUICE-LOAD-STATE", doing, fmt.Sprintf("it ended %s (%s)", r.State, r.Reason), "sluice batch list --stream "+string(x.StreamID)+" tells more", nil)
		}
		if err := stopped(ctx, s, x, doing); err != nil {
			return r.State, err
		}
		if o.NoFinal && r.NextIndex >= int64(len(o.Files)) {
			return r.State, nil
		}
		if err := sleep(ctx, waitPoll); err != nil {
			return r.State, err
		}
	}
}

// stopped gives the error of the quarantined batch that a stream stops at, if it does.
func stopped(ctx context.Context, s *server, x api.Stream, doing string) error {
	q, err := client.Get[api.Quarantine](ctx, s.Client, "/quarantine", query("stream_id", string(x.StreamID), "state", "open", "limit", "1"))
	if err != nil || len(q.Quarantine) == 0 {
		return err
	}
	r := q.Quarantine[0]
	hint := r.Hint
	if hint != "" {
		hint += "; "
	}
	return sluice.E(r.Code, doing, fmt.Sprintf("batch %d of run %s is in quarantine: %s", r.BatchIndex, r.RunID, r.Message),
		hint+"then sluice quarantine retry "+string(r.BatchID), nil)
}
