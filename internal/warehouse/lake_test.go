package warehouse_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/house"
)

func dial(t *testing.T, h *house.House, user, password string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://%s:%s@%s/acme?sslmode=disable", user, password, h.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// The same sessions over a real lake: tags, transactions, lost races, prepared statements that see new rows.
func TestLake(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	a, b := dial(t, h, "olga", "x"), dial(t, h, "paul", "x")
	runSteps(t, a, []step{
		{"CREATE SCHEMA s", "CREATE SCHEMA", 'I'},
		{"CREATE TABLE s.t AS SELECT range AS i, 'x' || range AS n FROM range(100)", "SELECT 100", 'I'},
		{"BEGIN; CREATE TABLE s.u AS SELECT * FROM s.t; DELETE FROM s.u WHERE i < 10; SELECT count(*) FROM s.u; COMMIT", "BEGIN; SELECT 100; DELETE 10; SELECT 1; COMMIT", 'I'},
		{"INSERT INTO s.t SELECT range, 'y' FROM range(100, 150)", "INSERT 0 50", 'I'},
		{"BEGIN; INSERT INTO s.t VALUES (1000, 'z'); ROLLBACK", "BEGIN; INSERT 0 1; ROLLBACK", 'I'},
		{"SELECT * FROM __ducklake_metadata_lake.ducklake_table", "42501", 'I'},
		{"SELECT * FROM lake.s.t AT (VERSION => 3)", "SELECT 100", 'I'},
	})
	count := func(c *pgx.Conn) (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), "SELECT count(*) FROM s.t WHERE i >= $1", 0).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(b); n != 150 {
		t.Fatal(n)
	}
	if _, err := a.Exec(t.Context(), "INSERT INTO s.t VALUES ($1, $2)", 150, "new"); err != nil {
		t.Fatal(err)
	}
	if n := count(b); n != 151 {
		t.Fatalf("a prepared statement does not see a new row: %d", n)
	}
	// The first to commit wins: the other one's COMMIT fails, and its transaction is over.
	runSteps(t, a, []step{
		{"CREATE TABLE s.w AS SELECT range AS i FROM range(100)", "SELECT 100", 'I'},
		{"BEGIN; DELETE FROM s.w WHERE i < 40", "BEGIN; DELETE 40", 'T'},
	})
	runSteps(t, b, []step{{"INSERT INTO s.w VALUES (1000)", "INSERT 0 1", 'I'}})
	runSteps(t, a, []step{{"COMMIT", "40001", 'I'}, {"SELECT i FROM s.w", "SELECT 101", 'I'}})
	// A result that is not read to its end does not harm the commit.
	runSteps(t, a, []step{{"BEGIN; INSERT INTO s.t VALUES (2000, 'kept')", "BEGIN; INSERT 0 1", 'T'}})
	if _, err := a.Exec(t.Context(), "SELECT * FROM s.t, s.t AS u LIMIT 5"); err != nil {
		t.Fatal(err)
	}
	runSteps(t, a, []step{{"COMMIT", "COMMIT", 'I'}})
	if n := count(b); n != 152 {
		t.Fatal(n)
	}
	out := psqlAt(t, fmt.Sprintf("postgres://olga@%s/acme?sslmode=disable", h.Addr), "\\dt s.*\n\\dn\n\\d s.t\n")
	for _, want := range []string{"s|t|table|olga", "s|u|table|olga", "i|bigint|||", "n|text|||"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "ducklake") || strings.Contains(out, "ERROR") {
		t.Error(out)
	}
}

// What the engine's lock-down and the gate refuse together, over a real lake.
func TestLakeIsLocked(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	c := dial(t, h, "olga", "x")
	inside := filepath.Join(h.Dir, "acme", "data", "x.csv")
	for _, sql := range []string{
		"SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM \"/etc/passwd\"", "COPY (SELECT 1) TO '" + inside + "'",
		"SELECT * FROM read_csv('" + inside + "')", "ATTACH ':memory:' AS x", "SET enable_external_access = true", "SELECT getenv('HOME')",
		"SELECT * FROM postgres_query('x', 'y')", "CALL lake.set_commit_message('a', 'b')", "CREATE TABLE _sluice.x (i INTEGER)",
	} {
		if _, err := c.Exec(t.Context(), sql); code(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
