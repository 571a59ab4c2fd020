package load_test

import (
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/testkit/rig"
)

// changes is a query of change rows: operation, order, key, two values.
func changes(tuples ...string) string {
	return rig.Values("op, lsn, id, v, w", "op::VARCHAR AS _op, lsn::BIGINT AS lsn, id::BIGINT AS id, v::VARCHAR AS v, w::INTEGER AS w", tuples...)
}

func cdc(set func(c *sluice.CDCOptions)) func(o *sluice.Options) {
	return func(o *sluice.Options) { set(o.CDC) }
}

func soft(c *sluice.CDCOptions) { c.DeleteMode = "soft" }

// Streams of changes (case 47).
func TestChanges(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"hard deletes": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC)
			r.Enqueue(id, "r1",
				r.File(changes("'c', 1, 1, 'a', 1", "'r', 2, 2, 'b', 2", "'insert', 3, 3, 'c', 3", "'C', 4, 4, 'd', 4")),
				r.File(changes(
					"'c', 5, 10, 'x', 1", "'d', 6, 10, NULL, NULL", // insert + delete of a new key
					"'d', 7, 1, NULL, NULL", "'c', 8, 1, 'again', 9", // delete + insert of a known key
					"'u', 9, 11, 'unknown', 5",    // update of an unknown key
					"'d', 10, 12, NULL, NULL",     // delete of an unknown key
					"'DELETE', 11, 2, NULL, NULL", // delete of a known key
					"'update', 12, 3, 'C', NULL",  // an after-image: NULL counts
					"'c', 13, 4, 'upserted', 4"))) // insert of a known key
			r.Load()
			r.WantTable(id, "*", "1|again|9", "3|C|∅", "4|upserted|4", "11|unknown|5")
			r.WantColumns(id, "id BIGINT", "v VARCHAR", "w INTEGER")
			r.WantOps(id, "r1", "create", "merge")
		},
		"soft deletes": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC, options(cdc(soft)))
			r.Enqueue(id, "r1",
				r.File(changes("'c', 1, 1, 'a', 1", "'c', 2, 2, 'b', 2", "'c', 3, 10, 'x', 1", "'d', 4, 10, NULL, NULL")),
				r.File(changes("'d', 5, 1, NULL, 7", "'d', 6, 11, NULL, 3", "'d', 7, 2, NULL, NULL", "'u', 8, 2, 'back', NULL")))
			r.Load()
			columns := "id, v, w, _sluice_deleted, _sluice_deleted_at IS NULL"
			r.WantTable(id, columns, "1|a|7|t|f", "2|back|∅|f|t", "10|∅|∅|t|f", "11|∅|3|t|f")
			r.Enqueue(id, "r2", r.File(changes("'u', 9, 1, 'alive', 1")))
			r.Load()
			r.WantTable(id, columns, "1|alive|1|f|t", "2|back|∅|f|t", "10|∅|∅|t|f", "11|∅|3|t|f")
		},
		"equal order values: the last by position": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC)
			r.Enqueue(id, "r1", r.File(changes("'c', 1, 1, 'first', 1", "'u', 1, 1, 'last', 2", "'c', 1, 2, 'x', 1", "'d', 1, 2, NULL, NULL", "'d', 1, 3, NULL, NULL", "'c', 1, 3, 'y', 1")))
			r.Load()
			r.WantTable(id, "*", "1|last|2", "3|y|1")
		},
		"order within a batch, whatever the position": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC, options(cdc(func(c *sluice.CDCOptions) { c.OrderColumns = []string{"lsn", "w"} })))
			r.Enqueue(id, "r1", r.File(changes("'u', 9, 1, 'newest', 2", "'u', 9, 1, 'older', 1", "'c', 1, 1, 'oldest', 7", "'d', 5, 2, NULL, 0", "'c', 4, 2, 'x', 9")))
			r.Load()
			r.WantTable(id, "id, v", "1|newest")
		},
		"across batches the queue's order wins": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC)
			r.Enqueue(id, "r1", r.File(changes("'c', 9, 1, 'first batch', 1")), r.File(changes("'u', 1, 1, 'second batch', 2")))
			r.Load()
			r.WantTable(id, "*", "1|second batch|2")
		},
		"kept order guards against old changes": func(r *rig.Rig) {
			for _, mode := range []string{"hard", "soft"} {
				id := r.Stream(sluice.CDC, options(cdc(func(c *sluice.CDCOptions) { c.KeepOrder, c.DeleteMode = true, mode })))
				r.Enqueue(id, "r1", r.File(changes("'c', 5, 1, 'new', 1", "'c', 5, 2, 'new', 1", "'c', 5, 3, 'new', 1")),
					r.File(changes("'u', 4, 1, 'old', 2", "'d', 4, 2, NULL, NULL", "'u', 5, 3, 'equal', 3", "'c', 1, 4, 'unknown', 4")))
				r.Load()
				r.WantTable(id, "lsn, id, v, w", "1|4|unknown|4", "5|1|new|1", "5|2|new|1", "5|3|equal|3")
			}
		},
		"own names and operations": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC, options(cdc(func(c *sluice.CDCOptions) {
				c.OpColumn, c.OpMap = "v", map[string]string{"UP": "update", "Gone": "delete"}
			})))
			r.Enqueue(id, "r1", r.File(changes("'-', 1, 1, 'up', 1", "'-', 2, 2, 'Up', 2", "'-', 3, 1, 'GONE', 3")))
			r.Load()
			r.WantTable(id, "*", "-|2|2")
		},
		"new columns and wider types": func(r *rig.Rig) {
			id := r.Stream(sluice.CDC)
			r.Enqueue(id, "r1", r.File(changes("'c', 1, 1, 'a', 1", "'c', 2, 2, 'b', 2")),
				r.File("SELECT 'u' AS _op, 3::BIGINT AS lsn, 1::BIGINT AS id, 5000000000::BIGINT AS w, 'n' AS n"))
			r.Load()
			r.WantTable(id, "*", "1|a|5000000000|n", "2|b|2|∅")
		},
		"refused": func(r *rig.Rig) {
			for code, row := range map[sluice.Code]string{
				"SLUICE-LOAD-CDC-OP": "'t', 1, 1, 'a', 1", "SLUICE-LOAD-CDC-ORDER": "'c', NULL, 1, 'a', 1", "SLUICE-LOAD-NULL-KEY": "'c', 1, NULL, 'a', 1",
			} {
				id := r.Stream(sluice.CDC, options(func(o *sluice.Options) { o.NullKeys = sluice.NullKeysMatch }))
				r.Enqueue(id, "r1", r.File(changes("'c', 1, 7, 'good', 1", row)))
				r.Load()
				r.WantQuarantined(id, code)
			}
			id := r.Stream(sluice.CDC)
			r.Enqueue(id, "r1", r.File(changes("NULL, 1, 1, 'a', 1")))
			r.Load()
			r.WantQuarantined(id, "SLUICE-LOAD-CDC-OP")
		},
	})
}
