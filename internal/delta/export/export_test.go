package export_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2" // the engine that writes

	"sluice/internal/delta"
	"sluice/internal/delta/export"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/testkit/deltagen"
)

// fixture is a table of 100 rows in two files, ten of them deleted, and an engine.
type fixture struct {
	g     *deltagen.Table
	table *delta.Table
	conn  *sql.Conn
	dir   string
	out   string
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{g: deltagen.New(t), dir: t.TempDir()}
	f.out = filepath.Join(f.dir, "out.parquet")
	a := f.g.Data("a.parquet", "SELECT range AS id FROM range(50)")
	b := f.g.Data("b.parquet", "SELECT range + 50 AS id FROM range(50)")
	f.g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"})},
		a.With(deltagen.Inline(deltagen.Arrays, 0, 1, 2, 3, 4)), b.With(f.g.VectorFile("", 1).Add(deltagen.WithRun, 45, 46, 47, 48, 49)))
	table, err := delta.Open(objstore.Local{}, f.g.Dir, delta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.table = table
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	if f.conn, err = db.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.conn.Close()
		_ = db.Close()
	})
	return f
}

func (f *fixture) run(t *testing.T, o export.Options) (export.Result, error) {
	t.Helper()
	return f.runIn(t.Context(), t, f.conn, o)
}

func (f *fixture) runIn(ctx context.Context, t *testing.T, e export.Engine, o export.Options) (export.Result, error) {
	t.Helper()
	s, err := f.table.Snapshot(t.Context(), delta.Latest)
	if err != nil {
		t.Fatal(err)
	}
	o.Out = f.out
	return export.Run(ctx, f.table, s, e, o)
}

// only fails if there is anything but the named files beside the target.
func (f *fixture) only(t *testing.T, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("beside the target are %v, want %v", got, names)
	}
}

func TestExportWritesExactlyTheLiveRows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var planned, writing int64
	r, err := f.run(t, export.Options{
		Planned: func(done, total int64) { planned = 10*done + total }, Writing: func(rows int64) { writing = rows },
	})
	if err != nil || r.Rows != 90 || r.Files != 2 || r.Version != 0 || r.Bytes <= 0 || planned != 22 || writing != 90 {
		t.Fatalf("got %+v, planned %d, writing %d, %v", r, planned, writing, err)
	}
	var n, least, most, distinct int64
	err = f.conn.QueryRowContext(t.Context(), "SELECT count(*), min(id), max(id), count(DISTINCT id) FROM read_parquet("+deltagen.Quote(f.out)+")").
		Scan(&n, &least, &most, &distinct)
	if err != nil || n != 90 || least != 5 || most != 94 || distinct != 90 {
		t.Errorf("%d rows from %d to %d, %d of them distinct, %v", n, least, most, distinct, err)
	}
	f.only(t, "out.parquet")
}

func TestExportReplacesNothingUnlessForced(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if err := os.WriteFile(f.out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.run(t, export.Options{})
	if sluice.CodeOf(err) != export.CodeTarget || sluice.ExitCode(err) != 4 {
		t.Errorf("got %v", err)
	}
	// One that comes while the export runs is left alone, too.
	if err := os.Remove(f.out); err != nil {
		t.Fatal(err)
	}
	_, err = f.run(t, export.Options{Writing: func(int64) { _ = os.WriteFile(f.out, []byte("mine"), 0o600) }})
	if content, rerr := os.ReadFile(f.out); sluice.CodeOf(err) != export.CodeTarget || rerr != nil || string(content) != "mine" {
		t.Errorf("got %v; the file is %q", err, content)
	}
	f.only(t, "out.parquet")
	if r, err := f.run(t, export.Options{Force: true}); err != nil || r.Rows != 90 {
		t.Errorf("got %+v, %v", r, err)
	}
	f.only(t, "out.parquet")
}

func TestExportRemovesWhatADeadRunHasLeft(t *testing.T) {
	t.Parallel()
	f := setup(t)
	left := filepath.Join(f.dir, ".out.parquet.part")
	if err := os.MkdirAll(filepath.Join(left, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "data.parquet"), []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := f.run(t, export.Options{}); err != nil || r.Rows != 90 {
		t.Errorf("got %+v, %v", r, err)
	}
	f.only(t, "out.parquet")
}

func TestExportOfOneTargetTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var second error
	r, err := f.run(t, export.Options{Writing: func(int64) { _, second = f.run(t, export.Options{}) }})
	if err != nil || r.Rows != 90 || sluice.CodeOf(second) != export.CodeTarget || !strings.Contains(second.Error(), "another process") {
		t.Errorf("the first gave %+v, %v; the second %v", r, err, second)
	}
	f.only(t, "out.parquet")
}

// broken is an engine whose n-th call fails, or gives another number of rows.
type broken struct {
	export.Engine
	calls, at int
}

var errBroken = errors.New("broken")

func (b *broken) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if b.calls++; b.calls == b.at {
		return nil, errBroken
	}
	return b.Engine.ExecContext(ctx, query, args...)
}

func (b *broken) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if b.calls++; b.calls == b.at {
		query = "SELECT error('broken')"
	}
	return b.Engine.QueryRowContext(ctx, query, args...)
}

// Whichever call to the engine fails, there is no target, and nothing beside it.
func TestExportIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for n := 1; ; n++ {
		e := &broken{Engine: f.conn, at: n}
		_, err := f.runIn(t.Context(), t, e, export.Options{})
		if e.calls < n {
			if err != nil || n < 4 {
				t.Errorf("without a fault after %d calls: %v", n-1, err)
			}
			f.only(t, "out.parquet")
			return
		}
		if err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("call %d: got %v", n, err)
		}
		f.only(t)
	}
}

// miscounting reads a row less than there is.
type miscounting struct{ export.Engine }

func (m miscounting) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if rest, ok := strings.CutPrefix(query, "COPY ("); ok {
		query = "COPY (SELECT * FROM (" + strings.Replace(rest, ") TO ", ") LIMIT 89) TO ", 1)
	}
	return m.Engine.QueryRowContext(ctx, query, args...)
}

func TestExportCountsItsRows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, err := f.runIn(t.Context(), t, miscounting{f.conn}, export.Options{})
	if sluice.CodeOf(err) != delta.CodeRowCount || !strings.Contains(err.Error(), "89 rows were read") {
		t.Errorf("got %v", err)
	}
	f.only(t)
}

func TestExportNoticesAFileThatIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, err := f.run(t, export.Options{Writing: func(int64) {
		f.g.Copy(f.g.Path("b.parquet"), "SELECT range + 1000 AS id FROM range(50)")
	}})
	if !delta.Gone(err) || !strings.Contains(err.Error(), "b.parquet") {
		t.Errorf("got %v", err)
	}
	f.only(t)
}

func TestExportOfAnEmptyTableHasItsColumns(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.g.State(0)
	f.g.Commit(s.Live[0].Remove(), s.Live[1].Remove())
	if r, err := f.run(t, export.Options{}); err != nil || r.Rows != 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	var name, kind string
	if err := f.conn.QueryRowContext(t.Context(), "SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet("+deltagen.Quote(f.out)+"))").Scan(&name, &kind); err != nil || name != "id" || kind != "BIGINT" {
		t.Errorf("the column is %s %s, %v", name, kind, err)
	}
	f.g.Commit(deltagen.Metadata{})
	if _, err := f.runIn(t.Context(), t, f.conn, export.Options{Force: true}); sluice.CodeOf(err) != delta.CodeSchema {
		t.Errorf("a table without columns: %v", err)
	}
}

func TestExportEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.runIn(ctx, t, f.conn, export.Options{Writing: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.only(t)
}
