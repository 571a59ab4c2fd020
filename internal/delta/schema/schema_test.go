package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/delta/schema"
	"sluice/internal/sluice"
)

func column(name, typ string, metadata ...string) string {
	if !strings.HasPrefix(typ, "{") {
		typ = fmt.Sprintf("%q", typ)
	}
	return fmt.Sprintf(`{"name":%q,"type":%s,"nullable":true,"metadata":{%s}}`, name, typ, strings.Join(metadata, ","))
}

func structOf(fields ...string) string {
	return `{"type":"struct","fields":[` + strings.Join(fields, ",") + `]}`
}

func parse(t *testing.T, text string, partition ...string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse(text, partition, schema.ByLogical)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string][2]string{
		"boolean": {"boolean", "BOOLEAN"}, "byte": {"byte", "TINYINT"}, "short": {"short", "SMALLINT"}, "integer": {"integer", "INTEGER"}, "long": {"long", "BIGINT"},
		"float": {"float", "FLOAT"}, "double": {"double", "DOUBLE"}, "decimal(38,18)": {"decimal(38,18)", "DECIMAL(38,18)"}, "decimal": {"decimal(10,0)", "DECIMAL(10,0)"},
		"string": {"string", "VARCHAR"}, "string collate UTF8_LCASE": {"string", "VARCHAR"}, "binary": {"binary", "BLOB"}, "date": {"date", "DATE"},
		"timestamp": {"timestamp", "TIMESTAMPTZ"}, "timestamp_ntz": {"timestamp_ntz", "TIMESTAMP"},
		`{"type":"array","elementType":"long","containsNull":true}`:                                                         {"array<long>", "BIGINT[]"},
		`{"valueType":"string","keyType":"integer","valueContainsNull":true,"type":"map"}`:                                  {"map<integer,string>", "MAP(INTEGER, VARCHAR)"},
		`{"type":"array","elementType":` + structOf(column(`a"b`, "long"), column("c d", "date")) + `,"containsNull":true}`: {`array<struct<a"b:long,c d:date>>`, `STRUCT("a""b" BIGINT, "c d" DATE)[]`},
	} {
		s := parse(t, structOf(column("x", typ)))
		if got := [2]string{s.Fields[0].Type.String(), s.Fields[0].Type.SQL()}; got != want {
			t.Errorf("%s: %q", typ, got)
		}
	}
}

// Cases 34 and 35: what is refused, by name.
func TestCase35_Refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text      string
		partition []string
		mapping   schema.Mapping
		want      string
	}{
		"unknown type":                  {structOf(column("x", "variant")), nil, "none", "variant"},
		"unknown type inside":           {structOf(column("x", `{"type":"array","elementType":"geometry"}`)), nil, "none", "x.element"},
		"too wide a decimal":            {structOf(column("x", "decimal(39,2)")), nil, "none", "decimal(39,2)"},
		"scale above precision":         {structOf(column("x", "decimal(3,4)")), nil, "none", "decimal(3,4)"},
		"names that differ in case":     {structOf(column("Id", "long"), column("iD", "long")), nil, "none", "iD"},
		"names inside, in case":         {structOf(column("s", structOf(column("a", "long"), column("A", "long")))), nil, "none", "s.A"},
		"no name":                       {structOf(column("", "long")), nil, "none", "no name"},
		"partition column is not there": {structOf(column("a", "long")), []string{"b"}, "none", "b"},
		"partition column with parts":   {structOf(column("a", `{"type":"array","elementType":"long"}`)), []string{"a"}, "none", "array<long>"},
		"partition column twice":        {structOf(column("a", "long")), []string{"a", "A"}, "none", "twice"},
		"partitioned without a schema":  {"", []string{"a"}, "none", "no schema"},
		"no struct":                     {`"long"`, nil, "none", "long"},
		"not JSON":                      {`{"type":"struct","fields":[`, nil, "none", "JSON"},
		"no physical name":              {structOf(column("a", "long")), nil, "name", "physical name"},
		"no field id":                   {structOf(column("a", "long", `"delta.columnMapping.physicalName":"c"`)), nil, "id", "field id"},
		"34: narrowing":                 {structOf(column("a", "integer", `"delta.typeChanges":[{"fromType":"long","toType":"integer"}]`)), nil, "none", "from long to integer"},
		"34: long to double":            {structOf(column("a", "double", `"delta.typeChanges":[{"fromType":"long","toType":"double"}]`)), nil, "none", "from long to double"},
		"34: a change to text":          {structOf(column("a", "string", `"delta.typeChanges":[{"fromType":"date","toType":"string","fieldPath":"element"}]`)), nil, "none", "from date to string"},
		"34: date to timestamp":         {structOf(column("a", "timestamp", `"delta.typeChanges":[{"fromType":"date","toType":"timestamp"}]`)), nil, "none", "from date to timestamp"},
		"34: a decimal that loses":      {structOf(column("a", "decimal(10,4)", `"delta.typeChanges":[{"fromType":"decimal(10,2)","toType":"decimal(10,4)"}]`)), nil, "none", "from decimal(10,2)"},
	} {
		s, err := schema.Parse(c.text, c.partition, c.mapping)
		if sluice.CodeOf(err) != schema.Code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// Case 35: columns without a type are left out, odd names are kept.
func TestCase35_VoidColumnsAndNames(t *testing.T) {
	t.Parallel()
	s := parse(t, structOf(column("v", "void"), column("a.b", "long"), column("a b`c", "long"), column("s", structOf(column("n", "void"), column("k", "date"))),
		column("only", structOf(column("n", "void"))), column("l", `{"type":"array","elementType":"void"}`), column("ß", "string")))
	var names []string
	for _, f := range s.Fields {
		names = append(names, f.Name+" "+f.Type.String())
	}
	if want := []string{"a.b long", "a b`c long", "s struct<k:date>", "ß string"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if want := []string{"v", "s.n", "only.n", "only", "l"}; !slices.Equal(s.Void, want) {
		t.Errorf("left out: %q", s.Void)
	}
	if s := parse(t, ""); len(s.Fields) != 0 {
		t.Errorf("without a schema: %v", s.Fields)
	}
}

// Case 36: columns are found by physical names or ids, nested ones too.
func TestCase36_Mapping(t *testing.T) {
	t.Parallel()
	mapped := func(name, typ, physical string, id int) string {
		return column(name, typ, fmt.Sprintf(`"delta.columnMapping.physicalName":%q`, physical), fmt.Sprintf(`"delta.columnMapping.id":%d`, id))
	}
	text := structOf(mapped("a", "long", "col-1", 1), mapped("s", structOf(mapped("b", "date", "col-3", 3)), "col-2", 2))
	for mapping, want := range map[schema.Mapping]string{schema.ByName: "col-1 1 col-2 2 col-3 3", schema.ByID: "col-1 1 col-2 2 col-3 3", schema.ByLogical: "a 0 s 0 b 0"} {
		s, err := schema.Parse(text, []string{"A"}, mapping)
		if err != nil {
			t.Fatal(err)
		}
		a, st := s.Fields[0], s.Fields[1]
		b := st.Type.Fields[0]
		if got := fmt.Sprint(a.Physical, " ", a.ID, " ", st.Physical, " ", st.ID, " ", b.Physical, " ", b.ID); got != want {
			t.Errorf("%s: %s", mapping, got)
		}
		if p := s.PartitionFields(); len(p) != 1 || p[0].Name != "a" {
			t.Errorf("partition columns: %v", p)
		}
	}
}

func TestCase50_Widening(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"byte", "short"},
		{"byte", "long"},
		{"short", "integer"},
		{"integer", "long"},
		{"float", "double"},
		{"byte", "double"},
		{"integer", "double"},
		{"decimal(5,2)", "decimal(7,4)"},
		{"decimal(5,2)", "decimal(9,2)"},
		{"byte", "decimal(4,1)"},
		{"short", "decimal(5,0)"},
		{"integer", "decimal(12,2)"},
		{"long", "decimal(20,0)"},
		{"date", "timestamp_ntz"},
	} {
		text := structOf(column("a", c[1], fmt.Sprintf(`"delta.typeChanges":[{"fromType":%q,"toType":%q,"tableVersion":3}]`, c[0], c[1])))
		if _, err := schema.Parse(text, nil, schema.ByLogical); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Cases 37 to 39: the texts of partition values.
func TestCase39_PartitionValues(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ typ, text, want string }{
		{"string", "null", "null"},
		{"string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"},
		{"string", " a ", " a "},
		{"binary", "\x01\x02", "\x01\x02"},
		{"boolean", "true", "true"},
		{"boolean", "FALSE", "false"},
		{"byte", "-128", "-128"},
		{"byte", "127", "127"},
		{"short", "-32768", "-32768"},
		{"integer", "-2147483648", "-2147483648"},
		{"long", "9223372036854775807", "9223372036854775807"},
		{"float", "NaN", "NaN"},
		{"float", "3.4028235E38", "3.4028235e+38"},
		{"float", "1.4E-45", "1e-45"},
		{"double", "-Infinity", "-Infinity"},
		{"double", "Infinity", "Infinity"},
		{"double", "-0.0", "-0"},
		{"double", "1.7976931348623157E308", "1.7976931348623157e+308"},
		{"double", "4.9E-324", "5e-324"},
		{"decimal(5,2)", "123.45", "123.45"},
		{"decimal(5,2)", "-0.1", "-0.10"},
		{"decimal(5,2)", "1", "1.00"},
		{"decimal(5,2)", "1.200", "1.20"},
		{"decimal(5,0)", "1E+3", "1000"},
		{"decimal(5,4)", "1.2E-3", "0.0012"},
		{"decimal(38,0)", strings.Repeat("9", 38), strings.Repeat("9", 38)},
		{"decimal(38,38)", "-0." + strings.Repeat("9", 38), "-0." + strings.Repeat("9", 38)},
		{"decimal(5,2)", "-0.00", "0.00"},
		{"date", "2024-02-29", "2024-02-29"},
		{"date", "0001-01-01", "0001-01-01"},
		{"date", "9999-12-31", "9999-12-31"},
		{"date", "-0044-03-15", "-0044-03-15"},
		{"date", "+10000-01-01", "+10000-01-01"},
		{"timestamp", "2024-07-01 12:00:00", "2024-07-01T10:00:00.000000Z"},
		{"timestamp", "2024-01-01 00:00:00.5", "2023-12-31T23:00:00.500000Z"},
		{"timestamp", "2024-01-01 00:00:00.123456", "2023-12-31T23:00:00.123456Z"},
		{"timestamp", "2024-07-01T12:00:00.000000Z", "2024-07-01T12:00:00.000000Z"},
		{"timestamp", "2024-07-01T12:00:00+02:00", "2024-07-01T10:00:00.000000Z"},
		{"timestamp", "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"},
		{"timestamp_ntz", "2024-07-01 12:00:00.25", "2024-07-01T12:00:00.250000"},
		{"timestamp_ntz", "0001-01-01 00:00:00", "0001-01-01T00:00:00.000000"},
	} {
		v, err := schema.ParseValue(parse(t, structOf(column("x", c.typ))).Fields[0].Type, c.text, berlin)
		if err != nil || v == nil || *v != c.want {
			t.Errorf("%s %q: %v, %v; want %q", c.typ, c.text, show(v), err, c.want)
		}
	}
	for _, typ := range []string{"string", "long", "timestamp", "binary"} {
		if v, err := schema.ParseValue(parse(t, structOf(column("x", typ))).Fields[0].Type, "", time.UTC); v != nil || err != nil {
			t.Errorf("the empty %s: %v, %v", typ, show(v), err)
		}
	}
	for _, c := range [][2]string{
		{"byte", "128"},
		{"short", "-32769"},
		{"integer", "2147483648"},
		{"long", "9223372036854775808"},
		{"long", "1.0"},
		{"long", " 1"},
		{"boolean", "1"},
		{"float", "1e39"},
		{"double", "1e400"},
		{"double", "0x1p3"},
		{"double", "1_0"},
		{"decimal(5,2)", "1000"},
		{"decimal(5,2)", "1.234"},
		{"decimal(5,2)", "1e1000000000"},
		{"decimal(5,2)", "."},
		{"decimal(5,2)", "1.2.3"},
		{"date", "2023-02-29"},
		{"date", "2024-1-1"},
		{"date", "2024-01-01 00:00:00"},
		{"date", "today"},
		{"timestamp", "2024-01-01 24:00:00"},
		{"timestamp", "2024-01-01 00:00:00.1234567"},
		{"timestamp", "2024-01-01 00:00:00Z"},
		{"timestamp_ntz", "2024-01-01T00:00:00Z"},
		{"timestamp", "2024-01-01T00:00:00+99:00"},
		{"timestamp", "999999-01-01 00:00:00"},
	} {
		v, err := schema.ParseValue(parse(t, structOf(column("x", c[0]))).Fields[0].Type, c[1], time.UTC)
		if sluice.CodeOf(err) != schema.CodeValue {
			t.Errorf("%s %q: %v, %v", c[0], c[1], show(v), err)
		}
	}
}

func show(v schema.Value) string {
	if v == nil {
		return "NULL"
	}
	return *v
}

func TestValuesAsNumbers(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int32{"1970-01-01": 0, "1969-12-31": -1, "2024-02-29": 19782, "0001-01-01": -719162, "+10000-01-01": 2932897} {
		if got, err := schema.Days(value); err != nil || got != want {
			t.Errorf("%s: %d, %v", value, got, err)
		}
	}
	for value, want := range map[string]int64{"1970-01-01T00:00:00.000001Z": 1, "1969-12-31T23:59:59.999999": -1, "2024-07-01T10:00:00.000000Z": 1719828000000000} {
		if got, err := schema.Micros(value); err != nil || got != want {
			t.Errorf("%s: %d, %v", value, got, err)
		}
	}
	if n, err := schema.Unscaled("-0.10"); err != nil || n.Int64() != -10 {
		t.Errorf("%v, %v", n, err)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(structOf(column("a", "long"), column("s", structOf(column("b", "decimal(3,2)"))), column("m", `{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"void"}}`)))
	f.Add(structOf(column("a", "double", `"delta.typeChanges":[{"fromType":"float","toType":"double"}]`, `"delta.columnMapping.id":1`, `"delta.columnMapping.physicalName":"x"`)))
	f.Fuzz(func(t *testing.T, text string) {
		for _, mapping := range []schema.Mapping{schema.ByLogical, schema.ByName, schema.ByID} {
			s, err := schema.Parse(text, []string{"a"}, mapping)
			if err != nil && sluice.CodeOf(err) != schema.Code {
				t.Fatalf("%v has no code", err)
			}
			if err == nil {
				for _, f := range s.Fields {
					if f.Type.SQL() == "" || f.Type.String() == "" {
						t.Fatalf("%+v has no type", f)
					}
				}
			}
		}
	})
}

// What a value is written as is read as the same value again.
func FuzzPartitionValue(f *testing.F) {
	types := []schema.Type{
		{Kind: schema.Boolean},
		{Kind: schema.Byte},
		{Kind: schema.Long},
		{Kind: schema.Float},
		{Kind: schema.Double},
		{Kind: schema.Decimal, Precision: 10, Scale: 3},
		{Kind: schema.String},
		{Kind: schema.Date},
		{Kind: schema.Timestamp},
		{Kind: schema.TimestampNTZ},
	}
	for i, text := range []string{"true", "-128", "9", "1e5", "-0.0", "1.5E2", "x", "2024-02-29", "2024-02-29 01:02:03.4", "2024-02-29T01:02:03.4"} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		typ := types[int(kind)%len(types)]
		v, err := schema.ParseValue(typ, text, time.UTC)
		if err != nil || v == nil {
			return
		}
		again, err := schema.ParseValue(typ, *v, time.UTC)
		if err != nil || again == nil || *again != *v {
			t.Fatalf("%s %q is %q, and that is %s, %v", typ, text, *v, show(again), err)
		}
		switch typ.Kind {
		case schema.Date:
			_, err = schema.Days(*v)
		case schema.Timestamp, schema.TimestampNTZ:
			_, err = schema.Micros(*v)
		case schema.Decimal:
			_, err = schema.Unscaled(*v)
		default: // nothing else is made a number of
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
