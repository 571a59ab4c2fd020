package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/backfill"
	"sluice/internal/config"
	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// newHistory reads the Delta tables that histories are in: for the planner, and for the loader whose chunks they are.
func (a *App) newHistory() *backfill.Delta {
	opener := objstore.NewOpener(ObjectOptions(a.cfg))
	cache := delta.NewCache(0)
	return &backfill.Delta{
		Table: func(ctx context.Context, uri string) (*delta.Table, error) {
			at, err := objstore.ParseLocation(uri)
			if err != nil {
				return nil, sluice.E("SLUICE-USAGE", "open Delta table "+uri, err.Error(), "give a path, or a file: or s3: URI", err)
			}
			bucket, err := opener.Open(ctx, at)
			if err != nil {
				return nil, sluice.E("SLUICE-CONFIG", "open Delta table "+uri, err.Error(), "see store.endpoint, store.region and store.credentials", err)
			}
			o, err := DeltaOptions(ctx, a.cfg)
			if err != nil {
				return nil, err
			}
			o.Cache = cache
			return delta.Open(bucket, uri, o)
		},
		Side: func(ctx context.Context, org sluice.Org) (objstore.Bucket, objstore.Location, error) {
			o, err := a.orgs.Org(ctx, org)
			if err != nil {
				return nil, objstore.Location{}, err
			}
			at, err := objstore.ParseLocation(o.Lake.DataPath)
			if err != nil {
				return nil, at, fmt.Errorf("read the data path of org %s: %w", org, err)
			}
			bucket, err := opener.Open(ctx, at)
			return bucket, at, err
		},
		Allowed: func(ctx context.Context, org sluice.Org, uri string) error { return historyAllowed(ctx, a, org, uri) },
	}
}

// historyAllowed holds the addresses of histories to the same rule as paths of extracts: the warehouse reads them with its
// own rights.
func historyAllowed(ctx context.Context, a *App, org sluice.Org, uri string) error {
	at, err := objstore.ParseLocation(uri)
	if err != nil {
		return err
	}
	return pathPolicy(a.orgs)(ctx, org, at.String())
}

// newPlanner makes the planner. Its commands are there in every process; its passes are made by those with the role.
func (a *App) newPlanner() *backfill.Planner {
	c := a.cfg.Backfill
	return backfill.New(backfill.Config{
		Owner: ownerID(), Instance: a.cfg.Instance, Caps: backfill.Caps{Global: c.Global, PerOrg: c.PerOrg}, Interval: c.Interval.D(),
		ChunkBytes: int64(c.ChunkBytes), LookAgain: c.LookAgain.D(), EmptyApart: c.EmptyApart.D(),
	}, backfill.Deps{
		DB: a.db, Queue: a.queue, Streams: a.streams, Source: a.history, Lakes: backfill.Dialed(a.newDialer()), Log: a.log, Count: a.metrics.backfill,
	})
}

// startPlanner starts the passes.
func (a *App) startPlanner(ctx context.Context, g *group) {
	g.start(ctx, "planner", a.planner.Run)
	g.start(ctx, "planner gauges", a.gaugeBackfills)
	a.roles.set(config.RolePlanner, true)
}

// backfillMetrics are what planning shows (backfill.md §12). The planner knows of no metrics: it counts through this.
type backfillMetrics struct {
	passSeconds prometheus.Histogram
	deferrals   *prometheus.CounterVec
	replans     *prometheus.CounterVec
	covered     *prometheus.CounterVec
	unproven    prometheus.Counter

	streams, plans                                                                    *prometheus.GaugeVec
	slotsUsed, slotsWanted, oldestWanted, failing, stalled, oldestResync, lastPassAge prometheus.Gauge
}

func newBackfillMetrics(r prometheus.Registerer) *backfillMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_" + name, Help: help})
		r.MustRegister(g)
		return g
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_" + name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_" + name, Help: help}, []string{label})
		r.MustRegister(c)
		return c
	}
	pass := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sluice_planner_pass_seconds", Help: "Time of a whole planner pass.", Buckets: buckets})
	r.MustRegister(pass)
	return &backfillMetrics{
		passSeconds:  pass,
		deferrals:    counters("backfill_deferrals_total", "Plans that had to wait without fault, by reason.", "reason"),
		replans:      counters("backfill_replans_total", "Plans that were made anew by themselves, by reason.", "reason"),
		covered:      counters("backfill_covered_total", "Batches that a planned version holds already, by proof.", "proof"),
		unproven:     counter("backfill_unproven_total", "Batches of which it could not be proven whether a version holds them."),
		streams:      gauges("backfill_streams", "Streams by lifecycle.", "lifecycle"),
		plans:        gauges("backfill_plans", "Active plans.", "kind", "state"),
		slotsUsed:    gauge("backfill_slots_used", "Plans that have a slot."),
		slotsWanted:  gauge("backfill_slots_wanted", "Plans that wait for one."),
		oldestWanted: gauge("backfill_oldest_wanted_seconds", "How long the longest of them has waited."),
		failing:      gauge("backfill_failing_streams", "Streams whose plan is halted or has failed three times, or that are parked."),
		stalled:      gauge("backfill_stalled_streams", "Streams whose plan runs and has not moved for half an hour."),
		oldestResync: gauge("needs_resync_oldest_seconds", "How long the longest of the parked streams has been parked."),
		lastPassAge:  gauge("planner_last_pass_age_seconds", "Time since this process last made a whole planner pass."),
	}
}

// The counters of the planner.
func (m *backfillMetrics) Pass(took time.Duration) { m.passSeconds.Observe(took.Seconds()) }
func (m *backfillMetrics) Deferred(reason string)  { m.deferrals.WithLabelValues(reason).Inc() }
func (m *backfillMetrics) Replanned(reason string) { m.replans.WithLabelValues(reason).Inc() }
func (m *backfillMetrics) Covered(proof string, n int) {
	m.covered.WithLabelValues(proof).Add(float64(n))
}
func (m *backfillMetrics) Unproven(n int) { m.unproven.Add(float64(n)) }

// gaugeEvery is how often the gauges of plans are read.
const gaugeEvery = 10 * time.Second

// gaugeBackfills keeps the gauges of streams and plans fresh.
func (a *App) gaugeBackfills(ctx context.Context) error {
	return every(ctx, gaugeEvery, nil, func(ctx context.Context) {
		if err := a.readBackfillGauges(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "gauges of backfills not read", "error", err)
		}
	})
}

func (a *App) readBackfillGauges(ctx context.Context) error {
	m, now := a.metrics.backfill, time.Now()
	since := a.planner.LastPass()
	if since.IsZero() {
		since = a.started
	}
	m.lastPassAge.Set(now.Sub(since).Seconds())
	lives, err := a.streams.Lifecycles(ctx)
	if err != nil {
		return err
	}
	for _, l := range []sluice.Lifecycle{sluice.PendingBackfill, sluice.Backfilling, sluice.Primed, sluice.NeedsResync} {
		m.streams.WithLabelValues(string(l)).Set(float64(lives[l].Streams))
	}
	m.oldestResync.Set(0)
	if oldest := lives[sluice.NeedsResync].Oldest; oldest != nil {
		m.oldestResync.Set(now.Sub(*oldest).Seconds())
	}
	all, err := a.planner.Active(ctx, "")
	if err != nil {
		return err
	}
	m.plans.Reset()
	var used, wanted, failing, stalled, longest float64
	for _, p := range all {
		m.plans.WithLabelValues(string(p.Kind), string(p.State)).Inc()
		switch {
		case p.Slot:
			used++
		case p.State == stream.PlanWanted || p.State == stream.PlanRunning:
			wanted++
			if p.WantedSince != nil {
				longest = max(longest, now.Sub(*p.WantedSince).Seconds())
			}
		}
		if p.Failing && p.Lifecycle != sluice.NeedsResync {
			failing++
		}
		if p.Stalled {
			stalled++
		}
	}
	m.slotsUsed.Set(used)
	m.slotsWanted.Set(wanted)
	m.oldestWanted.Set(longest)
	m.failing.Set(failing + float64(lives[sluice.NeedsResync].Streams))
	m.stalled.Set(stalled)
	return nil
}
