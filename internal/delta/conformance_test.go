package delta_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2" // the engine that reads the rows

	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/delta/export"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/testkit/s3"
)

// update writes the goldens and docs/delta-conformance.md anew: `make delta-conformance`.
var update = flag.Bool("update", false, "write the goldens and the table of results")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	s3.Shutdown()
	os.Exit(code)
}

// repository is the root of the repository.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// conformanceDir is the folder with tables of other writers. Where it is not there the test is skipped; under CI it must be
// there if the folder that it belongs to is.
func conformanceDir(t testing.TB) string {
	t.Helper()
	shared := filepath.Join(repository(t), "..", "shared")
	dir := filepath.Join(shared, "conformance", "delta")
	if named := os.Getenv("SLUICE_CONFORMANCE"); named != "" {
		dir = named
	}
	if _, err := os.Stat(dir); err != nil {
		if _, err := os.Stat(shared); err == nil && os.Getenv("CI") == "true" {
			t.Fatalf("the tables of other writers are missing: %s", dir)
		}
		t.Skip("the tables of other writers are not here (SLUICE_CONFORMANCE, or ../shared beside the repository): not compared")
	}
	return dir
}

// foreign is a table of another writer.
type foreign struct {
	name string // below the folder of tables
	dir  string // of the table itself
}

// foreignTables finds the tables: whatever has a log.
func foreignTables(t testing.TB, root string) []foreign {
	t.Helper()
	var tables []foreign
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != "_delta_log" {
			return err
		}
		dir := filepath.Dir(path)
		name, err := filepath.Rel(root, dir)
		tables = append(tables, foreign{strings.TrimSuffix(filepath.ToSlash(name), "/delta"), dir})
		if err != nil {
			return err
		}
		return fs.SkipDir
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// openAt opens a table by its URI.
func openAt(t testing.TB, uri string, access objstore.Options, o delta.Options) *delta.Table {
	t.Helper()
	store, _, err := objstore.Open(t.Context(), uri, access)
	if err != nil {
		t.Fatal(err)
	}
	table, err := delta.Open(store, uri, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// connection is an engine of the test's own.
func connection(t testing.TB) *sql.Conn {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = db.Close()
	})
	for _, set := range []string{"SET threads = 2", "SET TimeZone = 'UTC'", "SET autoinstall_known_extensions = false", "SET autoload_known_extensions = false"} {
		if _, err := conn.ExecContext(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// exportTo exports a version into a file of the test's own.
func exportTo(t testing.TB, table *delta.Table, version int64, e export.Engine) (string, export.Result, error) {
	t.Helper()
	s, err := table.Snapshot(t.Context(), version)
	if err != nil {
		return "", export.Result{}, err
	}
	out := filepath.Join(t.TempDir(), "rows.parquet")
	r, err := export.Run(t.Context(), table, s, e, export.Options{Out: out})
	return out, r, err
}

// differences counts the rows that one of two queries has and the other has not, each as often as it has them.
func differences(ctx context.Context, e export.Engine, a, b string) (int64, error) {
	var n int64
	err := e.QueryRowContext(ctx, fmt.Sprintf("SELECT (SELECT count(*) FROM (%[1]s EXCEPT ALL %[2]s)) + (SELECT count(*) FROM (%[2]s EXCEPT ALL %[1]s))", a, b)).Scan(&n)
	return n, err
}

// columnsOf lists the columns of a query.
func columnsOf(t testing.TB, conn *sql.Conn, query string) []string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), query+" LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err := cmp.Or(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	return names
}

func parquetOf(path string) string {
	return "read_parquet('" + strings.ReplaceAll(path, "'", "''") + "')"
}

// refusedTables are those that a reader must refuse, and the name that it must give.
var refusedTables = map[string]struct{ code, name string }{
	"kernel_golden/deltalog-invalid-protocol-version":                              {"UNSUPPORTED", "minReaderVersion=99"},
	"kernel_golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": {"LOG-CORRUPT", "metaData"},
	"kernel_golden/deltalog-state-reconstruction-from-checkpoint-missing-protocol": {"LOG-CORRUPT", "protocol"},
	"kernel_golden/deltalog-state-reconstruction-without-protocol":                 {"LOG-CORRUPT", "protocol"},
	"kernel_data/crc-malformed":                                                    {"NOT-A-TABLE", ""},
	"delta_rs/simple_table_features":                                               {"UNSUPPORTED", "minReaderVersion=5"},
	"delta_rs/spark-shredded-variant-preview-delta":                                {"UNSUPPORTED", "variantShredding-preview"},
	"delta_rs/spark-variant-checkpoint":                                            {"UNSUPPORTED", "variantType-preview"},
	"delta_rs/spark-variant-stable-feature-checkpoint":                             {"UNSUPPORTED", "variantType"},
	"delta_rs_invalid/table_d":                                                     {"UNSUPPORTED", "catalogOwned"},
	"delta_rs_invalid/table_e":                                                     {"UNSUPPORTED", "catalogOwned"},
	"duckdb_delta/inlined/unshredded-variant":                                      {"UNSUPPORTED", "variantType-preview"},
	"duckdb_delta/inlined/variant/basic":                                           {"UNSUPPORTED", "variantType"},
	"java_kernel/catalog-owned-preview":                                            {"UNSUPPORTED", "catalogManaged"},
	"java_kernel/spark-shredded-variant-preview-delta":                             {"UNSUPPORTED", "variantShredding-preview"},
	"java_kernel/spark-variant-checkpoint":                                         {"UNSUPPORTED", "variantType-preview"},
	"java_kernel/spark-variant-stable-feature-checkpoint":                          {"UNSUPPORTED", "variantType"},
	"kernel_data/table-with-geo":                                                   {"UNSUPPORTED", "geospatial"},
	"kernel_data/unshredded-variant":                                               {"UNSUPPORTED", "variantType-preview"},
}

// wrongChecksum is the one table whose checksum file disagrees with its log: the log is read, and that is found out.
const wrongChecksum = "kernel_data/crc-full"

// verdict is what came of a table.
type verdict struct {
	foreign
	info     describe.Info
	err      error
	exported bool
	rows     int64 // exported
	compared bool
	problem  string
}

func (v verdict) refused() bool { return v.err != nil && v.name != wrongChecksum }

// judge reads a table in all ways that there are.
func judge(t *testing.T, f foreign, conn *sql.Conn) verdict {
	t.Helper()
	ctx := t.Context()
	v := verdict{foreign: f}
	table := openAt(t, f.dir, objstore.Options{}, delta.Options{})
	v.info, v.err = describe.Version(ctx, table, delta.Latest, true)
	if v.err != nil {
		return v
	}
	s, err := table.Snapshot(ctx, delta.Latest)
	if err != nil {
		v.problem = err.Error()
		return v
	}
	var files []delta.File
	complete := len(s.Schema().Fields) > 0
	for file, err := range s.Files(ctx) {
		if err != nil {
			v.problem = err.Error()
			return v
		}
		files = append(files, file)
		if _, err := os.Stat(file.URI); err != nil {
			complete = false
		}
	}
	if int64(len(files)) != *v.info.NumFiles {
		v.problem = fmt.Sprintf("info says %d files, files gives %d", *v.info.NumFiles, len(files))
		return v
	}
	if !complete {
		return v
	}
	out, r, err := exportTo(t, table, delta.Latest, conn)
	if err != nil {
		v.problem = err.Error()
		return v
	}
	v.exported, v.rows = true, r.Rows
	if v.info.NumRows == nil || r.Rows != *v.info.NumRows {
		v.problem = fmt.Sprintf("%d rows were read, info says %v", r.Rows, v.info.NumRows)
		return v
	}
	expected := filepath.Join(filepath.Dir(f.dir), "expected")
	if _, err := os.Stat(expected); err == nil && filepath.Base(f.dir) == "delta" {
		v.compared = true
		v.problem = compare(t, conn, parquetOf(out), "read_parquet('"+expected+"/**/*.parquet')", f.name)
	}
	return v
}

// compare says how the rows of two sources differ, column by column name.
func compare(t *testing.T, conn *sql.Conn, got, want, name string) string {
	t.Helper()
	columns := columnsOf(t, conn, "SELECT * FROM "+got)
	if expected := columnsOf(t, conn, "SELECT * FROM "+want); !slices.Equal(slices.Sorted(slices.Values(columns)), slices.Sorted(slices.Values(expected))) {
		return fmt.Sprintf("the columns are %v, expected %v", columns, expected)
	}
	var list []string
	for _, c := range columns {
		if name == "kernel_golden/data-reader-partition-values" && c == "as_timestamp" {
			continue // it was recorded in the writer's zone
		}
		list = append(list, `"`+strings.ReplaceAll(c, `"`, `""`)+`"`)
	}
	selected := "SELECT " + strings.Join(list, ", ") + " FROM "
	n, err := differences(t.Context(), conn, selected+got, selected+want)
	switch {
	case err != nil:
		return err.Error()
	case n != 0:
		return fmt.Sprintf("%d rows differ", n)
	}
	return ""
}

func TestConformance(t *testing.T) {
	t.Parallel()
	root := conformanceDir(t)
	conn := connection(t)
	var verdicts []verdict
	var read, refused, compared int
	for _, f := range foreignTables(t, root) {
		v := judge(t, f, conn)
		verdicts = append(verdicts, v)
		want, mustRefuse := refusedTables[f.name]
		switch {
		case v.problem != "":
			t.Errorf("%s: %s", f.name, v.problem)
		case v.name == wrongChecksum && sluice.CodeOf(v.err) != delta.CodeCRC:
			t.Errorf("%s: got %v", f.name, v.err)
		case mustRefuse != v.refused():
			t.Errorf("%s: refused %t, want %t: %v", f.name, v.refused(), mustRefuse, v.err)
		case mustRefuse && (string(sluice.CodeOf(v.err)) != "SLUICE-DELTA-"+want.code || !strings.Contains(v.err.Error()+fmt.Sprint(v.info.Refused), want.name)):
			t.Errorf("%s: refused with %v, want %s and the name %s", f.name, v.err, want.code, want.name)
		}
		switch {
		case v.refused():
			refused++
		default:
			read++
		}
		if v.compared {
			compared++
		}
	}
	fmt.Printf("%d logs: %d read, %d refused, %d compared by rows\n", len(verdicts), read, refused, compared)
	if len(verdicts) != 154 || read != 135 || refused != 19 || compared != 46 {
		t.Errorf("want 154 logs: 135 read, 19 refused, 46 compared by rows")
	}
	if _, err := openAt(t, filepath.Join(root, "kernel_golden/no-delta-log-folder/delta"), objstore.Options{}, delta.Options{}).Snapshot(t.Context(), delta.Latest); sluice.CodeOf(err) != delta.CodeNotATable {
		t.Errorf("no-delta-log-folder: got %v", err)
	}
	resultsTable(t, verdicts)
}

// resultsTable writes docs/delta-conformance.md, or compares it.
func resultsTable(t *testing.T, verdicts []verdict) {
	t.Helper()
	var b bytes.Buffer
	read, refused, compared, exported := 0, 0, 0, 0
	var rows bytes.Buffer
	for _, v := range verdicts {
		number := func(n *int64) string {
			if n == nil {
				return ""
			}
			return fmt.Sprint(*n)
		}
		var result string
		switch {
		case v.refused():
			refused++
			result = "refused: " + strings.TrimPrefix(string(sluice.CodeOf(v.err)), "SLUICE-DELTA-")
			if len(v.info.Refused) > 0 {
				result += " (" + strings.Join(v.info.Refused, ", ") + ")"
			}
		case v.name == wrongChecksum:
			result = "log read; its checksum file is wrong: CRC-MISMATCH"
		case v.compared:
			result = "rows equal to Spark's"
		case v.exported:
			result = "rows read = rows of the metadata"
		default:
			result = "log read; it is shipped without its data files"
			if len(v.info.Schema) == 0 {
				result = "log read; the table has no columns"
			}
		}
		if !v.refused() {
			read++
		}
		if v.compared {
			compared++
		}
		if v.exported {
			exported++
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s | %s |\n", v.name, number(v.info.Version), number(v.info.NumFiles), number(v.info.NumRows),
			strings.Join(v.info.Features, ", "), result)
	}
	fmt.Fprintf(&b, `# Delta tables of other writers

How the Delta reader fares on the logs that other implementations use in their own tests (delta-io/delta, delta-kernel-rs,
delta-rs, duckdb-delta). They are not part of this repository: the suite looks for them in `+"`../shared/conformance/delta`"+` or
`+"`SLUICE_CONFORMANCE`"+`. This page is written by `+"`make delta-conformance`"+`, and a test compares it.

%d logs: %d read, %d refused, %d compared by rows. The rows of %d were read; the others have no data files to read.

| table | version | files | rows | reader features | result |
|---|---|---|---|---|---|
`, len(verdicts), read, refused, compared, exported)
	b.Write(rows.Bytes())
	golden(t, filepath.Join(repository(t), "docs", "delta-conformance.md"), b.Bytes())
}

// golden compares content with a file, or writes it.
func golden(t *testing.T, path string, content []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content, want) {
		t.Errorf("%s is another now: look at the difference after `make delta-conformance`", filepath.Base(path))
	}
}
