package warehouse_test

import (
	"strings"
	"testing"

	"sluice/internal/warehouse"
)

// What psql asks to show schemas, tables and columns.
func TestPsqlDescribes(t *testing.T) {
	t.Parallel()
	srv, m := start(t, warehouse.Config{})
	for _, s := range []string{"CREATE SCHEMA lake._sluice", "CREATE TABLE lake._sluice.fence (i INTEGER)"} {
		if _, err := m.db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, srv, "olga")
	runSteps(t, c, []step{
		{"CREATE SCHEMA sales", "CREATE SCHEMA", 'I'},
		{"CREATE TABLE sales.orders (id INTEGER NOT NULL, price DECIMAL(10,2), tags VARCHAR[], placed TIMESTAMPTZ)", "CREATE TABLE", 'I'},
		{"CREATE VIEW v AS SELECT 1 AS x", "CREATE VIEW", 'I'},
	})
	for _, q := range []struct {
		command string
		has     []string
		lacks   string
	}{
		{`\d`, []string{"main|v|view|olga", "sales|orders|table|olga"}, "fence"},
		{`\dt`, []string{"sales|orders|table|olga"}, "fence"},
		{`\dt sales.*`, []string{"sales|orders|table|olga"}, "main"},
		{`\dv`, []string{"main|v|view|olga"}, "orders"},
		{`\dn`, []string{"main|olga", "sales|olga"}, "_sluice"},
		{`\l`, []string{"acme|olga|UTF8"}, "ducklake"},
		{`\du`, []string{"olga|"}, "postgres"},
		{`\d sales.orders`, []string{"id|integer||not null|", "price|numeric(10,2)|||", "tags|text[]|||", "placed|timestamp with time zone|||"}, "ERROR"},
		{`\d v`, []string{"x|integer|||"}, "ERROR"},
		{`\d+ v`, []string{"x|integer|||"}, "ERROR"},
		{"SELECT 5 AS a, 'x' AS b \\gdesc", []string{"a|integer\nb|text"}, "ERROR"},
		{`\conninfo`, []string{`database "acme" as user "olga"`}, "ERROR"},
		{"SELECT table_catalog, table_schema, table_name FROM information_schema.tables ORDER BY ALL;", []string{"acme|main|v\nacme|sales|orders"}, "fence"},
		{"SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' AND table_catalog = current_database() ORDER BY ordinal_position;", []string{"id\nprice\ntags\nplaced"}, "ERROR"},
		{"SELECT 'sales.orders'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 'orders');", []string{"t"}, "ERROR"},
		{"BEGIN; SELECT count(*) FROM pg_catalog.pg_class; ROLLBACK; SELECT relname FROM pg_class ORDER BY 1;", []string{"2\n", "orders\nv"}, "ERROR"},
	} {
		got := psql(t, srv, q.command+"\n")
		for _, want := range q.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", q.command, want, got)
			}
		}
		if strings.Contains(got, q.lacks) {
			t.Errorf("%s: %q is in\n%s", q.command, q.lacks, got)
		}
	}
}

// What drivers and tools ask before anything else.
func TestQuestionsOfDrivers(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	for sql, want := range map[string]string{
		"SELECT version()": "PostgreSQL 15.0 (Sluice), DuckDB", "SHOW server_version": "15.0 (Sluice)", "select current_schema()": "main",
		"SELECT current_setting('server_version_num')": "150000", "SELECT pg_catalog.current_setting('standard_conforming_strings')": "on",
		"SELECT pg_is_in_recovery()::text": "false", "SELECT current_database()": "acme", "SELECT current_user": "olga",
		"SHOW TRANSACTION ISOLATION LEVEL": "repeatable read", "SHOW max_identifier_length": "63", "SELECT CAST('test plain returns' AS VARCHAR(60)) AS anon_1": "test plain returns",
		"SELECT typname FROM pg_catalog.pg_type WHERE typname = 'bool'": "bool", "select nspname from pg_namespace where nspname = 'main'": "main",
	} {
		var got string
		if err := c.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", sql, got, err, want)
		}
	}
}
