package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// chunkMetrics are what the loading of histories shows (backfill.md §12).
type chunkMetrics struct {
	chunks         *prometheus.CounterVec
	bytes, rows    prometheus.Counter
	chunkSeconds   prometheus.Histogram
	swapSeconds    prometheus.Histogram
	verifyFailures prometheus.Counter

	mu    sync.Mutex
	begun map[sluice.BatchID]chunkBegun
}

type chunkBegun struct {
	op    sluice.Op
	bytes int64
	at    time.Time
}

func newChunkMetrics(r prometheus.Registerer) *chunkMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_" + name, Help: help, Buckets: buckets})
	}
	m := &chunkMetrics{
		chunks:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_backfill_chunks_total", Help: "Steps of histories, by op and outcome."}, []string{"op", "outcome"}),
		bytes:          counter("backfill_bytes_total", "Bytes of data files that chunks have read."),
		rows:           counter("backfill_rows_total", "Rows that chunks have written."),
		chunkSeconds:   histogram("backfill_chunk_seconds", "Time of a chunk."),
		swapSeconds:    histogram("backfill_swap_seconds", "Time of a swap, with the verification before it."),
		verifyFailures: counter("backfill_verify_failures_total", "Staged tables that were not what was planned."),
		begun:          map[sluice.BatchID]chunkBegun{},
	}
	r.MustRegister(m.chunks, m.bytes, m.rows, m.chunkSeconds, m.swapSeconds, m.verifyFailures)
	return m
}

// chunkQueue counts the steps of histories among what the loader asks of the queue.
type chunkQueue struct {
	load.Batches
	m *chunkMetrics
}

func (q chunkQueue) Next(ctx context.Context, l sluice.Lease) (queue.Work, error) {
	w, err := q.Batches.Next(ctx, l)
	if err == nil && w.Run.Kind != sluice.RunLive {
		b := chunkBegun{op: w.Batch.Op, at: time.Now()}
		if w.Batch.ByteSize != nil {
			b.bytes = *w.Batch.ByteSize
		}
		q.m.mu.Lock()
		q.m.begun[w.Batch.BatchID] = b
		q.m.mu.Unlock()
	}
	return w, err
}

func (q chunkQueue) end(id sluice.BatchID, outcome string) (chunkBegun, bool) {
	q.m.mu.Lock()
	b, ok := q.m.begun[id]
	delete(q.m.begun, id)
	q.m.mu.Unlock()
	if ok {
		q.m.chunks.WithLabelValues(string(b.op), outcome).Inc()
	}
	return b, ok
}

func (q chunkQueue) Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error {
	err := q.Batches.Succeed(ctx, l, a)
	if err == nil {
		q.succeeded(a)
	}
	return err
}

func (q chunkQueue) Advance(ctx context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error) {
	next, err := q.Batches.Advance(ctx, l, a)
	if err == nil {
		q.succeeded(a)
	}
	return next, err
}

func (q chunkQueue) succeeded(a queue.Applied) {
	b, ok := q.end(a.BatchID, "succeeded")
	switch {
	case !ok:
	case b.op == sluice.OpReplace:
		q.m.swapSeconds.Observe(time.Since(b.at).Seconds())
	case b.op == sluice.OpInsert || b.op == sluice.OpRegister:
		q.m.chunkSeconds.Observe(time.Since(b.at).Seconds())
		q.m.bytes.Add(float64(b.bytes))
		q.m.rows.Add(float64(a.RowsWritten))
	}
}

func (q chunkQueue) Retry(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	state, err := q.Batches.Retry(ctx, l, f)
	if err == nil {
		q.end(f.BatchID, string(state))
	}
	return state, err
}

func (q chunkQueue) Quarantine(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	state, err := q.Batches.Quarantine(ctx, l, f)
	if err == nil {
		q.end(f.BatchID, string(state))
		if f.Code == "SLUICE-BACKFILL-VERIFY" {
			q.m.verifyFailures.Inc()
		}
	}
	return state, err
}
