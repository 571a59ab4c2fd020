package app

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/extension"
	"sluice/internal/load"
)

// metrics are the process's metrics. Components know nothing of them: they offer Status(), or are counted here.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	enqueued    *prometheus.CounterVec
	sweepErrors prometheus.Counter
	headRepairs prometheus.Counter
	load        *loadMetrics
	changelog   *changelogMetrics
	fanout      *fanoutMetrics
	queue       *queueGauges
	backfill    *backfillMetrics
	queryTime   *prometheus.HistogramVec
	chunks      *chunkMetrics
}

func newMetrics(a *App) *metrics {
	m := &metrics{
		registry:    prometheus.NewRegistry(),
		requests:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_http_requests_total", Help: "HTTP requests by pattern and status."}, []string{"route", "code"}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_http_request_seconds", Help: "Time of HTTP requests.", Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10}}, []string{"route"}),
		enqueued:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_queue_enqueue_total", Help: "Rows of enqueue calls by result."}, []string{"result"}),
		sweepErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_sweep_errors_total", Help: "Sweeps of the queue that failed."}),
		queryTime:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_state_query_seconds", Help: "Time of the state DB's queries, by their names.", Buckets: []float64{.001, .01, .1, 1, 10}}, []string{"query"}),
		headRepairs: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_queue_head_repairs_total", Help: "Wrong heads that a sweep found; it must stay 0."}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_build_info", Help: "Versions of this binary; always 1."}, []string{"version", "duckdb", "ducklake"})
	build.WithLabelValues(BuildVersion().Version, extension.Engine, extension.Version("ducklake")).Set(1)
	m.registry.MustRegister(m.requests, m.requestTime, m.enqueued, m.sweepErrors, m.headRepairs, m.queryTime, build, &stateCollector{a},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.load, m.queue = newLoadMetrics(m.registry), newQueueGauges(m.registry)
	m.changelog = newChangelogMetrics(m.registry)
	m.fanout = newFanoutMetrics(m.registry)
	m.backfill, m.chunks = newBackfillMetrics(m.registry), newChunkMetrics(m.registry)
	return m
}

// stateQuery notes a query of the state DB; its names are a closed set.
func (m *metrics) stateQuery(query string, took time.Duration) {
	m.queryTime.WithLabelValues(query).Observe(took.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	if route == "" || route == "/" {
		route = "other" // a label from a closed set, whatever was asked for
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

// stateCollector reads the components' Status at each scrape; all of them answer from memory.
type stateCollector struct{ a *App }

var (
	descRole      = prometheus.NewDesc("sluice_role_up", "Whether a role of this process runs.", []string{"role"}, nil)
	descLeases    = prometheus.NewDesc("sluice_lease_held", "Streams that this process's loader works on.", nil, nil)
	descApplied   = prometheus.NewDesc("sluice_loader_batches_total", "Batches that this process's loader has applied.", nil, nil)
	descFailures  = prometheus.NewDesc("sluice_loader_failures_total", "Attempts of this process's loader that came to nothing.", nil, nil)
	descSessions  = prometheus.NewDesc("sluice_sessions_open", "Sessions of this process's loader to warehouses, busy and idle.", []string{"org", "state"}, nil)
	descClosed    = prometheus.NewDesc("sluice_sessions_closed_total", "Sessions that this process's loader has closed, by reason.", []string{"reason"}, nil)
	descInstances = prometheus.NewDesc("sluice_warehouse_instances", "Engines of this process.", []string{"state"}, nil)
	descConns     = prometheus.NewDesc("sluice_warehouse_connections", "Client connections of this process's warehouse.", []string{"state"}, nil)
	descQueries   = prometheus.NewDesc("sluice_warehouse_queries_total", "Statements that clients sent.", nil, nil)
	descRestarts  = prometheus.NewDesc("sluice_warehouse_instance_restarts_total", "Engines taken out of service, by reason.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRole, descLeases, descApplied, descFailures, descSessions, descClosed, descInstances, descRestarts, descConns, descQueries} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s := c.a.Server()
	for _, r := range s.Roles {
		up := 0.0
		if r.Up {
			up = 1
		}
		gauge(descRole, up, r.Role)
	}
	if l := s.Loader; l != nil {
		gauge(descLeases, float64(l.Streams))
		counter(descApplied, float64(l.Batches))
		counter(descFailures, float64(l.Failures))
	}
	if c.a.loader != nil {
		st, more := c.a.loader.Status(), load.Sessioned{}
		for i, org := range slices.Sorted(maps.Keys(st.Sessions)) {
			n := st.Sessions[org]
			if i >= maxOrgLabels {
				more.Busy, more.Idle = more.Busy+n.Busy, more.Idle+n.Idle
				continue
			}
			gauge(descSessions, float64(n.Busy), string(org), "busy")
			gauge(descSessions, float64(n.Idle), string(org), "idle")
		}
		if len(st.Sessions) > maxOrgLabels {
			gauge(descSessions, float64(more.Busy), "_other", "busy")
			gauge(descSessions, float64(more.Idle), "_other", "idle")
		}
		for reason, n := range st.Closed {
			counter(descClosed, float64(n), reason)
		}
	}
	if server := c.a.server.Load(); server != nil {
		st := server.Status()
		gauge(descConns, float64(st.Active), "active")
		gauge(descConns, float64(st.Connections-st.Active), "idle")
		counter(descQueries, float64(st.Queries))
	}
	if engines := c.a.engines.Load(); engines != nil {
		e := engines.Status()
		gauge(descInstances, float64(e.Open), "open")
		gauge(descInstances, float64(e.Closing), "closing")
		for reason, n := range e.Retired {
			counter(descRestarts, float64(n), reason)
		}
	}
}
