package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/sluice"
	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse/engine"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("SLUICE_ENGINE_TEST_CHILD"); role != "" {
		os.Exit(child(role))
	}
	code := m.Run()
	pg.Shutdown()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// source is a Source of the test's own.
type source struct {
	mu   sync.Mutex
	cfgs map[sluice.Org]engine.Config
	asks int
}

func (s *source) Warehouse(_ context.Context, org sluice.Org) (engine.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	cfg, ok := s.cfgs[org]
	if !ok {
		return cfg, sluice.E("SLUICE-CONTROL-NO-ORG", "find org "+string(org), "there is none", "create it", nil)
	}
	return cfg, nil
}

func (s *source) set(cfg engine.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfgs == nil {
		s.cfgs = map[sluice.Org]engine.Config{}
	}
	s.cfgs[cfg.Org] = cfg
}

// extensions is the repository's own extension directory.
func extensions() string {
	dir, err := filepath.Abs("../../../build/extensions")
	if err != nil {
		panic(err)
	}
	return dir
}

// fileLake is the configuration of an org with a DuckDB-file lake below dir.
func fileLake(org sluice.Org, dir string) engine.Config {
	return engine.Config{
		Org: org, Extensions: extensions(), TempDir: filepath.Join(dir, "spill"), MemoryBytes: 512 << 20,
		Lake:         engine.Lake{Kind: engine.LakeDuckDB, Catalog: filepath.Join(dir, string(org), "catalog.ducklake"), DataPath: filepath.Join(dir, string(org), "data")},
		ReadPrefixes: []string{filepath.Join(dir, string(org), "extracts")},
	}
}

func newRegistry(opt engine.Options, cfgs ...engine.Config) (*engine.Registry, *source) {
	src := &source{}
	for _, c := range cfgs {
		src.set(c)
	}
	return engine.NewRegistry(src, slog.New(slog.NewTextHandler(io.Discard, nil)), opt), src
}

// setup provisions the given lakes in a registry that is closed with the test.
func setup(t *testing.T, opt engine.Options, cfgs ...engine.Config) (*engine.Registry, *source) {
	t.Helper()
	r, src := newRegistry(opt, cfgs...)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range cfgs {
		if err := r.Provision(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return r, src
}

func connect(t *testing.T, r *engine.Registry, org sluice.Org) *engine.Conn {
	t.Helper()
	c, err := r.Connect(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func run(t *testing.T, c *engine.Conn, qs ...string) {
	t.Helper()
	for _, q := range qs {
		if _, err := c.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// text is the first column of the first row, as text.
func text(t *testing.T, c *engine.Conn, q string) string {
	t.Helper()
	var s sql.NullString
	if err := c.QueryRowContext(t.Context(), "SELECT ("+q+")::VARCHAR").Scan(&s); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return s.String
}

func wantCode(t *testing.T, err error, code sluice.Code, texts ...string) {
	t.Helper()
	if sluice.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error()+"\n"+sluice.HintOf(err), s) {
			t.Errorf("%q is not in %q", s, err)
		}
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestConcurrentConnectsShareOneInstance(t *testing.T) {
	t.Parallel()
	r, src := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			c, err := r.Connect(t.Context(), "acme")
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st := r.Status(); st.Opened != 1 || st.Open != 1 || st.Connections != 0 || src.asks != 1 {
		t.Fatalf("%+v, source asked %d times", st, src.asks)
	}
}

func TestProvisionTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	facts := func() string {
		c := connect(t, r, "acme")
		defer func() { _ = c.Close() }()
		return text(t, c, "SELECT max(snapshot_id) FROM lake.snapshots()") + " " +
			text(t, c, "SELECT string_agg(concat_ws(':', option_name, value, scope, scope_entry), ' ' ORDER BY scope) FROM lake.options() WHERE option_name = 'data_inlining_row_limit'") + " " +
			text(t, c, "SELECT string_agg(schema_name, ',' ORDER BY schema_name) FROM duckdb_schemas() WHERE database_name = 'lake'")
	}
	want := "1 data_inlining_row_limit:0:GLOBAL data_inlining_row_limit:10:SCHEMA:_sluice _sluice,main"
	if got := facts(); got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
	held := connect(t, r, "acme") // on a lake in use
	if err := r.Provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	if got := facts(); got != want {
		t.Fatalf("in use: got %s\nwant %s", got, want)
	}
	r.Recycle("acme")
	if err := r.Provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := facts(); got != want {
		t.Fatalf("again: got %s\nwant %s", got, want)
	}
	other := fileLake("acme", t.TempDir())
	wantCode(t, r.Provision(t.Context(), other), "SLUICE-CONTROL-INVALID", "another lake")
}

func TestProvisionAtOnce(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := newRegistry(engine.Options{}, cfg)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := r.Provision(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// Control rows stay in the catalog, everything else becomes Parquet.
func TestInliningOnlyForControlTables(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	run(t, c, "CREATE TABLE lake._sluice.ctl (i INTEGER)", "INSERT INTO lake._sluice.ctl VALUES (1)")
	files := func() int {
		found, err := filepath.Glob(filepath.Join(cfg.Lake.DataPath, "*", "*", "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if n := files(); n != 0 {
		t.Errorf("a control row wrote %d files", n)
	}
	run(t, c, "CREATE TABLE t (i INTEGER)", "INSERT INTO t VALUES (1)")
	if n := files(); n != 1 {
		t.Errorf("a row of a tenant's table wrote %d files", n)
	}
}

func TestConnectionsShareNoState(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	if got := text(t, c, "current_catalog() || ' ' || current_schema() || ' ' || current_setting('TimeZone')"); got != "lake main UTC" {
		t.Error(got)
	}
	run(t, c, "CREATE TABLE t (i INTEGER)", "CREATE TEMP TABLE mine (i INTEGER)", "SET TimeZone = 'Asia/Tokyo'", "USE memory", "SET VARIABLE v = 7",
		"BEGIN", "INSERT INTO lake.t VALUES (1)")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal("second close:", err)
	}
	d := connect(t, r, "acme")
	if got := text(t, d, "current_catalog() || ' ' || current_setting('TimeZone')"); got != "lake UTC" {
		t.Error(got)
	}
	if got := text(t, d, "SELECT count(*) FROM lake.t"); got != "0" {
		t.Errorf("an open transaction was kept: %s rows", got)
	}
	if got := text(t, d, "getvariable('v')"); got != "" {
		t.Errorf("a variable was kept: %s", got)
	}
	if _, err := d.ExecContext(t.Context(), "SELECT * FROM mine"); err == nil {
		t.Error("a temporary table was kept")
	}
}

func TestErrorsOfConnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := fileLake("missing", dir)
	noext := fileLake("noext", dir)
	noext.Extensions = dir
	relative := fileLake("relative", dir)
	relative.Lake.Catalog = "catalog.ducklake"
	equals := fileLake("equals", dir)
	equals.Lake.DataPath = filepath.Join(dir, "a=b")
	root := fileLake("root", dir)
	root.ReadPrefixes = []string{"/"}
	dots := fileLake("dots", dir)
	dots.ReadPrefixes = []string{"s3://bucket/a/../b"}
	params := fileLake("params", dir)
	params.ReadPrefixes = []string{"s3://bucket/a?s3_endpoint=x"}
	leak := fileLake("leak", dir)
	leak.Lake.Kind, leak.Lake.Catalog = engine.LakePostgres, "host=127.0.0.1 password=geheim"
	r, _ := newRegistry(engine.Options{}, missing, noext, relative, equals, root, dots, params, leak)
	for org, want := range map[sluice.Org]sluice.Code{
		"nobody": "SLUICE-CONTROL-NO-ORG", "missing": "SLUICE-ENGINE-OPEN", "noext": "SLUICE-EXTENSION-MISSING",
		"relative": "SLUICE-CONFIG", "equals": "SLUICE-CONFIG", "root": "SLUICE-CONFIG", "dots": "SLUICE-CONFIG", "params": "SLUICE-CONFIG", "leak": "SLUICE-CONFIG",
	} {
		_, err := r.Connect(t.Context(), org)
		wantCode(t, err, want, string(org))
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("password in %v", err)
		}
	}
	if st := r.Status(); st.Open != 0 || st.Opened != 0 {
		t.Errorf("%+v", st)
	}
	// What was missing may come later: failures are not remembered.
	if err := r.Provision(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
	c := connect(t, r, "missing")
	_ = c.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Connect(t.Context(), "missing")
	wantCode(t, err, "SLUICE-ENGINE-OPEN", "stopping")
	wantCode(t, r.Provision(t.Context(), missing), "SLUICE-ENGINE-OPEN", "stopping")
}

func TestInterruptEndsTheStatementOnly(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	c.Interrupt() // nothing runs
	const slow = "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11"
	ctx, done := c.Statement(t.Context())
	started := make(chan struct{})
	go func() {
		<-started
		c.Interrupt()
	}()
	close(started)
	_, err := c.SQL().ExecContext(ctx, slow)
	if err == nil || !errors.Is(context.Cause(ctx), engine.ErrInterrupted) {
		t.Fatalf("%v, cause %v", err, context.Cause(ctx))
	}
	done()
	if got := text(t, c, "SELECT 42"); got != "42" {
		t.Error(got)
	}
}

func TestRowsOutliveTheCall(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	rows, err := c.QueryContext(t.Context(), "SELECT * FROM range(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for rows.Next() {
		n++
	}
	if rows.Err() != nil || n != 10000 {
		t.Fatal(n, rows.Err())
	}
}

func TestCloseEndsRowsThatAreStillRead(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	rows, err := c.QueryContext(t.Context(), "SELECT * FROM range(100000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if rows.Err() == nil {
		t.Error("a cut result looks complete")
	}
}

func TestCloseWaitsForConnections(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := newRegistry(engine.Options{CloseTimeout: 50 * time.Millisecond}, cfg)
	if err := r.Provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c, err := r.Connect(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "acme") {
		t.Fatal(err)
	}
	select {
	case <-c.Retired():
	default:
		t.Error("the connection was not told")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSpillWorksWhenLockedDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := fileLake("acme", dir)
	cfg.MemoryBytes, cfg.Threads = 60<<20, 1
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	run(t, c, "CREATE TEMP TABLE big AS SELECT i, hash(i)::VARCHAR || repeat('x', 50) AS s FROM range(2000000) t(i)")
	found, err := filepath.Glob(filepath.Join(cfg.TempDir, "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing was spilled: %v", err)
	}
	if got := text(t, c, "SELECT count(DISTINCT s) FROM big"); got != "2000000" {
		t.Error(got)
	}
	_ = c.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(cfg.TempDir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
