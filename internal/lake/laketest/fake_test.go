package laketest_test

import (
	"context"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
)

func TestFake(t *testing.T) {
	t.Parallel()
	laketest.Run(t, func(*testing.T) laketest.Harness {
		f := laketest.NewFake()
		return laketest.Harness{
			Open: func(ctx context.Context) (laketest.Session, error) { return f.Open(ctx) },
			File: func(name string, rows []laketest.Record) string {
				f.File(name, laketest.Columns, rows)
				return name
			},
			Rows: func(t lake.Table) []laketest.Record { return f.Rows(t) },
		}
	})
}
