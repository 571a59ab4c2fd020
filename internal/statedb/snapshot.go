package statedb

import (
	"context"
	"database/sql"
	"fmt"

	"sluice/internal/sluice"
)

// Snapshot runs fn in a read-only transaction: all its reads see the same state of the database.
func (db *DB) Snapshot(ctx context.Context, fn func(tx *Tx) error) error {
	opts := &sql.TxOptions{}
	if db.dialect == PostgreSQL {
		opts.Isolation, opts.ReadOnly = sql.LevelRepeatableRead, true
	}
	inner, err := db.read.BeginTx(ctx, opts) // SQLite: BEGIN DEFERRED on a read-only connection; the first read fixes the snapshot
	if err == nil {
		err = fn(&Tx{db: db, tx: inner, wakeup: map[string]bool{}})
		_ = inner.Rollback() // nothing was written; a connection that is broken shows in err
	} else {
		err = &beginError{err}
	}
	if err != nil && sluice.CodeOf(err) == "" && connectionLost(err) {
		return sluice.E("SLUICE-STATE-AWAY", "read the state DB", err.Error(), "check that the server runs", err)
	}
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	return nil
}
