package delta_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	_ "github.com/duckdb/duckdb-go/v2"

	"sluice/internal/delta"
	"sluice/internal/delta/action"
	"sluice/internal/delta/dv"
	"sluice/internal/delta/footer"
	"sluice/internal/delta/schema"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// bench is an engine and a folder for data files.
type bench struct {
	*testing.T
	db    *sql.DB
	dir   string
	files []delta.File
	dv    []*dv.Vector
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	b := &bench{T: t, db: db, dir: t.TempDir()}
	b.exec("SET TimeZone = 'America/New_York'") // what is read must not depend on it
	return b
}

func (b *bench) exec(query string) int64 {
	b.Helper()
	res, err := b.db.ExecContext(b.Context(), query)
	if err != nil {
		b.Fatalf("%v\n%s", err, query)
	}
	n, _ := res.RowsAffected()
	return n
}

// file writes a data file; deleted are its deleted rows.
func (b *bench) file(name, query, options string, partition []schema.Value, deleted ...uint64) {
	b.Helper()
	path := filepath.Join(b.dir, name)
	b.exec(fmt.Sprintf("COPY (%s) TO '%s.tmp' (FORMAT parquet%s)", query, filepath.Join(b.dir, "new"), options))
	if err := os.Rename(filepath.Join(b.dir, "new.tmp"), path); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	f := delta.File{Path: name, URI: path, Size: info.Size(), Records: delta.Unknown, Partition: partition}
	var v *dv.Vector
	if len(deleted) > 0 {
		var payload bytes.Buffer
		payload.Write(binary.LittleEndian.AppendUint32(nil, 1681511377))
		if _, err := roaring64.BitmapOf(deleted...).WriteTo(&payload); err != nil {
			b.Fatal(err)
		}
		if v, err = dv.Decode(payload.Bytes(), int64(len(deleted)), -1); err != nil {
			b.Fatal(err)
		}
		f.DV = &action.DeletionVector{Storage: "i", Cardinality: int64(len(deleted))}
	}
	b.files, b.dv = append(b.files, f), append(b.dv, v)
}

func (b *bench) plan(spec delta.Spec) (*delta.Plan, error) {
	b.Helper()
	table := handTable(b.T, objstore.Local{}, b.dir, delta.Options{})
	footers, err := table.Inspect(b.Context(), 0, b.files)
	if err != nil {
		b.Fatal(err)
	}
	return delta.NewPlan(spec, b.files, footers)
}

// load reads all groups into the table got.
func (b *bench) load(spec delta.Spec) *delta.Plan {
	b.Helper()
	p, err := b.plan(spec)
	if err != nil {
		b.Fatal(err)
	}
	sides := delta.Sides{Files: filepath.Join(b.dir, "side?[1].files"), Deleted: filepath.Join(b.dir, "side?[1].dv")}
	for path, write := range map[string]func(*os.File) error{
		sides.Files: func(f *os.File) error { return p.WriteFiles(f) }, sides.Deleted: func(f *os.File) error { return p.WriteDeleted(f, b.dv) },
	} {
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := write(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	var columns []string
	for _, f := range p.Columns.Fields {
		columns = append(columns, schema.Quote(f.Name)+" "+f.Type.SQL())
	}
	b.exec("CREATE OR REPLACE TABLE got (" + strings.Join(columns, ", ") + ")")
	for i := range p.Groups {
		g := &p.Groups[i]
		if n := b.exec("INSERT INTO got " + g.Select(p.Columns, sides)); n != g.Rows {
			b.Errorf("group %d has %d rows, planned %d", i, n, g.Rows)
		}
	}
	return p
}

// same checks that got holds what a query gives.
func (b *bench) same(query string) {
	b.Helper()
	var missing, extra int
	if err := b.db.QueryRowContext(b.Context(), fmt.Sprintf(
		"SELECT (SELECT count(*) FROM ((%[1]s) EXCEPT ALL FROM got)), (SELECT count(*) FROM (FROM got EXCEPT ALL (%[1]s)))", query)).Scan(&missing, &extra); err != nil {
		b.Fatal(err)
	}
	if missing != 0 || extra != 0 {
		b.Errorf("%d rows are missing, %d are there without reason", missing, extra)
	}
}

func field(name, typ string, metadata ...string) string {
	if !strings.HasPrefix(typ, "{") {
		typ = fmt.Sprintf("%q", typ)
	}
	return fmt.Sprintf(`{"name":%q,"type":%s,"nullable":true,"metadata":{%s}}`, name, typ, strings.Join(metadata, ","))
}

func mapped(name, typ, physical string, id int) string {
	return field(name, typ, fmt.Sprintf(`"delta.columnMapping.physicalName":%q`, physical), fmt.Sprintf(`"delta.columnMapping.id":%d`, id))
}

func structure(fields ...string) string {
	return `{"type":"struct","fields":[` + strings.Join(fields, ",") + `]}`
}

func spec(mapping schema.Mapping, fields ...string) delta.Spec {
	return delta.Spec{URI: "t", Schema: structure(fields...), Mapping: mapping}
}

func TestPlanOfNestedColumns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const rows = `SELECT * FROM (VALUES
		({'x': 1, 'old': 'a', 'deep': [{'k': 1::SMALLINT, 'v': 'p'}]}, MAP {'m': {'q': 5}}, [[1, NULL], NULL]),
		(NULL, NULL, NULL), ({'x': NULL, 'old': NULL, 'deep': []}, MAP {}, [])) t(s, m, l)`
	b.file("one", rows, "", nil)
	b.file("two", "SELECT m, s, l FROM ("+rows+")", "", nil)                           // another order of the same
	b.file("three", "SELECT 7::TINYINT AS other", "", nil)                             // none of them
	b.file("four", "SELECT struct_pack(deep := s.deep) AS s FROM ("+rows+")", "", nil) // a part of one
	p := b.load(spec(schema.ByLogical,
		field("s", structure(field("x", "long"), field("deep", `{"type":"array","elementType":`+structure(field("v", "string"), field("k", "integer"), field("new", "date"))+`}`), field("added", "double"))),
		field("m", `{"type":"map","keyType":"string","valueType":`+structure(field("q", "long"), field("r", "string"))+`}`),
		field("l", `{"type":"array","elementType":{"type":"array","elementType":"long"}}`)))
	if len(p.Groups) != 3 {
		t.Errorf("%d groups", len(p.Groups))
	}
	whole := `SELECT CASE WHEN s IS NULL THEN NULL ELSE {'x': s.x::BIGINT, 'deep': [{'v': e.v, 'k': e.k::INTEGER, 'new': NULL::DATE} FOR e IN s.deep], 'added': NULL::DOUBLE} END,
		CASE WHEN m IS NULL THEN NULL WHEN cardinality(m) = 0 THEN MAP {}::MAP(VARCHAR, STRUCT(q BIGINT, r VARCHAR)) ELSE MAP {'m': {'q': 5::BIGINT, 'r': NULL::VARCHAR}} END, l::BIGINT[][] FROM (` + rows + ")"
	b.same(whole + " UNION ALL " + whole + " UNION ALL SELECT NULL, NULL, NULL UNION ALL " +
		`SELECT {'x': NULL::BIGINT, 'deep': [{'v': e.v, 'k': e.k::INTEGER, 'new': NULL::DATE} FOR e IN s.deep], 'added': NULL::DOUBLE}, NULL, NULL FROM (` + rows + ")")
}

// Case 36: columns and their parts are found by id, whatever they are called; what has no match is NULL.
func TestCase36_ByID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("one", "SELECT 1::BIGINT AS swapped, 'x' AS b, {'inner': 5, 'gone': 6} AS s, [{'e': 1}] AS l", ", FIELD_IDS {swapped: 2, b: 1, s: {__duckdb_field_id: 3, \"inner\": 4, gone: 9}, l: {__duckdb_field_id: 5, element: {__duckdb_field_id: 6, e: 7}}}", nil)
	b.file("two", "SELECT 'y' AS other, 2::BIGINT AS another", ", FIELD_IDS {other: 1, another: 2}", nil)
	b.load(spec(schema.ByID, mapped("name", "string", "swapped", 1), mapped("n", "long", "b", 2), mapped("s", structure(mapped("i", "long", "inner", 4)), "s", 3),
		mapped("l", `{"type":"array","elementType":`+structure(mapped("f", "integer", "e", 7))+`}`, "l", 5)))
	b.same("SELECT 'x', 1::BIGINT, {'i': 5::BIGINT}, [{'f': 1}] UNION ALL SELECT 'y', 2, NULL, NULL")
	b.files, b.dv = nil, nil
	b.file("three", "SELECT 1 AS swapped", "", nil)
	if _, err := b.plan(spec(schema.ByID, mapped("name", "string", "swapped", 1))); sluice.CodeOf(err) != delta.CodeSchema {
		t.Errorf("a file without ids: %v", err)
	}
}

func TestPlanOfTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("one", `SELECT encode('ä') AS s, 'ö' AS bin, TIMESTAMP '2024-07-01 12:00:00' AS ts, TIMESTAMPTZ '2024-07-01 12:00:00+00' AS ntz, 3::TINYINT AS i, 1.5::FLOAT AS d,
		5::SMALLINT AS dec, DATE '2024-07-01' AS day, [TIMESTAMP_NS '2024-07-01 12:00:00'] AS list, 1.25::DECIMAL(5,2) AS dec2`, "", nil)
	b.load(spec(schema.ByLogical, field("s", "string"), field("bin", "binary"), field("ts", "timestamp"), field("ntz", "timestamp_ntz"), field("i", "long"), field("d", "double"),
		field("dec", "decimal(12,2)"), field("day", "timestamp_ntz"), field("list", `{"type":"array","elementType":"timestamp"}`), field("dec2", "decimal(20,4)")))
	b.same(`SELECT 'ä', encode('ö'), TIMESTAMPTZ '2024-07-01 12:00:00+00', TIMESTAMP '2024-07-01 12:00:00', 3::BIGINT, 1.5::DOUBLE, 5::DECIMAL(12,2), TIMESTAMP '2024-07-01 00:00:00',
		[TIMESTAMPTZ '2024-07-01 12:00:00+00'], 1.25::DECIMAL(20,4)`)
}

func value(text string) schema.Value { return &text }

// Partition values come from the log, in all types, also where the file has the column too.
func TestPlanOfPartitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	types := []string{"boolean", "byte", "short", "integer", "long", "float", "double", "decimal(38,10)", "string", "binary", "date", "timestamp", "timestamp_ntz"}
	values := []schema.Value{
		value("true"), value("-128"), value("32767"), value("-2147483648"), value("9223372036854775807"), value("NaN"), value("-Infinity"), value("-1234567890123456789012345678.0123456789"),
		value("it's \"ä\""), value("\x01ab"), value("0001-01-01"), value("1969-12-31T23:59:59.999999Z"), value("2024-07-01T12:00:00.250000"),
	}
	b.file("one", "SELECT 1 AS id, 'in the file' AS p8", "", values)
	b.file("two", "SELECT 2 AS id, 'x' AS p8", "", make([]schema.Value, len(types)))
	s := spec(schema.ByLogical, field("id", "integer"))
	fields := []string{field("id", "integer")}
	for i, typ := range types {
		name := fmt.Sprint("p", i)
		fields = append(fields, field(name, typ))
		s.PartitionColumns = append(s.PartitionColumns, name)
	}
	s.Schema = structure(fields...)
	b.load(s)
	b.same(`SELECT 1, true, (-128)::TINYINT, 32767::SMALLINT, (-2147483648)::INTEGER, 9223372036854775807, 'NaN'::FLOAT, '-Infinity'::DOUBLE, '-1234567890123456789012345678.0123456789'::DECIMAL(38,10),
		'it''s "ä"', '\x01ab'::BLOB, DATE '0001-01-01', TIMESTAMPTZ '1969-12-31 23:59:59.999999+00', TIMESTAMP '2024-07-01 12:00:00.25'
		UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL`)
}

// Case 40: names that are patterns to the engine are read as they stand, with their own deleted rows.
func TestCase40_NamesThatArePatterns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, name := range []string{"a?b", "axb", "a*", "a[x]b", "it's", "100%25", "a b#ä+", "[", "a[!x]b", "{a,b}", "\\x"} {
		b.file(name, fmt.Sprintf("SELECT %d AS i, r FROM range(3) t(r)", i), "", nil, uint64(i%3))
	}
	b.load(spec(schema.ByLogical, field("i", "integer"), field("r", "long")))
	b.same("SELECT i::INTEGER, r FROM range(11) a(i), range(3) b(r) WHERE r <> i % 3")
}

func TestReservedColumns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const rows = "SELECT r AS File_Index, 10 * r AS file_row_number, 'x' AS filename FROM range(4) t(r)"
	columns := []string{mapped("file_index", "long", "File_Index", 1), mapped("n", "long", "file_row_number", 2), mapped("filename", "string", "filename", 3)}
	b.file("one", rows, ", FIELD_IDS {File_Index: 1, file_row_number: 2, filename: 3}", nil, 1)
	b.load(spec(schema.ByName, columns...))
	b.same("SELECT r, 10 * r, 'x' FROM range(4) t(r) WHERE r <> 1")

	b.files, b.dv = nil, nil
	b.file("two", rows, "", nil)
	b.load(spec(schema.ByName, columns...)) // nothing is deleted: nothing is hidden that is needed
	b.same("SELECT r, 10 * r, 'x' FROM range(4) t(r)")
	b.file("three", rows, "", nil, 2)
	if _, err := b.plan(spec(schema.ByName, columns...)); sluice.CodeOf(err) != delta.CodeReserved {
		t.Error(err)
	}
}

// Groups hold so many files and positions; side files number the files of all groups.
func TestGroupsAreCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("small", "SELECT 1::INTEGER AS i", "", []schema.Value{value("s")})
	b.file("big", "SELECT 2::BIGINT AS i FROM range(3)", "", []schema.Value{value("b")}, 0, 2)
	small, big := b.files[0], b.files[1]
	b.files, b.dv = nil, []*dv.Vector{b.dv[0], b.dv[1]}
	smallDV, bigDV := b.dv[0], b.dv[1]
	b.dv = nil
	for range 700 {
		b.files, b.dv = append(b.files, small, big), append(b.dv, smallDV, bigDV)
	}
	s := spec(schema.ByLogical, field("i", "long"), field("p", "string"))
	s.PartitionColumns = []string{"p"}
	p := b.load(s)
	var sizes []int
	for _, g := range p.Groups {
		sizes = append(sizes, len(g.Files))
	}
	if !slices.Equal(sizes, []int{512, 512, 188, 188}) || p.Rows() != 1400 || p.Deleted() != 1400 {
		t.Errorf("%v, %d rows, %d deleted", sizes, p.Rows(), p.Deleted())
	}
	b.same("SELECT 1::BIGINT, 's' FROM range(700) UNION ALL SELECT 2, 'b' FROM range(700)")

	footers := []*footer.Footer{{Rows: 30_000_000}, {Rows: 30_000_000}}
	many := []delta.File{{DV: &action.DeletionVector{Cardinality: 15_000_000}}, {DV: &action.DeletionVector{Cardinality: 15_000_000}}}
	if p, err := delta.NewPlan(spec(schema.ByLogical, field("i", "long")), many, footers); err != nil || len(p.Groups) != 2 {
		t.Errorf("positions: %+v, %v", p, err)
	}
}

// What a file holds must be what the table may have written.
func TestPlanRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct{ query, typ, want string }{
		"text for a number":     {"SELECT 'x' AS c", "long", "VARCHAR"},
		"a double for a float":  {"SELECT 1.5::DOUBLE AS c", "float", "DOUBLE"},
		"a long for a double":   {"SELECT 1::BIGINT AS c", "double", "BIGINT"},
		"a scale that is lost":  {"SELECT 1.25::DECIMAL(5,2) AS c", "decimal(5,1)", "DECIMAL(5,2)"},
		"a date for an instant": {"SELECT DATE '2024-01-01' AS c", "timestamp", "DATE"},
		"a number for a struct": {"SELECT 1 AS c", structure(field("x", "long")), "no struct"},
		"a struct for a number": {"SELECT {'x': 1} AS c", "long", "has parts"},
		"a number for a list":   {"SELECT 1 AS c", `{"type":"array","elementType":"long"}`, "no list"},
		"a list for a map":      {"SELECT [1] AS c", `{"type":"map","keyType":"long","valueType":"long"}`, "no map"},
		"inside":                {"SELECT {'x': ['a']} AS c", structure(field("x", `{"type":"array","elementType":"long"}`)), "c.x.element"},
		"two of one name":       {"SELECT 1::BIGINT AS c, 2::BIGINT AS other", "long", ""},
	} {
		b.files, b.dv = nil, nil
		b.file("f", c.query, "", nil)
		_, err := b.plan(spec(schema.ByLogical, field("c", c.typ)))
		if c.want == "" && err != nil || c.want != "" && (sluice.CodeOf(err) != delta.CodeSchema || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twins := []*footer.Footer{{Columns: []footer.Node{{Name: "c", Physical: footer.Int64}, {Name: "C", Physical: footer.Int64}}}}
	if _, err := delta.NewPlan(spec(schema.ByLogical, field("c", "long")), make([]delta.File, 1), twins); sluice.CodeOf(err) != delta.CodeSchema {
		t.Errorf("two columns that the engine cannot tell apart: %v", err)
	}
	if _, err := delta.NewPlan(delta.Spec{Mapping: schema.ByLogical}, nil, nil); sluice.CodeOf(err) != delta.CodeSchema {
		t.Errorf("a table without columns: %v", err)
	}
}

// A file that was replaced or removed is not read as what it was.
func TestCase46_FilesThatChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	table := handTable(t, objstore.Local{}, b.dir, delta.Options{})
	b.file("f", "SELECT 1 AS c", "", nil)
	if _, err := table.Inspect(t.Context(), 3, b.files); err != nil || b.files[0].Records != 1 || b.files[0].ETag == "" {
		t.Fatalf("%+v, %v", b.files[0], err)
	}
	if err := table.Unchanged(t.Context(), 3, b.files); err != nil {
		t.Error(err)
	}
	pinned := slices.Clone(b.files)
	b.file("f", "SELECT 2 AS c", "", nil)
	gone := func(name string, err error) {
		t.Helper()
		if !delta.Gone(err) || !strings.Contains(err.Error(), "version 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := table.Inspect(t.Context(), 3, pinned)
	gone("replaced", err)
	gone("replaced", table.Unchanged(t.Context(), 3, pinned))
	if err := os.Truncate(filepath.Join(b.dir, "f"), 20); err != nil {
		t.Fatal(err)
	}
	_, err = table.Inspect(t.Context(), 3, b.files[1:])
	gone("cut", err)
	if err := os.Remove(filepath.Join(b.dir, "f")); err != nil {
		t.Fatal(err)
	}
	_, err = table.Inspect(t.Context(), 3, b.files[1:])
	gone("removed", err)
	gone("removed", table.Unchanged(t.Context(), 3, pinned))
}
