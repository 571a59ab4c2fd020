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
