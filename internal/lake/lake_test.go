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

// TestMergeOfTheNewestRows merges tens of thousands of rows with many columns, de-duplicated by position, again and again:
// the shape that made the engine crash with one of its optimizers (docs/adr/0006).
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
	columns := "i AS id, i // 2 AS a, i // 3 AS b, i // 4 AS c, i // 5 AS d, i // 6 AS e, 'x' || i AS f, 'y' || i AS g, %d AS n"
	var cols lake.Columns
	wide := func(op sluice.Op, seq int64, path string) lake.Write {
		w := write(op, seq, path)
		w.Change.Columns, w.Change.Assign, w.Change.OnlyChanged = cols, nil, true
		for _, c := range cols {
			w.Change.Assign = append(w.Change.Assign, lake.Assignment{To: c, From: c.Name})
		}
		return w
	}
	for seq := int64(0); seq < 8; seq++ {
		rows := fmt.Sprintf("SELECT "+columns+" FROM range(%d, %d) r(i)", seq, 15000*seq, 15000*seq+30000)
		path := h.File("acme", fmt.Sprint(seq), rows+" UNION ALL "+rows)
		f, err := s.DescribeFile(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		cols = f.Columns
		w := wide(sluice.OpMerge, seq, path)
		if seq == 0 {
			w = wide(sluice.OpCreate, seq, path)
			w.Change.Keys = []string{"id"}
		}
		if _, err := s.Apply(t.Context(), w); err != nil {
			t.Fatalf("seq %d: %v", seq, err)
		}
		got := h.Rows("acme", fmt.Sprintf("SELECT count(*), count(DISTINCT id), count(*) FILTER (n = %d) FROM %s", seq, target.SQL()))
		if want := fmt.Sprintf("%[1]d|%[1]d|30000", 15000*seq+30000); got[0] != want {
			t.Fatalf("seq %d: got %s, want %s", seq, got[0], want)
		}
	}
}
