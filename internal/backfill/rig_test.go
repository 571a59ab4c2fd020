package backfill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/backfill"
	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/pg"
	"sluice/internal/testkit/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon")); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// history is a source in memory: versions of Parquet files, and the batches that its commits name.
type history struct {
	mu       sync.Mutex
	columns  lake.Columns
	layout   []string // partition columns
	versions [][]backfill.File
	named    []map[backfill.Key]bool // by the commit of each version
	err      error                   // what the next looks come to
	prepare  func(files []string) error
	rows     map[string]int64 // of a file, where the source says something else than the truth
}

func columns(pairs ...string) lake.Columns {
	var out lake.Columns
	for i := 0; i < len(pairs); i += 2 {
		t, err := lake.ParseType(pairs[i+1])
		if err != nil {
			panic(err)
		}
		out = append(out, lake.Column{Name: pairs[i], Type: t})
	}
	return out
}

// commit adds a version: the files of the one before, and these; the commit names batches.
func (h *history) commit(files []backfill.File, named ...backfill.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []backfill.File
	if n := len(h.versions); n > 0 {
		all = append(all, h.versions[n-1]...)
	}
	names := map[backfill.Key]bool{}
	for _, k := range named {
		names[k] = true
	}
	h.versions, h.named = append(h.versions, append(all, files...)), append(h.named, names)
}

func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *history) Pin(_ context.Context, _ sluice.Stream, uri string, version *int64) (backfill.Pinned, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return backfill.Pinned{}, h.err
	}
	v := int64(len(h.versions) - 1)
	if version != nil {
		v = *version
	}
	if v < 0 || v >= int64(len(h.versions)) {
		return backfill.Pinned{}, sluice.E("SLUICE-DELTA-NOT-A-TABLE", "read "+uri, "there is no log", "", nil)
	}
	files, columns := h.versions[v], h.columns
	commits := backfill.Commits{Named: map[backfill.Key]int64{}}
	for i, names := range h.named[:v+1] {
		for k := range names {
			commits.Named[k] = int64(i)
		}
	}
	spec, _ := json.Marshal(columns)
	return backfill.Pinned{
		URI: uri, Version: v, Head: version == nil, TableID: "t", Columns: columns, Partition: h.layout, Spec: spec,
		Files: func(context.Context) iter.Seq2[backfill.File, error] {
			return func(yield func(backfill.File, error) bool) {
				for _, f := range files {
					if !yield(f, nil) {
						return
					}
				}
			}
		},
		Commits: func(context.Context) (backfill.Commits, error) { return commits, nil },
	}, nil
}

type filePart struct {
	Path string
	Rows int64
}

// Prepare makes the history a load.Sources.
func (h *history) Prepare(_ context.Context, _ sluice.Stream, _ sluice.RunID, _ int64, source json.RawMessage) ([]lake.Part, error) {
	var p backfill.Part
	var columns lake.Columns
	if err := errors.Join(json.Unmarshal(source, &p), json.Unmarshal(p.Spec, &columns)); err != nil {
		return nil, err
	}
	out := lake.Part{Columns: columns.Names()}
	var paths, items []string
	for _, raw := range p.Files {
		var f filePart
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, err
		}
		if _, err := os.Stat(f.Path); err != nil {
			return nil, sluice.E("SLUICE-DELTA-SNAPSHOT-GONE", "read the version", f.Path+" was removed", "", err)
		}
		paths, out.Rows = append(paths, f.Path), out.Rows+f.Rows
	}
	h.mu.Lock()
	prepare := h.prepare
	h.mu.Unlock()
	if prepare != nil {
		if err := prepare(paths); err != nil {
			return nil, err
		}
	}
	for _, c := range columns {
		items = append(items, fmt.Sprintf("%s::%s", lake.Ident(c.Name), c.Type))
	}
	for i, p := range paths {
		paths[i] = lake.PathLiteral(p)
	}
	out.SQL = fmt.Sprintf("SELECT %s FROM read_parquet([%s])", strings.Join(items, ", "), strings.Join(paths, ", "))
	return []lake.Part{out}, nil
}

// env is a stream with a history, a planner and loaders.
type env struct {
	*rig.Rig
	history *history
	planner *backfill.Planner
	id      sluice.StreamID
}

type kinds struct{ state, catalog bool } // on PostgreSQL

// onAll runs a test with each kind of state DB and catalog that it may depend on.
func onAll(t *testing.T, fn func(t *testing.T, e *env)) {
	t.Helper()
	for name, k := range map[string]kinds{"embedded": {}, "postgres": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, newEnv(t, k))
		})
	}
}

func newEnv(t *testing.T, k kinds, opts ...func(*rig.Options)) *env {
	t.Helper()
	h := &history{columns: columns("id", "BIGINT", "v", "VARCHAR")}
	o := rig.Options{Postgres: k.state, Sources: h}
	for _, f := range opts {
		f(&o)
	}
	e := &env{Rig: rig.New(t, house.New(t, house.Options{Postgres: k.catalog}), o), history: h}
	e.planner = e.newPlanner("p1")
	return e
}

func (e *env) newPlanner(owner string) *backfill.Planner {
	return backfill.New(backfill.Config{Owner: owner, Instance: owner, Quiet: time.Nanosecond, LookAgain: time.Nanosecond, EmptyApart: time.Nanosecond}, backfill.Deps{
		DB: e.DB, Queue: e.Queue, Streams: e.Streams, Source: e.history, Lakes: backfill.Dialed(e.House.Dialer()),
	})
}

// incremental registers the stream; nothing has looked at it yet.
func (e *env) incremental() {
	e.Helper()
	e.id = e.Stream(sluice.Incremental, func(n *stream.NewStream) { n.DeltaURI = "file:///history" })
}

// file writes rows i = from … to-1 with a value, as a file of the history.
func (e *env) file(from, to int, v string) backfill.File {
	e.Helper()
	path := e.File(rows(from, to, v))
	info, err := os.Stat(path)
	if err != nil {
		e.Fatal(err)
	}
	raw, _ := json.Marshal(filePart{path, int64(to - from)})
	return backfill.File{Path: path, Size: info.Size(), Rows: int64(to - from), Raw: raw}
}

func rows(from, to int, v string) string {
	return fmt.Sprintf("SELECT i::BIGINT AS id, '%s' AS v FROM range(%d, %d) r(i)", v, from, to)
}

// big makes a file a chunk of its own.
func big(f backfill.File) backfill.File {
	f.Size = 2 << 30
	return f
}

func (e *env) pass() {
	e.Helper()
	if err := e.planner.Pass(e.Context()); err != nil {
		e.Fatal(err)
	}
}

func (e *env) detail() stream.Detail {
	e.Helper()
	d, err := e.Streams.Detail(e.Context(), e.id)
	if err != nil {
		e.Fatal(err)
	}
	return d
}

func (e *env) wantLifecycle(want sluice.Lifecycle) {
	e.Helper()
	if d := e.detail(); d.Lifecycle != want {
		e.Fatalf("the stream is %s (%s), want %s", d.Lifecycle, d.LifecycleReason, want)
	}
}

func (e *env) plan() stream.Plan {
	e.Helper()
	p, _, err := stream.LastPlan(e.Context(), e.DB, e.id)
	if err != nil {
		e.Fatal(err)
	}
	return p
}

func (e *env) wantPlan(state stream.PlanState) stream.Plan {
	e.Helper()
	p := e.plan()
	if p.State != state {
		e.Fatalf("the plan is %s (%s %s; %s), want %s", p.State, p.ErrorCode, p.LastError, p.EndReason, state)
	}
	return p
}

// batch enqueues one file as a run of one batch.
func (e *env) batch(run string, upstream sluice.UpstreamState, from, to int, v string) sluice.BatchID {
	e.Helper()
	r, err := e.Queue.Enqueue(e.Context(), queue.EnqueueRequest{StreamID: e.id, RunID: sluice.RunID(run), Batches: []queue.NewBatch{
		{Path: e.File(rows(from, to, v)), IsFinal: true, UpstreamState: upstream},
	}})
	if err != nil {
		e.Fatal(err)
	}
	return r[0].BatchID
}

// settle makes passes and loads until nothing moves any more.
func (e *env) settle() {
	e.Helper()
	l := e.Loader()
	for range 4 {
		e.pass()
		e.Settle()
	}
	l.Stop()
}

// want compares what the table sums up to: rows, different ids, and how often each value is there.
func (e *env) want(want string) {
	e.Helper()
	got := strings.Join(e.Rows(e.id, "SELECT v, count(*), count(DISTINCT id) FROM {t} GROUP BY v ORDER BY v"), "; ")
	if got != want {
		e.Errorf("the table has %s, want %s", got, want)
	}
}

var tester = control.By{Who: "test"}
