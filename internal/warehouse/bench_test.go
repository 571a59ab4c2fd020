package warehouse_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/warehouse"
)

func benchServer(b *testing.B) (*pgx.Conn, *memory) {
	b.Helper()
	m := newMemory(b)
	srv := warehouse.New(warehouse.Config{Listen: "127.0.0.1:0"}, m, users, slog.New(slog.DiscardHandler))
	if err := srv.Listen(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	c, err := pgx.Connect(b.Context(), dsn(srv, "olga"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(context.Background()); cancel(); <-done })
	if _, err := c.Exec(b.Context(), "CREATE TABLE t AS SELECT range AS i, 'name ' || range AS s, range * 1.5 AS f FROM range(1000000)"); err != nil {
		b.Fatal(err)
	}
	return c, m
}

// BenchmarkPoint compares a point query over the wire with the same in process.
func BenchmarkPoint(b *testing.B) {
	c, m := benchServer(b)
	b.Run("wire", func(b *testing.B) {
		for b.Loop() {
			var s string
			if err := c.QueryRow(b.Context(), "SELECT s FROM t WHERE i = $1", 500_000).Scan(&s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("process", func(b *testing.B) {
		stmt, err := m.db.PrepareContext(b.Context(), "SELECT s FROM lake.t WHERE i = $1")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = stmt.Close() }()
		for b.Loop() {
			var s string
			if err := stmt.QueryRowContext(b.Context(), 500_000).Scan(&s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			var i int
			if err := c.QueryRow(b.Context(), "SELECT 1").Scan(&i); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStream compares a million rows of three columns over the wire with the same through database/sql in process.
func BenchmarkStream(b *testing.B) {
	c, m := benchServer(b)
	b.Run("wire", func(b *testing.B) {
		for b.Loop() {
			rows, err := c.Query(b.Context(), "SELECT i, s, f FROM t")
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
				_ = rows.RawValues()
			}
			if rows.Err() != nil {
				b.Fatal(rows.Err())
			}
		}
	})
	b.Run("process", func(b *testing.B) {
		scan := func() {
			rows, err := m.db.QueryContext(b.Context(), "SELECT i, s, f FROM lake.t")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			var i int64
			var s string
			var f float64
			for rows.Next() {
				if err := rows.Scan(&i, &s, &f); err != nil {
					b.Fatal(err)
				}
			}
			if rows.Err() != nil {
				b.Fatal(rows.Err())
			}
		}
		for b.Loop() {
			scan()
		}
	})
}
