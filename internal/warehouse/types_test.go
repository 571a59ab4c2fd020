package warehouse_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse"
)

// same are expressions that mean the same in both dialects: the server's bytes must be PostgreSQL's, in text and in
// binary.
var same = []string{
	"true", "false", "NULL::int", "1::int2", "(-32768)::int2", "2147483647", "-9223372036854775807::int8",
	"0::float8", "1.5::float8", "-0.1::float8", "1e15::float8", "123456789012345::float8", "1e14::float8", "1e-4::float8", "1e-5::float8",
	"1.7976931348623157e308::float8", "'NaN'::float8", "'Infinity'::float8", "'-Infinity'::float8", "3.14::float4", "1e6::float4", "1e-5::float4", "100000::float4",
	"'text'::text", "''::text", "'ünï ☃'::text",
	"0::numeric(10,2)", "1.00::numeric(10,2)", "-1.50::numeric(10,2)", "123456789.01::numeric(18,2)", "0.0001::numeric(10,4)",
	"-0.00012345::numeric(18,8)", "10000::numeric(10,0)", "99990000::numeric(10,0)", "99999999999999999999999999999999999999::numeric(38,0)",
	"-9999999999999999999999999999.9999999999::numeric(38,10)", "0.00000000000000000001::numeric(38,20)", "1234500.0000::numeric(12,4)", "0.5::numeric(1,1)", "0.05::numeric(3,3)",
	"date '2000-01-01'", "date '1970-01-01'", "date '1999-12-31'", "date '0001-01-01'", "date '4713-01-01 (BC)'", "date '12345-06-07'", "'infinity'::date", "'-infinity'::date", "date '2024-02-29'", "date '1900-03-01'",
	"time '00:00:00'", "time '23:59:59.999999'", "time '12:34:56.7'", "time '24:00:00'",
	"timestamp '2000-01-01 00:00:00'", "timestamp '1969-12-31 23:59:59.999999'", "timestamp '2024-05-06 07:08:09.12'", "'infinity'::timestamp", "'-infinity'::timestamp", "timestamp '2000-03-15 12:00:00.5' - interval '2044 years'",
	"timestamptz '2000-01-01 00:00:00+00'", "timestamptz '2024-07-01 12:00:00+02'", "'infinity'::timestamptz", "timestamptz '1900-01-01 00:00:00+00'",
	"interval '0 seconds'", "interval '1 year 2 months 3 days 4 hours 5 minutes 6.789 seconds'", "interval '-1 year'", "interval '1 month -1 day'", "interval '-3 days 2 hours'", "interval '90 minutes'", "interval '-90 minutes'", "interval '1 day'", "interval '14 months -5 seconds'",
	"'00000000-0000-0000-0000-000000000000'::uuid", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid", "'12345678-9abc-def0-1234-56789abcdef0'::uuid",
	`'{"a": [1, 2.50, null], "b": "x"}'::json`, "'12345678901234567890.123'::json",
	"ARRAY[1,2,NULL]::int[]", "ARRAY[]::int[]", `ARRAY['a','b c','','NULL','q"u','c,d','e\f','{}',NULL]::text[]`, "ARRAY[true,false]", "ARRAY[1.50,-2.25]::numeric(10,2)[]",
	"ARRAY[timestamp '2000-01-01 00:00:00', NULL]::timestamp[]", "ARRAY[date '2024-01-01']", "ARRAY['12345678-9abc-def0-1234-56789abcdef0']::uuid[]", "ARRAY[1.5,2]::float8[]",
}

// exact runs a query by the extended protocol and gives its first row's raw bytes.
func exact(t *testing.T, c *pgx.Conn, sql string, format int16) ([]byte, pgconn.FieldDescription, error) {
	t.Helper()
	r := c.PgConn().ExecParams(t.Context(), sql, nil, nil, nil, []int16{format}).Read()
	if r.Err != nil {
		return nil, pgconn.FieldDescription{}, r.Err
	}
	return r.Rows[0][0], r.FieldDescriptions[0], nil
}

func TestTypesAreSentAsPostgreSQLSendsThem(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	ours := connect(t, srv, "olga")
	theirs, err := pgx.Connect(t.Context(), pg.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close(context.Background()) }()
	for _, zone := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"} {
		for _, c := range []*pgx.Conn{ours, theirs} {
			if _, err := c.Exec(t.Context(), "SET TIME ZONE '"+zone+"'"); err != nil {
				t.Fatal(err)
			}
		}
		for _, expr := range same {
			for _, format := range []int16{0, 1} {
				mine, f1, err1 := exact(t, ours, "SELECT "+expr, format)
				want, f2, err2 := exact(t, theirs, "SELECT "+fmt.Sprint(pgSpelling(expr)), format)
				switch {
				case err1 != nil || err2 != nil:
					t.Errorf("%s: %v, %v", expr, err1, err2)
				case f1.DataTypeOID != f2.DataTypeOID || f1.DataTypeSize != f2.DataTypeSize:
					t.Errorf("%s: type %d size %d, want %d size %d", expr, f1.DataTypeOID, f1.DataTypeSize, f2.DataTypeOID, f2.DataTypeSize)
				case !bytes.Equal(mine, want) || (mine == nil) != (want == nil):
					t.Errorf("%s in %s, format %d:\n got %q\nwant %q", expr, zone, format, mine, want)
				}
			}
		}
	}
}

func pgSpelling(expr string) string {
	return string(bytes.ReplaceAll([]byte(expr), []byte(" (BC)"), []byte(" BC")))
}

// own are types of the engine that PostgreSQL has not: what a client gets instead.
var own = []struct {
	expr, text string
	oid        uint32
}{
	{"(-5)::TINYINT", "-5", pgtype.Int2OID},
	{"255::UTINYINT", "255", pgtype.Int2OID},
	{"65535::USMALLINT", "65535", pgtype.Int4OID},
	{"4294967295::UINTEGER", "4294967295", pgtype.Int8OID},
	{"18446744073709551615::UBIGINT", "18446744073709551615", pgtype.NumericOID},
	{"170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727", pgtype.NumericOID},
	{"(-170141183460469231731687303715884105727)::HUGEINT", "-170141183460469231731687303715884105727", pgtype.NumericOID},
	{"340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455", pgtype.NumericOID},
	{"0::HUGEINT", "0", pgtype.NumericOID},
	{"'12345678901234567890123456789012345678901234567890'::BIGNUM", "12345678901234567890123456789012345678901234567890", pgtype.NumericOID},
	{"(-300)::BIGNUM", "-300", pgtype.NumericOID},
	{"'b'::ENUM('a','b')", "b", pgtype.TextOID},
	{`'\xAB\x00z'::BLOB`, `\xab007a`, pgtype.ByteaOID},
	{"'10110'::BIT", "10110", pgtype.VarbitOID},
	{"'101100111'::BIT", "101100111", pgtype.VarbitOID},
	{"'12:34:56+05:30'::TIMETZ", "12:34:56+05:30", pgtype.TimetzOID},
	{"TIMESTAMP_NS '2024-01-02 03:04:05.123456789'", "2024-01-02 03:04:05.123456", pgtype.TimestampOID},
	{"TIMESTAMP_NS '1960-01-02 03:04:05.123456789'", "1960-01-02 03:04:05.123456", pgtype.TimestampOID},
	{"TIMESTAMP_MS '2024-01-02 03:04:05.123'", "2024-01-02 03:04:05.123", pgtype.TimestampOID},
	{"TIMESTAMP_S '2024-01-02 03:04:05'", "2024-01-02 03:04:05", pgtype.TimestampOID},
	{"[1, 2]::INTEGER[2]", "{1,2}", pgtype.Int4ArrayOID},
	{"[[1], [2, NULL]]", "[[1],[2,null]]", pgtype.JSONBOID},
	{"{'a': 1, 'b': {'c': 'x\"y', 'd': [DATE '2024-01-01', NULL]}}", `{"a":1,"b":{"c":"x\"y","d":["2024-01-01",null]}}`, pgtype.JSONBOID},
	{"MAP {1: 'a', 2: NULL}", `{"1":"a","2":null}`, pgtype.JSONBOID},
	{"MAP {'k': 12345678901234567890.123::DECIMAL(30,3)}", `{"k":12345678901234567890.123}`, pgtype.JSONBOID},
	{"{'f': 'NaN'::DOUBLE, 'g': 1.5, 't': true, 'j': '[1, 2]'::JSON}", `{"f":"NaN","g":1.5,"t":true,"j":[1, 2]}`, pgtype.JSONBOID},
	{"union_value(n := 5)", "5", pgtype.JSONBOID},
	{"[{'a': 1}]", `[{"a":1}]`, pgtype.JSONBOID},
	{"NULL", "", 0},
}

func TestTypesOfTheEngine(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	for _, o := range own {
		text, f, err := exact(t, c, "SELECT "+o.expr, 0)
		if err != nil || string(text) != o.text || o.oid != 0 && f.DataTypeOID != o.oid {
			t.Errorf("%s: %q of type %d, %v; want %q of %d", o.expr, text, f.DataTypeOID, err, o.text, o.oid)
			continue
		}
		// The binary form must mean the same: pgx reads it and writes it as text.
		bin, f, err := exact(t, c, "SELECT "+o.expr, 1)
		if err != nil {
			t.Errorf("%s: %v", o.expr, err)
			continue
		}
		if bin == nil {
			continue
		}
		dt, ok := c.TypeMap().TypeForOID(f.DataTypeOID)
		if !ok && f.DataTypeOID == pgtype.TimetzOID {
			continue // pgx reads it as text only
		}
		if !ok {
			t.Errorf("%s: pgx does not know type %d", o.expr, f.DataTypeOID)
			continue
		}
		v, err := dt.Codec.DecodeValue(c.TypeMap(), f.DataTypeOID, 1, bin)
		if err != nil {
			t.Errorf("%s: %v", o.expr, err)
			continue
		}
		if f.DataTypeOID == pgtype.JSONBOID || f.DataTypeOID == pgtype.TimestampOID {
			continue
		}
		back, err := c.TypeMap().Encode(f.DataTypeOID, 0, v, nil)
		if err != nil || string(back) != o.text {
			t.Errorf("%s: binary means %q, %v; want %q", o.expr, back, err, o.text)
		}
	}
}

// params are sent by pgx in the format that it prefers (binary, mostly) and as text, and come back the same.
var params = []struct {
	sqlType string
	value   any
	text    string
}{
	{"BOOLEAN", true, "true"},
	{"SMALLINT", int16(-7), "-7"},
	{"INTEGER", int32(1 << 30), "1073741824"},
	{"BIGINT", int64(-1 << 62), "-4611686018427387904"},
	{"UTINYINT", int16(200), "200"},
	{"UINTEGER", int64(4000000000), "4000000000"},
	{"UBIGINT", numeric("18446744073709551615"), "18446744073709551615"},
	{"HUGEINT", numeric("-170141183460469231731687303715884105727"), "-170141183460469231731687303715884105727"},
	{"DECIMAL(10,2)", numeric("-12345678.90"), "-12345678.90"},
	{"DECIMAL(38,20)", numeric("0.00000000000000000001"), "0.00000000000000000001"},
	{"FLOAT", float32(1.25), "1.25"},
	{"DOUBLE", 1e-300, "1e-300"},
	{"VARCHAR", "ünï", "ünï"},
	{"BLOB", []byte{0, 1, 0xff}, `\x00\x01\xFF`},
	{"DATE", time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC), "1969-07-20"},
	{"DATE", pgtype.Date{InfinityModifier: pgtype.Infinity, Valid: true}, "infinity"},
	{"TIME", pgtype.Time{Microseconds: 86_399_999_999, Valid: true}, "23:59:59.999999"},
	{"TIMESTAMP", time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC), "2024-05-06 07:08:09.123456"},
	{"TIMESTAMP", pgtype.Timestamp{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, "-infinity"},
	{"TIMESTAMPTZ", time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), "1900-01-01 00:00:00+00"},
	{"INTERVAL", pgtype.Interval{Months: 14, Days: -3, Microseconds: 4_000_001, Valid: true}, "1 year 2 months -3 days 00:00:04.000001"},
	{"UUID", [16]byte{0x12, 0x34, 15: 0xff}, "12340000-0000-0000-0000-0000000000ff"},
	{"JSON", `{"a": 12345678901234567890}`, `{"a": 12345678901234567890}`},
	{"ENUM('a','b')", "b", "b"},
	{"INTEGER[]", []int32{1, 2, 3}, "[1, 2, 3]"},
	{"VARCHAR[]", []string{"a", "b,c", `q"`}, ""},
	{"DOUBLE[]", []float64{}, "[]"},
	{"TIMESTAMP[]", []time.Time{time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}, "['2024-01-01 00:00:00']"},
}

func numeric(s string) pgtype.Numeric {
	var n pgtype.Numeric
	if err := n.Scan(s); err != nil {
		panic(err)
	}
	return n
}

func TestParametersKeepTheirValue(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	for i, p := range params {
		table := fmt.Sprintf("p%d", i)
		if _, err := c.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %s (how VARCHAR, v %s)", table, p.sqlType)); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe} {
			if _, err := c.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, $2)", mode, mode.String(), p.value); err != nil {
				t.Errorf("%s: insert %v by %s: %v", p.sqlType, p.value, mode, err)
			}
			var n int
			if err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE v = $1 AND how = $2", mode, p.value, mode.String()).Scan(&n); err != nil || n != 1 {
				t.Errorf("%s: find %v by %s: %d, %v", p.sqlType, p.value, mode, n, err)
			}
			var null bool
			if err := c.QueryRow(t.Context(), "SELECT $1::"+p.sqlType+" IS NULL", mode, nil).Scan(&null); err != nil || !null {
				t.Errorf("%s: NULL by %s: %v %v", p.sqlType, mode, null, err)
			}
		}
		// The same value as text, as drivers without binary formats send it.
		if p.text != "" {
			oid := c.PgConn().ExecParams(t.Context(), "SELECT v FROM "+table, nil, nil, nil, nil).Read().FieldDescriptions[0].DataTypeOID
			text, err := c.TypeMap().Encode(oid, 0, p.value, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, declared := range []uint32{0, oid} {
				r := c.PgConn().ExecParams(t.Context(), "INSERT INTO "+table+" VALUES ('text', $1)", [][]byte{text}, []uint32{declared}, []int16{0}, nil).Read()
				if r.Err != nil {
					t.Errorf("%s: insert %q as text, declared as %d: %v", p.sqlType, text, declared, r.Err)
				}
			}
		}
		rows, err := c.Query(t.Context(), "SELECT DISTINCT v::VARCHAR FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(got) != 1 || p.text != "" && got[0] != p.text {
			t.Errorf("%s: stored as %q, %v; want %q", p.sqlType, got, err, p.text)
		}
	}
}

func TestValuesOutsidePostgreSQLsRange(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	for _, format := range []int16{0, 1} {
		for _, expr := range []string{"DATE '5877642-06-25 (BC)'", "DATE '4715-01-01 (BC)'", "TIMESTAMP '2000-01-01' - INTERVAL 7000 YEARS"} {
			if _, _, err := exact(t, c, "SELECT "+expr, format); code(err) != "22008" {
				t.Errorf("%s: %v", expr, err)
			}
		}
	}
}
