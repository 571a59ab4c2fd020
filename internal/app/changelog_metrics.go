package app

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/changelog"
)

// changelogMetrics are what the slots of this process show (spec/changelog.md §8).
type changelogMetrics struct {
	rows, bytes, refetched, fenced, columns *prometheus.CounterVec
	flushes, skipped, poison, conflicts     *prometheus.CounterVec
	flushSeconds, fileBytes                 *prometheus.HistogramVec
	held, paused, lagRecords, lagSeconds    *prometheus.Desc
	runner                                  atomic.Pointer[changelog.Runner]
}

func newChangelogMetrics(r prometheus.Registerer) *changelogMetrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_changelog_" + name, Help: help}, append([]string{"changelog", "slot"}, labels...))
		r.MustRegister(c)
		return c
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_changelog_"+name, help, append([]string{"changelog", "slot"}, labels...), nil)
	}
	m := &changelogMetrics{
		rows:      counters("rows_total", "Messages that became rows."),
		bytes:     counters("bytes_total", "Bytes of keys and values that were flushed."),
		refetched: counters("refetched_total", "Messages that were fetched again and left out."),
		fenced:    counters("fenced_total", "Flushes that a new owner of the slot had overtaken."),
		columns:   counters("columns_added_total", "Columns that messages have added."),
		flushes:   counters("flush_total", "Flushes by what caused them.", "trigger"),
		skipped:   counters("skipped_total", "Messages that were left out.", "reason"),
		poison:    counters("poison_total", "Messages that went to quarantine.", "reason"),
		conflicts: counters("conflicts_total", "Values that did not fit their column and went to _extra.", "column"),
		flushSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_changelog_flush_seconds", Help: "Time of flushes by step.", Buckets: buckets},
			[]string{"changelog", "slot", "step"}),
		fileBytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_changelog_file_bytes", Help: "Sizes of the files of flushes.", Buckets: prometheus.ExponentialBuckets(1<<14, 8, 6)},
			[]string{"changelog", "slot"}),
		held:       desc("buffer_bytes", "What the buffers of a slot hold."),
		paused:     desc("paused", "Whether a slot waits for memory."),
		lagRecords: desc("lag_records", "Messages that are not in the lake yet.", "partition"),
		lagSeconds: desc("lag_seconds", "How long the lake is behind the topic.", "partition"),
	}
	r.MustRegister(m.flushSeconds, m.fileBytes, m)
	return m
}

// Flushed implements changelog.Meter.
func (m *changelogMetrics) Flushed(c *changelog.Changelog, f changelog.Flushed) {
	slot := strconv.Itoa(f.Slot)
	m.rows.WithLabelValues(c.Name, slot).Add(float64(f.Rows))
	m.bytes.WithLabelValues(c.Name, slot).Add(float64(f.RawBytes))
	m.refetched.WithLabelValues(c.Name, slot).Add(float64(f.Refetched))
	m.columns.WithLabelValues(c.Name, slot).Add(float64(len(f.Added)))
	m.flushes.WithLabelValues(c.Name, slot, string(f.Trigger)).Inc()
	m.fileBytes.WithLabelValues(c.Name, slot).Observe(float64(f.FileBytes))
	if f.Filtered > 0 {
		m.skipped.WithLabelValues(c.Name, slot, "filter").Add(float64(f.Filtered))
	}
	for reason, n := range f.Poison {
		m.poison.WithLabelValues(c.Name, slot, reason).Add(float64(n))
	}
	for _, x := range f.Conflicts {
		column := x.Column
		if _, pinned := c.Def.Columns[column]; !pinned {
			column = "_other" // names come from messages: only those that the config names are a closed set
		}
		m.conflicts.WithLabelValues(c.Name, slot, column).Add(float64(x.Count))
	}
	for step, d := range f.Steps {
		m.flushSeconds.WithLabelValues(c.Name, slot, step).Observe(d.Seconds())
	}
}

// Fenced implements changelog.Meter.
func (m *changelogMetrics) Fenced(c *changelog.Changelog, slot int) {
	m.fenced.WithLabelValues(c.Name, strconv.Itoa(slot)).Inc()
}

// Describe implements prometheus.Collector.
func (m *changelogMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.held, m.paused, m.lagRecords, m.lagSeconds} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *changelogMetrics) Collect(ch chan<- prometheus.Metric) {
	r := m.runner.Load()
	if r == nil {
		return
	}
	for _, s := range r.Status() {
		slot := strconv.Itoa(s.Slot)
		paused := 0.0
		if s.Paused {
			paused = 1
		}
		ch <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(s.Held), s.Changelog, slot)
		ch <- prometheus.MustNewConstMetric(m.paused, prometheus.GaugeValue, paused, s.Changelog, slot)
		for p, l := range s.Lag {
			partition := strconv.Itoa(int(p))
			ch <- prometheus.MustNewConstMetric(m.lagRecords, prometheus.GaugeValue, float64(l.Records), s.Changelog, slot, partition)
			ch <- prometheus.MustNewConstMetric(m.lagSeconds, prometheus.GaugeValue, l.Seconds, s.Changelog, slot, partition)
		}
	}
}
