package catalog_test

import (
	"testing"

	"sluice/internal/warehouse/catalog"
	"sluice/internal/warehouse/gate/token"
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	env := catalog.Env{Database: "acme", User: "olga's", PID: 7, Version: "PG", Setting: func(n string) (string, bool) {
		v, ok := map[string]string{"server_version": "15.0"}[n]
		return v, ok
	}}
	for sql, want := range map[string]string{
		"SELECT version()": `SELECT 'PG' AS "version"`,
		"SELECT pg_catalog.version(), current_user, session_user":                         `SELECT 'PG' AS "version", 'olga''s' AS "current_user", 'olga''s' AS "session_user"`,
		"SELECT t.user, a AS user, \"user\" FROM t":                                       "SELECT t.user, a AS user, \"user\" FROM t",
		"SELECT current_setting('server_version')":                                        `SELECT '15.0' AS "current_setting"`,
		"SELECT current_setting('nope', true)":                                            `SELECT NULL AS "current_setting"`,
		"SELECT current_setting('nope')":                                                  "SELECT current_setting('nope')",
		"SELECT current_database(), current_catalog":                                      `SELECT 'acme' AS "current_database", 'acme' AS "current_catalog"`,
		"SELECT pg_is_in_recovery(), pg_backend_pid()":                                    `SELECT false AS "pg_is_in_recovery", 7 AS "pg_backend_pid"`,
		"SELECT lower(version()), version() || 'x' FROM t WHERE current_database() = 'a'": "SELECT lower('PG'), 'PG' || 'x' FROM t WHERE 'acme' = 'a'",
		"SELECT '\\x00ff'::bytea, '\\xzz'::bytea":                                         "SELECT from_hex('00ff'), '\\xzz'::bytea",
		"SELECT CAST(CAST(format('%I.%I', CAST(a AS TEXT), b) AS REGCLASS) AS OID), 1":    "SELECT CAST(sluice_regclass(concat('', quote_ident( CAST(a AS TEXT)), '.', quote_ident( b)) )  AS BIGINT), 1",
		"SELECT format('%s', a), format('{}', b)":                                         "SELECT concat('', ( a)), format('{}', b)",
		"SELECT s[i] FROM generate_series(1, 2) AS i, string_to_array('a,b', ',') s":      "SELECT s[i] FROM generate_series(1, 2) AS i(i), (SELECT string_to_array('a,b', ',') AS s) AS s",
		`SELECT '{1,"a b",NULL}'::text[], '{}'::int4[], '{"a": 1}'::json`:                 `SELECT ['1', 'a b', NULL]::VARCHAR[], []::INTEGER[], '{"a": 1}'::JSON`,
		"SELECT $1::regclass::oid, (information_schema._pg_expandarray(i.indkey)).n":      "SELECT sluice_regclass($1)::BIGINT, (_pg_expandarray(i.indkey)).n",
		"SELECT oid FROM pg_type WHERE typreceive != 0":                                   "SELECT oid FROM pg_type WHERE typreceive != '-'",
		"SELECT a OPERATOR(pg_catalog.=) b":                                               "SELECT a = b",
		"SELECT a OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default FROM t":       "SELECT a ~ '((t))'  FROM t",
		"SELECT nspname !~ '^pg_' FROM pg_namespace":                                      "SELECT nspname !~ '(pg_).*' FROM pg_namespace",
		"SELECT c.relname FROM pg_catalog.pg_class c":                                     "SELECT c.relname FROM pg_class c",
		"SELECT pg_catalog.format_type(1, 2)":                                             "SELECT format_type(1, 2)",
		"SELECT a::pg_catalog.text, b::pg_catalog.regtype::pg_catalog.text":               "SELECT a::VARCHAR, b::VARCHAR::VARCHAR",
		"SELECT CAST(a AS pg_catalog.int4) FROM pg_class":                                 "SELECT CAST(a AS INTEGER) FROM pg_class",
		"SELECT 'x'::char, a::\"char\" FROM pg_class":                                     "SELECT 'x'::char, a::VARCHAR FROM pg_class",
		"SELECT * FROM information_schema.tables":                                         `SELECT * FROM "information_schema.tables"`,
		"SELECT * FROM information_schema.character_sets":                                 "SELECT * FROM information_schema.character_sets",
		"SELECT 's.t'::regclass::oid":                                                     "SELECT (SELECT coalesce(try_cast('t' AS BIGINT), (SELECT min(oid) FROM pg_class WHERE relnamespace = (SELECT min(oid) FROM pg_namespace WHERE nspname = 's') AND relname = 't')))::BIGINT",
		"SELECT 'version() pg_catalog.x' -- pg_catalog.y":                                 "SELECT 'version() pg_catalog.x' -- pg_catalog.y",
		"SELECT pg_catalog.generate_series(0, pg_catalog.array_upper(a, 1)) s, b":         "SELECT generate_series(0, array_upper(a, 1)) s(s), b",
		"SELECT version FROM t":                                                           "SELECT version FROM t",
	} {
		if got := catalog.Rewrite(env, sql, token.Scan(sql)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
	}
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][2]bool{
		"SELECT a FROM t": {false, false}, "SELECT 'pg_class'": {false, false}, "SELECT version()": {true, false},
		"SELECT * FROM pg_class": {true, true}, "SELECT * FROM information_schema.tables": {true, true}, "SELECT a FROM t COLLATE x": {true, false},
	} {
		rewrite, reads := catalog.Needed(token.Scan(sql))
		if rewrite != want[0] || reads != want[1] {
			t.Errorf("%s: %v %v", sql, rewrite, reads)
		}
	}
}
