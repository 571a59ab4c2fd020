package statedb

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// DB is an open state DB.
type DB struct{}

// Tx is a transaction of a state DB.
type Tx struct{}

// Dialect names the kind of a state DB.
type Dialect string

// The dialects.
const (
	SQLite     Dialect = "sqlite"
	PostgreSQL Dialect = "postgres"
)

// Open opens a state DB: a path (empty: in memory is not offered, the caller names a file), or a postgres:// URL. It
// refuses a schema that is newer than this binary's (SLUICE-STATE-VERSION) and does not migrate.
func Open(ctx context.Context, dsn string) (*DB, error) { return nil, errors.ErrUnsupported }

// Close closes all connections.
func (db *DB) Close() error { return nil }

// Dialect tells which kind of database it is.
func (db *DB) Dialect() Dialect { return SQLite }

// Up migrates to the newest version that this binary knows.
func (db *DB) Up(ctx context.Context) error { return errors.ErrUnsupported }

// Down undoes one migration.
func (db *DB) Down(ctx context.Context) error { return errors.ErrUnsupported }

// Version gives the schema's version and the newest that this binary knows.
func (db *DB) Version(ctx context.Context) (have, want int64, err error) {
	return 0, 0, errors.ErrUnsupported
}

// Status lists the migrations and when each was applied.
func (db *DB) Status(ctx context.Context) ([]MigrationStatus, error) {
	return nil, errors.ErrUnsupported
}

// MigrationStatus is one migration.
type MigrationStatus struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"`
}

// Tx runs fn in a transaction (SQLite: BEGIN IMMEDIATE). A transaction that loses to another is run again up to three
// times, so fn must not have effects outside of tx.
func (db *DB) Tx(ctx context.Context, fn func(tx *Tx) error) error { return errors.ErrUnsupported }

// Now reads the state DB's clock.
func (db *DB) Now(ctx context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// SetNow overrides the clock of this handle, for tests; nil ends it.
func (db *DB) SetNow(t *time.Time) {}

// Notify wakes the listeners of a channel, in every process, once tx is committed.
func (db *DB) Notify(ctx context.Context, tx *Tx, channel string) error { return errors.ErrUnsupported }

// Listen receives names of channels that were notified. Notifications can be lost: callers poll as well. The channel is
// closed once ctx is over.
func (db *DB) Listen(ctx context.Context) <-chan string { return nil }

// Args are the named parameters of a query.
type Args map[string]any

// Query is one named query.
type Query struct{}

// Set holds the named queries of a package's .sql files.
type Set struct{}

// MustLoad reads the *.sql files of a package.
func MustLoad(fsys fs.FS) *Set { return nil }

// Runner runs queries: a DB or a Tx.
type Runner interface {
	Exec(ctx context.Context, q *Query, args Args) (changed int64, err error)
}
