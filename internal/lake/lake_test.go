package lake_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestContract runs the contract of a session on real lakes, over the wire, with both kinds of catalog.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]house.Options{"duckdb": {}, "postgres": {Postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			var n atomic.Int64
			laketest.Run(t, func(t *testing.T) laketest.Harness {
				org := sluice.Org(fmt.Sprintf("org-%d", n.Add(1)))
				h := h.On(t)
				h.Org(org)
				return laketest.Harness{
					Open: func(ctx context.Context) (laketest.Session, error) { return h.Dialer().Open(ctx, org) },
					File: func(name string, rows []laketest.Record) string { return h.File(org, name, values(rows)) },
					Rows: func(t lake.Table) []laketest.Record { return table(h, org, t) },
				}
			})
		})
	}
}

// values is a query that gives records.
func values(rows []laketest.Record) string {
	var parts []string
	for _, r := range rows {
		id := "NULL"
		if r["id"] != nil {
			id = fmt.Sprint(r["id"])
		}
		parts = append(parts, fmt.Sprintf("(%s, %s)", id, lake.Literal(fmt.Sprint(r["v"]))))
	}
	return "SELECT id::BIGINT AS id, v FROM (VALUES " + strings.Join(parts, ", ") + ") AS t(id, v)"
}

func table(h *house.House, org sluice.Org, t lake.Table) []laketest.Record {
	var out []laketest.Record
	for _, line := range h.Rows(org, "SELECT id, v FROM "+t.SQL()) {
		id, v, _ := strings.Cut(line, "|")
		n, _ := strconv.ParseInt(id, 10, 64)
		out = append(out, laketest.Record{"id": n, "v": v})
	}
	return out
}

// TestMergeOfTheNewestRows merges real flights, de-duplicated by position, again and again: the shape that made the engine
// crash or hang with one of its optimizers (docs/adr/0006).
func TestMergeOfTheNewestRows(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	s := open(t, h, "acme")
	if err := s.EnsureControl(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateSchema(t.Context(), target.Schema); err != nil {
		t.Fatal(err)
	}
	seq, rows := int64(0), 0
	for _, month := range []string{"11", "12", "10", "12", "11"} {
		path := h.Copy("acme", "../../examples/flights/batches/flights-2013-"+month+".parquet")
		f, err := s.DescribeFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		w := write(sluice.OpMerge, seq, path)
		if seq == 0 {
			w = write(sluice.OpCreate, seq, path)
			w.Change.Keys = []string{"id"}
		}
		w.Change.Columns, w.Change.Assign, w.Change.OnlyChanged = f.Columns, nil, true
		for _, c := range f.Columns {
			w.Change.Assign = append(w.Change.Assign, lake.Assignment{To: c, From: c.Name})
		}
		if _, err := s.Apply(t.Context(), w); err != nil {
			t.Fatalf("month %s: %v", month, err)
		}
		if seq++; seq <= 3 {
			rows += int(f.Rows)
		}
		got := h.Rows("acme", "SELECT count(*), count(DISTINCT id) FROM "+target.SQL())
		if want := fmt.Sprintf("%[1]d|%[1]d", rows); got[0] != want {
			t.Fatalf("month %s: got %s, want %s", month, got[0], want)
		}
	}
}

// TestAbortedTransactionTakesNoInsert is the fact on which the marker stands as the proof that a transaction is alive
// (docs/adr/0007): on the engine itself, without the warehouse's own transaction state in between.
func TestAbortedTransactionTakesNoInsert(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, q := range []string{
		"SET extension_directory = " + lake.Literal(house.Extensions(t)), "LOAD ducklake",
		"ATTACH " + lake.Literal("ducklake:"+t.TempDir()+"/c.ducklake") + " AS lake (DATA_PATH " + lake.Literal(t.TempDir()+"/data/") + ")",
		"CREATE TABLE lake.t (i BIGINT)", "BEGIN", "INSERT INTO lake.t VALUES (1)",
	} {
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if _, err := conn.ExecContext(t.Context(), "SELECT error('stop')"); err == nil {
		t.Fatal("the statement that should abort the transaction did not fail")
	}
	if _, err := conn.ExecContext(t.Context(), "INSERT INTO lake.t VALUES (2)"); err == nil {
		t.Fatal("an aborted transaction took an INSERT")
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Logf("COMMIT of an aborted transaction is refused by now: %v", err)
	}
	var n int
	if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM lake.t").Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d rows of an aborted transaction are there, %v", n, err)
	}
}

// TestFilesAreDescribedTogether looks at several files at once, among them one that differs in its types and one with a
// name that the engine could take for a pattern.
func TestFilesAreDescribedTogether(t *testing.T) {
	t.Parallel()
	h := house.New(t, house.Options{})
	h.Org("acme")
	s := open(t, h, "acme")
	first := h.File("acme", "one", "SELECT i AS id, {'a': i} AS s FROM range(3) r(i)")
	same := h.File("acme", "two*[x]?", "SELECT i AS id, {'a': i} AS s FROM range(5) r(i)")
	other := h.File("acme", "three", "SELECT i::VARCHAR AS id, {'A': i} AS s FROM range(7) r(i)")
	for range 2 { // the second time from what the session remembers of schemas
		files, err := s.DescribeFiles(t.Context(), []string{first, same, other})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(files[first].Rows, files[first].Columns, files[same].Rows, files[same].Columns, files[other].Rows, files[other].Columns)
		if want := "3 [{id BIGINT} {s STRUCT(\"a\" BIGINT)}] 5 [{id BIGINT} {s STRUCT(\"a\" BIGINT)}] 7 [{id VARCHAR} {s STRUCT(\"A\" BIGINT)}]"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	copied := h.File("acme", "copy", "SELECT i AS id, {'a': i} AS s FROM range(3) r(i)")
	changed := h.File("acme", "changed", "SELECT i + 1 AS id, {'a': i} AS s FROM range(3) r(i)")
	files, err := s.DescribeFiles(t.Context(), []string{first, copied, changed})
	if err != nil {
		t.Fatal(err)
	}
	if files[first].Tag != files[copied].Tag || files[first].Tag == files[changed].Tag || !sluice.IsFooterTag(files[first].Tag) {
		t.Errorf("tags of a file, its copy and another: %s %s %s", files[first].Tag, files[copied].Tag, files[changed].Tag)
	}
	if _, err := s.DescribeFiles(t.Context(), []string{first, first + ".gone"}); lake.AsFailure(err, lake.PhaseDescribe, "").Err.Code != "SLUICE-LOAD-FILE-GONE" {
		t.Errorf("one of them missing: %v", err)
	}
}

// TestMergeRefusesNullKeys is what takes the place of a look at the keys before a merge.
func TestMergeRefusesNullKeys(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]house.Options{"duckdb": {}, "postgres": {Postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			h.Org("acme")
			s := open(t, h, "acme")
			if err := s.EnsureControl(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			if err := s.CreateSchema(t.Context(), target.Schema); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Apply(t.Context(), write(sluice.OpCreate, 0, h.File("acme", "0", "SELECT i AS id, 'a' AS v FROM range(10) r(i)"))); err != nil {
				t.Fatal(err)
			}
			bad := write(sluice.OpMerge, 1, h.File("acme", "1", "SELECT CASE WHEN i < 12 THEN i END AS id, 'b' AS v FROM range(5, 13) r(i)"))
			bad.Change.Keys, bad.Change.RefuseNulls = []string{"id"}, true
			_, err := s.Apply(t.Context(), bad)
			if f := lake.AsFailure(err, lake.PhaseData, ""); err == nil || f.Err.Code != "SLUICE-LOAD-NULL-KEY" || f.Class != lake.Permanent || f.Outcome != sluice.NotDone {
				t.Fatalf("a NULL key: %v", err)
			}
			s = open(t, h, "acme")
			good := write(sluice.OpMerge, 1, h.File("acme", "2", "SELECT i % 12 AS id, 'c' AS v FROM range(5, 20) r(i)"))
			good.Change.Keys, good.Change.RefuseNulls = []string{"id"}, true
			applied, err := s.Apply(t.Context(), good)
			if err != nil || applied.RowsWritten != 12 { // 15 rows, three of them replaced by newer ones
				t.Fatalf("rows written: %d, %v", applied.RowsWritten, err)
			}
			if got := h.Rows("acme", "SELECT count(*), count(DISTINCT id), count(*) FILTER (v = 'c') FROM "+target.SQL())[0]; got != "12|12|12" {
				t.Fatalf("rows: %s", got)
			}
		})
	}
}
