package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/warehouse/engine"
)

// provisioner makes the warehouses of new orgs. Each step may be repeated and done by several processes at once, so
// nothing is written before the last one: a process that dies leaves an org that is still pending.
type provisioner struct {
	cfg     *config.Config
	orgs    *control.Store
	source  *source          // set before Run
	engines *engine.Registry // set before Run
	log     *slog.Logger
	wake    chan struct{}
	waits   map[sluice.Org]wait // orgs that did not work; only the goroutine of Run looks at it
}

// wait keeps an org that cannot be provisioned from being tried all the time.
type wait struct {
	until time.Time
	next  time.Duration
}

const (
	provisionPoll    = 2 * time.Second
	provisionRetry   = 2 * time.Second
	provisionMost    = time.Minute
	provisionTimeout = 2 * time.Minute
)

var provisionerBy = control.By{Who: "provisioner"}

func newProvisioner(cfg *config.Config, orgs *control.Store, log *slog.Logger) *provisioner {
	return &provisioner{cfg: cfg, orgs: orgs, log: log.With("component", "provision"), wake: make(chan struct{}, 1), waits: map[sluice.Org]wait{}}
}

// Run provisions until ctx is over.
func (p *provisioner) Run(ctx context.Context) error {
	return every(ctx, provisionPoll, p.wake, func(ctx context.Context) {
		if err := p.runOnce(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "orgs not listed", "error", err)
		}
	})
}

// soon makes Run look at once.
func (p *provisioner) soon() {
	select {
	case p.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// runOnce provisions the orgs that wait for it.
func (p *provisioner) runOnce(ctx context.Context) error {
	orgs, err := p.orgs.Orgs(ctx)
	if err != nil {
		return err
	}
	for _, o := range orgs {
		if !waiting(o) || time.Now().Before(p.waits[o.Org].until) {
			continue
		}
		err := p.provision(ctx, o)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			delete(p.waits, o.Org)
			continue
		}
		next := min(max(2*p.waits[o.Org].next, provisionRetry), provisionMost)
		p.waits[o.Org] = wait{time.Now().Add(next), next}
		p.log.WarnContext(ctx, "org not provisioned, tried again", "org", o.Org, "error", err, "wait_s", next.Seconds())
	}
	return nil
}

func waiting(o control.Org) bool {
	return o.State == sluice.OrgPending || o.State == sluice.OrgProvisioning
}

// provision makes one org's warehouse ready.
func (p *provisioner) provision(ctx context.Context, o control.Org) error {
	ctx, cancel := context.WithTimeout(ctx, provisionTimeout)
	defer cancel()
	if o.Lake.Kind == config.CatalogPostgres {
		if err := p.catalog(ctx, &o); err != nil {
			return err
		}
	}
	for _, dir := range append([]string{o.Lake.DataPath, p.cfg.Path("tmp")}, o.Lake.ExtractPrefixes...) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("provision lake of org %s", o.Org), "", "check that the directory can be made and written", err)
		}
	}
	if o.Lake.Kind == config.CatalogDuckDB {
		if err := os.MkdirAll(filepath.Dir(o.Lake.Catalog), 0o700); err != nil {
			return sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("provision lake of org %s", o.Org), "", "check that the directory can be made and written", err)
		}
	}
	c, err := p.source.engine(o)
	if err != nil {
		return err
	}
	if err := p.engines.Provision(ctx, c); err != nil {
		return err
	}
	now, err := p.orgs.Org(ctx, o.Org)
	if err != nil || !waiting(now) {
		return err
	}
	if err := p.orgs.SetOrgState(ctx, o.Org, sluice.OrgReady, provisionerBy); err != nil {
		return err
	}
	p.log.InfoContext(ctx, "org provisioned", "org", o.Org, "kind", o.Lake.Kind)
	return nil
}

// catalog makes database and role of a PostgreSQL catalog and keeps its address.
func (p *provisioner) catalog(ctx context.Context, o *control.Org) error {
	admin, err := p.cfg.Catalog.DSN.Read()
	if err != nil || admin == "" {
		return sluice.E("SLUICE-CONFIG", fmt.Sprintf("provision catalog of org %s", o.Org), "catalog.dsn cannot be read", "set it to a role that may create databases and roles", err)
	}
	password, err := p.source.password(o.Org)
	if err != nil {
		return err
	}
	dsn, err := engine.ProvisionCatalog(ctx, admin, o.Org, password)
	if err != nil {
		return err
	}
	if o.Lake.Catalog == dsn {
		return nil
	}
	o.Lake.Catalog = dsn
	if err := p.orgs.SetLake(ctx, o.Org, o.Lake, provisionerBy); err != nil {
		return err
	}
	return nil
}
