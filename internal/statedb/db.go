package statedb

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3" // driver "sqlite3"

	"sluice/internal/sluice"
)

// Dialect names the kind of a state DB.
type Dialect string

// The dialects.
const (
	SQLite     Dialect = "sqlite"
	PostgreSQL Dialect = "postgres"
)

// DefaultPath is the SQLite file that an empty DSN means.
const DefaultPath = "sluice-data/state.db"

const (
	busyTimeout = 10 * time.Second // how long SQLite waits for another process's transaction
	connectWait = 10 * time.Second
	maxConns    = 16
	// SQLite statements that a connection keeps prepared: more than all stores together have. Preparing took a quarter of a
	// call's time.
	statementsKept = 256
)

// DB is an open state DB. It is safe for use by many goroutines.
type DB struct {
	dialect Dialect
	dsn     string  // a path or a URL
	write   *sql.DB // SQLite: one connection, so that writers of one process queue up fairly; PostgreSQL: the pool
	read    *sql.DB // SQLite: read-only connections; PostgreSQL: the same pool
	hub     hub
	now     atomic.Pointer[time.Time]
	fault   atomic.Pointer[func(query string) error]
	observe atomic.Pointer[func(query string, took time.Duration)]
}

// Open opens a state DB: an SQLite file (a path; empty means DefaultPath), or PostgreSQL (a postgres:// URL). It refuses
// a schema that is newer than this binary's (SLUICE-STATE-VERSION), and it does not migrate: see Up. A database that
// does not answer is SLUICE-STATE-AWAY.
func Open(ctx context.Context, dsn string) (*DB, error) {
	db := &DB{dsn: dsn}
	var err error
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		err = db.openPostgres()
	} else {
		err = db.openSQLite()
	}
	if err != nil {
		return nil, away(err, db.name())
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	if err := db.write.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, away(err, db.name())
	}
	if err := db.refuseNewer(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

func away(err error, name string) error {
	return sluice.E("SLUICE-STATE-AWAY", "open state DB "+name, err.Error(),
		"check that the server runs and that the DSN is right", err)
}

// name is the DSN without its secrets.
func (db *DB) name() string {
	if db.dialect == SQLite {
		return db.dsn
	}
	u, err := url.Parse(db.dsn)
	if err != nil {
		return "postgres"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func (db *DB) openPostgres() error {
	db.dialect = PostgreSQL
	cfg, err := pgx.ParseConfig(db.dsn)
	if err != nil {
		return fmt.Errorf("read DSN: %w", err)
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "sluice"
	}
	db.write = stdlib.OpenDB(*cfg)
	db.write.SetMaxOpenConns(maxConns)
	db.write.SetMaxIdleConns(maxConns)
	db.write.SetConnMaxIdleTime(5 * time.Minute)
	db.read = db.write
	return nil
}

func (db *DB) openSQLite() error {
	db.dialect = SQLite
	if db.dsn == "" {
		db.dsn = DefaultPath
	}
	if err := os.MkdirAll(filepath.Dir(db.dsn), 0o755); err != nil {
		return fmt.Errorf("make directory of the state DB: %w", err)
	}
	var err error
	if db.write, err = sql.Open("sqlite3", db.sqliteDSN("_txlock=immediate")); err != nil {
		return fmt.Errorf("open for writing: %w", err)
	}
	db.write.SetMaxOpenConns(1)
	if db.read, err = sql.Open("sqlite3", db.sqliteDSN("_query_only=true")); err != nil {
		return fmt.Errorf("open for reading: %w", err)
	}
	db.read.SetMaxOpenConns(maxConns)
	db.read.SetMaxIdleConns(maxConns)
	return nil
}

// sqliteDSN: WAL, so that readers and a writer of several processes do not wait for each other. synchronous=FULL,
// because with NORMAL a power cut could lose a batch whose producer was told that it is accepted.
func (db *DB) sqliteDSN(more string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: db.dsn}).EscapedPath()}
	u.RawQuery = fmt.Sprintf("_journal_mode=WAL&_synchronous=FULL&_foreign_keys=on&_busy_timeout=%d&_stmt_cache_size=%d&%s",
		busyTimeout.Milliseconds(), statementsKept, more)
	return u.String()
}

// Close closes all connections.
func (db *DB) Close() error {
	var err error
	if db.read != nil && db.read != db.write {
		err = db.read.Close()
	}
	if db.write != nil {
		if werr := db.write.Close(); werr != nil {
			err = werr
		}
	}
	return err
}

// Dialect tells which kind of database it is.
func (db *DB) Dialect() Dialect { return db.dialect }

// SetNow overrides the clock of this handle, for tests; nil ends it.
func (db *DB) SetNow(t *time.Time) { db.now.Store(t) }

// SetFault makes statements of transactions fail, for tests: it is asked before each with the query's name, and an error
// takes the statement's place. nil ends it.
func (db *DB) SetFault(fn func(query string) error) {
	if fn == nil {
		db.fault.Store(nil)
		return
	}
	db.fault.Store(&fn)
}

// Observe has each query told with its name and its time, until its last row; nil ends it.
func (db *DB) Observe(fn func(query string, took time.Duration)) {
	if fn == nil {
		db.observe.Store(nil)
		return
	}
	db.observe.Store(&fn)
}

// Now reads the state DB's clock.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	t, _, err := One(ctx, db, nowQuery, nil, func(s Scan) (t time.Time, err error) {
		return t, s(Time(&t))
	})
	return t, err
}

var nowQuery = mustParse("Now", "SELECT {{now}}")

// Ping asks the database whether it answers.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.write.PingContext(ctx); err != nil {
		return away(err, db.name())
	}
	return nil
}

// logger is where things that nobody waits for are reported.
func logger() *slog.Logger { return slog.Default().With("component", "statedb") }
