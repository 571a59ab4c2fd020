package warehouse_test

import (
	"testing"

	"sluice/internal/warehouse"
)

// Savepoints work where the engine has nothing to undo, or everything; the rest is refused, never half done.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	runSteps(t, c, []step{
		{"CREATE TABLE t (i INTEGER)", "CREATE TABLE", 'I'},
		{"SAVEPOINT a", "25P01", 'I'},
		{"ROLLBACK TO a", "25P01", 'I'},
		// released, with writes on both sides
		{"BEGIN; INSERT INTO t VALUES (1); SAVEPOINT a; INSERT INTO t VALUES (2); RELEASE SAVEPOINT a; COMMIT", "BEGIN; INSERT 0 1; SAVEPOINT; INSERT 0 1; RELEASE; COMMIT", 'I'},
		{"SELECT * FROM t", "SELECT 2", 'I'},
		// an error of the binder, with writes before: nothing was lost
		{"BEGIN; INSERT INTO t VALUES (3); SAVEPOINT a", "BEGIN; INSERT 0 1; SAVEPOINT", 'T'},
		{"SELECT * FROM nowhere", "42P01", 'E'},
		{"SELECT 1", "25P02", 'E'},
		{"ROLLBACK TO SAVEPOINT b", "3B001", 'E'},
		{"ROLLBACK TO SAVEPOINT a", "ROLLBACK", 'T'},
		{"INSERT INTO t VALUES (4); COMMIT", "INSERT 0 1; COMMIT", 'I'},
		{"SELECT * FROM t", "SELECT 4", 'I'},
		// an error at run time, nothing written before
		{"BEGIN; SELECT 1; SAVEPOINT a; INSERT INTO t VALUES (5)", "BEGIN; SELECT 1; SAVEPOINT; INSERT 0 1", 'T'},
		{"SELECT CAST('x' AS INTEGER)", "22P02", 'E'},
		{"ROLLBACK TO a", "ROLLBACK", 'T'},
		{"INSERT INTO t VALUES (6); COMMIT", "INSERT 0 1; COMMIT", 'I'},
		{"SELECT * FROM t", "SELECT 5", 'I'},
		// going back over a write, nothing written before
		{"BEGIN; SAVEPOINT a; INSERT INTO t VALUES (7); ROLLBACK TO a; COMMIT", "BEGIN; SAVEPOINT; INSERT 0 1; ROLLBACK; COMMIT", 'I'},
		{"SELECT * FROM t", "SELECT 5", 'I'},
		// what would have to be undone in part is refused, and the block is failed
		{"BEGIN; INSERT INTO t VALUES (8); SAVEPOINT a; INSERT INTO t VALUES (9); ROLLBACK TO a", "BEGIN; INSERT 0 1; SAVEPOINT; INSERT 0 1; 0A000", 'E'},
		{"COMMIT", "ROLLBACK", 'I'},
		{"BEGIN; INSERT INTO t VALUES (8); SAVEPOINT a; SELECT CAST('x' AS INTEGER)", "BEGIN; INSERT 0 1; SAVEPOINT; 22P02", 'E'},
		{"ROLLBACK TO a", "0A000", 'E'},
		{"COMMIT", "ROLLBACK", 'I'},
		{"SELECT * FROM t", "SELECT 5", 'I'},
		// settings follow
		{"BEGIN; SET application_name = 'one'; SAVEPOINT a; SET application_name = 'two'; ROLLBACK TO a; COMMIT", "BEGIN; SET; SAVEPOINT; SET; ROLLBACK; COMMIT", 'I'},
	})
	var name string
	if err := c.QueryRow(t.Context(), "SHOW application_name").Scan(&name); err != nil || name != "one" {
		t.Fatal(name, err)
	}
}
