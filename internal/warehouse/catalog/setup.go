package catalog

import "strings"

// overlaid are the views of information_schema that Setup makes.
var overlaid = map[string]bool{"tables": true, "columns": true, "schemata": true, "views": true, "key_column_usage": true, "table_constraints": true}

// hidden is true of a schema that clients do not see: the loader's, the lake's own, the engine's.
const hidden = `(? = '_sluice' OR starts_with(?, '__ducklake') OR ? IN ('information_schema', 'pg_catalog'))`

func hide(column string) string { return strings.ReplaceAll(hidden, "?", column) }

// Setup gives the statements that make the overlay in a session. lake is the engine's name of the org's database, database
// the one that clients know.
func Setup(lake, database, user string) []string {
	l, d, u := literal(lake), literal(database), literal(user)
	own := func(view, schema string) string {
		return "SELECT * FROM information_schema." + view + " WHERE " + schema + "_catalog = " + l + " AND NOT " + hide(schema+"_schema")
	}
	var out []string
	for _, m := range macros {
		body := strings.ReplaceAll(m.body, "?user", u)
		ways := make([]string, len(m.params))
		for i, p := range m.params {
			ways[i] = "(" + p + ") AS " + body
		}
		out = append(out, "CREATE OR REPLACE TEMP MACRO "+m.name+strings.Join(ways, ", "))
	}
	out = append(out,
		`CREATE OR REPLACE TEMP VIEW pg_namespace AS
			SELECT oid, schema_name AS nspname, 10::BIGINT AS nspowner, NULL::VARCHAR[] AS nspacl
			FROM duckdb_schemas() WHERE database_name = `+l+` AND NOT `+hide("schema_name")+`
			UNION ALL SELECT 11, 'pg_catalog', 10, NULL UNION ALL SELECT 12, 'information_schema', 10, NULL`,
		`CREATE OR REPLACE TEMP VIEW pg_class AS
			SELECT c.oid, relname, relnamespace, reltype, reloftype, 10::BIGINT AS relowner, 2::BIGINT AS relam, relfilenode, reltablespace, relpages, reltuples,
				relallvisible, reltoastrelid, false AS relhasindex, relisshared, 'p' AS relpersistence, relkind, relnatts, relchecks, false AS relhasoids,
				relhasrules, relhastriggers, false AS relhassubclass, relrowsecurity, false AS relforcerowsecurity, relispopulated, 'd' AS relreplident,
				false AS relispartition, 0::BIGINT AS relrewrite, relfrozenxid, NULL::VARCHAR[] AS relacl, NULL::VARCHAR[] AS reloptions, NULL::VARCHAR AS relpartbound
			FROM pg_catalog.pg_class c WHERE relnamespace IN (SELECT oid FROM pg_namespace) AND relkind IN ('r', 'v')`,
		pgTypeView(),
		`CREATE OR REPLACE TEMP VIEW pg_attribute AS
			SELECT table_oid AS attrelid, column_name AS attname, `+typeOID()+` AS atttypid, -1 AS attstattarget, -1::SMALLINT AS attlen,
				column_index::SMALLINT AS attnum, 0 AS attndims, -1 AS attcacheoff,
				CASE WHEN starts_with(data_type, 'DECIMAL') AND NOT ends_with(data_type, ']') THEN numeric_precision * 65536 + numeric_scale + 4 ELSE -1 END::INTEGER AS atttypmod,
				false AS attbyval, 'i' AS attalign, 'x' AS attstorage, '' AS attcompression, NOT is_nullable AS attnotnull, column_default IS NOT NULL AS atthasdef,
				false AS atthasmissing, '' AS attidentity, '' AS attgenerated, false AS attisdropped, true AS attislocal, 0 AS attinhcount, 0::BIGINT AS attcollation,
				NULL::VARCHAR[] AS attacl, NULL::VARCHAR[] AS attoptions, NULL::VARCHAR[] AS attfdwoptions
			FROM duckdb_columns() WHERE database_name = `+l+` AND NOT `+hide("schema_name")+``,
		`CREATE OR REPLACE TEMP VIEW pg_attrdef AS SELECT attrelid AS oid, attrelid AS adrelid, attnum AS adnum, column_default AS adbin
			FROM (SELECT table_oid AS attrelid, column_index::SMALLINT AS attnum, column_default FROM duckdb_columns()
			WHERE database_name = `+l+` AND column_default IS NOT NULL AND NOT `+hide("schema_name")+`)`,
		`CREATE OR REPLACE TEMP VIEW pg_database AS SELECT 16384::BIGINT AS oid, `+d+` AS datname, 10::BIGINT AS datdba, 6 AS encoding, 'c' AS datlocprovider,
			false AS datistemplate, true AS datallowconn, -1 AS datconnlimit, 0::BIGINT AS datlastsysoid, 1663::BIGINT AS dattablespace, 'C.UTF-8' AS datcollate,
			'C.UTF-8' AS datctype, NULL::VARCHAR AS daticulocale, NULL::VARCHAR AS datcollversion, NULL::VARCHAR[] AS datacl`,
		`CREATE OR REPLACE TEMP VIEW pg_roles AS SELECT 10::BIGINT AS oid, `+u+` AS rolname, false AS rolsuper, true AS rolinherit, false AS rolcreaterole,
			false AS rolcreatedb, true AS rolcanlogin, false AS rolreplication, -1 AS rolconnlimit, '********' AS rolpassword, NULL::TIMESTAMPTZ AS rolvaliduntil,
			false AS rolbypassrls, NULL::VARCHAR[] AS rolconfig`,
		`CREATE OR REPLACE TEMP VIEW pg_user AS SELECT rolname AS usename, oid AS usesysid, false AS usecreatedb, false AS usesuper FROM pg_roles`,
		`CREATE OR REPLACE TEMP VIEW pg_am AS SELECT 2::BIGINT AS oid, 'heap' AS amname, 'heap_tableam_handler' AS amhandler, 't' AS amtype`,
		`CREATE OR REPLACE TEMP VIEW "information_schema.tables" AS SELECT `+d+` AS table_catalog, * EXCLUDE (table_catalog) FROM (`+own("tables", "table")+`)`,
		`CREATE OR REPLACE TEMP VIEW "information_schema.columns" AS SELECT `+d+` AS table_catalog, * EXCLUDE (table_catalog) REPLACE (
			CASE WHEN ends_with(data_type, ']') THEN 'ARRAY' ELSE format_type(`+typeOID()+`, NULL) END AS data_type,
			(SELECT min(typname) FROM pg_type WHERE oid = `+typeOID()+`) AS udt_name) FROM (`+own("columns", "table")+`)`,
		`CREATE OR REPLACE TEMP VIEW "information_schema.views" AS SELECT `+d+` AS table_catalog, * EXCLUDE (table_catalog) FROM (
			SELECT database_name AS table_catalog, schema_name AS table_schema, view_name AS table_name, sql AS view_definition, 'NONE' AS check_option,
				'NO' AS is_updatable FROM duckdb_views() WHERE database_name = `+l+` AND NOT internal AND NOT `+hide("schema_name")+`)`,
		`CREATE OR REPLACE TEMP VIEW "information_schema.schemata" AS SELECT `+d+` AS catalog_name, nspname AS schema_name, `+u+` AS schema_owner,
			NULL::VARCHAR AS default_character_set_catalog, NULL::VARCHAR AS default_character_set_schema, NULL::VARCHAR AS default_character_set_name,
			NULL::VARCHAR AS sql_path FROM pg_namespace`,
		`CREATE OR REPLACE TEMP VIEW "information_schema.table_constraints" AS `+own("table_constraints", "constraint"),
		`CREATE OR REPLACE TEMP VIEW "information_schema.key_column_usage" AS `+own("key_column_usage", "constraint"),
		`CREATE OR REPLACE TEMP VIEW pg_tables AS SELECT nspname AS schemaname, relname AS tablename, `+u+` AS tableowner, NULL::VARCHAR AS tablespace,
			false AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r'`,
		`CREATE OR REPLACE TEMP VIEW pg_views AS SELECT table_schema AS schemaname, table_name AS viewname, `+u+` AS viewowner, view_definition AS definition
			FROM "information_schema.views"`,
	)
	for name, columns := range empty {
		out = append(out, "CREATE OR REPLACE TEMP VIEW "+name+" AS SELECT "+columns+" WHERE false")
	}
	return out
}

// empty are relations of which a lake has nothing.
var empty = map[string]string{
	"pg_inherits":              "0::BIGINT AS inhrelid, 0::BIGINT AS inhparent, 0 AS inhseqno, false AS inhdetachpending",
	"pg_policy":                "0::BIGINT AS oid, '' AS polname, 0::BIGINT AS polrelid, '' AS polcmd, true AS polpermissive, []::BIGINT[] AS polroles, '' AS polqual, '' AS polwithcheck",
	"pg_statistic_ext":         "0::BIGINT AS oid, 0::BIGINT AS stxrelid, '' AS stxname, 0::BIGINT AS stxnamespace, 0::BIGINT AS stxowner, 0 AS stxstattarget, []::SMALLINT[] AS stxkeys, []::VARCHAR[] AS stxkind",
	"pg_publication":           "0::BIGINT AS oid, '' AS pubname, 0::BIGINT AS pubowner, false AS puballtables",
	"pg_publication_rel":       "0::BIGINT AS oid, 0::BIGINT AS prpubid, 0::BIGINT AS prrelid, '' AS prqual, []::SMALLINT[] AS prattrs",
	"pg_publication_namespace": "0::BIGINT AS oid, 0::BIGINT AS pnpubid, 0::BIGINT AS pnnspid",
	"pg_collation":             "0::BIGINT AS oid, '' AS collname, 0::BIGINT AS collnamespace, '' AS collprovider, 0 AS collencoding",
	"pg_trigger":               "0::BIGINT AS oid, 0::BIGINT AS tgrelid, '' AS tgname, 0::BIGINT AS tgfoid, 0 AS tgtype, '' AS tgenabled, false AS tgisinternal, 0::BIGINT AS tgconstraint, 0::BIGINT AS tgparentid, false AS tgdeferrable, false AS tginitdeferred",
	"pg_rewrite":               "0::BIGINT AS oid, '' AS rulename, 0::BIGINT AS ev_class, '' AS ev_type, '' AS ev_enabled, false AS is_instead",
	"pg_foreign_table":         "0::BIGINT AS ftrelid, 0::BIGINT AS ftserver, []::VARCHAR[] AS ftoptions",
	"pg_foreign_server":        "0::BIGINT AS oid, '' AS srvname, 0::BIGINT AS srvowner, 0::BIGINT AS srvfdw, '' AS srvtype",
	"pg_partitioned_table":     "0::BIGINT AS partrelid, '' AS partstrat, 0 AS partnatts",
	"pg_extension":             "0::BIGINT AS oid, '' AS extname, 0::BIGINT AS extowner, 0::BIGINT AS extnamespace, false AS extrelocatable, '' AS extversion",
	"pg_shdescription":         "0::BIGINT AS objoid, 0::BIGINT AS classoid, '' AS description",
	"pg_auth_members":          "0::BIGINT AS roleid, 0::BIGINT AS member, 0::BIGINT AS grantor, false AS admin_option",
	"pg_range":                 "0::BIGINT AS rngtypid, 0::BIGINT AS rngsubtype, 0::BIGINT AS rngmultitypid, 0::BIGINT AS rngcollation",
	"pg_locks":                 "'' AS locktype, 0::BIGINT AS database, 0::BIGINT AS relation, 0 AS pid, '' AS mode, false AS granted",
	"pg_sequence":              "0::BIGINT AS seqrelid, 0::BIGINT AS seqtypid, 0::BIGINT AS seqstart, 0::BIGINT AS seqincrement, 0::BIGINT AS seqmax, 0::BIGINT AS seqmin, 0::BIGINT AS seqcache, false AS seqcycle",
	"pg_opclass":               "0::BIGINT AS oid, 0::BIGINT AS opcmethod, '' AS opcname, 0::BIGINT AS opcnamespace, 0::BIGINT AS opcowner, 0::BIGINT AS opcfamily, 0::BIGINT AS opcintype, false AS opcdefault",
	"pg_indexes":               "'' AS schemaname, '' AS tablename, '' AS indexname, '' AS tablespace, '' AS indexdef",
	"pg_language":              "0::BIGINT AS oid, '' AS lanname",
	"pg_index":                 "0::BIGINT AS indexrelid, 0::BIGINT AS indrelid, 0 AS indnatts, 0 AS indnkeyatts, false AS indisunique, false AS indisprimary, false AS indisexclusion, false AS indimmediate, false AS indisclustered, false AS indisvalid, false AS indisready, false AS indislive, false AS indisreplident, []::SMALLINT[] AS indkey, []::BIGINT[] AS indcollation, []::BIGINT[] AS indclass, []::SMALLINT[] AS indoption, '' AS indexprs, '' AS indpred, false AS indnullsnotdistinct",
	"pg_constraint":            "0::BIGINT AS oid, '' AS conname, 0::BIGINT AS connamespace, '' AS contype, false AS condeferrable, false AS condeferred, false AS convalidated, 0::BIGINT AS conrelid, 0::BIGINT AS contypid, 0::BIGINT AS conindid, 0::BIGINT AS conparentid, 0::BIGINT AS confrelid, '' AS confupdtype, '' AS confdeltype, '' AS confmatchtype, true AS conislocal, []::SMALLINT[] AS conkey, []::SMALLINT[] AS confkey, '' AS conbin",
}

// macro is a function that the engine has not, or answers in another way; params has one list for each way to call it.
type macro struct {
	name   string
	params []string
	body   string
}

var macros = []macro{
	{"pg_get_userbyid", []string{"role"}, "?user"},
	{"pg_encoding_to_char", []string{"code"}, "'UTF8'"},
	{"pg_get_expr", []string{"e, rel", "e, rel, pretty"}, "e::VARCHAR"},
	{"pg_get_viewdef", []string{"v", "v, pretty"}, "(SELECT min(sql) FROM duckdb_views() WHERE view_oid = v)"},
	{"pg_get_constraintdef", []string{"c", "c, pretty"}, "NULL::VARCHAR"},
	{"pg_get_indexdef", []string{"i", "i, col, pretty"}, "NULL::VARCHAR"},
	{"pg_get_partkeydef", []string{"rel"}, "NULL::VARCHAR"},
	{"pg_get_ruledef", []string{"r", "r, pretty"}, "NULL::VARCHAR"},
	{"pg_get_triggerdef", []string{"t", "t, pretty"}, "NULL::VARCHAR"},
	{"pg_get_statisticsobjdef_columns", []string{"s"}, "NULL::VARCHAR"},
	{"pg_relation_is_publishable", []string{"rel"}, "false"},
	{"pg_relation_is_updatable", []string{"rel, cascade"}, "28"},
	{"pg_total_relation_size", []string{"rel"}, "0::BIGINT"},
	{"pg_relation_size", []string{"rel", "rel, fork"}, "0::BIGINT"},
	{"pg_table_size", []string{"rel"}, "0::BIGINT"},
	{"pg_database_size", []string{"db"}, "0::BIGINT"},
	{"pg_tablespace_location", []string{"t"}, "''"},
	{"pg_get_serial_sequence", []string{"t, c"}, "NULL::VARCHAR"},
	{"pg_get_function_result", []string{"f"}, "NULL::VARCHAR"},
	{"pg_get_function_arguments", []string{"f"}, "NULL::VARCHAR"},
	{"pg_get_function_identity_arguments", []string{"f"}, "NULL::VARCHAR"},
	{"pg_get_functiondef", []string{"f"}, "NULL::VARCHAR"},
	{"array_upper", []string{"a, dim"}, "nullif(len(a), 0)"},
	{"array_lower", []string{"a, dim"}, "CASE WHEN len(a) > 0 THEN 1 END"},
	{"quote_ident", []string{"name"}, `CASE WHEN regexp_full_match(name, '[a-z_][a-z0-9_]*') THEN name ELSE '"' || replace(name, '"', '""') || '"' END`},
	{"format_type", []string{"t, m"}, formatType()},
}
