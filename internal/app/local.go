package app

import (
	"context"
	"net/http"

	"sluice/internal/api"
	"sluice/internal/sluice"
)

// Local serves the API for a command in the same process while no server runs. An org is provisioned before the answer,
// because nobody else would do it.
func (a *App) Local() http.Handler {
	d := a.apiDeps()
	d.OrgCreated = func(ctx context.Context, org sluice.Org) error {
		if err := a.openOnce(); err != nil {
			return err
		}
		o, err := a.orgs.Org(ctx, org)
		if err != nil {
			return err
		}
		return a.provisioner.provision(ctx, o)
	}
	d.TableExists = func(ctx context.Context, org sluice.Org, schema, table string) (bool, error) {
		if err := a.openOnce(); err != nil {
			return false, err
		}
		return a.tableExists(ctx, org, schema, table)
	}
	return api.New(d)
}

func (a *App) openOnce() error {
	if a.engines.Load() != nil {
		return nil
	}
	return a.openEngines()
}
