package delta_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/testkit/deltagen"
)

// localFiles is the access to files.
var localFiles objstore.Options

// idSchema is the schema of most tables of the cases: one column, id.
var idSchema = deltagen.Schema(deltagen.Field{Name: "id", Type: "long"})

// plainTable is a table with the column id and a commit that makes it.
func plainTable(t testing.TB, more ...deltagen.Action) *deltagen.Table {
	t.Helper()
	g := deltagen.New(t)
	g.Commit(append([]deltagen.Action{deltagen.Plain, deltagen.Metadata{Schema: idSchema}}, more...)...)
	return g
}

// numbers writes a data file with the ids from..to-1.
func numbers(g *deltagen.Table, key string, from, to int64) deltagen.Add {
	return g.Data(key, fmt.Sprintf("SELECT range AS id FROM range(%d, %d)", from, to))
}

// ghost is an add of a file that does not exist: enough for all that reads the log alone.
func ghost(path string) deltagen.Add {
	return deltagen.Add{Path: path, Size: 100, DataChange: true, Stats: deltagen.Text(`{"numRecords":10}`)}
}

// open opens a table that was generated.
func open(t testing.TB, g *deltagen.Table) *delta.Table {
	t.Helper()
	return openAt(t, g.Dir, objstore.Options{}, delta.Options{})
}

// others finds a table of another writer; where those are not here, the part of the case that needs it is left out.
func others(t testing.TB, name string) (*delta.Table, bool) {
	t.Helper()
	root := filepath.Join(repository(t), "..", "shared", "conformance", "delta")
	if named := os.Getenv("SLUICE_CONFORMANCE"); named != "" {
		root = named
	}
	dir := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(filepath.Join(dir, "delta")); err == nil {
		dir = filepath.Join(dir, "delta")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Logf("%s is not here", name)
		return nil, false
	}
	return openAt(t, dir, objstore.Options{}, delta.Options{}), true
}

// counts checks how many files and live rows a version has; rows < 0 are not looked at.
func counts(t testing.TB, table *delta.Table, version, files, rows int64) {
	t.Helper()
	info, err := describe.Version(t.Context(), table, version, rows >= 0)
	switch {
	case err != nil:
		t.Error(err)
	case *info.NumFiles != files:
		t.Errorf("version %d has %d files, want %d", version, *info.NumFiles, files)
	case rows >= 0 && (info.NumRows == nil || *info.NumRows != rows):
		t.Errorf("version %d: rows want %d: %v", version, rows, plainJSON(t, info, ""))
	}
}

// pathsOrError gives the live files of a version, sorted.
func pathsOrError(ctx context.Context, table *delta.Table, version int64) ([]string, error) {
	s, err := table.Snapshot(ctx, version)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for f, err := range s.Files(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, f.Path)
	}
	slices.Sort(list)
	return list, nil
}

// has checks the live files of a version.
func has(t testing.TB, table *delta.Table, version int64, want ...string) {
	t.Helper()
	slices.Sort(want)
	got, err := pathsOrError(t.Context(), table, version)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("version %d has %v, want %v: %v", version, got, want, err)
	}
}

// refuses checks that a version cannot be read, in the log or in its files, and why.
func refuses(t testing.TB, table *delta.Table, version int64, code sluice.Code, words ...string) {
	t.Helper()
	_, err := pathsOrError(t.Context(), table, version)
	fails(t, err, code, words...)
}

// refusesRows is refuses for what is found only when the rows are read.
func refusesRows(t testing.TB, table *delta.Table, version int64, code sluice.Code, words ...string) {
	t.Helper()
	_, _, err := exportTo(t, table, version, connection(t))
	fails(t, err, code, words...)
}

func fails(t testing.TB, err error, code sluice.Code, words ...string) {
	t.Helper()
	if sluice.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want it to say %q", err, w)
		}
	}
}

// rows exports a version and gives the rows of a query over it, each as one text. The query names the export as t.
func rows(t testing.TB, table *delta.Table, version int64, columns string) []string {
	t.Helper()
	conn := connection(t)
	out, _, err := exportTo(t, table, version, conn)
	if err != nil {
		t.Fatal(err)
	}
	found, err := conn.QueryContext(t.Context(), "SELECT concat_ws('|', "+columns+") FROM "+parquetOf(out)+" t ORDER BY ALL")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	list := []string{}
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// gives checks the rows of a version.
func gives(t testing.TB, table *delta.Table, version int64, columns string, want ...string) {
	t.Helper()
	if got := rows(t, table, version, columns); !slices.Equal(got, want) {
		t.Errorf("version %d: %s are %q, want %q", version, columns, got, want)
	}
}

// ids checks the ids of a version.
func ids(t testing.TB, table *delta.Table, version int64, want ...int64) {
	t.Helper()
	conn := connection(t)
	out, _, err := exportTo(t, table, version, conn)
	if err != nil {
		t.Error(err)
		return
	}
	var got string
	if err := conn.QueryRowContext(t.Context(), "SELECT coalesce(list(id ORDER BY id)::VARCHAR, '[]') FROM "+parquetOf(out)).Scan(&got); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(fmt.Sprint(want), " ", ", ")
	if want == nil {
		text = "[]"
	}
	if got != text {
		t.Errorf("version %d has the ids %.200s, want %.200s", version, got, text)
	}
}

// span gives the numbers from..to-1.
func span(from, to int64) []int64 {
	var list []int64
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// watched is a store with hooks.
type watched struct {
	objstore.Store
	mu      sync.Mutex
	onGet   func(key string) error
	onList  func()
	shuffle bool
	lists   int
}

// opened opens a generated table through the hooks.
func (w *watched) opened(t testing.TB, g *deltagen.Table) *delta.Table {
	t.Helper()
	w.Store = objstore.Local{}
	table, err := delta.Open(w, g.Dir, delta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func (w *watched) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	w.mu.Lock()
	w.lists++
	if w.onList != nil {
		w.onList()
	}
	w.mu.Unlock()
	if !w.shuffle {
		return w.Store.List(ctx, prefix, startAfter)
	}
	return func(yield func(objstore.Object, error) bool) {
		var all []objstore.Object
		for o, err := range w.Store.List(ctx, prefix, startAfter) {
			if err != nil {
				yield(o, err)
				return
			}
			all = append(all, o)
		}
		for i := range all { // from the middle outwards, back to front
			at := len(all) - 1 - (i*7919)%len(all)
			if len(all)%7919 == 0 {
				at = i
			}
			if !yield(all[at], nil) {
				return
			}
		}
	}
}

func (w *watched) Get(ctx context.Context, key string, r objstore.Range, ifMatch string) (io.ReadCloser, objstore.Object, error) {
	w.mu.Lock()
	if w.onGet != nil {
		if err := w.onGet(key); err != nil {
			w.mu.Unlock()
			return nil, objstore.Object{}, err
		}
	}
	w.mu.Unlock()
	return w.Store.Get(ctx, key, r, ifMatch)
}

// Each case of the reader's list has a test of its name, whichever file it is in.
func TestEachCaseHasItsTest(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func TestCase(\d\d)_\w+\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
		}
	}
	for n := 1; n <= 50; n++ {
		if !named[fmt.Sprintf("%02d", n)] {
			t.Errorf("case %d has no test", n)
		}
	}
}
