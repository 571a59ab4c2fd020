package engine

import (
	"context"
	"fmt"

	"sluice/internal/sluice"
)

// Provision makes org's lake ready: its directories, the catalog's tables, the schema _sluice, and the options that every
// lake of ours has. It may be repeated, also on a lake in use, and several processes may do it at once. The database and
// role of a PostgreSQL catalog exist before, see ProvisionCatalog.
func (r *Registry) Provision(ctx context.Context, cfg Config) error {
	for {
		s, mine, err := r.provisionSlot(cfg.Org)
		if err != nil {
			return err
		}
		if mine {
			err = r.provisionNew(ctx, cfg)
			r.settle(cfg.Org, s, nil, errAgain)
			return err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return fmt.Errorf("provision lake of org %s: %w", cfg.Org, context.Cause(ctx))
		}
		if s.inst == nil || !r.acquire(s.inst) {
			continue
		}
		return provisionOpen(ctx, s.inst, cfg)
	}
}

// provisionSlot returns org's slot, and whether it is a new one that the caller has to settle.
func (r *Registry) provisionSlot(org sluice.Org) (*slot, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("provision lake of org %s", org), "", "the process is stopping; try again", errClosed)
	}
	if s := r.slots[org]; s != nil {
		return s, false, nil
	}
	s := &slot{ready: make(chan struct{})}
	r.slots[org] = s
	return s, true, nil
}

// provisionNew opens the lake for this one purpose.
func (r *Registry) provisionNew(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, r.opt.OpenTimeout)
	defer cancel()
	if err := r.awaitClosed(ctx, cfg); err != nil {
		return err
	}
	catalog, err := lockPGCatalog(ctx, cfg)
	if err != nil {
		return err
	}
	defer catalog.close()
	inst, err := openInstance(ctx, r, cfg, true)
	if err != nil {
		return err
	}
	defer inst.end()
	if err := inst.provision(ctx); err != nil {
		_ = inst.shut()
		return err
	}
	if err := inst.shut(); err != nil {
		return openError(cfg.Org, "close after provisioning", err)
	}
	return catalog.index(ctx)
}

// provisionOpen repeats the provisioning on an instance in use, which the caller has acquired.
func provisionOpen(ctx context.Context, inst *instance, cfg Config) error {
	defer inst.release()
	have, err1 := inst.cfg.Lake.Key()
	want, err2 := cfg.Lake.Key()
	if err1 != nil || err2 != nil || have != want {
		return sluice.E("SLUICE-CONTROL-INVALID", fmt.Sprintf("provision lake of org %s", cfg.Org), "the org's warehouse is open on another lake",
			"stop the org's sessions before its lake is changed", nil)
	}
	catalog, err := lockPGCatalog(ctx, inst.cfg)
	if err != nil {
		return err
	}
	defer catalog.close()
	if err := inst.provision(ctx); err != nil {
		return err
	}
	return catalog.index(ctx)
}

// provision makes the schema and sets the options, where they are not so yet: each change is a snapshot.
func (i *instance) provision(ctx context.Context) error {
	conn, err := i.db.Conn(ctx)
	if err != nil {
		return openError(i.cfg.Org, "provision", i.scrub(err))
	}
	defer func() { _ = conn.Close() }()
	var n int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM "+metadata+".ducklake_schema WHERE schema_name = '_sluice' AND end_snapshot IS NULL").Scan(&n); err != nil {
		return openError(i.cfg.Org, "look for schema _sluice", i.scrub(err))
	}
	if n == 0 {
		if err := i.exec(ctx, conn, step{"create schema _sluice", "CREATE SCHEMA IF NOT EXISTS lake._sluice"}); err != nil {
			return err
		}
	}
	// Tenants' tables write Parquet always, control tables stay in the catalog (lake.md §8).
	for _, o := range []struct{ value, scope, call string }{
		{"0", "scope IS NULL", "CALL lake.set_option('data_inlining_row_limit', 0)"},
		{"10", "scope = 'schema'", "CALL lake.set_option('data_inlining_row_limit', 10, schema => '_sluice')"},
	} {
		q := "SELECT count(*) FROM " + metadata + ".ducklake_metadata WHERE key = 'data_inlining_row_limit' AND value = ? AND " + o.scope
		if err := conn.QueryRowContext(ctx, q, o.value).Scan(&n); err != nil {
			return openError(i.cfg.Org, "read options", i.scrub(err))
		}
		if n == 0 {
			if err := i.exec(ctx, conn, step{"set options", o.call}); err != nil {
				return err
			}
		}
	}
	return nil
}
