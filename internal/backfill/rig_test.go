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
	"sluice/internal/load"
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
		// The writer of Delta tables keeps one engine for all tests.
		if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); err != nil {
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
	gone     bool                    // no file can be read any more
	named    []map[backfill.Key]bool // by the commit of each version
	err      error                   // what the next looks come to
	prepare  func(files []string) error
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

// drop takes the files of a version out of all later ones.
func (h *history) drop(version int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.versions[version])
	for i := version + 1; i < len(h.versions); i++ {
		h.versions[i] = h.versions[i][n:]
	}
}

// remove removes the files of the newest version from the store; the next commit has others.
func (h *history) remove() {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.versions) - 1
	for _, f := range h.versions[last] {
		var p filePart
		_ = json.Unmarshal(f.Raw, &p)
		_ = os.Remove(p.Path)
	}
	h.versions[last] = nil
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
	h.mu.Lock()
	gone := h.gone
	h.mu.Unlock()
	if gone {
		return nil, sluice.E("SLUICE-DELTA-SNAPSHOT-GONE", "read the version", "its files were removed", "", nil)
	}
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
		items = append(items, fmt.Sprintf("%s::%s AS %[1]s", lake.Ident(c.Name), c.Type))
	}
	for i, p := range paths {
		paths[i] = lake.PathLiteral(p)
	}
	out.SQL = fmt.Sprintf("SELECT %s FROM read_parquet([%s], union_by_name = true)", strings.Join(items, ", "), strings.Join(paths, ", "))
	return []lake.Part{out}, nil
}

// env is a stream with a history, a planner and loaders.
type env struct {
	*rig.Rig
	history *history
	planner *backfill.Planner
	id      sluice.StreamID
	faults  *faults
}

// faults befall loaders.
type faults struct {
	mu       sync.Mutex
	hook     func(lake.Write)          // before a transaction
	recorded func(queue.Applied) error // instead of recording a success; nil: it is recorded
}

type faultySessions struct {
	load.Sessions
	f *faults
}

func (s faultySessions) Open(ctx context.Context, org sluice.Org) (load.Session, error) {
	inner, err := s.Sessions.Open(ctx, org)
	return faultySession{inner, s.f}, err
}

type faultySession struct {
	load.Session
	f *faults
}

func (s faultySession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	s.f.mu.Lock()
	hook := s.f.hook
	s.f.mu.Unlock()
	if hook != nil {
		hook(w)
	}
	return s.Session.Apply(ctx, w)
}

type faultyQueue struct {
	load.Batches
	f *faults
}

func (q faultyQueue) Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error {
	q.f.mu.Lock()
	recorded := q.f.recorded
	q.f.mu.Unlock()
	if recorded != nil {
		if err := recorded(a); err != nil {
			return err
		}
	}
	return q.Batches.Succeed(ctx, l, a)
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
	f := &faults{}
	o := rig.Options{
		Postgres: k.state, Sources: h, Sessions: func(s load.Sessions) load.Sessions { return faultySessions{s, f} },
		Queue: func(q load.Batches) load.Batches { return faultyQueue{q, f} },
	}
	for _, f := range opts {
		f(&o)
	}
	e := &env{Rig: rig.New(t, house.New(t, house.Options{Postgres: k.catalog}), o), history: h, faults: f}
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
	path := e.File(rowsOf(from, to, v))
	info, err := os.Stat(path)
	if err != nil {
		e.Fatal(err)
	}
	raw, _ := json.Marshal(filePart{path, int64(to - from)})
	return backfill.File{Path: path, Size: info.Size(), Rows: int64(to - from), Raw: raw}
}

func rowsOf(from, to int, v string) string {
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
		{Path: e.File(rowsOf(from, to, v)), IsFinal: true, UpstreamState: upstream},
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

// until makes passes beside a loader until a condition holds.
func (e *env) until(what string, holds func() bool) {
	e.Helper()
	l := e.Loader()
	defer l.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("waited until %s: the plan is %+v", what, e.plan())
		}
		e.pass()
	}
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

// report says what became of the batches of a run in the store of their producer.
func (e *env) report(run string, state sluice.UpstreamState) {
	e.Helper()
	for _, b := range e.Batches(e.id, run) {
		if b.UpstreamState != sluice.UpstreamWaiting {
			continue
		}
		if err := e.Queue.Upstream(e.Context(), b.BatchID, state); err != nil {
			e.Fatal(err)
		}
	}
}

// start makes a plan as an operator does.
func (e *env) start(kind sluice.RunKind) {
	e.Helper()
	if _, err := e.planner.Start(e.Context(), e.id, stream.PlanRequest{Kind: kind}, tester); err != nil {
		e.Fatal(err)
	}
}

// exec runs a statement in the org's lake.
func (e *env) exec(q string) {
	e.Helper()
	c := e.House.Service(e.Org)
	if _, err := c.Exec(e.Context(), q); err != nil {
		e.Fatalf("%s: %v", q, err)
	}
}

func (e *env) option(t lake.Table, key, value string) {
	e.Helper()
	e.exec(fmt.Sprintf("CALL lake.set_option('%s', '%s', schema => '%s', table_name => '%s')", key, value, t.Schema, t.Name))
}

// wide writes rows with a third column.
func (e *env) wide(from, to int) backfill.File {
	e.Helper()
	path := e.File(fmt.Sprintf("SELECT i::BIGINT AS id, 'w' AS v, 1::INTEGER AS extra FROM range(%d, %d) r(i)", from, to))
	raw, _ := json.Marshal(filePart{path, int64(to - from)})
	return backfill.File{Path: path, Size: 1000, Rows: int64(to - from), Raw: raw}
}

// worker is a loader that is somewhere in the middle of its work.
type worker struct {
	lease sluice.Lease
	queue.Work
}

// claim takes the stream as a loader does.
func (e *env) claim() worker {
	e.Helper()
	leases, err := e.Queue.Claim(e.Context(), queue.ClaimRequest{Owner: strings.Repeat("a", 64), Free: 1, FreeChunk: 1})
	if err != nil || len(leases) != 1 {
		e.Fatalf("%v, %v", leases, err)
	}
	work, err := e.Queue.Next(e.Context(), leases[0])
	if err != nil {
		e.Fatal(err)
	}
	return worker{leases[0], work}
}

// fail gives a claimed step and its stream back.
func (e *env) fail(w worker) {
	e.Helper()
	if _, err := e.Queue.Retry(e.Context(), w.lease, queue.Failure{BatchID: w.Batch.BatchID, Code: "SLUICE-LOAD-CONNECT", Text: "test"}); err != nil {
		e.Fatal(err)
	}
	if err := e.Queue.Release(e.Context(), w.lease); err != nil {
		e.Fatal(err)
	}
}
