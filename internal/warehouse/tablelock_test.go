package warehouse_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/house"
)

// Sessions that delete from and update one table at once: each row is there once, and as often changed as was acknowledged.
func TestOverlappingChangesOfATable(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	owner := dial(t, h, "olga", "x")
	runSteps(t, owner, []step{
		{"CREATE TABLE t AS SELECT range AS i, 0 AS n FROM range(200)", "SELECT 200", 'I'},
		{"DELETE FROM t WHERE i < 10", "DELETE 10", 'I'}, // the file has a delete file from here on
	})
	const writers, rounds = 4, 4
	var mu sync.Mutex
	deleted, updated := 10, 0
	var wg sync.WaitGroup
	for w := range writers {
		c := dial(t, h, "olga", "x")
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for i := range rounds {
				from := 10 + (w*rounds+i)*10
				block := r.IntN(3) > 0
				sql := "DELETE FROM t WHERE i >= $1 AND i < $1 + 5"
				update := "UPDATE t SET n = n + 1 WHERE i >= $1 + 5 AND i < $1 + 10"
				for {
					d, u, err := change(context.Background(), c, block, from, sql, update)
					mu.Lock()
					deleted, updated = deleted+d, updated+u
					mu.Unlock()
					if err == nil {
						break
					}
					if code(err) != "40001" && code(err) != "40P01" {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	var rows, ids, changes int
	if err := owner.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT i), sum(n)::INT FROM t WHERE n >= 0").Scan(&rows, &ids, &changes); err != nil {
		t.Fatal(err)
	}
	if rows != 200-deleted || ids != rows || changes != updated {
		t.Fatalf("%d rows of %d ids with %d changes, want %d rows with %d changes", rows, ids, changes, 200-deleted, updated)
	}
	if deleted != 10+writers*rounds*5 || updated != writers*rounds*5 {
		t.Fatal(deleted, updated)
	}
}

// change runs both statements, in one transaction or each in its own, and tells what was stored.
func change(ctx context.Context, c *pgx.Conn, block bool, from int, statements ...string) (deleted, updated int, err error) {
	if !block {
		d, err := c.Exec(ctx, statements[0], from)
		if err != nil {
			return 0, 0, err
		}
		u, err := c.Exec(ctx, statements[1], from)
		for code(err) == "40001" {
			u, err = c.Exec(ctx, statements[1], from)
		}
		return int(d.RowsAffected()), int(u.RowsAffected()), err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var n int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil { // an old snapshot is refused, not merged
		return 0, 0, err
	}
	d, err := tx.Exec(ctx, statements[0], from)
	if err != nil {
		return 0, 0, err
	}
	u, err := tx.Exec(ctx, statements[1], from)
	if err != nil {
		return 0, 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, 0, err
	}
	return int(d.RowsAffected()), int(u.RowsAffected()), nil
}

// A second transaction waits for the first, sees its rows gone, and is not refused if it had not read before.
func TestTableLock(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	a, b := dial(t, h, "olga", "x"), dial(t, h, "paul", "x")
	runSteps(t, a, []step{
		{"CREATE TABLE t AS SELECT range AS i FROM range(100)", "SELECT 100", 'I'},
		{"CREATE TABLE u AS SELECT range AS i FROM range(100)", "SELECT 100", 'I'},
		{"BEGIN; DELETE FROM main.T WHERE i < 10", "BEGIN; DELETE 10", 'T'},
	})
	done := make(chan error, 1)
	go func() {
		_, err := b.PgConn().Exec(context.Background(), "BEGIN; DELETE FROM t WHERE i < 20; COMMIT").ReadAll()
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatal("the second did not wait: ", err)
	case <-time.After(200 * time.Millisecond):
	}
	runSteps(t, a, []step{{"COMMIT", "COMMIT", 'I'}})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	runSteps(t, a, []step{{"SELECT i FROM t", "SELECT 80", 'I'}})
	// Who has read before the other's change is refused, as under REPEATABLE READ.
	runSteps(t, b, []step{{"BEGIN; SELECT count(*) FROM t", "BEGIN; SELECT 1", 'T'}})
	runSteps(t, a, []step{{"UPDATE t SET i = i + 1", "UPDATE 80", 'I'}})
	runSteps(t, b, []step{{"DELETE FROM t WHERE i < 30", "40001", 'E'}, {"ROLLBACK", "ROLLBACK", 'I'}})
	// Two that want each other's table.
	runSteps(t, a, []step{{"BEGIN; DELETE FROM t WHERE i < 30", "BEGIN; DELETE 9", 'T'}})
	runSteps(t, b, []step{{"BEGIN; DELETE FROM u WHERE i < 30", "BEGIN; DELETE 30", 'T'}})
	go func() { _, err := a.Exec(context.Background(), "DELETE FROM u WHERE i < 40"); done <- err }()
	time.Sleep(100 * time.Millisecond)
	runSteps(t, b, []step{{"PREPARE p AS DELETE FROM t", "PREPARE", 'T'}, {"EXECUTE p", "40P01", 'E'}, {"ROLLBACK", "ROLLBACK", 'I'}})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	runSteps(t, a, []step{{"COMMIT", "COMMIT", 'I'}})
}
