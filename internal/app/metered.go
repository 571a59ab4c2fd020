package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// loadMetrics are what the loader's seams show: its decisions know of no metrics (spec/loader.md §13).
type loadMetrics struct {
	claimSeconds   prometheus.Histogram
	claimed        prometheus.Counter
	leaseLost      prometheus.Counter
	renewFailures  prometheus.Counter
	batchSeconds   *prometheus.HistogramVec
	phaseSeconds   *prometheus.HistogramVec
	overhead       prometheus.Histogram
	rows           *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	unknown        *prometheus.CounterVec
	recovered      prometheus.Counter
	fenceLost      prometheus.Counter
	sessions       prometheus.Gauge
	sessionSeconds prometheus.Histogram
	added          prometheus.Counter
	widened        prometheus.Counter
	leftOut        prometheus.Counter
	deduplicated   prometheus.Counter

	mu    sync.Mutex
	begun map[sluice.BatchID]*begun
}

// begun is a batch that this process works on.
type begun struct {
	at        time.Time
	warehouse time.Duration // spent waiting for the warehouse
}

var buckets = []float64{.005, .02, .1, .5, 2, 10, 60, 600}

func newLoadMetrics(r prometheus.Registerer) *loadMetrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_" + name, Help: help, Buckets: buckets})
	}
	histograms := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_" + name, Help: help, Buckets: buckets}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_" + name, Help: help}, labels)
	}
	m := &loadMetrics{
		claimSeconds:   histogram("queue_claim_seconds", "Time of a claim."),
		claimed:        counter("queue_claimed_total", "Streams claimed."),
		leaseLost:      counter("lease_lost_total", "Leases that a heartbeat found lost."),
		renewFailures:  counter("lease_renew_failures_total", "Heartbeats that could not be sent."),
		batchSeconds:   histograms("loader_batch_seconds", "Time of a batch, from its start to its recorded outcome.", "op", "outcome"),
		phaseSeconds:   histograms("loader_phase_seconds", "Time of the phases of an apply.", "phase"),
		overhead:       histogram("loader_overhead_seconds", "Time of an applied batch less the time that the warehouse took."),
		rows:           counters("loader_rows_total", "Rows written to targets.", "op"),
		attempts:       counters("loader_attempts_total", "Attempts that came to nothing.", "class", "code"),
		unknown:        counters("loader_unknown_outcomes_total", "COMMITs without an answer, by what reading back has shown.", "resolved"),
		recovered:      counter("loader_recovered_total", "Batches that were found applied."),
		fenceLost:      counter("loader_fence_lost_total", "Writes that another writer of the stream had overtaken."),
		sessions:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_loader_sessions", Help: "Open sessions to warehouses."}),
		sessionSeconds: histogram("loader_session_create_seconds", "Time to open a session."),
		added:          counter("loader_columns_added_total", "Columns that batches have added to their targets."),
		widened:        counter("loader_columns_widened_total", "Columns of targets that batches have given a wider type."),
		leftOut:        counter("loader_columns_left_out_total", "Columns and fields of batches that the schema policy has left out."),
		deduplicated:   counter("loader_rows_deduplicated_total", "Rows that a newer row of the same key and batch took the place of."),
		begun:          map[sluice.BatchID]*begun{},
	}
	r.MustRegister(m.claimSeconds, m.claimed, m.leaseLost, m.renewFailures, m.batchSeconds, m.phaseSeconds, m.overhead, m.rows, m.attempts,
		m.unknown, m.recovered, m.fenceLost, m.sessions, m.sessionSeconds, m.added, m.widened, m.leftOut, m.deduplicated)
	return m
}

func (m *loadMetrics) start(id sluice.BatchID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[id] = &begun{at: time.Now()}
}

func (m *loadMetrics) waited(id sluice.BatchID, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.begun[id]; b != nil {
		b.warehouse += d
	}
}

func (m *loadMetrics) end(id sluice.BatchID) (b begun, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, known := m.begun[id]
	if known {
		delete(m.begun, id)
		b = *p
	}
	return b, known
}

// meteredQueue counts what the loader asks of the queue.
type meteredQueue struct {
	load.Batches
	m *loadMetrics
}

func (q meteredQueue) Claim(ctx context.Context, r queue.ClaimRequest) ([]sluice.Lease, error) {
	begin := time.Now()
	leases, err := q.Batches.Claim(ctx, r)
	q.m.claimSeconds.Observe(time.Since(begin).Seconds())
	q.m.claimed.Add(float64(len(leases)))
	return leases, err
}

func (q meteredQueue) Heartbeat(ctx context.Context, owner string, leases []sluice.Lease, ttl time.Duration) ([]sluice.StreamID, error) {
	lost, err := q.Batches.Heartbeat(ctx, owner, leases, ttl)
	q.m.leaseLost.Add(float64(len(lost)))
	if err != nil {
		q.m.renewFailures.Inc()
	}
	return lost, err
}

func (q meteredQueue) Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (int, error) {
	attempt, err := q.Batches.Start(ctx, l, id)
	if err == nil {
		q.m.start(id)
	}
	return attempt, err
}

func (q meteredQueue) Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error {
	err := q.Batches.Succeed(ctx, l, a)
	if err == nil {
		q.succeeded(a)
	}
	return err
}

func (q meteredQueue) Advance(ctx context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error) {
	next, err := q.Batches.Advance(ctx, l, a)
	if err == nil {
		q.succeeded(a)
	}
	if next != nil {
		q.m.start(next.Batch.BatchID)
	}
	return next, err
}

func (q meteredQueue) succeeded(a queue.Applied) {
	if b, ok := q.m.end(a.BatchID); ok {
		took := time.Since(b.at)
		q.m.batchSeconds.WithLabelValues(string(a.Op), "succeeded").Observe(took.Seconds())
		q.m.overhead.Observe(max(took-b.warehouse, 0).Seconds())
	}
	for phase, ms := range a.Phases {
		q.m.phaseSeconds.WithLabelValues(phase).Observe(float64(ms) / 1000)
	}
	if a.Origin == sluice.OriginRecovered {
		q.m.recovered.Inc()
	}
	q.m.rows.WithLabelValues(string(a.Op)).Add(float64(a.RowsWritten))
	q.m.deduplicated.Add(float64(a.Deduplicated))
	q.m.leftOut.Add(float64(a.LeftOut))
}

func (q meteredQueue) failed(f queue.Failure, class string, state sluice.LoadState) {
	q.m.attempts.WithLabelValues(class, string(f.Code)).Inc()
	if b, ok := q.m.end(f.BatchID); ok {
		q.m.batchSeconds.WithLabelValues("none", string(state)).Observe(time.Since(b.at).Seconds())
	}
}

func (q meteredQueue) Defer(ctx context.Context, l sluice.Lease, f queue.Failure) error {
	err := q.Batches.Defer(ctx, l, f)
	if err == nil {
		q.failed(f, "deferred", sluice.RetryWait)
	}
	return err
}

func (q meteredQueue) Retry(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	state, err := q.Batches.Retry(ctx, l, f)
	if err == nil {
		class := "deferred"
		if f.Counted {
			class = "counted"
		}
		q.failed(f, class, state)
	}
	return state, err
}

func (q meteredQueue) Quarantine(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	state, err := q.Batches.Quarantine(ctx, l, f)
	if err == nil {
		q.failed(f, "permanent", state)
	}
	return state, err
}

// meteredSessions counts what the loader asks of warehouses.
type meteredSessions struct {
	load.Sessions
	m *loadMetrics
}

func (s meteredSessions) Open(ctx context.Context, org sluice.Org) (load.Session, error) {
	begin := time.Now()
	session, err := s.Sessions.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	s.m.sessionSeconds.Observe(time.Since(begin).Seconds())
	s.m.sessions.Inc()
	return &meteredSession{Session: session, m: s.m}, nil
}

type meteredSession struct {
	load.Session
	m     *loadMetrics
	close sync.Once
	seen  time.Duration // before the batch is known
}

func (s *meteredSession) Close() error {
	s.close.Do(s.m.sessions.Dec)
	return s.Session.Close()
}

func (s *meteredSession) DescribeFiles(ctx context.Context, paths []string) (map[string]lake.File, error) {
	defer s.add(time.Now())
	return s.Session.DescribeFiles(ctx, paths)
}

func (s *meteredSession) DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error) {
	defer s.add(time.Now())
	return s.Session.DescribeTarget(ctx, t)
}

func (s *meteredSession) DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error) {
	defer s.add(time.Now())
	return s.Session.DescribeKeys(ctx, path, ask)
}

func (s *meteredSession) add(begin time.Time) { s.seen += time.Since(begin) }

func (s *meteredSession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	begin := time.Now()
	a, err := s.Session.Apply(ctx, w)
	s.m.waited(w.BatchID, s.seen+time.Since(begin))
	s.seen = 0
	var f *lake.Failure
	switch {
	case err == nil:
		s.m.added.Add(float64(len(w.Change.Add)))
		s.m.widened.Add(float64(len(w.Change.Widen)))
	case errors.As(err, &f) && f.Class == lake.NotOurs:
		s.m.fenceLost.Inc()
	}
	return a, err
}

func (s *meteredSession) Resolve(ctx context.Context, w lake.Write) (sluice.Outcome, lake.Control, error) {
	outcome, c, err := s.Session.Resolve(ctx, w)
	resolved := string(outcome)
	if err != nil && strings.HasPrefix(resolved, string(sluice.Unknown)) {
		resolved = "no"
	}
	s.m.unknown.WithLabelValues(resolved).Inc()
	return outcome, c, err
}
