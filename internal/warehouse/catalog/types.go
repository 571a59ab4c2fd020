package catalog

import (
	"fmt"
	"strings"
)

// pgType is a type that columns can have, by the engine's name, with what PostgreSQL calls it and its array.
type pgType struct {
	engine     string // "" for types that no column has, but that clients ask for
	oid, array int
	name, sql  string // pg_type.typname, and what format_type says
	size       int
	category   byte
}

// pgTypes must agree with package value, which sends the OIDs with results; a test compares.
var pgTypes = []pgType{
	{"BOOLEAN", 16, 1000, "bool", "boolean", 1, 'B'},
	{"BLOB", 17, 1001, "bytea", "bytea", -1, 'U'},
	{"TINYINT", 21, 1005, "int2", "smallint", 2, 'N'},
	{"SMALLINT", 21, 1005, "int2", "smallint", 2, 'N'},
	{"UTINYINT", 21, 1005, "int2", "smallint", 2, 'N'},
	{"INTEGER", 23, 1007, "int4", "integer", 4, 'N'},
	{"USMALLINT", 23, 1007, "int4", "integer", 4, 'N'},
	{"BIGINT", 20, 1016, "int8", "bigint", 8, 'N'},
	{"UINTEGER", 20, 1016, "int8", "bigint", 8, 'N'},
	{"UBIGINT", 1700, 1231, "numeric", "numeric", -1, 'N'},
	{"HUGEINT", 1700, 1231, "numeric", "numeric", -1, 'N'},
	{"UHUGEINT", 1700, 1231, "numeric", "numeric", -1, 'N'},
	{"BIGNUM", 1700, 1231, "numeric", "numeric", -1, 'N'},
	{"DECIMAL", 1700, 1231, "numeric", "numeric", -1, 'N'},
	{"FLOAT", 700, 1021, "float4", "real", 4, 'N'},
	{"DOUBLE", 701, 1022, "float8", "double precision", 8, 'N'},
	{"VARCHAR", 25, 1009, "text", "text", -1, 'S'},
	{"ENUM", 25, 1009, "text", "text", -1, 'S'},
	{"JSON", 114, 199, "json", "json", -1, 'U'},
	{"DATE", 1082, 1182, "date", "date", 4, 'D'},
	{"TIME", 1083, 1183, "time", "time without time zone", 8, 'D'},
	{"TIME_NS", 1083, 1183, "time", "time without time zone", 8, 'D'},
	{"TIME WITH TIME ZONE", 1266, 1270, "timetz", "time with time zone", 12, 'D'},
	{"TIMESTAMP", 1114, 1115, "timestamp", "timestamp without time zone", 8, 'D'},
	{"TIMESTAMP_S", 1114, 1115, "timestamp", "timestamp without time zone", 8, 'D'},
	{"TIMESTAMP_MS", 1114, 1115, "timestamp", "timestamp without time zone", 8, 'D'},
	{"TIMESTAMP_NS", 1114, 1115, "timestamp", "timestamp without time zone", 8, 'D'},
	{"TIMESTAMP WITH TIME ZONE", 1184, 1185, "timestamptz", "timestamp with time zone", 8, 'D'},
	{"INTERVAL", 1186, 1187, "interval", "interval", 16, 'T'},
	{"UUID", 2950, 2951, "uuid", "uuid", 16, 'U'},
	{"BIT", 1562, 1563, "varbit", "bit varying", -1, 'V'},
	{"GEOMETRY", 17, 1001, "bytea", "bytea", -1, 'U'},
	{"", 3802, 3807, "jsonb", "jsonb", -1, 'U'},
	{"", 1043, 1015, "varchar", "character varying", -1, 'S'},
	{"", 1042, 1014, "bpchar", "character", -1, 'S'},
	{"", 18, 1002, "char", `"char"`, 1, 'Z'},
	{"", 19, 1003, "name", "name", 64, 'S'},
	{"", 26, 1028, "oid", "oid", 4, 'N'},
	{"", 705, 0, "unknown", "unknown", -2, 'X'},
	{"", 2205, 2210, "regclass", "regclass", 4, 'N'},
	{"", 2206, 2211, "regtype", "regtype", 4, 'N'},
	{"", 2278, 0, "void", "void", 4, 'P'},
	{"", 2249, 2287, "record", "record", -1, 'P'},
}

// typeOID is an SQL expression for the OID of the engine type whose name stands in the column data_type.
func typeOID() string {
	var scalars, arrays strings.Builder
	for _, t := range pgTypes {
		if t.engine != "" {
			fmt.Fprintf(&scalars, " WHEN '%s' THEN %d", t.engine, t.oid)
			fmt.Fprintf(&arrays, " WHEN '%s[]' THEN %d", t.engine, t.array)
		}
	}
	plain := `regexp_replace(regexp_replace(data_type, '^(DECIMAL|ENUM)\(.*\)', '\1'), '\[\d*\]$', '[]')`
	return "(CASE " + plain + scalars.String() + arrays.String() + " ELSE 3802 END)::BIGINT"
}

// typeName is an SQL expression for the name of the type with an OID.
func typeName(oid string) string {
	var b strings.Builder
	b.WriteString("CASE " + oid)
	seen := map[int]bool{}
	for _, t := range pgTypes {
		if t.engine == "" && t.oid != 3802 || seen[t.oid] {
			continue
		}
		seen[t.oid] = true
		fmt.Fprintf(&b, " WHEN %d THEN '%s' WHEN %d THEN '_%s'", t.oid, t.name, t.array, t.name)
	}
	return b.String() + " END"
}

// pgTypeQuery gives the rows of pg_type.
func pgTypeQuery() string {
	var rows []string
	seen := map[int]bool{}
	for _, t := range pgTypes {
		if seen[t.oid] {
			continue
		}
		seen[t.oid] = true
		rows = append(rows, fmt.Sprintf("(%d, '%s', %d, '%c', 0, %d)", t.oid, t.name, t.size, t.category, t.array))
		if t.array != 0 {
			rows = append(rows, fmt.Sprintf("(%d, '_%s', -1, 'A', %d, 0)", t.array, t.name, t.oid))
		}
	}
	return `SELECT oid::BIGINT AS oid, typname, 11::BIGINT AS typnamespace, 10::BIGINT AS typowner, typlen::SMALLINT AS typlen, typlen IN (1, 2, 4, 8) AS typbyval,
			CASE typcategory WHEN 'P' THEN 'p' ELSE 'b' END AS typtype, typcategory, false AS typispreferred, true AS typisdefined, ',' AS typdelim,
			0::BIGINT AS typrelid, NULL::VARCHAR AS typsubscript, typelem::BIGINT AS typelem, typarray::BIGINT AS typarray,
			CASE typcategory WHEN 'A' THEN 'array_in' ELSE typname || io || 'in' END AS typinput, CASE typcategory WHEN 'A' THEN 'array_out' ELSE typname || io || 'out' END AS typoutput,
			CASE typcategory WHEN 'A' THEN 'array_recv' ELSE typname || io || 'recv' END AS typreceive, CASE typcategory WHEN 'A' THEN 'array_send' ELSE typname || io || 'send' END AS typsend,
			'i' AS typalign, 'x' AS typstorage, false AS typnotnull, 0::BIGINT AS typbasetype, -1 AS typtypmod, 0 AS typndims, 0::BIGINT AS typcollation,
			NULL::VARCHAR AS typdefaultbin, NULL::VARCHAR AS typdefault, NULL::VARCHAR[] AS typacl
		FROM (SELECT *, CASE WHEN typcategory IN ('D', 'T', 'P') OR typname IN ('json', 'jsonb', 'numeric', 'uuid', 'varbit') THEN '_' ELSE '' END AS io
			FROM (VALUES ` + strings.Join(rows, ", ") + `) v(oid, typname, typlen, typcategory, typelem, typarray))`
}

// formatType is the body of format_type(t, m): the names that PostgreSQL gives its types.
func formatType() string {
	var b strings.Builder
	b.WriteString("CASE t")
	seen := map[int]bool{}
	for _, t := range pgTypes {
		if seen[t.oid] {
			continue
		}
		seen[t.oid] = true
		if t.oid == 1700 {
			b.WriteString(" WHEN 1700 THEN CASE WHEN m IS NULL OR m < 4 THEN 'numeric' ELSE 'numeric(' || ((m - 4) // 65536)::VARCHAR || ',' || ((m - 4) % 65536)::VARCHAR || ')' END")
		} else {
			fmt.Fprintf(&b, " WHEN %d THEN '%s'", t.oid, t.sql)
		}
		if t.array != 0 {
			fmt.Fprintf(&b, " WHEN %d THEN '%s[]'", t.array, t.sql)
		}
	}
	b.WriteString(" ELSE '???' END")
	return b.String()
}
