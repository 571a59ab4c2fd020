package catalog

import (
	"fmt"
	"strings"
)

// Source is where the views get a lake's schemas, tables and columns from.
type Source struct {
	Lake     string // the database of the lake
	Metadata string // the database with the lake's own tables; empty: the engine's functions are asked, which is slow
	Store    bool   // rows are kept in temporary tables until the schema changes: the metadata is in another server
	Views    bool   // the lake has views, whose columns only the engine knows
}

// firstOID is added to the lake's ids: below it PostgreSQL has its own objects, and clients know.
const firstOID = 16384

// staging begins the names of tables that are being made to take another one's place.
const staging = "_sluice_stg_"

// hidden schemas are Sluice's own, or the engine's.
const hidden = `(schema_name = '_sluice' OR starts_with(schema_name, '__ducklake') OR schema_name IN ('information_schema', 'pg_catalog'))`

// Base makes what all views stand on: sluice_schemas (oid, name), sluice_tables (oid, schema_oid, schema_name, name, kind,
// tuples, comment, definition), sluice_columns (table_oid, schema_name, table_name, name, num, data_type, nullable,
// default_value, comment) and sluice_functions (oid, schema_oid, name, kind, arguments). It may be called again.
func Base(src Source) []string {
	var parts []part
	if src.Metadata == "" {
		parts = engineBase(src.Lake)
	} else {
		parts = lakeBase(src)
	}
	var out []string
	for _, p := range parts {
		name, query := p.name, p.query
		if p.stored || src.Store {
			out = append(out, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE %s_kept AS %s", name, query))
			query = "SELECT * FROM " + name + "_kept"
		}
		out = append(out, fmt.Sprintf("CREATE OR REPLACE TEMP VIEW %s AS %s", name, query))
	}
	return out
}

type part struct {
	name, query string
	stored      bool
}

func engineBase(lake string) []part {
	l := literal(lake)
	return []part{
		{name: "sluice_schemas", query: `SELECT oid, schema_name AS name FROM duckdb_schemas() WHERE database_name = ` + l + ` AND NOT ` + hidden},
		{name: "sluice_tables", query: `SELECT table_oid AS oid, schema_oid, schema_name, table_name AS name, 'r' AS kind, estimated_size::FLOAT AS tuples,
				comment::VARCHAR AS comment, NULL::VARCHAR AS definition
			FROM duckdb_tables() WHERE database_name = ` + l + ` AND NOT ` + hidden + ` AND NOT starts_with(table_name, '` + staging + `')
			UNION ALL SELECT view_oid, schema_oid, schema_name, view_name, 'v', 0, comment::VARCHAR, sql
			FROM duckdb_views() WHERE database_name = ` + l + ` AND NOT internal AND NOT ` + hidden},
		{name: "sluice_columns", query: `SELECT table_oid, schema_name, table_name, column_name AS name, column_index::SMALLINT AS num, data_type, is_nullable AS nullable,
				nullif(column_default, 'NULL') AS default_value, comment::VARCHAR AS comment
			FROM duckdb_columns() WHERE database_name = ` + l + ` AND NOT ` + hidden + ` AND NOT starts_with(table_name, '` + staging + `')`},
		{name: "sluice_functions", query: `SELECT function_oid AS oid, (SELECT min(oid) FROM sluice_schemas s WHERE s.name = schema_name) AS schema_oid, function_name AS name,
				CASE function_type WHEN 'table_macro' THEN 'table' ELSE 'scalar' END AS kind, array_to_string(parameters, ', ') AS arguments
			FROM duckdb_functions() WHERE database_name = ` + l + ` AND function_type IN ('macro', 'table_macro') AND NOT ` + hidden},
	}
}

// lakeBase reads the lake's own tables, which is quick whatever their number: the engine's functions load every table
// first. A transaction's own changes are not in them yet.
func lakeBase(src Source) []part {
	m := quoteIdent(src.Metadata) + "."
	live := "end_snapshot IS NULL"
	parts := []part{
		{name: "sluice_schemas", query: fmt.Sprintf(`SELECT %d + schema_id AS oid, schema_name AS name FROM %sducklake_schema WHERE %s AND NOT %s`, firstOID, m, live, hidden)},
		{name: "sluice_tables", query: fmt.Sprintf(`SELECT %[1]d + o.id AS oid, s.oid AS schema_oid, s.name AS schema_name, o.name AS name, kind, tuples, tag.value AS comment, definition
			FROM (SELECT table_id AS id, schema_id, table_name AS name, 'r' AS kind, coalesce(record_count, 0)::FLOAT AS tuples, NULL::VARCHAR AS definition
					FROM %[2]sducklake_table LEFT JOIN %[2]sducklake_table_stats USING (table_id) WHERE %[3]s AND NOT starts_with(table_name, '%[4]s')
				UNION ALL SELECT view_id, schema_id, view_name, 'v', 0, sql FROM %[2]sducklake_view WHERE %[3]s) o
			JOIN sluice_schemas s ON s.oid = %[1]d + o.schema_id
			LEFT JOIN (SELECT object_id, value FROM %[2]sducklake_tag WHERE %[3]s AND key = 'comment') tag ON tag.object_id = o.id`, firstOID, m, live, staging)},
		{name: "sluice_columns", query: fmt.Sprintf(`SELECT t.oid AS table_oid, t.schema_name, t.name AS table_name, c.column_name AS name,
				(row_number() OVER (PARTITION BY t.oid ORDER BY c.column_order))::SMALLINT AS num,
				CASE WHEN c.column_type = 'list' THEN %[4]s || '[]' ELSE %[5]s END AS data_type, c.nulls_allowed AS nullable,
				CASE WHEN c.default_value_type = 'expression' THEN c.default_value
					WHEN c.default_value <> 'NULL' THEN '''' || replace(c.default_value, '''', '''''') || '''' END AS default_value,
				tag.value AS comment
			FROM (SELECT * FROM %[2]sducklake_column WHERE %[3]s AND parent_column IS NULL) c
			JOIN sluice_tables t ON t.oid = %[1]d + c.table_id
			LEFT JOIN (SELECT table_id, parent_column, column_type FROM %[2]sducklake_column WHERE %[3]s AND column_name = 'element') e
				ON e.table_id = c.table_id AND e.parent_column = c.column_id
			LEFT JOIN (SELECT table_id, column_id, value FROM %[2]sducklake_column_tag WHERE %[3]s AND key = 'comment') tag
				ON tag.table_id = c.table_id AND tag.column_id = c.column_id
			WHERE t.kind = 'r'`, firstOID, m, live, engineType("e.column_type"), engineType("c.column_type"))},
		{name: "sluice_functions", query: fmt.Sprintf(`SELECT %[1]d + f.macro_id AS oid, %[1]d + f.schema_id AS schema_oid, f.macro_name AS name, i.type AS kind,
				(SELECT string_agg(parameter_name, ', ' ORDER BY column_id) FROM %[2]sducklake_macro_parameters p WHERE p.macro_id = i.macro_id AND p.impl_id = i.impl_id) AS arguments
			FROM %[2]sducklake_macro f JOIN %[2]sducklake_macro_impl i USING (macro_id) WHERE f.%[3]s`, firstOID, m, live)},
	}
	if src.Views {
		parts[2].query += ` UNION ALL SELECT table_oid, schema_name, table_name, name, num, data_type, true, NULL, NULL FROM sluice_view_columns`
		columns := part{name: "sluice_view_columns", stored: true, query: fmt.Sprintf(`SELECT t.oid AS table_oid, t.schema_name, t.name AS table_name, c.column_name AS name,
				c.column_index::SMALLINT AS num, c.data_type
			FROM duckdb_columns() c JOIN sluice_tables t ON t.schema_name = c.schema_name AND t.name = c.table_name AND t.kind = 'v'
			WHERE c.database_name = %s`, literal(src.Lake))}
		parts = append(parts[:2:2], append([]part{columns}, parts[2:]...)...)
	}
	return parts
}

// lakeTypes are the names of types in a lake's own tables, where they are not the engine's in lower case.
var lakeTypes = map[string]string{
	"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "int128": "HUGEINT",
	"uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "uint128": "UHUGEINT",
	"float32": "FLOAT", "float64": "DOUBLE", "timetz": "TIME WITH TIME ZONE", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}

// engineType is an SQL expression for the engine's name of a type in a lake's own tables.
func engineType(column string) string {
	var b strings.Builder
	b.WriteString("CASE " + column)
	for _, name := range sorted(lakeTypes) {
		fmt.Fprintf(&b, " WHEN '%s' THEN '%s'", name, lakeTypes[name])
	}
	return b.String() + " ELSE upper(" + column + ") END"
}

// Version is a query for what changes whenever Base has to be called again.
func (src Source) Version() string {
	m := quoteIdent(src.Metadata) + "."
	views := fmt.Sprintf("(SELECT count(*) FROM %sducklake_view WHERE end_snapshot IS NULL)", m)
	if src.Store {
		return fmt.Sprintf("SELECT * FROM postgres_query(%s, 'SELECT max(schema_version)::VARCHAR || ''/'' || (SELECT count(*) FROM ducklake_view WHERE end_snapshot IS NULL) FROM ducklake_snapshot WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)')", literal(src.Metadata))
	}
	return fmt.Sprintf("SELECT schema_version || '/' || %s FROM %sducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1", views, m)
}

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
