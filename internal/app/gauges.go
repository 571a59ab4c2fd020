package app

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// maxOrgLabels bounds the label org: further orgs are counted together.
const maxOrgLabels = 1000

// queueGauges show the state of the whole queue, as of the last sweep.
type queueGauges struct {
	ready, oldest, halted, held, lingering, atBudget prometheus.Gauge
	blocked, open, quarantined, used, limit          *prometheus.GaugeVec
}

func newQueueGauges(r prometheus.Registerer) *queueGauges {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_" + name, Help: help})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_" + name, Help: help}, []string{label})
	}
	g := &queueGauges{
		ready:       gauge("queue_ready_streams", "Streams that could be claimed now but for budgets."),
		oldest:      gauge("queue_oldest_ready_seconds", "How long the longest of the ready streams has waited: the headline."),
		halted:      gauge("queue_runs_halted", "Runs that a quarantined batch has halted."),
		held:        gauge("queue_leases_held", "Live leases of all processes."),
		lingering:   gauge("queue_leases_lingering", "Live leases of all processes that only keep a warm session."),
		atBudget:    gauge("queue_orgs_at_budget", "Orgs with as many leases as they may have."),
		blocked:     gauges("queue_blocked_streams", "Streams with open work that may not be claimed, by rule.", "rule"),
		open:        gauges("queue_open_batches", "Open batches.", "org"),
		quarantined: gauges("quarantine_open", "Batches in quarantine, by error code.", "code"),
		used:        gauges("org_budget_used", "Sessions of loaders that an org's leases stand for, busy and idle, in all processes.", "org"),
		limit:       gauges("org_budget_limit", "Sessions of loaders that an org may have; absent where there is no limit.", "org"),
	}
	r.MustRegister(g.ready, g.oldest, g.halted, g.held, g.lingering, g.atBudget, g.blocked, g.open, g.quarantined, g.used, g.limit)
	return g
}

func (g *queueGauges) set(q queue.Gauges) {
	g.ready.Set(float64(q.ReadyStreams))
	g.oldest.Set(q.OldestReady.Seconds())
	g.halted.Set(float64(q.RunsHalted))
	g.held.Set(float64(q.LeasesHeld))
	g.lingering.Set(float64(q.LeasesIdle))
	g.atBudget.Set(float64(q.OrgsAtBudget))
	g.blocked.Reset()
	for rule, n := range q.BlockedStreams {
		g.blocked.WithLabelValues(rule).Set(float64(n))
	}
	g.quarantined.Reset()
	for code, n := range q.Quarantined {
		g.quarantined.WithLabelValues(string(code)).Set(float64(n))
	}
	g.used.Reset()
	g.limit.Reset()
	for i, org := range slices.Sorted(maps.Keys(q.Budgets)) {
		b, label := q.Budgets[org], string(org)
		if i >= maxOrgLabels {
			label = "_other"
		}
		g.used.WithLabelValues(label).Add(float64(b.Used))
		if b.Limit != nil {
			g.limit.WithLabelValues(label).Add(float64(*b.Limit))
		}
	}
	g.open.Reset()
	orgs := make([]sluice.Org, 0, len(q.OpenBatches))
	for org := range q.OpenBatches {
		orgs = append(orgs, org)
	}
	slices.Sort(orgs)
	for i, org := range orgs {
		if i >= maxOrgLabels {
			org = "_other"
		}
		g.open.WithLabelValues(string(org)).Add(float64(q.OpenBatches[orgs[i]]))
	}
}
