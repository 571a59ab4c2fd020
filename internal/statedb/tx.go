package statedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"

	"sluice/internal/sluice"
)

// Tx is a transaction of a state DB.
type Tx struct {
	db     *DB
	tx     *sql.Tx
	wakeup map[string]bool
}

// Retries of a transaction that lost to another one, and the bounds of the pause before the first.
const (
	retries  = 3
	pauseMin = 5 * time.Millisecond
	pauseMax = 50 * time.Millisecond
)

// Tx runs fn in a transaction (PostgreSQL: READ COMMITTED; SQLite: BEGIN IMMEDIATE, so a writer never has to upgrade a
// read lock). A transaction that loses to another one, or whose connection breaks before the commit was sent, is run
// again up to three times, so fn must have no effect outside of tx. An error of fn rolls back and is returned as it is.
func (db *DB) Tx(ctx context.Context, fn func(tx *Tx) error) error {
	var err error
	for try := 0; ; try++ {
		var again bool
		again, err = db.txOnce(ctx, fn)
		if err == nil || !again || try == retries {
			break
		}
		pause := (pauseMin + rand.N(pauseMax-pauseMin)) << try
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil && sluice.CodeOf(err) == "" && connectionLost(err) {
		return sluice.E("SLUICE-STATE-AWAY", "use the state DB", err.Error(), "check that the server runs", err)
	}
	return err
}

// txOnce runs fn once; again tells whether trying again is safe and of use.
func (db *DB) txOnce(ctx context.Context, fn func(tx *Tx) error) (again bool, err error) {
	opts := &sql.TxOptions{}
	if db.dialect == PostgreSQL {
		opts.Isolation = sql.LevelReadCommitted
	}
	inner, err := db.write.BeginTx(ctx, opts)
	if err != nil {
		err = &beginError{err}
		return conflict(err) || connectionLost(err), err
	}
	tx := &Tx{db: db, tx: inner, wakeup: map[string]bool{}}
	if err := fn(tx); err != nil {
		if rerr := inner.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) && !connectionLost(rerr) {
			return false, errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
		return conflict(err) || connectionLost(err), err
	}
	if err := inner.Commit(); err != nil {
		// A connection lost in the commit leaves its outcome open: only a reported conflict is surely not done.
		return conflict(err), fmt.Errorf("commit: %w", err)
	}
	if db.dialect == SQLite {
		for channel := range tx.wakeup {
			db.hub.send(channel)
		}
	}
	return false, nil
}

// beginError is an error of BEGIN: nothing has been done, and the database does not take work.
type beginError struct{ err error }

func (e *beginError) Error() string { return "begin: " + e.err.Error() }
func (e *beginError) Unwrap() error { return e.err }

// conflict tells whether a transaction lost to another one and would succeed if run again.
func conflict(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	var lite sqlite3.Error
	if errors.As(err, &lite) {
		return lite.Code == sqlite3.ErrBusy || lite.Code == sqlite3.ErrLocked
	}
	return false
}

// connectionLost tells whether the database went away or is not ready.
func connectionLost(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "53300":
			return true
		}
		return len(pg.Code) == 5 && pg.Code[:2] == "08"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	var begin *beginError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &begin), errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return pgconn.SafeToRetry(err)
}

// Unique tells whether a statement was refused because a row with the same unique key exists.
func Unique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var lite sqlite3.Error
	if errors.As(err, &lite) {
		return lite.ExtendedCode == sqlite3.ErrConstraintUnique || lite.ExtendedCode == sqlite3.ErrConstraintPrimaryKey
	}
	return false
}
