package warehouse_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/warehouse"
)

// step is one simple query: what comes back, as tags or an SQLSTATE, and the transaction status after it.
type step struct {
	sql, want string
	status    byte
}

func runSteps(t *testing.T, c *pgx.Conn, steps []step) {
	t.Helper()
	for _, s := range steps {
		results, err := c.PgConn().Exec(t.Context(), s.sql).ReadAll()
		var got []string
		for _, r := range results {
			if r.Err == nil {
				got = append(got, r.CommandTag.String())
			}
		}
		if err != nil {
			got = append(got, code(err))
		}
		if g := strings.Join(got, "; "); g != s.want {
			t.Errorf("%s: got %q, want %q (%v)", s.sql, g, s.want, err)
		}
		if st := c.PgConn().TxStatus(); st != s.status {
			t.Errorf("%s: status %c, want %c", s.sql, st, s.status)
		}
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	runSteps(t, c, []step{
		{"CREATE TABLE t (i INTEGER)", "CREATE TABLE", 'I'},
		// rolled back, committed
		{"BEGIN", "BEGIN", 'T'},
		{"INSERT INTO t VALUES (1)", "INSERT 0 1", 'T'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"START TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION", 'T'},
		{"INSERT INTO t VALUES (2)", "INSERT 0 1", 'T'},
		{"END", "COMMIT", 'I'},
		{"SELECT * FROM t WHERE i = 2", "SELECT 1", 'I'},
		// an error fails the block whatever class it is of; COMMIT then says ROLLBACK, and nothing is stored
		{"BEGIN WORK", "BEGIN", 'T'},
		{"INSERT INTO t VALUES (3)", "INSERT 0 1", 'T'},
		{"SELECT * FROM nowhere", "42P01", 'E'},
		{"INSERT INTO t VALUES (4)", "25P02", 'E'},
		{"BEGIN", "25P02", 'E'},
		{"", "", 'E'},
		{"COMMIT", "ROLLBACK", 'I'},
		{"BEGIN", "BEGIN", 'T'},
		{"INSERT INTO t VALUES (3)", "INSERT 0 1", 'T'},
		{"SELECT CAST('x' AS INTEGER)", "22P02", 'E'},
		{"ABORT", "ROLLBACK", 'I'},
		{"BEGIN; INSERT INTO t VALUES (3); SELECT error('x'); INSERT INTO t VALUES (4); COMMIT", "BEGIN; INSERT 0 1; 22023", 'E'},
		{"COMMIT; INSERT INTO t VALUES (5)", "ROLLBACK; INSERT 0 1", 'I'},
		// a string of several is one transaction
		{"INSERT INTO t VALUES (6); SELECT * FROM nowhere; INSERT INTO t VALUES (7)", "INSERT 0 1; 42P01", 'I'},
		{"INSERT INTO t VALUES (8); COMMIT; INSERT INTO t VALUES (9); SELECT * FROM nowhere", "INSERT 0 1; COMMIT; INSERT 0 1; 42P01", 'I'},
		{"INSERT INTO t VALUES (10); BEGIN; INSERT INTO t VALUES (11)", "INSERT 0 1; BEGIN; INSERT 0 1", 'T'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"SELECT i FROM t", "SELECT 3", 'I'}, // 2, 5, 8
		// outside a block
		{"COMMIT", "COMMIT", 'I'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"BEGIN; BEGIN", "BEGIN; BEGIN", 'T'},
		{"COMMIT AND CHAIN", "COMMIT", 'T'},
		{"COMMIT AND NO CHAIN", "COMMIT", 'I'},
		// not supported
		{"BEGIN", "BEGIN", 'T'},
		{"COMMIT PREPARED 'x'", "0A000", 'E'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"PREPARE TRANSACTION 'x'", "0A000", 'I'},
		// read only
		{"BEGIN READ ONLY", "BEGIN", 'T'},
		{"SELECT 1", "SELECT 1", 'T'},
		{"INSERT INTO t VALUES (1)", "25006", 'E'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET", 'I'},
		{"INSERT INTO t VALUES (1)", "25006", 'I'},
		{"BEGIN; DELETE FROM t", "BEGIN; 25006", 'E'},
		{"ROLLBACK; SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "ROLLBACK; SET", 'I'},
		// two alterations that together would damage a lake
		{"BEGIN; ALTER TABLE t ADD COLUMN j INTEGER; ALTER TABLE t RENAME TO u", "BEGIN; ALTER TABLE; 0A000", 'E'},
		{"ROLLBACK", "ROLLBACK", 'I'},
		{"ALTER TABLE t ADD COLUMN j INTEGER; ALTER TABLE t RENAME TO u", "ALTER TABLE; 0A000", 'I'},
		{"BEGIN; ALTER TABLE t ADD COLUMN j INTEGER; ALTER TABLE t RENAME COLUMN j TO k; ROLLBACK", "BEGIN; ALTER TABLE; ALTER TABLE; ROLLBACK", 'I'},
	})
}

func TestTags(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	runSteps(t, c, []step{
		{"CREATE SCHEMA s", "CREATE SCHEMA", 'I'},
		{"CREATE TABLE s.t AS SELECT range AS i FROM range(7)", "SELECT 7", 'I'},
		{"CREATE OR REPLACE TABLE s.\"T 2\" (a, b) AS SELECT 1, 2", "SELECT 1", 'I'},
		{"CREATE TEMP TABLE tt (i INTEGER)", "CREATE TABLE", 'I'},
		{"CREATE VIEW v AS SELECT 1", "CREATE VIEW", 'I'},
		{"CREATE MACRO add(a, b) AS a + b", "CREATE FUNCTION", 'I'},
		{"UPDATE s.t SET i = i + 1 WHERE i > 2", "UPDATE 4", 'I'},
		{"DELETE FROM s.t WHERE i = 0", "DELETE 1", 'I'},
		{"INSERT INTO s.t SELECT * FROM range(3) RETURNING i", "INSERT 0 3", 'I'},
		{"DELETE FROM s.t WHERE i < 2 RETURNING *", "DELETE 3", 'I'},
		{"MERGE INTO s.t USING (SELECT 2 AS i UNION ALL SELECT 100) x ON x.i = t.i WHEN MATCHED THEN UPDATE SET i = 50 WHEN NOT MATCHED THEN INSERT VALUES (x.i)", "MERGE 3", 'I'},
		{"WITH x AS (SELECT 1 AS i) INSERT INTO s.t SELECT i FROM x", "INSERT 0 1", 'I'},
		{"TRUNCATE TABLE s.t", "TRUNCATE TABLE", 'I'},
		{"ALTER TABLE s.t ADD COLUMN j INTEGER", "ALTER TABLE", 'I'},
		{"COMMENT ON TABLE s.t IS 'x'", "COMMENT", 'I'},
		{"DROP VIEW v", "DROP VIEW", 'I'},
		{"DROP TABLE IF EXISTS s.t", "DROP TABLE", 'I'},
		{"EXPLAIN SELECT 1", "EXPLAIN", 'I'},
		{"VALUES (1), (2)", "SELECT 2", 'I'},
		{"FROM range(3)", "SELECT 3", 'I'},
		{"SHOW TABLES", "SELECT 1", 'I'},
		{"PREPARE p AS SELECT 1", "PREPARE", 'I'},
		{"EXECUTE p", "SELECT 1", 'I'},
		{"DEALLOCATE p", "DEALLOCATE", 'I'},
		{"EXECUTE p", "26000", 'I'},
		{"CREATE TABLE sale (y INTEGER, q VARCHAR, n INTEGER); INSERT INTO sale VALUES (1, 'a', 2), (1, 'b', 3)", "CREATE TABLE; INSERT 0 2", 'I'},
		{"PIVOT sale ON q USING sum(n)", "SELECT 1", 'I'},
		{"PIVOT sale ON q IN ('a') USING sum(n)", "SELECT 1", 'I'},
		{"SELECT 1;; SELECT 2;", "SELECT 1; SELECT 1", 'I'},
	})
}

func TestCursors(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.expect("C:BEGIN C:DECLARE_CURSOR Z:T", query(`BEGIN; DECLARE "My c" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT range AS i FROM range(5)`))
	r.expect("T[i:20:0] D(0) C:FETCH_1 Z:T", query(`FETCH "My c"`))
	r.expect("T[i:20:0] D(1) D(2) C:FETCH_2 Z:T", query(`FETCH FORWARD 2 FROM "My c"`))
	r.expect("T[x:23:0] D(1) C:SELECT_1 Z:T", query("SELECT 1 AS x"))
	r.expect("1 t[] T[i:20:0] 2 D(3) C:FETCH_1 Z:T", parse("", `FETCH 1 IN "My c"`), describe('S', ""), bind("", ""), execute("", 0), sync_)
	r.expect("C:MOVE_1 T[i:20:0] C:FETCH_0 Z:T", query(`MOVE 1 IN "My c"; FETCH ALL IN "My c"`))
	r.expect("C:CLOSE_CURSOR E:34000 Z:E", query(`CLOSE "My c"; FETCH "My c"`))
	r.expect("C:ROLLBACK E:25P01 Z:I", query("ROLLBACK; DECLARE c CURSOR FOR SELECT 1"))
	for sql, want := range map[string]string{
		"DECLARE c CURSOR WITH HOLD FOR SELECT 1": "E:0A000", "DECLARE c SCROLL CURSOR FOR SELECT 1": "E:0A000", "FETCH BACKWARD 1 FROM c": "E:0A000",
		"DECLARE c CURSOR FOR SELECT * FROM read_csv('x')": "E:42501", "DECLARE c CURSOR FOR SELECT * FROM nowhere": "E:42P01", "DECLARE c CURSOR": "E:42501",
		"DECLARE c CURSOR FOR DELETE FROM t": "E:42P01",
	} {
		r.talk(query("BEGIN"))
		if got := r.talk(query(sql)); got != want+" Z:E" {
			t.Errorf("%s: %s", sql, got)
		}
		r.talk(query("ROLLBACK"))
	}
}

// A pipeline up to Sync is one transaction, as PostgreSQL has it.
func TestPipelineIsOneTransaction(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (i INTEGER)"); err != nil {
		t.Fatal(err)
	}
	batch := func(sqls ...string) error {
		b := &pgconn.Batch{}
		for _, s := range sqls {
			b.ExecParams(s, nil, nil, nil, nil)
		}
		_, err := c.PgConn().ExecBatch(t.Context(), b).ReadAll()
		return err
	}
	if err := batch("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "SELECT CAST('x' AS INTEGER) FROM t"); code(err) != "22P02" {
		t.Fatal(err)
	}
	if err := batch("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)"); err != nil {
		t.Fatal(err)
	}
	if err := batch("INSERT INTO t VALUES (5)", "BEGIN", "INSERT INTO t VALUES (6)"); err != nil {
		t.Fatal(err)
	}
	runSteps(t, c, []step{{"ROLLBACK", "ROLLBACK", 'I'}})
	var got []int32
	if err := c.QueryRow(t.Context(), "SELECT list(i ORDER BY i) FROM t").Scan(&got); err != nil || !slices.Equal(got, []int32{3, 4}) {
		t.Fatal(got, err)
	}
}

// pgx's own transactions and batches, as programs use them.
func TestPgxTransaction(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	if _, err := c.Exec(t.Context(), "CREATE TABLE t (i INTEGER)"); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
		for i := range 5 {
			if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1)", i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "DELETE FROM t")
		if err != nil {
			return err
		}
		return fmt.Errorf("not this time")
	})
	if err == nil {
		t.Fatal("no error")
	}
	var n int
	if err := c.QueryRow(context.Background(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 5 {
		t.Fatal(n, err)
	}
}

// Settings follow the transaction: ROLLBACK takes them back, SET LOCAL ends with it.
func TestSettings(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	show := func(name, want string) {
		t.Helper()
		var got string
		if err := c.QueryRow(t.Context(), "SHOW "+name).Scan(&got); err != nil || got != want {
			t.Errorf("SHOW %s: %q, %v; want %q", name, got, err, want)
		}
	}
	runSteps(t, c, []step{
		{"SET extra_float_digits = 3", "SET", 'I'},
		{"SET client_encoding TO 'UTF8'; SET NAMES 'utf-8'", "SET; SET", 'I'},
		{"SET client_encoding = latin1", "0A000", 'I'},
		{"SET standard_conforming_strings = on", "SET", 'I'},
		{"SET standard_conforming_strings = off", "0A000", 'I'},
		{"SET DateStyle = 'ISO, MDY'", "SET", 'I'},
		{"SET DateStyle = german", "0A000", 'I'},
		{"SET application_name = 'it''s me'", "SET", 'I'},
		{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET", 'I'},
		{"SET memory_limit = '1GB'", "42501", 'I'},
		{"SET threads = 1", "42501", 'I'},
		{"SET GLOBAL TimeZone = 'UTC'", "42501", 'I'},
		{"RESET memory_limit", "42501", 'I'},
		{"SET server_version = '1'", "55P02", 'I'},
		{"SHOW nonsense", "42704", 'I'},
		{"SET statement_timeout = '2s'", "SET", 'I'},
		{"SET TIME ZONE 'Asia/Tokyo'", "SET", 'I'},
		{"SET TimeZone = 'Nowhere/Land'", "22023", 'I'},
		{"BEGIN; SET TimeZone = 'Europe/Paris'; SET LOCAL statement_timeout = 5", "BEGIN; SET; SET", 'T'},
	})
	show("TimeZone", "Europe/Paris")
	show("statement_timeout", "5ms")
	runSteps(t, c, []step{{"COMMIT", "COMMIT", 'I'}})
	show("timezone", "Europe/Paris")
	show("statement_timeout", "2s")
	runSteps(t, c, []step{{"BEGIN; SET TimeZone = 'Asia/Tokyo'; ROLLBACK", "BEGIN; SET; ROLLBACK", 'I'}})
	show("time zone", "Europe/Paris")
	show("application_name", "it's me")
	show("server_version", "15.0 (Sluice)")
	show("transaction isolation level", "repeatable read")
	if got := c.PgConn().ParameterStatus("TimeZone"); got != "Europe/Paris" {
		t.Errorf("the client was told of zone %q", got)
	}
	var hour int
	if err := c.QueryRow(t.Context(), "SELECT hour(TIMESTAMPTZ '2024-01-01 12:00:00+00')").Scan(&hour); err != nil || hour != 13 {
		t.Errorf("the engine's zone: hour %d, %v", hour, err)
	}
	runSteps(t, c, []step{{"RESET ALL", "RESET", 'I'}})
	show("TimeZone", "UTC")
	runSteps(t, c, []step{
		{"CREATE SCHEMA sales", "CREATE SCHEMA", 'I'},
		{"CREATE TABLE sales.t (i INTEGER)", "CREATE TABLE", 'I'},
		{"SELECT * FROM t", "42P01", 'I'},
		{"SET search_path TO \"$user\", sales, missing", "SET", 'I'},
		{"SELECT * FROM t", "SELECT 0", 'I'},
	})
	show("search_path", `"$user", sales, missing`)
	runSteps(t, c, []step{{"RESET search_path", "RESET", 'I'}, {"SELECT * FROM t", "42P01", 'I'}, {"DISCARD ALL", "DISCARD ALL", 'I'}})
}

func TestStartupSettings(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c, err := pgx.Connect(t.Context(), dsn(srv, "olga")+"&application_name=app&timezone=Asia/Kolkata&options=-c%20statement_timeout%3D7s%20-c%20geqo%3Doff")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for name, want := range map[string]string{"application_name": "app", "TimeZone": "Asia/Kolkata", "statement_timeout": "7s"} {
		var got string
		if err := c.QueryRow(t.Context(), "SHOW "+name).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
