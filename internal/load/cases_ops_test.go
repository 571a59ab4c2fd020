package load_test

import (
	"fmt"
	"testing"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

// cases runs subtests in one house, each in an org of its own.
func cases(t *testing.T, all map[string]func(r *rig.Rig)) {
	t.Helper()
	h := house.New(t, house.Options{})
	for name, fn := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(rig.New(t, h, rig.Options{}))
		})
	}
}

// rows is a query of rows with an id and a text.
func rows(tuples ...string) string {
	return rig.Values("id, v", "id::BIGINT AS id, v::VARCHAR AS v", tuples...)
}

func options(set func(o *sluice.Options)) func(*stream.NewStream) {
	return func(n *stream.NewStream) { set(&n.Options) }
}

func noKeys(n *stream.NewStream) { n.Options.PrimaryKeys = nil }

// A final row ends the run in each of its three forms, and its rows are in the table (cases 4 to 6).
func TestFinalRows(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"data row that is final": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File(rows("2, 'b'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "2|b")
			r.WantRun(id, "r1", sluice.RunSucceeded)
		},
		"final row and a marker of the same index": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: "r1", Batches: []queue.NewBatch{{BatchIndex: 0, IsFinal: true}}})
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			r.WantRun(id, "r1", sluice.RunSucceeded)
		},
		"marker before its data row": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			one := int64(1)
			r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: "r1", Batches: []queue.NewBatch{{BatchIndex: 0, IsFinal: true, TotalBatches: &one}}})
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			r.WantRun(id, "r1", sluice.RunSucceeded)
		},
	})
}

// The op of each sync type, run on a real lake (cases 10 to 15).
func TestOps(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"replace head ends what was queued before it": func(r *rig.Rig) {
			id := r.Stream(sluice.FullRefresh)
			r.Enqueue(id, "r1", r.File(rows("1, 'old'")), r.File(rows("2, 'old'")))
			r.Enqueue(id, "r2", r.File(rows("3, 'new'")), r.File(rows("4, 'new'")))
			r.Load()
			r.WantTable(id, "id, v", "3|new", "4|new")
			r.WantRun(id, "r1", sluice.RunSuperseded)
			r.WantOps(id, "r2", "create", "insert")
			r.Enqueue(id, "r3", r.File(rows("5, 'newest'")))
			r.Load()
			r.WantTable(id, "id, v", "5|newest")
			r.WantOps(id, "r3", "replace")
		},
		"plain incremental supersedes nothing": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File(rows("2, 'b'")))
			r.Enqueue(id, "r2", r.File(rows("2, 'B'", "3, 'c'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "2|B", "3|c")
			r.WantOps(id, "r1", "create", "merge")
			r.WantOps(id, "r2", "merge")
		},
		"resumed batch 0 never replaces": func(r *rig.Rig) {
			full, first := r.Stream(sluice.FullRefresh), r.Stream(sluice.Incremental)
			for _, id := range []sluice.StreamID{full, first} {
				r.FirstEver(id, "r1", r.File(rows("1, 'a'", "2, 'b'")))
				r.Load()
				r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: "r2", IsFirstEver: true, Batches: []queue.NewBatch{
					{BatchIndex: 0, Path: r.File(rows("2, 'B'", "3, 'c'")), IsResume: true, IsFinal: true},
				}})
			}
			r.Load()
			r.WantTable(full, "id, v", "1|a", "2|B", "2|b", "3|c")
			r.WantOps(full, "r2", "insert")
			r.WantTable(first, "id, v", "1|a", "2|B", "3|c")
			r.WantOps(first, "r2", "merge")
		},
		"first-ever run without keys": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, noKeys)
			r.FirstEver(id, "r0", r.File(rows("9, 'gone'")))
			r.Load()
			r.FirstEver(id, "r1", r.File(rows("1, 'a'")), r.File(rows("1, 'a'")), r.File(rows("2, 'b'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "1|a", "2|b")
			r.WantOps(id, "r1", "replace", "insert", "insert")
		},
		"first-ever run with one key in two batches": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.FirstEver(id, "r1", r.File(rows("1, 'a'", "2, 'b'")), r.File(rows("3, 'c'")), r.File(rows("1, 'A'")))
			r.Load()
			r.WantTable(id, "id, v", "1|A", "2|b", "3|c")
			r.WantOps(id, "r1", "create", "merge", "merge")
		},
		"first-ever run whose producer vouches for its keys": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.UniqueKeys = true }))
			r.FirstEver(id, "r1", r.File(rows("1, 'a'")), r.File(rows("2, 'b'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "2|b")
			r.WantOps(id, "r1", "create", "insert")
		},
		"target missing in mid-run": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.Rows(id, "DROP TABLE {t}")
			r.Enqueue(id, "r2", r.File(rows("1, 'x'", "2, 'b'", "1, 'y'")), r.File(rows("3, 'c'")))
			r.Load()
			r.WantTable(id, "id, v", "1|y", "2|b", "3|c")
			r.WantOps(id, "r2", "create", "merge")
		},
		"replace that keeps the table": func(r *rig.Rig) {
			id := r.Stream(sluice.FullRefresh, options(func(o *sluice.Options) { o.ReplaceMode = "rewrite" }))
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			before, err := r.Session().DescribeTarget(r.Context(), r.Table(id))
			if err != nil {
				r.Fatal(err)
			}
			r.Enqueue(id, "r2", r.File(rows("2, 'b'")))
			r.Load()
			after, _ := r.Session().DescribeTarget(r.Context(), r.Table(id))
			r.WantTable(id, "id, v", "2|b")
			if before.TableID != after.TableID {
				r.Errorf("the table's id went from %d to %d", before.TableID, after.TableID)
			}
		},
	})
}

// Keys are found, NULL keys refused or matched, duplicates reduced to the newest row (cases 17 to 20).
func TestKeys(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"declared but absent": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.PrimaryKeys = []string{"id", "nope"} }))
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.WantQuarantined(id, "SLUICE-LOAD-KEY-MISSING", "nope", "id, v")
		},
		"found without case and in snake case": func(r *rig.Rig) {
			for name, from := range map[string]string{"lower": "userid", "snake": "user_id", "exact": `"UserID"`} {
				id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.PrimaryKeys = []string{"UserID"} }))
				r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS "+from+", 'a' AS v"), r.File("SELECT 1::BIGINT AS "+from+", 'b' AS v"))
				r.Load()
				r.WantTable(id, "*", "1|b")
				if r.Failed() {
					r.Errorf("key %s", name)
				}
			}
		},
		"the last row of a key in the file": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'", "2, 'x'", "1, 'b'")), r.File(rows("2, 'z'", "1, 'd'", "2, 'y'", "1, 'c'")))
			r.Load()
			r.WantTable(id, "id, v", "1|c", "2|y")
		},
		"the newest row of a key by dedupe_order": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.DedupeOrder = []string{"ts", "n"} }))
			of := func(tuples ...string) string {
				return r.File(rig.Values("id, ts, n, v", "id::BIGINT AS id, ts::TIMESTAMP AS ts, n::INTEGER AS n, v::VARCHAR AS v", tuples...))
			}
			r.Enqueue(id, "r1",
				of("1, '2026-01-02', 1, 'newest'", "1, '2026-01-01', 9, 'older'", "2, NULL, 1, 'null'", "2, '2025-01-01', 1, 'newest'"),
				of("3, '2026-01-01', 1, 'first'", "3, '2026-01-01', 1, 'last of equals'", "4, '2026-01-01', 2, 'newest'", "4, '2026-01-01', NULL, 'null'"))
			r.Load()
			r.WantTable(id, "id, v", "1|newest", "2|newest", "3|last of equals", "4|newest")
		},
		"NULL refused": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'", "NULL, 'b'", "NULL, 'c'")))
			r.Load()
			r.WantQuarantined(id, "SLUICE-LOAD-NULL-KEY", "2 rows")
		},
		"NULL matched": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.NullKeys = sluice.NullKeysMatch }))
			r.Enqueue(id, "r1", r.File(rows("1, 'a'", "NULL, 'b'")))
			r.Enqueue(id, "r2", r.File(rows("1, 'a'", "NULL, 'b'")))
			r.Enqueue(id, "r3", r.File(rows("NULL, 'c'", "NULL, 'd'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "∅|d")
		},
		"nothing but keys": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.PrimaryKeys = []string{"id", "v"} }))
			r.Enqueue(id, "r1", r.File(rows("1, 'a'", "1, 'b'")), r.File(rows("1, 'b'", "2, 'a'")), r.File(rows("1, 'b'", "2, 'a'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "1|b", "2|a")
		},
		"column absent from a merge batch keeps its value": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 'a' AS v, 7 AS w"), r.File("SELECT * FROM (VALUES (1::BIGINT, 8), (2, 9)) AS t(id, w)"))
			r.Load()
			r.WantTable(id, "id, v, w", "1|a|8", "2|∅|9")
		},
		"keys of other types": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.PrimaryKeys = []string{"at", "amount", "u"} }))
			file := "SELECT TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_days(i::INTEGER) AS at, (i / 10)::DECIMAL(10,2) AS amount, uuid() AS u, i AS n FROM range(3) AS t(i)"
			path := r.File(file)
			r.Enqueue(id, "r1", path, path)
			r.Load()
			r.WantTable(id, "n", "0", "1", "2")
		},
	})
}

// Empty files and empty refreshes (case 21).
func TestEmptyFiles(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	cases(t, map[string]func(r *rig.Rig){
		"replace": func(r *rig.Rig) {
			id := r.Stream(sluice.FullRefresh)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.Enqueue(id, "r2", r.File("SELECT 1::BIGINT AS id, 2 AS w WHERE false"))
			r.Load()
			r.WantTable(id, "*")
			r.WantColumns(id, "id BIGINT", "w INTEGER")
			r.WantOps(id, "r2", "replace")
		},
		"insert evolves the schema": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File("SELECT 1::BIGINT AS id, 2 AS w WHERE false"))
			r.Load()
			r.WantTable(id, "*", "1|a|∅")
			r.WantColumns(id, "id BIGINT", "v VARCHAR", "w INTEGER")
		},
		"merge": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File("SELECT 1::BIGINT AS id, 'x' AS v WHERE false"))
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			r.WantRun(id, "r1", sluice.RunSucceeded)
		},
		"create": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id WHERE false"), r.File("SELECT 1::BIGINT AS id"))
			r.Load()
			r.WantTable(id, "id", "1")
		},
		"refresh": func(r *rig.Rig) {
			id := r.Stream(sluice.FullRefresh)
			empty := func(run sluice.RunID) {
				r.EnqueueRun(queue.EnqueueRequest{StreamID: id, RunID: run, Batches: []queue.NewBatch{{BatchIndex: 0, IsFinal: true, TotalBatches: &zero}}})
				r.Load()
			}
			empty("r0")
			r.WantOps(id, "r0", "nothing")
			r.WantRun(id, "r0", sluice.RunSucceeded)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			empty("r2")
			r.WantTable(id, "*")
			r.WantColumns(id, "id BIGINT", "v VARCHAR")
			r.WantOps(id, "r2", "replace")
			r.WantRun(id, "r2", sluice.RunSucceeded)
		},
	})
}

// The loader passes each value itself: defaults and constraints that somebody has declared on a target change nothing
// (case 22).
func TestDefaultsInTheLake(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"default": func(r *rig.Rig) {
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.Rows(id, "ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 'default'")
			r.Enqueue(id, "r2", r.File(rows("2, NULL", "1, NULL")))
			r.Load()
			r.WantTable(id, "id, v", "1|∅", "2|∅")
		},
		"NOT NULL": func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
			r.Load()
			r.Rows(id, "ALTER TABLE {t} ALTER COLUMN v SET NOT NULL")
			r.Enqueue(id, "r2", r.File(rows("2, NULL")))
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			if n := len(r.Quarantined(id)); n != 1 {
				r.Errorf("%d batches quarantined, want the one that breaks the constraint", n)
			}
		},
	})
}

// Rows are matched with the table by name, never by position (case 42).
func TestColumnOrder(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"insert and merge": func(r *rig.Rig) {
			for _, sync := range []sluice.SyncType{sluice.Append, sluice.Incremental} {
				id := r.Stream(sync)
				r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, 'a' AS v, 'b' AS w"), r.File("SELECT 'y' AS w, 'x' AS V, 2::BIGINT AS ID"))
				r.Load()
				r.WantTable(id, "id, v, w", "1|a|b", "2|x|y")
			}
		},
	})
}

// A batch names its file literally: no character of a path is a pattern or ends a literal (case 51).
func TestPaths(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"that file and no other": func(r *rig.Rig) {
			// What a pattern of such a name would find as well.
			for _, decoy := range []string{"aXb", "abc", "100A", "whoX", "a", "b"} {
				r.House.File(r.Org, decoy, rows("99, 'wrong'"))
			}
			for i, name := range []string{"it's", "a*b", "a[b]c", "100%41", "who?", "a b", "ñandú-日本", `back\slash`, "{a,b}", "semi;colon", "a**b", "[!a]", "a#b&c=d"} {
				id := r.Stream(sluice.Append)
				path := r.House.File(r.Org, name, rows(fmt.Sprintf("%d, 'right'", i)))
				r.Enqueue(id, "r1", path)
				r.Load()
				r.WantTable(id, "id, v", fmt.Sprintf("%d|right", i))
				if r.Failed() {
					r.Errorf("path %s", path)
					return
				}
			}
		},
	})
}

// A merge writes what has changed and nothing else, also where the engine calls two values equal that are not the same.
func TestUnequalButSame(t *testing.T) {
	t.Parallel()
	cases(t, map[string]func(r *rig.Rig){
		"values": func(r *rig.Rig) {
			for _, c := range [][2]string{
				{"INTERVAL '30 days'", "INTERVAL '1 month'"},
				{"0.0::DOUBLE", "'-0.0'::DOUBLE"},
				{"0.0::FLOAT", "'-0.0'::FLOAT"},
				{"[INTERVAL '30 days']", "[INTERVAL '1 month']"},
				{"{a: 0.0::DOUBLE}", "{a: '-0.0'::DOUBLE}"},
				{"1::VARIANT", "'x'::VARIANT"},
				{"NULL::VARCHAR", "''"},
				{"{a: 1, b: NULL::INTEGER}", "{a: 1, b: 2}"},
				{"'{\"a\":1}'::JSON", "'{\"a\": 1}'::JSON"},
				{"map {'a': 1, 'b': 2}", "map {'b': 2, 'a': 1}"},
			} {
				onlyChanged := true
				id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.UpdateOnlyChanged = &onlyChanged }))
				of := func(v string) string { return r.File("SELECT 1::BIGINT AS id, " + v + " AS v") }
				r.Enqueue(id, "r1", of(c[0]), of(c[1]))
				r.Load()
				r.WantTable(id, "v::VARCHAR", r.Rows(id, "SELECT ("+c[1]+")::VARCHAR")[0])
			}
		},
		"unchanged rows are left alone": func(r *rig.Rig) {
			for changed, want := range map[bool]int64{true: 2, false: 4} {
				id := r.Stream(sluice.Incremental, options(func(o *sluice.Options) { o.UpdateOnlyChanged = &changed }))
				r.Enqueue(id, "r1", r.File(rows("1, 'a'", "2, NULL", "3, 'c'")), r.File(rows("1, 'a'", "2, NULL", "3, 'C'", "4, 'd'")))
				r.Load()
				r.WantTable(id, "id, v", "1|a", "2|∅", "3|C", "4|d")
				_, history, err := r.Queue.Batch(r.Context(), r.Batches(id, "r1")[1].BatchID)
				if err != nil {
					r.Fatal(err)
				}
				if last := history[len(history)-1]; last.RowsWritten == nil || *last.RowsWritten != want {
					r.Errorf("only changed %v: %v rows written, want %d", changed, last.RowsWritten, want)
				}
			}
		},
	})
}
