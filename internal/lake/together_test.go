package lake_test

import (
	"fmt"
	"sync"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestTablesMadeAtOnceLandWhereTheyBelong has four streams of an org make their control tables and tables at the same
// moment, while others insert and a tenant makes tables as well. Without turns the engine put tables into other schemas, or
// died (docs/adr/0009).
func TestTablesMadeAtOnceLandWhereTheyBelong(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	file := h.File("acme", "rows", "SELECT i AS id, 'v' AS v FROM range(1000) r(i)")
	if err := open(t, h, "acme").CreateSchema(t.Context(), target.Schema); err != nil {
		t.Fatal(err)
	}
	const rounds, writers = 6, 4
	for round := range rounds {
		var wg sync.WaitGroup
		for n := range writers {
			s := open(t, h, "acme")
			id := sluice.StreamID(fmt.Sprintf("00000000-0000-4000-8000-%06d%06d", round, n))
			wg.Go(func() {
				if err := s.EnsureControl(t.Context(), id); err != nil {
					t.Errorf("round %d, writer %d: %v", round, n, err)
					return
				}
				for seq := range int64(4) {
					op := sluice.OpInsert
					if seq == 0 {
						op = sluice.OpCreate
					}
					w := write(op, seq, file)
					w.StreamID, w.Change.Target = id, lake.Table{Schema: target.Schema, Name: fmt.Sprintf("t%d_%d", round, n)}
					_, err := s.Apply(t.Context(), w)
					if err != nil && lake.AsFailure(err, lake.PhaseData, "").Outcome == sluice.Damaged { // as the loader does
						t.Logf("round %d, writer %d: %v", round, n, err)
						fixed, rerr := s.Repair(t.Context(), id, w.Change.Target, lake.Marker{Seq: w.Seq + 1, BatchID: w.BatchID, Op: op})
						if rerr != nil {
							t.Errorf("repair: %v", rerr)
							return
						}
						w.Seq = fixed.Fence.Seq
						if _, err = s.Apply(t.Context(), w); err == nil {
							return // the fence is elsewhere now: the other batches of this writer are left out
						}
					}
					if err != nil {
						t.Errorf("round %d, writer %d, seq %d: %v", round, n, seq, err)
						return
					}
				}
			})
		}
		tenant := h.Connect("acme")
		wg.Go(func() {
			for _, q := range []string{
				fmt.Sprintf("CREATE TABLE tenant%d AS SELECT 1 AS i", round), fmt.Sprintf("INSERT INTO tenant%d VALUES (2)", round),
				"BEGIN", fmt.Sprintf("INSERT INTO tenant%d VALUES (3)", round), fmt.Sprintf("CREATE TABLE more%d (i BIGINT)", round), "COMMIT",
			} {
				if _, err := tenant.Exec(t.Context(), q); err != nil {
					t.Errorf("tenant: %s: %v", q, err)
				}
			}
		})
		wg.Wait()
		for n := range writers {
			table := lake.Table{Schema: target.Schema, Name: fmt.Sprintf("t%d_%d", round, n)}
			if got := h.Rows("acme", "SELECT count(*), count(DISTINCT id) FROM "+table.SQL())[0]; got != "4000|1000" && got != "1000|1000" {
				t.Errorf("%s has %s rows and ids", table, got)
			}
		}
		if got := h.Rows("acme", fmt.Sprintf("SELECT count(*), (SELECT count(*) FROM main.more%d) FROM main.tenant%d", round, round))[0]; got != "3|0" {
			t.Errorf("the tenant's tables have %s rows", got)
		}
	}
}
