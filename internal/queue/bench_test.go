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

// BenchmarkClaim claims 16 of 1,000 ready streams among 50,000, on PostgreSQL, without history, with 100,000 applied batches
// and with many (SLUICE_BENCH_HISTORY, 200,000 unless set), and prints the percentiles side by side. The histories take
// turns, so that a noisy machine hits all of them.
func BenchmarkClaim(b *testing.B) {
	long := 200_000
	if n, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_HISTORY")); err == nil {
		long = n
	}
	sizes := []int{0, 100_000, long}
	queues := make([]*queue.Store, len(sizes))
	for i, history := range sizes {
		begin := time.Now()
		dsn := pg.New(b)
		db, err := statedb.Open(b.Context(), dsn)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Up(b.Context()); err != nil {
			b.Fatal(err)
		}
		raw, err := sql.Open("pgx", dsn)
		if err != nil {
			b.Fatal(err)
		}
		fill(b, raw, 50_000, 1_000, history)
		if _, err := raw.ExecContext(b.Context(), "VACUUM ANALYZE"); err != nil {
			b.Fatal(err)
		}
		_ = raw.Close()
		queues[i] = queue.New(db, queue.Config{})
		b.Logf("%d batches filled in %s", history, time.Since(begin).Round(time.Second))
	}
	took := make([][]float64, len(sizes))
	for b.Loop() {
		for i, q := range queues {
			begin := time.Now()
			leases, err := q.Claim(b.Context(), queue.ClaimRequest{Owner: "bench", Free: 16})
			took[i] = append(took[i], time.Since(begin).Seconds()*1000)
			if err != nil || len(leases) != 16 {
				b.Fatal(len(leases), err)
			}
			for _, l := range leases {
				if err := q.Release(b.Context(), l); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	p50, p95 := make([]float64, len(sizes)), make([]float64, len(sizes))
	for i, t := range took {
		slices.Sort(t)
		p50[i], p95[i] = t[len(t)/2], t[len(t)*95/100]
		name := []string{"empty", "100k", "long"}[i]
		b.ReportMetric(p50[i], name+"-p50-ms")
		b.ReportMetric(p95[i], name+"-p95-ms")
	}
	b.ReportMetric(p50[2]/p50[1], "long/100k")
	b.ReportMetric(p50[2]/p50[0], "long/empty")
	b.ReportMetric(0, "ns/op")
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
