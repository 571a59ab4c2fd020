package queue_test

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/queue/queuetest"
	"sluice/internal/sluice"
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

// BenchmarkBatch is what the queue costs a loader per batch (next, start, succeed), with 2,000 batches behind it.
func BenchmarkBatch(b *testing.B) {
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		b.Run(string(kind), func(b *testing.B) {
			e := queuetest.NewEnv(b, opener(b, kind))
			id := e.One(sluice.Append)
			run := 0
			more := func() {
				run++
				for from := range int64(10) {
					rows := make([]queue.NewBatch, 1000)
					for i := range rows {
						rows[i] = queuetest.B(from*1000 + int64(i))
					}
					e.Enqueue(id, fmt.Sprint("r", run), rows...)
				}
			}
			more()
			l := e.ClaimOne("bench")
			n := 0
			for b.Loop() {
				if n++; n%8000 == 0 {
					b.StopTimer()
					more()
					b.StartTimer()
				}
				e.Apply(l)
			}
		})
	}
}

// BenchmarkEnqueue stores 100 batches in one call.
func BenchmarkEnqueue(b *testing.B) {
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		b.Run(string(kind), func(b *testing.B) {
			e := queuetest.NewEnv(b, opener(b, kind))
			id := e.One(sluice.Append)
			rows := make([]queue.NewBatch, 100)
			n := int64(0)
			for b.Loop() {
				for i := range rows {
					rows[i] = queuetest.B(n)
					n++
				}
				e.Enqueue(id, "r1", rows...)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}
