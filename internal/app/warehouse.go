package app

import (
	"context"
	"errors"
	"time"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/warehouse"
)

// warehouseGrace is how long statements of readers may go on at shutdown, after the loader has drained.
const warehouseGrace = 8 * time.Second

// startWarehouse opens the PostgreSQL endpoint with the engines behind it, and provisions new orgs.
func (a *App) startWarehouse(ctx context.Context, g *group) error {
	release, err := lockLakes(a.cfg)
	if err != nil {
		return err
	}
	if err := a.openEngines(); err != nil {
		release()
		return err
	}
	engines := a.engines.Load()
	connect := warehouse.EngineFunc(func(ctx context.Context, org sluice.Org) (warehouse.Conn, error) {
		conn, err := engines.Connect(ctx, org)
		if err != nil {
			return nil, err // not a nil *engine.Conn, which would be a Conn
		}
		return conn, nil
	})
	server := warehouse.New(warehouse.Config{
		Listen: a.cfg.Warehouse.Listen, TrustLoopback: true, Bans: &control.Bans{}, MaxConnections: a.cfg.Warehouse.MaxConnections, Grace: warehouseGrace,
	}, connect, &logins{a.orgs}, a.log)
	if err := server.Listen(); err != nil { //nolint:contextcheck // opening a port does not wait
		defer release()
		return errors.Join(listenError(a.cfg, "warehouse.listen", a.cfg.Warehouse.Listen, err), engines.Close())
	}
	addr := server.Addr().String()
	a.warehouseAddr.Store(&addr)
	a.server.Store(server)
	g.start(ctx, "warehouse", func(ctx context.Context) error {
		defer release()
		return errors.Join(server.Run(ctx), engines.Close()) // the engines last: sessions stand on them
	})
	g.start(ctx, "provision", a.provisioner.Run)
	g.start(ctx, "logins", func(ctx context.Context) error { return a.watchLogins(ctx, server) })
	a.roles.set(config.RoleWarehouse, true)
	return nil
}

// tableExists looks a table up in the catalog of an org's lake. The engine's own list of tables would take seconds in a
// large lake.
func (a *App) tableExists(ctx context.Context, org sluice.Org, schema, table string) (bool, error) {
	engines := a.engines.Load()
	if engines == nil {
		return false, sluice.E("SLUICE-CONTROL-NOT-READY", "look for table "+table, "the engines are not open yet", "try again", nil)
	}
	conn, err := engines.Connect(ctx, org)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	var n int
	err = conn.QueryRowContext(ctx, `SELECT count(*) FROM __ducklake_metadata_lake.ducklake_table t
		JOIN __ducklake_metadata_lake.ducklake_schema s USING (schema_id)
		WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(s.schema_name) = lower(?) AND lower(t.table_name) = lower(?)`, schema, table).Scan(&n)
	if err != nil {
		return false, conn.Check(err) //nolint:contextcheck // a broken instance is looked at whatever became of the caller
	}
	return n > 0, nil
}
