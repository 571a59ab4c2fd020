package app

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/fanout"
	"sluice/internal/sluice"
)

// fanoutMetrics are what the fan-outs of this process show (spec/fanout.md §11).
type fanoutMetrics struct {
	rows, commits, polls, unrouted, read                      *prometheus.CounterVec
	applySeconds                                              *prometheus.HistogramVec
	states, halted, lagSnapshots, lagSeconds, spool, poolOpen *prometheus.Desc
	runner                                                    atomic.Pointer[fanout.Runner]
}

func newFanoutMetrics(r prometheus.Registerer) *fanoutMetrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_fanout_" + name, Help: help}, append([]string{"fanout"}, labels...))
		r.MustRegister(c)
		return c
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_fanout_"+name, help, labels, nil)
	}
	m := &fanoutMetrics{
		rows:     counters("rows_total", "Rows that came to destinations, by what became of them.", "org", "kind"),
		commits:  counters("commits_total", "Transactions of destinations by outcome.", "org", "outcome"),
		polls:    counters("discovery_polls_total", "Looks at discovery by result.", "result"),
		unrouted: counters("unrouted_total", "Rows of sources whose route leads nowhere."),
		read:     counters("read_rows_total", "Rows of sources that were read for destinations."),
		applySeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_fanout_apply_seconds", Help: "Time of transactions of destinations.", Buckets: buckets},
			[]string{"fanout"}),
		states:       desc("destinations", "Destinations of this process by state.", "fanout", "state"),
		halted:       desc("halted", "Destinations that stand until a person acts, by code.", "fanout", "code"),
		lagSnapshots: desc("lag_snapshots", "How many snapshots of the source's lake a destination is behind.", "fanout", "org", "team_id"),
		lagSeconds:   desc("lag_seconds", "How long the oldest row that was read and not applied has waited, or for how long the destination has failed.", "fanout", "org", "team_id"),
		spool:        desc("spool_bytes", "Rows that were read and not applied, estimated.", "fanout"),
		poolOpen:     desc("pool", "Sessions to destinations.", "state"),
	}
	r.MustRegister(m.applySeconds, m)
	return m
}

// Read implements fanout.Meter.
func (m *fanoutMetrics) Read(f *fanout.Fanout, r fanout.Read) {
	m.read.WithLabelValues(f.Name).Add(float64(r.Rows))
	for _, n := range r.Unrouted {
		m.unrouted.WithLabelValues(f.Name).Add(float64(n))
	}
}

// Applied implements fanout.Meter.
func (m *fanoutMetrics) Applied(f *fanout.Fanout, d fanout.Destination, a fanout.Applied, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
		if sluice.CodeOf(err) == "SLUICE-FANOUT-FENCED" {
			outcome = "fenced"
		}
	}
	m.commits.WithLabelValues(f.Name, string(d.Org), outcome).Inc()
	if err != nil {
		return
	}
	for kind, n := range map[string]int64{"applied": a.Rows, "stale": a.Idle, "quarantine": a.Bad} {
		m.rows.WithLabelValues(f.Name, string(d.Org), kind).Add(float64(n))
	}
	m.applySeconds.WithLabelValues(f.Name).Observe(a.Took.Seconds())
}

// Polled implements fanout.Meter.
func (m *fanoutMetrics) Polled(f *fanout.Fanout, result string) {
	m.polls.WithLabelValues(f.Name, result).Inc()
}

// Describe implements prometheus.Collector.
func (m *fanoutMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.states, m.halted, m.lagSnapshots, m.lagSeconds, m.spool, m.poolOpen} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *fanoutMetrics) Collect(ch chan<- prometheus.Metric) {
	r := m.runner.Load()
	if r == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	states, halted, spool := map[[2]string]int{}, map[[2]string]int{}, map[string]int64{}
	for _, s := range r.Status() {
		states[[2]string{s.Fanout, string(s.State)}]++
		if s.State == fanout.StateHalted {
			halted[[2]string{s.Fanout, string(s.Code)}]++
		}
		spool[s.Fanout] += s.Bytes
		team := strconv.FormatInt(int64(s.Team), 10)
		gauge(m.lagSnapshots, float64(s.LagSnapshots), s.Fanout, string(s.Org), team)
		gauge(m.lagSeconds, s.LagSeconds, s.Fanout, string(s.Org), team)
	}
	for k, n := range states {
		gauge(m.states, float64(n), k[0], k[1])
	}
	for k, n := range halted {
		gauge(m.halted, float64(n), k[0], k[1])
	}
	for k, n := range spool {
		gauge(m.spool, float64(n), k)
	}
	busy, idle := r.Sessions()
	gauge(m.poolOpen, float64(busy), "busy")
	gauge(m.poolOpen, float64(idle), "idle")
}
