package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/warehouse/engine"
)

// source tells the engines how an org's lake is opened.
type source struct {
	cfg        *config.Config
	orgs       *control.Store
	extensions string
}

// Warehouse gives the configuration of a ready org's engine.
func (s *source) Warehouse(ctx context.Context, org sluice.Org) (engine.Config, error) {
	o, err := s.orgs.Org(ctx, org)
	if err != nil {
		return engine.Config{}, err
	}
	switch o.State {
	case sluice.OrgReady, sluice.OrgPaused, sluice.OrgDraining: // paused and draining stop loading, not reading
		return s.engine(o)
	case sluice.OrgPending, sluice.OrgProvisioning, sluice.OrgFailed, sluice.OrgDeleting:
	}
	return engine.Config{}, sluice.E("SLUICE-CONTROL-NOT-READY", fmt.Sprintf("open the warehouse of org %s", org), fmt.Sprintf("its state is %s", o.State),
		"wait for it to become ready; sluice org show tells", nil)
}

// engine maps an org to its engine's configuration.
func (s *source) engine(o control.Org) (engine.Config, error) {
	total := s.cfg.Warehouse.MemoryLimit.Resolve()
	c := engine.Config{
		Org: o.Org, Extensions: s.extensions, ReadPrefixes: o.Lake.ExtractPrefixes, Threads: s.cfg.Warehouse.Threads,
		MemoryBytes: min(total, max(minEngineMemory, total/4)), SpillBytes: int64(s.cfg.Warehouse.SpillLimit),
		TempDir: s.cfg.Path("tmp"), PoolSize: s.cfg.Catalog.PoolPerOrg,
		Lake: engine.Lake{Kind: engine.LakeKind(o.Lake.Kind), Catalog: o.Lake.Catalog, DataPath: o.Lake.DataPath},
	}
	if o.Limits.MemoryBytes != nil {
		c.MemoryBytes = min(total, *o.Limits.MemoryBytes)
	}
	if o.Limits.Threads != nil {
		c.Threads = int(*o.Limits.Threads)
	}
	if c.Lake.Kind != engine.LakePostgres {
		return c, nil
	}
	password, err := s.password(o.Org)
	c.Lake.Password = password
	return c, err
}

// minEngineMemory is what an engine gets where a quarter of the process's memory is less.
const minEngineMemory = 1 << 30

// password of an org's role on the catalog server. It is derived, so it is stored nowhere and each process knows it.
func (s *source) password(org sluice.Org) (string, error) {
	key, err := s.cfg.Catalog.RoleKey.Read()
	if err == nil && key == "" {
		err = fmt.Errorf("catalog.role_key is not set")
	}
	if err != nil {
		return "", sluice.E("SLUICE-CONFIG", fmt.Sprintf("derive the catalog password of org %s", org), "", "set catalog.role_key to the key that the org was made with", err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(org))
	return hex.EncodeToString(mac.Sum(nil)), nil
}
