package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/backfill"
	"sluice/internal/control"
	"sluice/internal/delta"
	"sluice/internal/lake"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/deltagen"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

const (
	historyFiles = 20
	historyRows  = 500_000 // of a file
)

// BenchmarkBackfill loads a Delta table of 10 M rows in 20 files: through planner, queue, loader, verification and swap; and as
// one INSERT … SELECT of the same files, typed by hand into the same engine. The two take turns. The mark is 0.9 of the
// speed by hand, for the chunks themselves; the whole is shown beside it.
func BenchmarkBackfill(b *testing.B) {
	for _, kind := range []string{"duckdb", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			var r *rig.Rig
			source := &backfill.Delta{
				Table: func(_ context.Context, uri string) (*delta.Table, error) {
					return delta.Open(objstore.Local{}, uri, delta.Options{})
				},
				Side: func(_ context.Context, org sluice.Org) (objstore.Bucket, objstore.Location, error) {
					at, err := objstore.ParseLocation(filepath.Join(r.House.Dir, string(org), "data"))
					return objstore.Local{}, at, err
				},
			}
			r = rig.New(b, house.New(b, house.Options{Postgres: kind == "postgres"}), rig.Options{Postgres: kind == "postgres", Sources: source})
			planner := backfill.New(backfill.Config{Owner: "bench", Instance: "bench"}, backfill.Deps{
				DB: r.DB, Queue: r.Queue, Streams: r.Streams, Source: source, Lakes: backfill.Dialed(r.House.Dialer()),
			})
			dir := filepath.Join(r.House.Dir, "extracts", string(r.Org), "history")
			paths := writeHistory(b, dir)
			l := r.Loader()
			defer l.Stop()
			hand := r.House.Service(r.Org)
			var chunks, whole, typed []float64
			for round := range 3 {
				table := lake.Table{Schema: "team_1_data_imports", Name: fmt.Sprintf("by_hand_%d", round)}
				begin := time.Now()
				id := r.Stream(sluice.Incremental, func(n *stream.NewStream) { n.DeltaURI = dir })
				var st stream.PlanStatus
				for st.State != stream.PlanDone {
					if err := planner.Pass(b.Context()); err != nil {
						b.Fatal(err)
					}
					var err error
					if st, err = planner.Status(b.Context(), id); err != nil || st.State == stream.PlanHalted {
						b.Fatal(st, err)
					}
					time.Sleep(5 * time.Millisecond)
				}
				whole = append(whole, time.Since(begin).Seconds())
				sum := 0.0
				for _, s := range st.Steps {
					if s.Op == sluice.OpInsert {
						sum += *s.Seconds
					}
				}
				chunks = append(chunks, sum)
				mustRun(b, hand.Exec, "CREATE TABLE "+table.SQL()+" (id BIGINT, name VARCHAR, amount DOUBLE, at_time TIMESTAMPTZ)")
				begin = time.Now()
				mustRun(b, hand.Exec, "INSERT INTO "+table.SQL()+" SELECT * FROM read_parquet(["+strings.Join(paths, ", ")+"])")
				typed = append(typed, time.Since(begin).Seconds())
				if got := r.Rows(id, "SELECT count(*), count(DISTINCT id) FROM {t}"); got[0] != fmt.Sprintf("%[1]d|%[1]d", historyFiles*historyRows) {
					b.Fatal(got)
				}
				if _, err := planner.Verify(b.Context(), id, stream.PlanRequest{}, true); err != nil {
					b.Fatal(err)
				}
				if err := r.Streams.Remove(b.Context(), id, control.By{Who: "bench"}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(median(typed)/median(chunks), "ratio") // the mark is 0.9
			b.ReportMetric(median(typed)/median(whole), "ratio-whole")
			b.ReportMetric(median(typed), "hand-s")
			b.ReportMetric(median(chunks), "chunks-s")
			b.ReportMetric(median(whole), "whole-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func mustRun[T any](b *testing.B, run func(context.Context, string, ...any) (T, error), q string) {
	b.Helper()
	if _, err := run(b.Context(), q); err != nil {
		b.Fatalf("%s: %v", q, err)
	}
}

// writeHistory makes the Delta table and gives its files as literals.
func writeHistory(b *testing.B, dir string) (paths []string) {
	g := deltagen.NewAt(b, dir)
	actions := []deltagen.Action{deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(
		deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "name", Type: "string"}, deltagen.Field{Name: "amount", Type: "double"},
		deltagen.Field{Name: "at_time", Type: "timestamp"},
	)}}
	for n := range historyFiles {
		key := fmt.Sprintf("part-%02d.parquet", n)
		actions = append(actions, g.Data(key, fmt.Sprintf("SELECT i::BIGINT AS id, 'name ' || i AS name, i * 1.5::DOUBLE AS amount, "+
			"TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_seconds(i) AS at_time FROM range(%d, %d) r(i)", n*historyRows, (n+1)*historyRows)))
		paths = append(paths, lake.PathLiteral(filepath.Join(dir, key)))
	}
	g.Commit(actions...)
	return paths
}
