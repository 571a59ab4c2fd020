package lake_test

import (
	"context"
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
