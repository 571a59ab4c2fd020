package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/api"
)

// Server tells about this process, from memory.
func (a *App) Server() api.Server {
	s := api.Server{
		Version: BuildVersion().Version, Instance: a.cfg.Instance, PID: os.Getpid(), Roles: []api.Role{}, HTTP: a.HTTPAddr(),
		Warehouse: a.WarehouseAddr(), StartedAt: a.started.UTC(), Draining: a.draining.Load(),
	}
	for _, r := range a.cfg.RoleNames() {
		s.Roles = append(s.Roles, api.Role{Role: r, Up: a.roles.isUp(r)})
	}
	if a.loader != nil {
		st := a.loader.Status()
		s.Loader = &api.Loader{Streams: st.Streams, Batches: st.Batches, Failures: st.Failures, LastError: st.LastError}
		if !st.LastClaim.IsZero() {
			at := st.LastClaim.UTC()
			s.Loader.LastClaim = &at
		}
	}
	if engines := a.engines.Load(); engines != nil {
		st := engines.Status()
		s.Engines = &api.Engines{Open: st.Open, Connections: st.Connections}
	}
	return s
}

// stuckAfter is how long an idle loader may go without asking for work before the process counts as stuck.
const stuckAfter = 10 * time.Minute

// healthy says why the process should be restarted, or nil. It touches memory only.
func (a *App) healthy() error {
	if a.loader == nil || !a.roles.isUp("loader") || a.draining.Load() {
		return nil
	}
	st := a.loader.Status()
	if st.Stuck != "" {
		return fmt.Errorf("the loader is stuck: %s", st.Stuck)
	}
	since := time.Since(st.LastClaim)
	if st.LastClaim.IsZero() {
		since = time.Since(a.started)
	}
	if st.Streams == 0 && since > stuckAfter {
		return fmt.Errorf("the loader has not asked for work since %s: %s", since.Round(time.Second), st.LastError)
	}
	return nil
}

// readiness holds the latest results of the checks, so that asking for them costs nothing.
type readiness struct {
	open   atomic.Bool // all components are started
	mu     sync.Mutex
	checks []api.Check
}

func (r *readiness) list() []api.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]api.Check{{Name: "started", OK: r.open.Load()}}, r.checks...)
}

func (r *readiness) set(checks []api.Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = checks
}

const (
	readinessPoll    = time.Second
	readinessTimeout = 3 * time.Second
)

// watchReadiness keeps the checks fresh.
func (a *App) watchReadiness(ctx context.Context) error {
	return every(ctx, readinessPoll, nil, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
		defer cancel()
		state := api.Check{Name: "state_db", OK: true}
		if have, want, err := a.db.Version(ctx); err != nil {
			state.OK, state.Text = false, err.Error()
		} else if have != want {
			state.OK, state.Text = false, fmt.Sprintf("its schema has version %d, this binary needs %d", have, want)
		}
		checks := []api.Check{state}
		for _, r := range a.cfg.RoleNames() {
			checks = append(checks, api.Check{Name: "role_" + r, OK: a.roles.isUp(r)})
		}
		a.ready.set(append(checks, api.Check{Name: "not_draining", OK: !a.draining.Load()}))
	})
}
