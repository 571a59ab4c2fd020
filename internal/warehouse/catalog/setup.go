package catalog

import (
	"maps"
	"slices"
	"strings"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Setup makes the views and macros of a session over what Base has made. database is what the client calls the lake.
func Setup(database, user string) []string {
	d, u := literal(database), literal(user)
	var out []string
	for _, m := range macros {
		body := strings.ReplaceAll(m.body, "?user", u)
		ways := make([]string, len(m.params))
		for i, p := range m.params {
			ways[i] = "(" + p + ") AS " + body
		}
		out = append(out, "CREATE OR REPLACE TEMP MACRO "+m.name+strings.Join(ways, ", "))
	}
	view := func(name, query string) { out = append(out, "CREATE OR REPLACE TEMP VIEW "+name+" AS "+query) }
	view("pg_type", pgTypeQuery())
	view("pg_namespace", `SELECT oid, name AS nspname, 10::BIGINT AS nspowner, NULL::VARCHAR[] AS nspacl FROM sluice_schemas
		UNION ALL SELECT 11, 'pg_catalog', 10, NULL UNION ALL SELECT 12, 'information_schema', 10, NULL`)
	view("pg_class", `SELECT oid, name AS relname, schema_oid AS relnamespace, 0::BIGINT AS reltype, 0::BIGINT AS reloftype, 10::BIGINT AS relowner,
			CASE kind WHEN 'r' THEN 2 ELSE 0 END::BIGINT AS relam, oid AS relfilenode, 0::BIGINT AS reltablespace, 0 AS relpages, tuples AS reltuples, 0 AS relallvisible,
			0::BIGINT AS reltoastrelid, false AS relhasindex, false AS relisshared, 'p' AS relpersistence, kind AS relkind, NULL::SMALLINT AS relnatts,
			0::SMALLINT AS relchecks, false AS relhasoids, kind = 'v' AS relhasrules, false AS relhastriggers, false AS relhassubclass, false AS relrowsecurity,
			false AS relforcerowsecurity, true AS relispopulated, 'd' AS relreplident, false AS relispartition, 0::BIGINT AS relrewrite, 0::BIGINT AS relfrozenxid,
			0::BIGINT AS relminmxid, NULL::VARCHAR[] AS relacl, NULL::VARCHAR[] AS reloptions, NULL::VARCHAR AS relpartbound FROM sluice_tables`)
	view("pg_attribute", `SELECT table_oid AS attrelid, name AS attname, `+typeOID()+` AS atttypid, -1 AS attstattarget, -1::SMALLINT AS attlen, num AS attnum,
			CASE WHEN ends_with(data_type, ']') THEN 1 ELSE 0 END AS attndims, -1 AS attcacheoff, `+typmod()+` AS atttypmod, false AS attbyval, 'i' AS attalign,
			'x' AS attstorage, '' AS attcompression, NOT nullable AS attnotnull, default_value IS NOT NULL AS atthasdef, false AS atthasmissing, '' AS attidentity,
			'' AS attgenerated, false AS attisdropped, true AS attislocal, 0 AS attinhcount, 0::BIGINT AS attcollation, NULL::VARCHAR[] AS attacl,
			NULL::VARCHAR[] AS attoptions, NULL::VARCHAR[] AS attfdwoptions, NULL::VARCHAR[] AS attmissingval FROM sluice_columns`)
	view("pg_attrdef", `SELECT table_oid * 2000 + num AS oid, table_oid AS adrelid, num AS adnum, default_value AS adbin FROM sluice_columns WHERE default_value IS NOT NULL`)
	view("pg_description", `SELECT oid AS objoid, 1259::BIGINT AS classoid, 0 AS objsubid, comment AS description FROM sluice_tables WHERE comment IS NOT NULL
		UNION ALL SELECT table_oid, 1259, num, comment FROM sluice_columns WHERE comment IS NOT NULL`)
	view("pg_database", `SELECT 16384::BIGINT AS oid, `+d+` AS datname, 10::BIGINT AS datdba, 6 AS encoding, 'c' AS datlocprovider,
			false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, 0::BIGINT AS datlastsysoid, 0::BIGINT AS datfrozenxid, 0::BIGINT AS datminmxid,
			1663::BIGINT AS dattablespace, 'C' AS datcollate, 'C.UTF-8' AS datctype, NULL::VARCHAR AS daticulocale, NULL::VARCHAR AS datcollversion,
			NULL::VARCHAR[] AS datacl`)
	view("pg_roles", `SELECT 10::BIGINT AS oid, `+u+` AS rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole,
			false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, -1 AS rolconnlimit, '********' AS rolpassword, NULL::TIMESTAMPTZ AS rolvaliduntil,
			false AS rolbypassrls, NULL::VARCHAR[] AS rolconfig`)
	view("pg_authid", `SELECT * FROM pg_roles`)
	view("pg_user", `SELECT rolname AS usename, oid AS usesysid, false AS usecreatedb, false AS usesuper, false AS userepl, false AS usebypassrls,
			'********' AS passwd, rolvaliduntil AS valuntil, rolconfig AS useconfig FROM pg_roles`)
	view("pg_am", `SELECT 2::BIGINT AS oid, 'heap' AS amname, 'heap_tableam_handler' AS amhandler, 't' AS amtype`)
	view("pg_tablespace", `SELECT 1663::BIGINT AS oid, 'pg_default' AS spcname, 10::BIGINT AS spcowner, NULL::VARCHAR[] AS spcacl, NULL::VARCHAR[] AS spcoptions`)
	view("pg_language", `SELECT 14::BIGINT AS oid, 'sql' AS lanname, 10::BIGINT AS lanowner, false AS lanispl, true AS lanpltrusted`)
	view("pg_proc", `SELECT oid, name AS proname, schema_oid AS pronamespace, 10::BIGINT AS proowner, 14::BIGINT AS prolang, 1::REAL AS procost,
			CASE kind WHEN 'table' THEN 1000 ELSE 0 END::REAL AS prorows, 0::BIGINT AS provariadic, 'f' AS prokind, false AS prosecdef, false AS proleakproof,
			false AS proisstrict, kind = 'table' AS proretset, 's' AS provolatile, 'u' AS proparallel, 0::SMALLINT AS pronargs, 0::SMALLINT AS pronargdefaults,
			0::BIGINT AS prorettype, ''::VARCHAR AS proargtypes, NULL::BIGINT[] AS proallargtypes, NULL::VARCHAR[] AS proargmodes, NULL::VARCHAR[] AS proargnames,
			NULL::VARCHAR AS proargdefaults, NULL::BIGINT[] AS protrftypes, ''::VARCHAR AS prosrc, NULL::VARCHAR AS probin, NULL::VARCHAR[] AS proconfig,
			NULL::VARCHAR[] AS proacl, false AS proisagg FROM sluice_functions`)
	view("pg_tables", `SELECT schema_name AS schemaname, name AS tablename, `+u+` AS tableowner, NULL::VARCHAR AS tablespace,
			false AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity FROM sluice_tables WHERE kind = 'r'`)
	view("pg_views", `SELECT schema_name AS schemaname, name AS viewname, `+u+` AS viewowner, definition FROM sluice_tables WHERE kind = 'v'`)
	view("pg_stat_user_tables", `SELECT oid AS relid, schema_name AS schemaname, name AS relname, 0::BIGINT AS seq_scan, 0::BIGINT AS seq_tup_read, 0::BIGINT AS idx_scan,
			0::BIGINT AS n_tup_ins, 0::BIGINT AS n_tup_upd, 0::BIGINT AS n_tup_del, tuples::BIGINT AS n_live_tup, 0::BIGINT AS n_dead_tup FROM sluice_tables WHERE kind = 'r'`)
	out = append(out, informationSchema(d, u)...)
	for _, name := range sorted(empty) {
		view(name, "SELECT "+empty[name]+" WHERE false")
	}
	return out
}

// typmod is an SQL expression for the modifier of a column's type: precision and scale of a DECIMAL.
func typmod() string {
	return `CASE WHEN starts_with(data_type, 'DECIMAL(') AND NOT ends_with(data_type, ']') THEN ` +
		digits(`\((\d+)`) + ` * 65536 + ` + digits(`,(\d+)`) + ` + 4 ELSE -1 END::INTEGER`
}

// digits is an SQL expression for the number that a pattern finds in data_type, NULL if it finds none.
func digits(pattern string) string {
	return `try_cast(regexp_extract(data_type, '` + pattern + `', 1) AS INTEGER)`
}
