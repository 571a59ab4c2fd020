package lake_test

import (
	"context"
	"testing"

	"sluice/internal/testkit/house"
	"sluice/internal/warehouse/engine"
)

// TestFactOverlappingDeletes pins a defect of the engine that Sluice has to live with (docs/adr/0008): two DELETEs of
// different rows in one data file that has a delete file already both commit, and the rows that are left are doubled. The
// first DELETE on a file does conflict. A new engine that fails this test has mended it.
func TestFactOverlappingDeletes(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	exec := func(c *engine.Conn, q string) error {
		_, err := c.ExecContext(t.Context(), q)
		return err
	}
	must := func(c *engine.Conn, q string) {
		t.Helper()
		if err := exec(c, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	a, b := h.Engine("acme"), h.Engine("acme") // the server would let only one of them change the table
	overlap := func() (errB error) {
		must(a, "BEGIN")
		must(b, "BEGIN")
		must(a, "DELETE FROM s.t WHERE id BETWEEN 10 AND 19")
		must(b, "DELETE FROM s.t WHERE id BETWEEN 20 AND 29")
		must(a, "COMMIT")
		errB = exec(b, "COMMIT")
		if errB != nil {
			_, _ = b.ExecContext(context.Background(), "ROLLBACK")
		}
		return errB
	}
	must(a, "CREATE SCHEMA s")
	must(a, "CREATE TABLE s.t AS SELECT i AS id FROM range(100) r(i)")
	if err := overlap(); err == nil {
		t.Errorf("the first overlapping DELETEs of a file do not conflict any more: %v rows are left", h.Rows("acme", "SELECT count(*) FROM s.t"))
	}
	must(a, "CREATE OR REPLACE TABLE s.t AS SELECT i AS id FROM range(100) r(i)")
	must(a, "DELETE FROM s.t WHERE id < 10")
	err := overlap()
	left := h.Rows("acme", "SELECT count(*) || ' of ' || count(DISTINCT id) FROM s.t")[0]
	t.Logf("COMMIT of the second: %v; rows and ids left: %s", err, left)
	if err != nil || left == "70 of 70" {
		t.Errorf("the defect is gone (%v, %s): see docs/adr/0008", err, left)
	}
}
