package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/config"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// StateDSN is the DSN of the state DB, and whether it is an SQLite file.
func StateDSN(cfg *config.Config) (dsn string, file bool, err error) {
	dsn, err = cfg.State.DSN.Read()
	if err != nil {
		return "", false, sluice.E("SLUICE-CONFIG", "read state.dsn", "", "set what it refers to", err)
	}
	if dsn == "" {
		return cfg.Path("state.db"), true, nil
	}
	return dsn, !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://"), nil
}

// OpenState opens the state DB without migrating it. With create, the directory of an SQLite file is made.
func OpenState(ctx context.Context, cfg *config.Config, create bool) (*statedb.DB, error) {
	dsn, file, err := StateDSN(cfg)
	if err != nil {
		return nil, err
	}
	if file {
		if _, err := os.Stat(dsn); os.IsNotExist(err) && !create {
			return nil, sluice.E("SLUICE-NOT-FOUND", "open the state DB", "no server runs, and there is no state DB at "+dsn,
				"start one with sluice serve, make an org with sluice org create, or give --data or --server", err)
		}
		if err := os.MkdirAll(filepath.Dir(dsn), 0o700); err != nil {
			return nil, sluice.E("SLUICE-STATE-AWAY", "open the state DB", "", "check that the data directory can be written", err)
		}
	}
	db, err := statedb.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// migrate brings the state DB to this binary's schema where that is safe to do unasked: an SQLite file belongs to this
// machine, and an empty database has no other user. Another PostgreSQL database may serve processes of an older version.
func migrate(ctx context.Context, db *statedb.DB, always bool) error {
	have, want, err := db.Version(ctx)
	if err != nil {
		return fmt.Errorf("read the state DB's version: %w", err)
	}
	switch {
	case have == want:
		return nil
	case have == 0 || always || db.Dialect() == statedb.SQLite:
		return db.Up(ctx)
	}
	return sluice.E("SLUICE-STATE-VERSION", "open the state DB", fmt.Sprintf("its schema has version %d, this binary needs %d", have, want),
		"run sluice migrate up, or sluice serve --migrate", nil)
}
