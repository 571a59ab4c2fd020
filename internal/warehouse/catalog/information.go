package catalog

import "strings"

// overlaid are the views of information_schema that are made; the others stay the engine's.
var overlaid = map[string]bool{
	"tables": true, "columns": true, "schemata": true, "views": true, "key_column_usage": true, "table_constraints": true,
	"referential_constraints": true, "constraint_column_usage": true, "routines": true, "parameters": true, "sequences": true,
	"table_privileges": true, "role_table_grants": true, "column_privileges": true, "triggers": true, "element_types": true,
}

// informationSchema makes the views of the standard. d and u are the names of database and user as literals.
func informationSchema(d, u string) []string {
	var out []string
	view := func(name, query string) {
		out = append(out, `CREATE OR REPLACE TEMP VIEW "information_schema.`+name+`" AS `+query)
	}
	none := func(name, columns string) {
		parts := strings.Split(columns, " ")
		for i, c := range parts {
			parts[i] = "NULL::VARCHAR AS " + c
		}
		view(name, "SELECT "+strings.Join(parts, ", ")+" WHERE false")
	}
	view("schemata", `SELECT `+d+` AS catalog_name, nspname AS schema_name, `+u+` AS schema_owner, NULL::VARCHAR AS default_character_set_catalog,
		NULL::VARCHAR AS default_character_set_schema, NULL::VARCHAR AS default_character_set_name, NULL::VARCHAR AS sql_path FROM pg_namespace`)
	view("tables", `SELECT `+d+` AS table_catalog, schema_name AS table_schema, name AS table_name, CASE kind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
		NULL::VARCHAR AS self_referencing_column_name, NULL::VARCHAR AS reference_generation, NULL::VARCHAR AS user_defined_type_catalog,
		NULL::VARCHAR AS user_defined_type_schema, NULL::VARCHAR AS user_defined_type_name, CASE kind WHEN 'v' THEN 'NO' ELSE 'YES' END AS is_insertable_into,
		'NO' AS is_typed, NULL::VARCHAR AS commit_action FROM sluice_tables`)
	view("views", `SELECT `+d+` AS table_catalog, schema_name AS table_schema, name AS table_name, definition AS view_definition, 'NONE' AS check_option,
		'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
		FROM sluice_tables WHERE kind = 'v'`)
	view("columns", `SELECT `+d+` AS table_catalog, schema_name AS table_schema, table_name, name AS column_name, num::INTEGER AS ordinal_position,
		default_value AS column_default, CASE WHEN nullable THEN 'YES' ELSE 'NO' END AS is_nullable,
		CASE WHEN ends_with(data_type, ']') AND oid <> 3802 THEN 'ARRAY' ELSE format_type(oid, NULL) END AS data_type, NULL::INTEGER AS character_maximum_length,
		CASE WHEN oid = 25 THEN 1073741824 END::INTEGER AS character_octet_length,
		CASE oid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53 WHEN 1700 THEN `+digits(`\((\d+)`)+` END::INTEGER AS numeric_precision,
		CASE WHEN oid IN (20, 21, 23, 700, 701) THEN 2 WHEN oid = 1700 THEN 10 END::INTEGER AS numeric_precision_radix,
		CASE WHEN oid IN (20, 21, 23) THEN 0 WHEN oid = 1700 THEN `+digits(`,(\d+)`)+` END::INTEGER AS numeric_scale,
		CASE WHEN oid = 1082 THEN 0 WHEN oid IN (1083, 1266, 1114, 1184, 1186) THEN 6 END::INTEGER AS datetime_precision,
		NULL::VARCHAR AS interval_type, NULL::INTEGER AS interval_precision, NULL::VARCHAR AS character_set_catalog, NULL::VARCHAR AS character_set_schema,
		NULL::VARCHAR AS character_set_name, NULL::VARCHAR AS collation_catalog, NULL::VARCHAR AS collation_schema, NULL::VARCHAR AS collation_name,
		NULL::VARCHAR AS domain_catalog, NULL::VARCHAR AS domain_schema, NULL::VARCHAR AS domain_name, `+d+` AS udt_catalog, 'pg_catalog' AS udt_schema,
		`+typeName("oid")+` AS udt_name, NULL::VARCHAR AS scope_catalog, NULL::VARCHAR AS scope_schema, NULL::VARCHAR AS scope_name, NULL::INTEGER AS maximum_cardinality,
		num::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity, NULL::VARCHAR AS identity_generation, NULL::VARCHAR AS identity_start,
		NULL::VARCHAR AS identity_increment, NULL::VARCHAR AS identity_maximum, NULL::VARCHAR AS identity_minimum, 'NO' AS identity_cycle,
		'NEVER' AS is_generated, NULL::VARCHAR AS generation_expression, 'YES' AS is_updatable
		FROM (SELECT *, `+typeOID()+` AS oid FROM sluice_columns)`)
	view("routines", `SELECT `+d+` AS specific_catalog, s.name AS specific_schema, f.name || '_' || f.oid AS specific_name, `+d+` AS routine_catalog, s.name AS routine_schema,
		f.name AS routine_name, 'FUNCTION' AS routine_type, NULL::VARCHAR AS data_type, NULL::VARCHAR AS routine_definition, 'SQL' AS external_language
		FROM sluice_functions f JOIN sluice_schemas s ON s.oid = f.schema_oid`)
	none("parameters", "specific_catalog specific_schema specific_name ordinal_position parameter_mode parameter_name data_type")
	none("table_constraints", "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable initially_deferred enforced nulls_distinct")
	none("key_column_usage", "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position position_in_unique_constraint")
	none("referential_constraints", "constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule")
	none("constraint_column_usage", "table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name")
	none("sequences", "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value increment cycle_option")
	none("triggers", "trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema event_object_table action_statement action_timing")
	none("element_types", "object_catalog object_schema object_name object_type collection_type_identifier data_type udt_name dtd_identifier")
	none("column_privileges", "grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable")
	privileges := `SELECT ` + u + ` AS grantor, ` + u + ` AS grantee, ` + d + ` AS table_catalog, schema_name AS table_schema, name AS table_name, p AS privilege_type,
		'NO' AS is_grantable, CASE p WHEN 'SELECT' THEN 'YES' ELSE 'NO' END AS with_hierarchy
		FROM sluice_tables, (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) v(p)`
	view("table_privileges", privileges)
	view("role_table_grants", privileges)
	return out
}
