package warehouse_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/house"
	"sluice/internal/warehouse"
)

// What psql asks to show schemas, tables and columns: over the engine's functions, and over a lake's own tables.
func TestPsqlDescribes(t *testing.T) {
	t.Parallel()
	t.Run("engine", func(t *testing.T) {
		t.Parallel()
		srv, m := start(t, warehouse.Config{})
		for _, s := range []string{"CREATE SCHEMA lake._sluice", "CREATE TABLE lake._sluice.fence (i INTEGER)"} {
			if _, err := m.db.ExecContext(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		describes(t, connect(t, srv, "olga"), func(commands string) string { return psql(t, srv, commands) })
	})
	for name, opts := range map[string]house.Options{"file": {}, "postgres": {Postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			h.Org("acme")
			c := dial(t, h, "olga", "x")
			if _, err := h.Service("acme").Exec(t.Context(), "CREATE SCHEMA IF NOT EXISTS _sluice; CREATE TABLE _sluice.fence (i INTEGER)", pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			describes(t, c, func(commands string) string {
				return psqlAt(t, "postgres://olga@"+h.Addr+"/acme?sslmode=disable", commands)
			})
			renewed(t, c, dial(t, h, "paul", "x"))
		})
	}
}

// renewed checks that a session sees what another one, and its own transaction, change.
func renewed(t *testing.T, a, b *pgx.Conn) {
	t.Helper()
	names := func() string {
		t.Helper()
		rows, err := a.Query(t.Context(), "SELECT relname || coalesce('/' || attname, '') FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid WHERE relname LIKE 'new%' ORDER BY 1", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, " ")
	}
	want := func(what, w string) {
		t.Helper()
		if got := names(); got != w {
			t.Errorf("%s: %q, want %q", what, got, w)
		}
	}
	want("before", "")
	runSteps(t, b, []step{{"CREATE TABLE new1 (i INTEGER)", "CREATE TABLE", 'I'}})
	want("another session's table", "new1/i")
	runSteps(t, b, []step{{"CREATE VIEW new2 AS SELECT i AS j FROM new1", "CREATE VIEW", 'I'}})
	want("another session's view", "new1/i new2/j")
	runSteps(t, a, []step{{"BEGIN; CREATE TABLE new3 (k INTEGER)", "BEGIN; CREATE TABLE", 'T'}})
	want("in the transaction", "new1/i new2/j new3/k")
	runSteps(t, a, []step{{"ROLLBACK", "ROLLBACK", 'I'}})
	want("rolled back", "new1/i new2/j")
	runSteps(t, a, []step{{"DROP VIEW new2; ALTER TABLE new1 ADD COLUMN l DATE", "DROP VIEW; ALTER TABLE", 'I'}})
	want("dropped and altered", "new1/i new1/l")
}

func describes(t *testing.T, c *pgx.Conn, psql func(commands string) string) {
	t.Helper()
	runSteps(t, c, []step{
		{"CREATE SCHEMA sales", "CREATE SCHEMA", 'I'},
		{"CREATE TABLE sales.orders (id INTEGER NOT NULL, price DECIMAL(10,2) DEFAULT 1.5, tags VARCHAR[], placed TIMESTAMPTZ, extra STRUCT(a INTEGER))", "CREATE TABLE", 'I'},
		{"CREATE VIEW v AS SELECT 1 AS x", "CREATE VIEW", 'I'},
		{"COMMENT ON TABLE sales.orders IS 'all of them'; COMMENT ON COLUMN sales.orders.price IS 'net'", "COMMENT; COMMENT", 'I'},
		{"CREATE MACRO sales.add(a, b) AS a + b", "CREATE FUNCTION", 'I'},
	})
	questions := []struct {
		command string
		has     []string
		lacks   string
	}{
		{`\d`, []string{"main|v|view|olga"}, "orders"}, // as in PostgreSQL, what is in the search path
		{`\dt *.*`, []string{"sales|orders|table|olga"}, "fence"},
		{"SET search_path = sales;\n\\dt", []string{"sales|orders|table|olga"}, "fence"},
		{`\dt+ sales.*`, []string{"all of them"}, "ERROR"},
		{`\d+ sales.orders`, []string{"net", "1.5"}, "ERROR"},
		{`\df sales.*`, []string{"sales|add||a, b|func"}, "ERROR"},
		{`\dn+`, []string{"sales|olga"}, "_sluice"},
		{`\dp sales.*`, []string{"sales|orders|table"}, "ERROR"},
		{`\di`, nil, "ERROR"},
		{`\ds`, nil, "ERROR"},
		{`\dT`, nil, "ERROR"},
		{`\dx`, nil, "ERROR"},
		{`\db`, []string{"pg_default"}, "ERROR"},
		{`\l+`, []string{"acme"}, "ERROR"},
		{`\drds`, nil, "ERROR"},
		{`\sv v`, []string{"SELECT 1 AS x"}, "ERROR"},
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
		{"SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' AND table_catalog = current_database() ORDER BY ordinal_position;", []string{"id\nprice\ntags\nplaced\nextra"}, "ERROR"},
		{"SELECT 'sales.orders'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 'orders');", []string{"t"}, "ERROR"},
		{"BEGIN; SELECT count(*) FROM pg_catalog.pg_class; ROLLBACK; SELECT relname FROM pg_class ORDER BY 1;", []string{"2\n", "orders\nv"}, "ERROR"},
	}
	var script strings.Builder
	for _, q := range questions {
		script.WriteString("RESET search_path;\n" + q.command + "\n\\echo ====\n")
	}
	answers := strings.Split(psql(script.String()), "====\n")
	for i, q := range questions {
		got := answers[i]
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
