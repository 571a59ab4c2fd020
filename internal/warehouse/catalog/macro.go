package catalog

import (
	"fmt"
	"strings"
)

// regclass is an SQL expression for the OID of the table or view that the text n names, with its schema or without.
var regclass = `coalesce(try_cast(n AS BIGINT), ` + ofCatalog() + `, (SELECT min(oid) FROM sluice_tables WHERE name = replace(n::VARCHAR, '"', '') OR schema_name || '.' || name = replace(n::VARCHAR, '"', '')))`

func ofCatalog() string {
	var b strings.Builder
	b.WriteString("CASE replace(n::VARCHAR, 'pg_catalog.', '')")
	for _, name := range sorted(catalogOIDs) {
		fmt.Fprintf(&b, " WHEN '%s' THEN %d", name, catalogOIDs[name])
	}
	return b.String() + " END"
}

// literalOf is an SQL expression for v as an SQL literal.
const literalOf = "'''' || replace(v::VARCHAR, '''', '''''') || ''''"

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
	{"pg_get_viewdef", []string{"v", "v, pretty"}, "(SELECT min(definition) FROM sluice_tables WHERE oid = try_cast(v AS BIGINT))"},
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
	{"pg_get_function_result", []string{"f"}, "''"},
	{"pg_get_function_arguments", []string{"f"}, "(SELECT min(arguments) FROM sluice_functions WHERE oid = f)"},
	{"pg_get_function_identity_arguments", []string{"f"}, "(SELECT min(arguments) FROM sluice_functions WHERE oid = f)"},
	{"pg_table_is_visible", []string{"rel"}, "(rel IN (SELECT oid FROM sluice_tables WHERE schema_name IN (SELECT unnest(current_schemas(false)))))"},
	{"pg_function_is_visible", []string{"f"}, "(f IN (SELECT f.oid FROM sluice_functions f JOIN sluice_schemas s ON s.oid = f.schema_oid WHERE s.name IN (SELECT unnest(current_schemas(false)))))"},
	{"to_regtype", []string{"n"}, "(SELECT min(oid) FROM pg_type WHERE typname = n)"},
	{"to_regclass", []string{"n"}, regclass},
	{"sluice_regclass", []string{"n"}, regclass},
	{"sluice_regtype", []string{"n"}, "coalesce(try_cast(n AS BIGINT), (SELECT min(oid) FROM pg_type WHERE typname = n::VARCHAR))"},
	{"sluice_regnamespace", []string{"n"}, "coalesce(try_cast(n AS BIGINT), (SELECT min(oid) FROM pg_namespace WHERE nspname = n::VARCHAR))"},
	{"_pg_expandarray", []string{"a"}, "{'x': a[1], 'n': 1}"},
	{"pg_type_is_visible", []string{"t"}, "true"},
	{"obj_description", []string{"o", "o, catalog"}, "(SELECT min(comment) FROM sluice_tables WHERE oid = try_cast(o AS BIGINT))"},
	{"col_description", []string{"o, n"}, "(SELECT min(comment) FROM sluice_columns WHERE table_oid = try_cast(o AS BIGINT) AND num = n)"},
	{"shobj_description", []string{"o, catalog"}, "NULL::VARCHAR"},
	{"has_any_column_privilege", []string{"t, p", "u, t, p"}, "true"},
	{"has_column_privilege", []string{"t, c, p", "u, t, c, p"}, "true"},
	{"has_database_privilege", []string{"d, p", "u, d, p"}, "true"},
	{"has_function_privilege", []string{"f, p", "u, f, p"}, "true"},
	{"has_sequence_privilege", []string{"s, p", "u, s, p"}, "true"},
	{"pg_has_role", []string{"r, p", "u, r, p"}, "true"},
	{"pg_size_pretty", []string{"n"}, "format_bytes(n::BIGINT)"},
	{"pg_indexes_size", []string{"rel"}, "0::BIGINT"},
	{"quote_literal", []string{"v"}, literalOf},
	{"quote_nullable", []string{"v"}, "CASE WHEN v IS NULL THEN 'NULL' ELSE " + literalOf + " END"},
	{"pg_get_functiondef", []string{"f"}, "NULL::VARCHAR"},
	{"array_remove", []string{"a, v"}, "list_filter(a, lambda x: x IS DISTINCT FROM v)"},
	{"array_upper", []string{"a, dim"}, "nullif(len(a), 0)"},
	{"array_lower", []string{"a, dim"}, "CASE WHEN len(a) > 0 THEN 1 END"},
	{"quote_ident", []string{"name"}, `CASE WHEN regexp_full_match(name, '[a-z_][a-z0-9_]*') THEN name ELSE '"' || replace(name, '"', '""') || '"' END`},
	{"format_type", []string{"t, m"}, formatType()},
}
