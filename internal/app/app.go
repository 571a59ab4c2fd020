package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/api"
	"sluice/internal/backfill"
	"sluice/internal/changelog"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/extension"
	"sluice/internal/fanout"
	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
	"sluice/internal/warehouse"
	"sluice/internal/warehouse/engine"
)

// App is one process of Sluice: the stores in the state DB, and the components of its roles.
type App struct {
	cfg     *config.Config
	log     *slog.Logger
	started time.Time

	db      *statedb.DB
	orgs    *control.Store
	queue   *queue.Store
	streams *stream.Store

	engines     atomic.Pointer[engine.Registry]  // nil until openEngines
	server      atomic.Pointer[warehouse.Server] // nil until startWarehouse
	provisioner *provisioner
	credentials *credentials
	loader      *load.Loader      // nil without the role loader
	changelogs  *changelog.Runner // nil without the role changelog
	history     *backfill.Delta
	planner     *backfill.Planner
	fanouts     *fanout.Runner // nil without the role fanout
	metrics     *metrics

	roles         roleSet
	ready         readiness
	draining      atomic.Bool
	httpAddr      atomic.Pointer[string]
	warehouseAddr atomic.Pointer[string]
}

// Options of New.
type Options struct {
	Log     *slog.Logger
	Migrate bool // migrate a PostgreSQL state DB, too
	Create  bool // make the state DB's file if there is none
}

// New opens the state DB, migrates it where that is safe, and puts the parts together. It starts nothing.
func New(ctx context.Context, cfg *config.Config, opts Options) (*App, error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	db, err := OpenState(ctx, cfg, opts.Create)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, db, opts.Migrate); err != nil {
		_ = db.Close()
		return nil, err
	}
	a := &App{cfg: cfg, log: log.With("instance", cfg.Instance), started: time.Now(), db: db}
	a.orgs = control.New(db)
	a.queue = queue.New(db, queue.Config{Paths: pathPolicy(a.orgs), Pin: pin, MaxAttempts: cfg.Loader.MaxAttempts, Log: a.log})
	a.streams = stream.New(db, a.queue)
	a.credentials = &credentials{orgs: a.orgs, held: map[sluice.Org]lake.Credential{}}
	a.provisioner = newProvisioner(cfg, a.orgs, a.log)
	a.metrics = newMetrics(a)
	db.Observe(a.metrics.stateQuery)
	a.history = a.newHistory()
	a.planner = a.newPlanner()
	if cfg.Has(config.RoleLoader) {
		a.loader = a.newLoader()
	}
	if cfg.Has(config.RoleChangelog) {
		a.changelogs = a.newChangelogs()
		a.metrics.changelog.runner.Store(a.changelogs)
	}
	if cfg.Has(config.RoleFanout) {
		a.fanouts = a.newFanouts()
		a.metrics.fanout.runner.Store(a.fanouts)
	}
	return a, nil
}

// Run is the whole system: it starts the components of the process's roles, waits until ctx is over or one of them
// breaks, and stops them in the mirror of the order in which they started. It blocks until all have ended.
func (a *App) Run(ctx context.Context) (err error) {
	defer func() { _ = a.db.Close() }()
	g := newGroup(a.log)
	defer func() {
		a.draining.Store(true)
		if serr := g.stop(); err == nil {
			err = serr
		}
	}()

	// First the API, so that the process can be seen while it opens the rest.
	if err := a.startHTTP(ctx, g); err != nil {
		return err
	}
	g.start(ctx, "readiness", a.watchReadiness)

	if a.cfg.Has(config.RoleWarehouse) {
		// The engines behind the PostgreSQL endpoint, and what makes new orgs ready for them.
		if err := a.startWarehouse(ctx, g); err != nil {
			return err
		}
	}
	if a.cfg.Has(config.RoleAPI) || a.cfg.Has(config.RoleLoader) {
		g.start(ctx, "inbox", a.drainInbox)
		g.start(ctx, "sweep", a.sweep)
	}
	if a.cfg.Has(config.RolePlanner) {
		// It reads lakes through the warehouse, and what it stores is the loader's work.
		a.startPlanner(ctx, g)
	}
	if a.loader != nil {
		// Last, because it works through the warehouse; first to stop, because it has work under way.
		g.start(ctx, "loader", a.loader.Run)
		a.roles.set(config.RoleLoader, true)
	}
	if a.changelogs != nil {
		g.start(ctx, "changelog", a.changelogs.Run)
		a.roles.set(config.RoleChangelog, true)
	}
	if a.fanouts != nil {
		g.start(ctx, "fanout", a.fanouts.Run)
		a.roles.set(config.RoleFanout, true)
	}
	if a.cfg.Has(config.RoleAPI) {
		forget, err := a.announce(ctx)
		if err != nil {
			return err
		}
		defer forget()
	}
	a.log.InfoContext(ctx, "serving", "roles", a.cfg.RoleNames(), "http", a.HTTPAddr(), "warehouse", a.WarehouseAddr(), "data", a.cfg.Data)
	a.ready.open.Store(true)
	err = g.wait(ctx)
	a.log.InfoContext(ctx, "stopping", "error", err)
	return err
}

// Close gives up an App that was not run.
func (a *App) Close() error {
	if engines := a.engines.Load(); engines != nil {
		if err := engines.Close(); err != nil {
			return fmt.Errorf("close engines: %w", err)
		}
	}
	return a.db.Close()
}

// HTTPAddr is where the API listens, once it does.
func (a *App) HTTPAddr() string { return load1(&a.httpAddr) }

// WarehouseAddr is where this process's warehouse listens, once it does.
func (a *App) WarehouseAddr() string { return load1(&a.warehouseAddr) }

func load1(p *atomic.Pointer[string]) string {
	if s := p.Load(); s != nil {
		return *s
	}
	return ""
}

// Handler serves the API; commands call it in process when no server runs.
func (a *App) Handler() http.Handler { return api.New(a.apiDeps()) }

func (a *App) apiDeps() api.Deps {
	d := api.Deps{
		Control: a.orgs, Streams: a.streams, Queue: a.queue, Server: a.Server, Healthy: a.healthy, Ready: a.ready.list,
		NewLake: func(org sluice.Org, extra []string) (control.Lake, error) { return newLake(a.cfg, org, extra) },
		Metrics: a.metrics.handler(), Observe: a.metrics.observe, Log: a.log,
		Fanouts:    &fanouts{a.newFanoutAdmin(), a.fanouts},
		Changelogs: &changelogs{a.newChangelogAdmin(), a.changelogs},
		Enqueued:   func(result string, n int) { a.metrics.enqueued.WithLabelValues(result).Add(float64(n)) },
		Planner:    a.planner, HistoryAllowed: func(ctx context.Context, org sluice.Org, uri string) error { return historyAllowed(ctx, a, org, uri) },
	}
	if a.cfg.HTTP.Auth.Mode == config.AuthToken {
		d.Auth = &api.Auth{Rate: float64(a.cfg.HTTP.Rate)}
		if s := a.cfg.HTTP.Auth.AdminSecret; s.IsSet() {
			d.Auth.Admin = s.Read
		}
		if s := a.cfg.HTTP.Auth.DiscoverySecret; s.IsSet() {
			d.Auth.Discovery = s.Read
		}
	}
	if a.cfg.Has(config.RoleWarehouse) {
		d.TableExists = a.tableExists
		d.OrgCreated = func(context.Context, sluice.Org) error {
			a.provisioner.soon()
			return nil
		}
	}
	return d
}

// startHTTP opens the API, or only health and metrics in a process without the role api whose configuration asks for it.
func (a *App) startHTTP(ctx context.Context, g *group) error {
	handler := api.Ops(a.apiDeps())
	if a.cfg.Has(config.RoleAPI) {
		handler = a.Handler()
	} else if !a.cfg.HTTP.Asked {
		return nil
	}
	if err := a.checkSecrets(ctx); err != nil {
		return err
	}
	l, err := listen(ctx, a.cfg, "http.listen", a.cfg.HTTP.Listen)
	if err != nil {
		return err
	}
	if t := a.cfg.HTTP.TLS; t.On() {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			_ = l.Close()
			return sluice.E("SLUICE-CONFIG", "read the certificate of http.tls", "", "give PEM files of a certificate and its key", err)
		}
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	addr := l.Addr().String()
	a.httpAddr.Store(&addr)
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn), BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	g.start(ctx, "http", func(ctx context.Context) error { return serveHTTP(ctx, server, l) })
	a.roles.set(config.RoleAPI, a.cfg.Has(config.RoleAPI))
	return nil
}

// serveHTTP serves until ctx is over; requests under way may end.
func serveHTTP(ctx context.Context, server *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // what is still under way is cut off
	}
	return nil
}

const httpGrace = 3 * time.Second

// openEngines finds the extensions and makes the registry of engines.
func (a *App) openEngines() error {
	dir, err := extension.Find(a.cfg.Warehouse.Extensions, a.cfg.Data)
	if err != nil {
		return err
	}
	src := &source{cfg: a.cfg, orgs: a.orgs, extensions: dir}
	engines := engine.NewRegistry(src, a.log, engine.Options{MaxInstances: a.cfg.Warehouse.MaxInstances, MaxAge: a.cfg.Warehouse.InstanceMaxAge.D()})
	a.provisioner.source, a.provisioner.engines = src, engines
	a.engines.Store(engines)
	return nil
}

// newLoader makes the loader. It reaches its own process's warehouse over the wire, like any other.
func (a *App) newLoader() *load.Loader {
	c := a.cfg.Loader
	return load.New(load.Config{
		Owner: ownerID(), Concurrency: c.Concurrency, Poll: c.Poll.D(), BatchTimeout: c.BatchTimeout.D(), ChunkTimeout: c.ChunkTimeout.D(), LeaseTTL: c.Lease.TTL.D(),
		Heartbeat: c.Lease.Heartbeat.D(), DrainTimeout: c.DrainTimeout.D(), Linger: c.Session.Idle.D(), SessionAge: c.Session.MaxAge.D(),
		Limits: load.Limits{MaxAttempts: c.MaxAttempts, RetryBase: c.RetryBase.D(), SecondLook: c.SecondLook.D()},
	}, load.Deps{
		Queue: chunkQueue{meteredQueue{a.queue, a.metrics.load}, a.metrics.chunks}, Streams: a.streams, Sessions: meteredSessions{load.Dial(a.newDialer()), a.metrics.load}, Sources: a.history, Log: a.log,
	})
}
