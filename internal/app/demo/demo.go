package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/examples/flights"
	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// The demo's objects.
const (
	Org        = "demo"
	team       = 1
	sourceType = "nyc"
	Schema     = "team_1_data_imports"
)

// Options of Run.
type Options struct {
	Data       string // directory of the demo; empty, not there, or a former demo's
	Executable string // the binary that the loader runs in
	Extensions string // as in the configuration
	Progress   func(done, total int64)
	Note       func(format string, args ...any)
}

// Report is what a demo did.
type Report struct {
	Data    string  `json:"data"`
	Tables  []Table `json:"tables"`
	Batches int64   `json:"batches"`
	Covered int64   `json:"covered"` // batches that the flights' history holds already
	History History `json:"history"`
	Flights Flights `json:"flights"`
	Markers int64   `json:"markers"` // records in the lake that a batch is applied; each batch has one
	Killed  Kill    `json:"killed"`
	Seconds float64 `json:"seconds"`
	OK      bool    `json:"ok"`
}

// Table is what became of one source table.
type Table struct {
	Table    string `json:"table"`
	Batches  int64  `json:"batches"`
	Rows     int64  `json:"rows"`
	Expected int64  `json:"expected"` // different keys in the files
	Missing  int64  `json:"missing"`  // rows of the files, corrections applied, that are not in the table
	Extra    int64  `json:"extra"`    // rows of the table that are not in the files
	OK       bool   `json:"ok"`
}

// Flights is what the live table of flights holds in the end.
type Flights struct {
	Rows      int64 `json:"rows"`
	IDs       int64 `json:"ids"`       // different ones
	Corrected int64 `json:"corrected"` // rows with the delay of the corrections
}

// History is what became of the flights' Delta table.
type History struct {
	Version int64 `json:"version"`
	Rows    int64 `json:"rows"`
	Chunks  int64 `json:"chunks"`
}

// Kill says how the loader was killed.
type Kill struct {
	PID       int            `json:"pid"`
	After     int64          `json:"after_batches"` // applied by then
	Executing sluice.BatchID `json:"executing"`     // in the middle of it; empty if none was caught
	Stream    string         `json:"stream"`
	NextPID   int            `json:"next_pid"` // the process that went on
}

// timeout bounds the whole demo.
const timeout = 5 * time.Minute

// Run runs the demo. A result that is not the right answer is SLUICE-DEMO-MISMATCH, with the report.
func Run(ctx context.Context, o Options) (Report, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cfg, err := prepare(ctx, o)
	if err != nil {
		return Report{}, err
	}
	logFile, err := os.OpenFile(filepath.Join(cfg.Data, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Report{}, fmt.Errorf("open the demo's log: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	a, err := app.New(ctx, &cfg.Config, app.Options{Log: app.NewLogger(logFile, cfg.Log), Create: true})
	if err != nil {
		return Report{}, err
	}
	report := Report{Data: cfg.Data}
	g, gctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(gctx)
	g.Go(func() error { return a.Run(serving) })
	g.Go(func() error {
		defer stop()
		return load(gctx, a, cfg, o, &report)
	})
	err = g.Wait()
	report.Seconds = time.Since(start).Seconds()
	if err == nil {
		report.OK = true
	}
	return report, err
}

// marker is a file that says that a directory is a demo's, so that it may be replaced.
const marker = "sluice-demo.json"

// prepare makes the data directory and the configuration of a process with everything but the loader.
func prepare(ctx context.Context, o Options) (*config.Loaded, error) {
	if err := reset(ctx, o.Data); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	about, err := json.Marshal(map[string]any{"demo": "flights", "started_at": time.Now().UTC()})
	if err != nil {
		return nil, fmt.Errorf("mark the demo's directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.Data, marker), append(about, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("mark the demo's directory: %w", err)
	}
	// Whatever server runs on this machine keeps its ports.
	set := map[string]string{
		"data": o.Data, "roles": "api,warehouse,planner", "http.listen": "127.0.0.1:0", "warehouse.listen": "127.0.0.1:0", "log.format": "json",
		"backfill.interval": "200ms",
	}
	if o.Extensions != "" {
		set["warehouse.extensions"] = o.Extensions
	}
	return config.Load(config.Sources{Environ: []string{}, NoFile: true, Set: set})
}

// reset removes a former demo. Anything else that is in the way is refused.
func reset(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	doing := "make the demo's directory " + dir
	if err != nil {
		return sluice.E("SLUICE-USAGE", doing, "", "give another one with --data", err)
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
		return sluice.E("SLUICE-USAGE", doing, "it is not empty and not a former demo's", "give a new directory with --data", err)
	}
	cfg, err := config.Load(config.Sources{Environ: []string{}, NoFile: true, Set: map[string]string{"data": dir}})
	if err != nil {
		return err
	}
	if f, found, err := app.Running(ctx, &cfg.Config); err != nil {
		return err
	} else if found {
		return sluice.E("SLUICE-LOAD-STATE", doing, fmt.Sprintf("a server (pid %d) runs on the former demo", f.PID), "stop it, or give a new directory with --data", nil)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the former demo: %w", err)
	}
	return nil
}

// load is the demo itself, once the server runs.
func load(ctx context.Context, a *app.App, cfg *config.Loaded, o Options, report *Report) error {
	c, err := waitForServer(ctx, a)
	if err != nil {
		return err
	}
	history := filepath.Join(app.ExtractDir(&cfg.Config, Org), "history", "flights")
	streams, err := register(ctx, c, history)
	if err != nil {
		return err
	}
	batches, err := enqueue(ctx, c, cfg, streams)
	if err != nil {
		return err
	}
	report.Batches = int64(len(batches))
	o.Note("%d batches of %d tables are enqueued", len(batches), len(streams))
	if report.Killed, err = loadAndKill(ctx, c, a, cfg, o, streams, batches); err != nil {
		return err
	}
	if err := toldOfHistory(ctx, c, streams["flights"], o, report); err != nil {
		return err
	}
	return verify(ctx, a, cfg, streams, history, batches, report)
}

// poll is how often the demo looks.
const poll = 5 * time.Millisecond

func sleep(ctx context.Context) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func waitForServer(ctx context.Context, a *app.App) (*client.Client, error) {
	for a.HTTPAddr() == "" || a.WarehouseAddr() == "" {
		if err := sleep(ctx); err != nil {
			return nil, fmt.Errorf("wait for the server: %w", err)
		}
	}
	return client.New("http://" + a.HTTPAddr()), nil
}

// register makes org, team and streams. The flights have a history: the planner loads it by itself.
func register(ctx context.Context, c *client.Client, history string) (map[string]api.Stream, error) {
	org, err := client.Post[control.Org](ctx, c, "/orgs", api.CreateOrg{Org: Org})
	if err != nil {
		return nil, err
	}
	for org.State != sluice.OrgReady {
		if err := sleep(ctx); err != nil {
			return nil, fmt.Errorf("wait for the warehouse: %w", err)
		}
		if org, err = client.Get[control.Org](ctx, c, "/orgs/"+Org, nil); err != nil {
			return nil, err
		}
	}
	if _, err := client.Post[control.Team](ctx, c, "/orgs/"+Org+"/teams", api.CreateTeam{TeamID: team}); err != nil {
		return nil, err
	}
	if err := unpackHistory(history); err != nil {
		return nil, err
	}
	streams := map[string]api.Stream{}
	for _, e := range flights.Extracts {
		if _, ok := streams[e.Stream]; ok {
			continue
		}
		n := api.AddStream{TeamID: team, SourceType: sourceType, Name: e.Stream, SyncType: string(e.SyncType)}
		if e.SyncType == sluice.Incremental {
			n.Options.PrimaryKeys, n.DeltaURI = []string{"id"}, history
		}
		if streams[e.Stream], err = client.Post[api.Stream](ctx, c, "/orgs/"+Org+"/streams", n); err != nil {
			return nil, err
		}
	}
	return streams, nil
}

// batch is an extract that is enqueued.
type batch struct {
	id     sluice.BatchID
	stream string
	path   string
	route  string // of the API
	// inHistory: the Delta table holds it too. The others are newer: the demo, as their producer, reports them once the
	// history is loaded.
	inHistory bool
}

// upstream is what the producer knows when it announces an extract.
func upstream(e flights.Extract) sluice.UpstreamState {
	switch {
	case e.SyncType != sluice.Incremental:
		return sluice.UpstreamNone
	case e.InHistory:
		return sluice.UpstreamSucceeded
	}
	return sluice.UpstreamWaiting
}

// enqueue writes the sample's files to where the org's extracts are, and announces them in order.
func enqueue(ctx context.Context, c *client.Client, cfg *config.Loaded, streams map[string]api.Stream) ([]batch, error) {
	var out []batch
	for _, e := range flights.Extracts {
		file := filepath.Join(app.ExtractDir(&cfg.Config, Org), path.Base(e.Path))
		if err := unpack(flights.FS, e.Path, file); err != nil {
			return nil, err
		}
		one, rows := int64(1), e.Rows
		run := "/streams/" + string(streams[e.Stream].StreamID) + "/runs/" + url.PathEscape(string(e.RunID)) + "/batches"
		answer, err := client.Post[api.Enqueued](ctx, c, run,
			api.Enqueue{Batches: []api.NewBatch{{Path: file, RowCount: &rows, IsFinal: true, TotalBatches: &one, UpstreamState: string(upstream(e))}}})
		if err != nil {
			return nil, err
		}
		out = append(out, batch{answer.Batches[0].BatchID, e.Stream, file, run + "/" + string(answer.Batches[0].BatchID), e.InHistory})
	}
	return out, nil
}

// unpackHistory writes the flights' Delta table to where the org may read it.
func unpackHistory(to string) error {
	return fs.WalkDir(flights.History, "delta", func(from string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("unpack the history: %w", err)
		}
		path := filepath.Join(to, strings.TrimPrefix(from, "delta"))
		if d.IsDir() {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return fmt.Errorf("unpack the history: %w", err)
			}
			return nil
		}
		return unpack(flights.History, from, path)
	})
}

// toldOfHistory notes what became of the history.
func toldOfHistory(ctx context.Context, c *client.Client, s api.Stream, o Options, report *Report) error {
	st, err := client.Get[stream.PlanStatus](ctx, c, "/streams/"+string(s.StreamID)+"/backfill", nil)
	if err != nil {
		return err
	}
	if st.State != stream.PlanDone || st.Version == nil || st.Chunks.Of == nil {
		return sluice.E("SLUICE-DEMO-MISMATCH", "load the history", fmt.Sprintf("its plan is %s", st.State), "see sluice backfill status with --data of the demo", nil)
	}
	report.History = History{Version: *st.Version, Chunks: *st.Chunks.Of, Rows: st.Rows.Done}
	for _, e := range flights.Extracts {
		if !e.InHistory {
			continue
		}
		runs, err := client.Get[api.Batches](ctx, c, "/batches", url.Values{"stream_id": {string(s.StreamID)}, "run_id": {string(e.RunID)}})
		if err != nil {
			return err
		}
		for _, b := range runs.Batches {
			if b.LoadReason == sluice.ReasonCoveredBySnapshot {
				report.Covered++
			}
		}
	}
	o.Note("version %d of the history was loaded; it holds %d of the queued batches already", report.History.Version, report.Covered)
	return nil
}

func unpack(files fs.FS, from, to string) (err error) {
	in, err := files.Open(from)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", from, err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", from, err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", from, err)
	}
	return nil
}
