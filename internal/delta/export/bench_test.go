package export_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/delta/export"
	"sluice/internal/objstore"
	"sluice/internal/testkit/deltagen"
	"sluice/internal/warehouse/engine"
)

// BenchmarkExport exports a table of 10 million rows in 20 files, one row in a hundred deleted, and compares the time with
// that of a plain COPY of the same files, deleted rows and all, by the same engine.
func BenchmarkExport(b *testing.B) {
	const files, rows = 20, 500_000
	g := deltagen.NewAt(b, filepath.Join(b.TempDir(), "table"))
	actions := []deltagen.Action{deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: deltagen.Schema(
		deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "name", Type: "string"}, deltagen.Field{Name: "amount", Type: "double"},
		deltagen.Field{Name: "at", Type: "timestamp"}, deltagen.Field{Name: "n", Type: "integer"},
	)}}
	var uris []string
	vectors := g.VectorFile("", 1)
	for i := range files {
		key := fmt.Sprintf("part-%02d.parquet", i)
		add := g.Data(key, fmt.Sprintf(`SELECT %d + range AS id, 'name ' || (range * 7919 %% 100003) AS name, (range * 1.25)::DOUBLE AS amount,
			TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (range) SECOND AS at, (range %% 1000)::INTEGER AS n FROM range(%d)`, i*rows, rows))
		var deleted []uint64
		for p := uint64(i); p < rows; p += 100 {
			deleted = append(deleted, p)
		}
		actions = append(actions, add.With(vectors.Add(deltagen.Arrays, deleted...)))
		uris = append(uris, deltagen.Quote(g.Path(key)))
	}
	g.Commit(actions...)
	table, err := delta.Open(objstore.Local{}, g.Dir, delta.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := table.Snapshot(b.Context(), delta.Latest)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	plain := func(e export.Engine) time.Duration {
		out := filepath.Join(dir, "plain.parquet")
		start := time.Now()
		var n int64
		err := e.QueryRowContext(b.Context(), fmt.Sprintf("COPY (SELECT * FROM read_parquet([%s])) TO %s (FORMAT parquet)", strings.Join(uris, ", "), deltagen.Quote(out))).Scan(&n)
		took := time.Since(start)
		if err != nil || n != files*rows {
			b.Fatal(n, err)
		}
		_ = os.Remove(out)
		return took
	}
	exported := func(e export.Engine) time.Duration {
		out := filepath.Join(dir, "export.parquet")
		start := time.Now()
		r, err := export.Run(b.Context(), table, s, e, export.Options{Out: out})
		took := time.Since(start)
		if err != nil || r.Rows != files*rows/100*99 {
			b.Fatal(r.Rows, err)
		}
		_ = os.Remove(out)
		return took
	}
	var raw, ours time.Duration
	for b.Loop() {
		// In turns, and each in an engine of its own: what else the machine does meets both.
		raw += inEngine(b, plain)
		ours += inEngine(b, exported)
	}
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "x-raw-copy")
	b.ReportMetric(float64(files*rows/100*99)*float64(b.N)/ours.Seconds(), "rows/s")
}

func inEngine(b *testing.B, f func(export.Engine) time.Duration) time.Duration {
	b.Helper()
	e, err := engine.OpenScratch(b.Context(), engine.ScratchConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if _, err := e.ExecContext(b.Context(), "SET preserve_insertion_order = false"); err != nil {
		b.Fatal(err)
	}
	return f(e)
}

var (
	_ export.Engine = (*engine.Scratch)(nil)
	_ export.Engine = (*sql.Conn)(nil)
)
