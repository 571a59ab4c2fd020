package queue_test

import (
	"database/sql"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

// BenchmarkClaim claims 16 of 1,000 ready streams among 50,000, on PostgreSQL, without history and with a long one
// (SLUICE_BENCH_HISTORY batches, 200,000 unless set), and prints the percentiles side by side.
func BenchmarkClaim(b *testing.B) {
	long := 200_000
	if n, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_HISTORY")); err == nil {
		long = n
	}
	for name, history := range map[string]int{"empty": 0, "history": long} {
		b.Run(name, func(b *testing.B) {
			dsn := pg.New(b)
			db, err := statedb.Open(b.Context(), dsn)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.Up(b.Context()); err != nil {
				b.Fatal(err)
			}
			raw, err := sql.Open("pgx", dsn)
			if err != nil {
				b.Fatal(err)
			}
			defer raw.Close()
			fill(b, raw, 50_000, 1_000, history)
			if _, err := raw.ExecContext(b.Context(), "VACUUM ANALYZE"); err != nil {
				b.Fatal(err)
			}
			q := queue.New(db, queue.Config{})
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				leases, err := q.Claim(b.Context(), queue.ClaimRequest{Owner: "bench", Free: 16})
				took = append(took, time.Since(begin))
				if err != nil || len(leases) != 16 {
					b.Fatal(len(leases), err)
				}
				b.StopTimer()
				for _, l := range leases {
					if err := q.Release(b.Context(), l); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(history), "batches")
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "p95-ms")
		})
	}
}
