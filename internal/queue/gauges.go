package queue

import (
	"context"
	"strings"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Gauges are what the metrics of the queue show. They are made from rows and indexes of open work only, so they cost what
// the work costs, not what the history costs.
type Gauges struct {
	ReadyStreams   int64            // claimable but for org, stream switches and budgets
	OldestReady    time.Duration    // how long the longest of them has waited; the headline
	BlockedStreams map[string]int64 // by rule (E8, E9, …)
	OpenBatches    map[sluice.Org]int64
	RunsHalted     int64
	LeasesHeld     int64
	LeasesIdle     int64 // of these, lingering
	OrgsAtBudget   int64
	Budgets        map[sluice.Org]Budget // of orgs that hold leases
	Quarantined    map[sluice.Code]int64
}

// Budget is how many sessions an org's leases stand for, busy and idle, and how many it may have; nil means no limit.
type Budget struct {
	Used  int64
	Limit *int64
}

// Gauges reads the present values.
func (s *Store) Gauges(ctx context.Context) (Gauges, error) {
	g := Gauges{BlockedStreams: map[string]int64{}, OpenBatches: map[sluice.Org]int64{}, Budgets: map[sluice.Org]Budget{}, Quarantined: map[sluice.Code]int64{}}
	now, err := s.db.Now(ctx)
	if err != nil {
		return g, err
	}
	each := func(query string, fn func(scan statedb.Scan) error) {
		if err != nil {
			return
		}
		_, err = statedb.All(ctx, s.db, queries.Get(query), nil, func(scan statedb.Scan) (struct{}, error) { return struct{}{}, fn(scan) })
	}
	each("GaugeStreams", func(scan statedb.Scan) error {
		var org sluice.Org
		var blocked string
		var ready, n int64
		var oldest *time.Time
		if err := scan(&org, statedb.Text(&blocked), &ready, statedb.TimePtr(&oldest), &n); err != nil {
			return err
		}
		if blocked != "" {
			rule, _, _ := strings.Cut(blocked, " ")
			g.BlockedStreams[rule] += n
		}
		if ready == 1 {
			g.ReadyStreams += n
			if oldest != nil {
				g.OldestReady = max(g.OldestReady, now.Sub(*oldest))
			}
		}
		return nil
	})
	each("GaugeLeases", func(scan statedb.Scan) error {
		var org sluice.Org
		var limit *int64
		var held, idle int64
		if err := scan(&org, &limit, &held, &idle); err != nil {
			return err
		}
		g.Budgets[org] = Budget{held, limit}
		g.LeasesHeld, g.LeasesIdle = g.LeasesHeld+held, g.LeasesIdle+idle
		if limit != nil && held >= *limit {
			g.OrgsAtBudget++
		}
		return nil
	})
	each("GaugeOpen", func(scan statedb.Scan) error {
		var org sluice.Org
		var n int64
		if err := scan(&org, &n); err != nil {
			return err
		}
		g.OpenBatches[org] = n
		return nil
	})
	each("GaugeQuarantine", func(scan statedb.Scan) error {
		var code sluice.Code
		var n int64
		if err := scan(&code, &n); err != nil {
			return err
		}
		g.Quarantined[code] = n
		return nil
	})
	each("GaugeHalted", func(scan statedb.Scan) error { return scan(&g.RunsHalted) })
	return g, err
}
