package delta_test

import (
	"strings"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/testkit/deltagen"
)

// mappedBy is the configuration of a table with column mapping.
func mappedBy(mode string) map[string]string {
	return map[string]string{"delta.columnMapping.mode": mode}
}

func TestCase30_ReaderVersions(t *testing.T) {
	t.Parallel()
	// Reader 1: the setting of column mapping means nothing.
	g := deltagen.New(t)
	field := deltagen.Field{Name: "id", Type: "long", Metadata: deltagen.Mapped(1, "physical")}
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(field), Configuration: mappedBy("name")}, numbers(g, "a", 0, 3))
	ids(t, open(t, g), delta.Latest, 0, 1, 2)
	for _, p := range []deltagen.Protocol{
		{Reader: 3, Writer: 7},
		{Reader: 3, Writer: 6, ReaderFeatures: []string{}},
		{Reader: 3, Writer: 8, ReaderFeatures: []string{}},
		{Reader: 0, Writer: 2},
		{Reader: 4, Writer: 7, ReaderFeatures: []string{}},
	} {
		g := deltagen.New(t)
		g.Commit(p, deltagen.Metadata{Schema: idSchema}, ghost("a"))
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("%+v was read", p)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeUnsupported)
	}
	g = deltagen.New(t)
	g.Commit(deltagen.Features(), deltagen.Metadata{Schema: idSchema}, ghost("a"))
	has(t, open(t, g), delta.Latest, "a")
}

func TestCase31_ProtocolsThatAreTooNewAreNamed(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	g.Commit(deltagen.Features("deletionVectors", "tomorrowsFeature"), deltagen.Metadata{Schema: idSchema})
	refuses(t, open(t, g), delta.Latest, delta.CodeUnsupported, "tomorrowsFeature")
	g = deltagen.New(t)
	g.Commit(deltagen.Protocol{Reader: 99, Writer: 99}, deltagen.Metadata{Schema: idSchema})
	refuses(t, open(t, g), delta.Latest, delta.CodeUnsupported, "minReaderVersion=99")
	if table, ok := others(t, "delta_rs/simple_table_features"); ok {
		refuses(t, table, delta.Latest, delta.CodeUnsupported, "minReaderVersion=5")
	}
	if table, ok := others(t, "kernel_golden/deltalog-invalid-protocol-version"); ok {
		refuses(t, table, delta.Latest, delta.CodeUnsupported, "minReaderVersion=99")
	}
}

func TestCase32_FeaturesThatAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, feature := range []string{
		"catalogManaged", "catalogOwned", "catalogOwned-preview", "variantType", "variantType-preview", "variantShredding",
		"variantShredding-preview", "geospatial",
	} {
		g := deltagen.New(t)
		g.Commit(deltagen.Features(feature), deltagen.Metadata{Schema: idSchema}, ghost("a"))
		refuses(t, open(t, g), delta.Latest, delta.CodeUnsupported, feature)
	}
	n := 0
	for name, want := range refusedTables {
		if want.code != "UNSUPPORTED" || strings.HasPrefix(want.name, "minReader") {
			continue
		}
		if table, ok := others(t, name); ok {
			refuses(t, table, delta.Latest, delta.CodeUnsupported, want.name)
		}
		n++
	}
	if n != 13 {
		t.Errorf("there are %d tables", n)
	}
}

func TestCase33_WriterFeaturesNeverMatter(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	p := deltagen.Features()
	p.WriterFeatures = []string{
		"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns", "rowTracking", "domainMetadata",
		"icebergCompatV1", "icebergCompatV2", "clustering", "inCommitTimestamp", "allowColumnDefaults", "materializePartitionColumns", "tomorrowsFeature",
	}
	g.Commit(p, deltagen.Metadata{Schema: idSchema}, numbers(g, "a", 0, 3))
	ids(t, open(t, g), delta.Latest, 0, 1, 2)
	if table, ok := others(t, "delta_rs/table_with_liquid_clustering"); ok {
		counts(t, table, delta.Latest, 10, 10)
	}
	if table, ok := others(t, "kernel_data/partitioned_with_materialize_feature"); ok {
		counts(t, table, delta.Latest, 6, 6)
	}
}

func TestCase34_ProvidersAndTypeChangesThatAreNotSupported(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: idSchema, Provider: "orc"}, ghost("a"))
	refuses(t, open(t, g), delta.Latest, delta.CodeUnsupported, "orc")
	for _, change := range [][2]string{{"long", "integer"}, {"long", "double"}, {"string", "integer"}, {"decimal(10,2)", "decimal(9,2)"}, {"decimal(10,2)", "decimal(10,3)"}, {"date", "timestamp"}, {"boolean", "long"}} {
		g := deltagen.New(t)
		metadata := map[string]any{"delta.typeChanges": []any{map[string]any{"fromType": change[0], "toType": change[1]}}}
		g.Commit(deltagen.Features("typeWidening", "timestampNtz"), deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: change[1], Metadata: metadata})})
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("the change %v was read", change)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeSchema)
	}
	for _, kind := range []any{"interval", "decimal(39,1)", "decimal(5,6)", "varchar(3", "", 7, map[string]any{"type": "set"}, deltagen.Array("uuid")} {
		g := deltagen.New(t)
		g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "x", Type: kind})})
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("the type %v was read", kind)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeSchema)
	}
}

func TestCase35_VoidCollationsAndNames(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	schema := deltagen.Schema(
		deltagen.Field{Name: "nothing", Type: "void"}, deltagen.Field{Name: "a.b c`d", Type: "long"}, deltagen.Field{Name: `quo"te's`, Type: "string"},
		deltagen.Field{Name: "", Type: "integer"}, deltagen.Field{Name: "sorted", Type: "string collate sr_ci_ai"}, deltagen.Field{Name: "select", Type: "boolean"},
		deltagen.Field{Name: "Größe 🙂", Type: deltagen.Struct(deltagen.Field{Name: "x.y", Type: "long"}, deltagen.Field{Name: "v", Type: "void"})},
	)
	schema = strings.Replace(schema, `"name":""`, `"name":" "`, 1)
	add := g.Data("a", `SELECT 1::BIGINT AS "a.b c`+"`"+`d", 'z' AS "quo""te's", 7::INTEGER AS " ", 'S' AS sorted, true AS "select", {'x.y': 5::BIGINT} AS "Größe 🙂"`)
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: schema}, add)
	gives(t, open(t, g), delta.Latest, `t."a.b c`+"`"+`d", t."quo""te's", t." ", sorted, "select", t."Größe 🙂"."x.y"`, "1|z|7|S|true|5")
	g = deltagen.New(t)
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "ID", Type: "long"})})
	refuses(t, open(t, g), delta.Latest, delta.CodeSchema)
	if table, ok := others(t, "kernel_data/void-column"); ok {
		counts(t, table, delta.Latest, 3, 3)
	}
}

func TestCase36_ColumnMapping(t *testing.T) {
	t.Parallel()
	nested := func(inner ...deltagen.Field) any {
		return deltagen.Array(deltagen.Struct(inner...))
	}
	schema := deltagen.Schema(
		deltagen.Field{Name: "id", Type: "long", Metadata: deltagen.Mapped(1, "col-1")},
		deltagen.Field{Name: "a nested,one", Type: nested(deltagen.Field{Name: "x", Type: "string", Metadata: deltagen.Mapped(3, "col-3")}), Metadata: deltagen.Mapped(2, "col-2")},
		deltagen.Field{Name: "new", Type: "integer", Metadata: deltagen.Mapped(9, "col-9")},
		deltagen.Field{Name: "part", Type: "string", Metadata: deltagen.Mapped(4, "col-4")},
	)
	query := func(physical bool) string {
		if physical {
			return `SELECT range AS "col-1", [{'col-3': 'v' || range}] AS "col-2", 99 AS "col-8" FROM range(3)`
		}
		return `SELECT range AS other, [{'col-3': 'v' || range}] AS nested, 99 AS "new" FROM range(3)`
	}
	want := []string{"0|v0|NULL|p", "1|v1|NULL|p", "2|v2|NULL|p"}
	columns := `id, "a nested,one"[1].x, coalesce("new"::VARCHAR, 'NULL'), part`
	commit := func(mode string, protocol deltagen.Protocol, physical bool, options ...string) *deltagen.Table {
		g := deltagen.New(t)
		add := g.Data("a", query(physical), options...).WithPartition("col-4", deltagen.Text("p"))
		g.Commit(protocol, deltagen.Metadata{Schema: schema, Partition: []string{"PART"}, Configuration: mappedBy(mode)}, add)
		return g
	}
	ids := deltagen.FieldIDs(`{other: 1, nested: {__duckdb_field_id: 2, element: {'col-3': 3}}, "new": 8}`)
	gives(t, open(t, commit("name", deltagen.Protocol{Reader: 2, Writer: 5}, true)), delta.Latest, columns, want...)
	gives(t, open(t, commit("name", deltagen.Features("columnMapping"), true)), delta.Latest, columns, want...)
	gives(t, open(t, commit("id", deltagen.Features("columnMapping"), false, ids)), delta.Latest, columns, want...)
	// A file without any ids cannot be read by them.
	refusesRows(t, open(t, commit("id", deltagen.Features("columnMapping"), false)), delta.Latest, delta.CodeSchema)
	refuses(t, open(t, commit("number", deltagen.Features("columnMapping"), true)), delta.Latest, delta.CodeUnsupported, "number")
	for name, want := range map[string][2]int64{
		"kernel_golden/table-with-columnmapping-mode-id": {2, 6}, "kernel_golden/table-with-columnmapping-mode-name": {2, 6}, "java_kernel/column-mapping-id": {2, 20},
		"kernel_golden/dv-with-columnmapping": {15, 35}, "kernel_data/partition_cm/id": {0, 0}, "kernel_data/partition_cm/name": {0, 0}, "kernel_data/partition_cm/none": {0, 0},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, delta.Latest, want[0], want[1])
		}
	}
}

func TestCase50_TypeWidening(t *testing.T) {
	t.Parallel()
	type column struct{ from, to, query, want string }
	columns := []column{
		{"byte", "short", "(-128)::TINYINT", "-128"},
		{"byte", "long", "127::TINYINT", "127"},
		{"short", "integer", "(-32768)::SMALLINT", "-32768"},
		{"integer", "long", "2147483647::INTEGER", "2147483647"},
		{"float", "double", "0.5::FLOAT", "0.5"},
		{"integer", "double", "2147483647::INTEGER", "2147483647.0"},
		{"byte", "decimal(10,2)", "7::TINYINT", "7.00"},
		{"short", "decimal(10,1)", "8::SMALLINT", "8.0"},
		{"integer", "decimal(12,2)", "9::INTEGER", "9.00"},
		{"long", "decimal(20,0)", "9223372036854775807::BIGINT", "9223372036854775807"},
		{"decimal(5,2)", "decimal(9,4)", "1.25::DECIMAL(5,2)", "1.2500"},
		{"decimal(5,2)", "decimal(20,2)", "(-999.99)::DECIMAL(5,2)", "-999.99"},
		{"date", "timestamp_ntz", "DATE '2024-02-29'", "2024-02-29 00:00:00"},
	}
	var fields []deltagen.Field
	var query, names, old, now []string
	for i, c := range columns {
		name := "c" + string(rune('a'+i))
		fields = append(fields, deltagen.Field{Name: name, Type: c.to, Metadata: map[string]any{
			"delta.typeChanges": []any{map[string]any{"fromType": c.from, "toType": c.to, "tableVersion": 1}},
		}})
		query, names, old = append(query, c.query+" AS "+name), append(names, name), append(old, c.want)
		now = append(now, map[bool]string{true: "TIMESTAMP '2024-02-29 00:00:00'", false: c.query}[c.from == "date"]+" AS "+name)
	}
	g := deltagen.New(t)
	narrow := g.Data("old", "SELECT "+strings.Join(query, ", "))
	wide := g.Data("new", "SELECT "+strings.Join(now, ", "))
	g.Commit(deltagen.Features("typeWidening", "timestampNtz"), deltagen.Metadata{Schema: deltagen.Schema(fields...)}, narrow, wide)
	gives(t, open(t, g), delta.Latest, strings.Join(names, ", "), strings.Join(old, "|"), strings.Join(old, "|"))
	if table, ok := others(t, "kernel_data/type-widening"); ok {
		counts(t, table, delta.Latest, 2, 2)
	}
}
