package load_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

// both runs subtests on lakes of both kinds: their rows are written in two ways.
func both(t *testing.T, all map[string]func(r *rig.Rig)) {
	t.Helper()
	for kind, opts := range map[string]house.Options{"duckdb": {}, "postgres": {Postgres: true}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			for name, fn := range all {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					fn(rig.New(t, h, rig.Options{}))
				})
			}
		})
	}
}

func policy(p sluice.SchemaPolicy) func(o *sluice.Options) {
	return func(o *sluice.Options) { o.SchemaPolicy = p }
}

// New columns, and names that are refused or have to be quoted (case 43).
func TestNewColumns(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"added, also gone again": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 'a' AS v"), r.File("SELECT 2::BIGINT AS id, 'b' AS v, DATE '2026-03-01' AS d"),
				r.File("SELECT 3::BIGINT AS id"), r.File("SELECT 1::BIGINT AS id, DATE '2026-03-02' AS D"))
			r.Load()
			r.WantTable(id, "*", "1|a|2026-03-02", "2|b|2026-03-01", "3|∅|∅")
		},
		"two that differ in case": func(r *rig.Rig) {
			for file, names := range map[string][2]string{"case": {"Name", "name"}, "case_field": {"s.Name", "s.name"}} {
				id := r.Stream(sluice.Append)
				r.Enqueue(id, "r1", r.Copy("testdata/parquet/"+file+".parquet"))
				r.Load()
				r.WantQuarantined(id, "SLUICE-LOAD-COLUMN-CASE", names[0], names[1])
			}
		},
		"reserved": func(r *rig.Rig) {
			for _, name := range []string{"_sluice_x", "_SLUICE_deleted", "_ducklake_row_id"} {
				id := r.Stream(sluice.Append)
				r.Enqueue(id, "r1", r.File(fmt.Sprintf("SELECT 1::BIGINT AS id, 2 AS %q", name)))
				r.Load()
				r.WantQuarantined(id, "SLUICE-LOAD-COLUMN-RESERVED", name)
			}
		},
		"names of the reader": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			file := r.File("SELECT 1::BIGINT AS id, 'f' AS filename, 7 AS file_row_number, 8 AS file_index")
			r.Enqueue(id, "r1", file, file)
			r.Load()
			r.WantTable(id, "*", "1|f|7|8", "1|f|7|8")
			id = r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", file)
			r.Load()
			r.WantQuarantined(id, "SLUICE-LOAD-COLUMN-RESERVED", "filename")
		},
		"quoted": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.PrimaryKeys = []string{"order"} }))
			columns := `, 'a' AS "a b", 'b' AS "a.b", 'c' AS "select", 'd' AS "q""q", 'e' AS "größe", 'f' AS "'"`
			r.Enqueue(id, "r1", r.File(`SELECT 1::BIGINT AS "order"`), r.File(`SELECT 1::BIGINT AS "order"`+columns), r.File(`SELECT 2::BIGINT AS "order"`+columns))
			r.Load()
			r.WantTable(id, "*", "1|a|b|c|d|e|f", "2|a|b|c|d|e|f")
		},
	})
}

// What widens, what is cast and what is a conflict (case 44).
func TestTypeChanges(t *testing.T) {
	t.Parallel()
	of := func(value string) string { return "SELECT 1::BIGINT AS id, " + value + " AS v" }
	cases(t, map[string]func(r *rig.Rig){
		"widened": func(r *rig.Rig) {
			var before, after, columns, want []string
			for i, c := range [][4]string{
				{"1::TINYINT", "300::SMALLINT", "SMALLINT", "300"},
				{"1::INTEGER", "5000000000::BIGINT", "BIGINT", "5000000000"},
				{"1::UTINYINT", "18446744073709551615::UBIGINT", "UBIGINT", "18446744073709551615"},
				{"1.5::FLOAT", "0.1::DOUBLE", "DOUBLE", "0.1"},
				{"1.50::DECIMAL(10,2)", "9999999999.25::DECIMAL(12,2)", "DECIMAL(12,2)", "9999999999.25"},
			} {
				before, after = append(before, fmt.Sprintf("%s AS v%d", c[0], i)), append(after, fmt.Sprintf("%s AS v%d", c[1], i))
				columns, want = append(columns, fmt.Sprintf("v%d %s", i, c[2])), append(want, c[3])
			}
			for _, sync := range []sluice.SyncType{sluice.Incremental, sluice.Append} {
				id := r.Stream(sync)
				r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, "+strings.Join(before, ", ")), r.File("SELECT 1::BIGINT AS id, "+strings.Join(after, ", ")))
				r.Load()
				r.WantColumns(id, append([]string{"id BIGINT"}, columns...)...)
				if got := r.Rows(id, "SELECT * EXCLUDE (id) FROM {t} WHERE v0 = 300"); len(got) != 1 || got[0] != strings.Join(want, "|") {
					t.Errorf("%s: got %v, want %v", sync, got, want)
				}
			}
		},
		"old rows after widening": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File("SELECT i AS id, i::INTEGER AS v FROM range(3) AS t(i)"), r.File("SELECT i AS id, i + 5000000000 AS v FROM range(2) AS t(i)"))
			r.Load()
			r.WantTable(id, "*", "0|0", "0|5000000000", "1|1", "1|5000000001", "2|2")
		},
		"narrower is cast": func(r *rig.Rig) {
			var before, after, want []string
			for i, c := range [][3]string{
				{"5000000000::BIGINT", "7::INTEGER", "7"},
				{"7::BIGINT", "9::UINTEGER", "9"},
				{"9999999999.25::DECIMAL(12,2)", "1.5::DECIMAL(3,1)", "1.50"},
				{"1.5::DOUBLE", "0.5::FLOAT", "0.5"},
				{"TIMESTAMP '2026-03-01 01:00:00'", "DATE '2026-03-02'", "2026-03-02 00:00:00"},
				{"12.000::DECIMAL(20,3)", "7::INTEGER", "7.000"},
			} {
				before, after = append(before, fmt.Sprintf("%s AS v%d", c[0], i)), append(after, fmt.Sprintf("%s AS v%d", c[1], i))
				want = append(want, c[2])
			}
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, "+strings.Join(before, ", ")), r.File("SELECT 1::BIGINT AS id, "+strings.Join(after, ", ")))
			r.Load()
			r.WantTable(id, "* EXCLUDE (id)", strings.Join(want, "|"))
		},
		"conflicts": func(r *rig.Rig) {
			for _, c := range [][4]string{
				{"1::BIGINT", "'12a'", "BIGINT", `"12a"`},
				{"'a'", "5::INTEGER", "VARCHAR", ""},
				{"1.5::DECIMAL(12,2)", "1.5::DECIMAL(12,3)", "DECIMAL(12,3)", ""},
				{"1::BIGINT", "18446744073709551615::UBIGINT", "UBIGINT", `"18446744073709551615"`},
				{"1::UBIGINT", "-1::BIGINT", "UBIGINT", `"-1"`},
				{"1::BIGINT", "[1]", "INTEGER[]", ""},
				{"[1]", "1::INTEGER", "INTEGER[]", ""},
				{"{a: 1}", "{a: 'x'}", `STRUCT("a" VARCHAR)`, ""},
				{"TIMESTAMP '2026-03-01 01:00:00'", "TIMESTAMPTZ '2026-03-01 01:00:00+03'", "TIMESTAMP WITH TIME ZONE", ""},
			} {
				id := r.Stream(sluice.Incremental)
				r.Enqueue(id, "r1", r.File(of(c[0])), r.File(of(c[1])))
				r.Load()
				r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "column v", c[2], c[3])
			}
		},
		"widened, then a conflict": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(of("1.25::DECIMAL(10,2)")), r.File(of("9999999999.25::DECIMAL(12,2)")), r.File(of("1.125::DECIMAL(12,3)")))
			r.Load()
			r.WantColumns(id, "id BIGINT", "v DECIMAL(12,2)")
			r.WantTable(id, "v", "9999999999.25")
			r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "DECIMAL(12,3)")
		},
		"column of a partition or an order": func(r *rig.Rig) {
			for _, ddl := range []string{"SET PARTITIONED BY (v)", "SET SORTED BY (v)"} {
				id := r.Stream(sluice.Append)
				r.Enqueue(id, "r1", r.File(of("1::INTEGER")))
				r.Load()
				r.Rows(id, "ALTER TABLE {t} "+ddl)
				r.Enqueue(id, "r2", r.File(of("2::SMALLINT")), r.File(of("5000000000::BIGINT")))
				r.Load()
				r.WantTable(id, "v", "1", "2")
				r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "column v")
			}
		},
	})
}

// Fields of structs come, go and widen, also inside of lists and maps.
func TestStructFields(t *testing.T) {
	t.Parallel()
	both(t, map[string]func(r *rig.Rig){
		"fields": func(r *rig.Rig) {
			wraps := []struct{ value, typ string }{
				{"%s", "%s"}, {"[%s]", "%s[]"}, {"map {'k': %s}", "MAP(VARCHAR, %s)"}, {"{deep: [%s]}", `STRUCT("deep" %s[])`},
			}
			of := func(s string) string {
				var out []string
				for i, w := range wraps {
					out = append(out, fmt.Sprintf(w.value+" AS s%d", s, i))
				}
				return strings.Join(out, ", ")
			}
			columns, texts := []string{"id BIGINT"}, []string{"id"}
			for i, w := range wraps {
				columns = append(columns, fmt.Sprintf("s%d "+w.typ, i, `STRUCT("a" BIGINT, "b" VARCHAR, "c" DATE)`))
				texts = append(texts, fmt.Sprintf("s%d::VARCHAR", i))
			}
			for _, sync := range []sluice.SyncType{sluice.Incremental, sluice.Append} {
				var files, want []string
				id := r.Stream(sync)
				for i, s := range [][2]string{
					{"{a: 1, b: 'x'}", "{a: 1, b: 'x', c: NULL}"},
					{"{b: 'y', A: 5000000000, c: DATE '2026-03-01'}", "{a: 5000000000, b: 'y', c: DATE '2026-03-01'}"},
					{"{a: 3::SMALLINT}", "{a: 3, b: NULL, c: NULL}"},
					{"{c: DATE '2026-03-02'}", "{a: NULL, b: NULL, c: DATE '2026-03-02'}"},
				} {
					files = append(files, r.File(fmt.Sprintf("SELECT %d::BIGINT AS id, %s", i+1, of(s[0]))))
					want = append(want, fmt.Sprintf("SELECT %d::BIGINT AS id, %s", i+1, of(s[1])))
				}
				r.Enqueue(id, "r1", files...)
				r.Load()
				r.WantColumns(id, columns...)
				for i, q := range want {
					want[i] = r.Rows(id, "SELECT "+strings.Join(texts, ", ")+" FROM ("+q+")")[0]
				}
				r.WantTable(id, strings.Join(texts, ", "), want...)
			}
		},
		"frozen": func(r *rig.Rig) {
			id := r.Stream(sluice.Append, options(policy(sluice.SchemaFreeze)))
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, {a: 1} AS s"), r.File("SELECT 2::BIGINT AS id, {b: 7, a: 2::BIGINT} AS s"), r.File("SELECT 3::BIGINT AS id, {b: 7} AS s"))
			r.Load()
			r.WantTable(id, "id, s.a", "1|1", "2|2")
			r.WantNote(id, "r1", 1, "1 columns or fields are left out by the schema policy: s.b")
			r.WantColumns(id, "id BIGINT", `s STRUCT("a" INTEGER)`)
			r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "column s")
		},
	})
}

// Each type arrives as it was written, whichever way rows get into the lake (case 45 and the table of types).
func TestStoredTypes(t *testing.T) {
	t.Parallel()
	types := []struct{ value, typ string }{
		{"true", "BOOLEAN"},
		{"(-128)::TINYINT", "TINYINT"},
		{"32767::SMALLINT", "SMALLINT"},
		{"7::INTEGER", "INTEGER"},
		{"9223372036854775807", "BIGINT"},
		{"255::UTINYINT", "UTINYINT"},
		{"65535::USMALLINT", "USMALLINT"},
		{"4294967295::UINTEGER", "UINTEGER"},
		{"18446744073709551615::UBIGINT", "UBIGINT"},
		{"0.1::FLOAT", "FLOAT"},
		{"0.1::DOUBLE", "DOUBLE"},
		{"'-0.0'::DOUBLE", "DOUBLE"},
		{"'nan'::DOUBLE", "DOUBLE"},
		{"12345678901234567890123456789012345.678::DECIMAL(38,3)", "DECIMAL(38,3)"},
		{"1267650600228229401496703205376::HUGEINT::DECIMAL(38,0)", "DECIMAL(38,0)"},
		{"DATE '2026-03-01'", "DATE"},
		{"TIME '01:02:03.456789'", "TIME"},
		{"'01:02:03.456789+00'::TIMETZ", "TIME WITH TIME ZONE"},
		{"TIMESTAMP '2013-11-03 01:30:00.123456'", "TIMESTAMP"},
		{"'2013-11-03 01:30:00.123456789'::TIMESTAMP_NS", "TIMESTAMP_NS"},
		{"'2013-11-03 01:30:00.123'::TIMESTAMP_MS", "TIMESTAMP"},
		{"TIMESTAMPTZ '2013-11-03 01:30:00.123456-05'", "TIMESTAMP WITH TIME ZONE"},
		{"INTERVAL '1 month 3 days 5 seconds'", "INTERVAL"},
		{"'ünï''\"\\\n'", "VARCHAR"},
		{"''", "VARCHAR"},
		{"'\\x00\\xFF'::BLOB", "BLOB"},
		{"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::UUID", "UUID"},
		{"'{\"a\": [1, null]}'::JSON", "JSON"},
		{"'red'::ENUM('red', 'green')", "VARCHAR"},
		{"[1, 2, 3]::INTEGER[3]", "INTEGER[]"},
		{"[[1], [], NULL]", "INTEGER[][]"},
		{"map {'a': 1, 'b': NULL}", "MAP(VARCHAR, INTEGER)"},
		{`{a: 1, "b c": ['x']}`, `STRUCT("a" INTEGER, "b c" VARCHAR[])`},
		{"{a: 1}::VARIANT", "VARIANT"},
		{"'POINT (1 2)'::GEOMETRY", "GEOMETRY"},
	}
	var list, columns, texts []string
	for i, c := range types {
		list = append(list, fmt.Sprintf("%s AS c%d", c.value, i))
		columns, texts = append(columns, fmt.Sprintf("c%d %s", i, c.typ)), append(texts, fmt.Sprintf("c%d::VARCHAR", i))
	}
	both(t, map[string]func(r *rig.Rig){
		"written by the engine": func(r *rig.Rig) {
			first := r.File("SELECT 1::BIGINT AS id, " + strings.Join(list, ", "))
			second := r.File("SELECT 2::BIGINT AS id, " + strings.Join(list, ", "))
			for _, sync := range []sluice.SyncType{sluice.Append, sluice.Incremental} {
				id := r.Stream(sync)
				r.Enqueue(id, "r1", first, second, second)
				r.Load()
				r.WantColumns(id, append([]string{"id BIGINT"}, columns...)...)
				want := strings.Split(r.Rows(id, "SELECT concat_ws('¦', "+strings.Join(texts, ", ")+") FROM (SELECT "+strings.Join(list, ", ")+")")[0], "¦")
				for _, line := range r.Rows(id, "SELECT concat_ws('¦', "+strings.Join(texts, ", ")+") FROM {t}") {
					for i, got := range strings.Split(line, "¦") {
						if got != want[i] {
							r.Errorf("%s %s: got %s, want %s", sync, types[i].value, got, want[i])
						}
					}
				}
			}
		},
		"beyond 38 digits": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.Copy("testdata/parquet/decimal50.parquet"))
			r.Load()
			r.WantQuarantined(id, "SLUICE-LOAD-TYPE-UNSUPPORTED", "DECIMAL(50,0)")
		},
		"half floats, INT96, dictionaries, fixed lists": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.Copy("testdata/parquet/half_int96.parquet"))
			r.Load()
			r.WantColumns(id, "id BIGINT", "h FLOAT", "ts TIMESTAMP")
			r.WantTable(id, "*", "1|0.5|2013-11-03 05:30:00", "2|-2.25|∅")
			id = r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.Copy("testdata/parquet/dictionary_fixed_list.parquet"))
			r.Load()
			r.WantColumns(id, "id BIGINT", "e VARCHAR", "arr INTEGER[]")
			r.WantTable(id, "id, e, arr::VARCHAR", "1|red|[1, 2, 3]", "2|green|[4, 5, 6]")
		},
		"nothing but NULL, then text": func(r *rig.Rig) {
			null := r.Copy("testdata/parquet/null_column.parquet")
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", null, r.File("SELECT 2::BIGINT AS id, 'text' AS late"))
			r.Load()
			r.WantTable(id, "*", "1|∅", "2|text")
			r.WantColumns(id, "id BIGINT", "late VARCHAR")
			r.Enqueue(id, "r2", null) // the column is in the file, so its NULLs count
			r.Load()
			r.WantTable(id, "*", "1|∅", "2|∅")
			for _, later := range []string{"'text'", "{a: 1}", "[1]", "TIMESTAMPTZ '2026-03-01 00:00:00+00'"} {
				id := r.Stream(sluice.Append)
				r.Enqueue(id, "r1", null, r.File("SELECT 3::BIGINT AS id, "+later+" AS late"), null)
				r.Load()
				r.WantTable(id, "id, late IS NULL", "1|t", "1|t", "2|t", "2|t", "3|f")
			}
		},
		"field of nothing but NULL, then a struct": func(r *rig.Rig) {
			null := r.Copy("testdata/parquet/null_field.parquet")
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", null, r.File("SELECT 3::BIGINT AS id, {b: {c: 1}, a: 5} AS s"), null)
			r.Load()
			r.WantColumns(id, "id BIGINT", `s STRUCT("a" INTEGER, "b" STRUCT("c" INTEGER))`)
			r.WantTable(id, "id, s.a, s.b.c, s IS NULL", "1|1|∅|f", "1|1|∅|f", "2|∅|∅|t", "2|∅|∅|t", "3|5|1|f")
		},
	})
}

// What a policy other than evolve does with a difference (case 46).
func TestSchemaPolicies(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"freeze": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(policy(sluice.SchemaFreeze)))
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 5::INTEGER AS v"), r.File("SELECT 2::BIGINT AS id, 6::BIGINT AS v, 'new' AS w"),
				r.File("SELECT 3::BIGINT AS id, 5000000000::BIGINT AS v"))
			r.Load()
			r.WantColumns(id, "id BIGINT", "v INTEGER")
			r.WantTable(id, "*", "1|5", "2|6")
			r.WantNote(id, "r1", 1, "1 columns or fields are left out by the schema policy: w")
			r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "5000000000")
		},
		"freeze and a refresh": func(r *rig.Rig) {
			id := r.Stream(sluice.FullRefresh, options(policy(sluice.SchemaFreeze)))
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 5::INTEGER AS v, 'a' AS w"))
			r.Load()
			r.Enqueue(id, "r2", r.File("SELECT 2::BIGINT AS id, 'new' AS x, 6::BIGINT AS v"))
			r.Load()
			r.WantColumns(id, "id BIGINT", "v INTEGER", "w VARCHAR")
			r.WantTable(id, "*", "2|6|∅")
		},
		"quarantine": func(r *rig.Rig) {
			for _, different := range []string{"SELECT 2::BIGINT AS id, 6 AS v, 'new' AS w", "SELECT 2::BIGINT AS id, 6::BIGINT AS v"} {
				for _, sync := range []sluice.SyncType{sluice.Incremental, sluice.FullRefresh} {
					id := r.Stream(sync, options(policy(sluice.SchemaQuarantine)))
					r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 5::INTEGER AS v"))
					r.Load()
					r.Enqueue(id, "r2", r.File(different))
					r.Load()
					r.WantTable(id, "*", "1|5")
					r.WantQuarantined(id, "SLUICE-LOAD-SCHEMA-FROZEN")
				}
			}
		},
	})
}

// Lineage columns say which batch wrote a row last; switched on later they are NULL for older rows.
func TestLineage(t *testing.T) {
	t.Parallel()
	both(t, map[string]func(r *rig.Rig){
		"columns": func(r *rig.Rig) {
			onlyChanged := true
			on := options(func(o *sluice.Options) { o.Lineage, o.UpdateOnlyChanged = true, &onlyChanged })
			id := r.Stream(sluice.Incremental, on)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'", "2, 'b'")), r.File(rows("1, 'a'", "2, 'B'", "3, 'c'")))
			r.Load()
			r.WantColumns(id, "id BIGINT", "v VARCHAR", "_sluice_batch_id UUID", "_sluice_loaded_at TIMESTAMP WITH TIME ZONE")
			b := r.Batches(id, "r1")
			r.WantTable(id, "id, v, _sluice_batch_id, _sluice_loaded_at BETWEEN now() - INTERVAL '10 minutes' AND now()",
				fmt.Sprintf("1|a|%s|t", b[0].BatchID), fmt.Sprintf("2|B|%s|t", b[1].BatchID), fmt.Sprintf("3|c|%s|t", b[1].BatchID))
			id = r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.EnqueueWith(id, "r2", sluice.Options{Lineage: true}, r.File(rows("2, 'b'")))
			r.Load()
			r.WantTable(id, "id, _sluice_batch_id", "1|∅", fmt.Sprintf("2|%s", r.Batches(id, "r2")[0].BatchID))
		},
	})
}
