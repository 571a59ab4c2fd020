package statedb

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sluice/internal/sluice"
)

// Migrations are files NNNN_name.sql with an up part and a down part, written with the macros of Set. A part runs in one
// transaction.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	downMark = "-- +down"
	lockID   = 0x736c75696365 // "sluice": the advisory lock of everybody who migrates
)

// MigrationStatus is one migration.
type MigrationStatus struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"` // nil: it waits
}

type migration struct {
	version  int64
	name     string
	up, down string
}

// migrations reads the embedded files for a dialect, in order.
func migrations(d Dialect) ([]migration, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	slices.Sort(files)
	all := make([]migration, 0, len(files))
	for _, f := range files {
		data, err := migrationFiles.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(path.Base(f), ".sql"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: its name must begin with a number", f)
		}
		text, err := expand(string(data), variant{dialect: d})
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", f, err)
		}
		up, down, ok := strings.Cut(text, downMark)
		if !ok {
			return nil, fmt.Errorf("read migration %s: it has no %q", f, downMark)
		}
		all = append(all, migration{version, name, up, down})
	}
	return all, nil
}

func runText(text string) *goose.GoFunc {
	return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}}
}

// withProvider opens connections of its own for goose, which wants more than the one that writers share.
func (db *DB) withProvider(ctx context.Context, fn func(p *goose.Provider) error) error {
	all, err := migrations(db.dialect)
	if err != nil {
		return err
	}
	steps := make([]*goose.Migration, len(all))
	for i, m := range all {
		steps[i] = goose.NewGoMigration(m.version, runText(m.up), runText(m.down))
	}
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(steps...)}
	handle, dialect := db.write, goose.DialectPostgres
	if db.dialect == PostgreSQL {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID))
		if err != nil {
			return fmt.Errorf("make migration lock: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	} else {
		dialect = goose.DialectSQLite3
		unlock, err := lockFile(ctx, db.dsn+".migrate.lock")
		if err != nil {
			return err
		}
		defer unlock()
		if handle, err = sql.Open("sqlite3", db.sqliteDSN("_txlock=immediate")); err != nil {
			return fmt.Errorf("open state DB for migration: %w", err)
		}
		defer func() { _ = handle.Close() }() // goose has committed what it did
	}
	p, err := goose.NewProvider(dialect, handle, nil, opts...)
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	return fn(p)
}

// Up migrates to the newest version that this binary knows. Processes that call it at once do so one after the other.
func (db *DB) Up(ctx context.Context) error {
	if err := db.refuseNewer(ctx); err != nil {
		return err
	}
	err := db.withProvider(ctx, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate state DB up: %w", err)
	}
	return nil
}

// Down undoes the newest migration.
func (db *DB) Down(ctx context.Context) error {
	if err := db.refuseNewer(ctx); err != nil {
		return err
	}
	err := db.withProvider(ctx, func(p *goose.Provider) error {
		_, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate state DB down: %w", err)
	}
	return nil
}

var (
	versionTable = mustParse("VersionTable", `SELECT {{pg}}CASE WHEN to_regclass('goose_db_version') IS NULL THEN 0 ELSE 1 END{{end}}
		{{sqlite}}count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'{{end}}`)
	versionNow  = mustParse("VersionNow", "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE {{pg}}is_applied{{end}}{{sqlite}}is_applied = 1{{end}}")
	versionList = mustParse("VersionList", "SELECT version_id, CAST(max(tstamp) AS text) FROM goose_db_version GROUP BY version_id")
)

// Version gives the schema's version (0: empty) and the newest that this binary knows.
func (db *DB) Version(ctx context.Context) (have, want int64, err error) {
	all, err := migrations(db.dialect)
	if err != nil {
		return 0, 0, err
	}
	want = all[len(all)-1].version
	exists, _, err := One(ctx, db, versionTable, nil, Value[int64])
	if err != nil {
		return 0, 0, fmt.Errorf("read version of the state DB: %w", err)
	}
	if exists == 0 {
		return 0, want, nil
	}
	have, _, err = One(ctx, db, versionNow, nil, Value[int64])
	if err != nil {
		return 0, 0, fmt.Errorf("read version of the state DB: %w", err)
	}
	return have, want, nil
}

// Current is nil if the schema is exactly the one that this binary knows, else SLUICE-STATE-VERSION.
func (db *DB) Current(ctx context.Context) error {
	have, want, err := db.Version(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return newer(have, want)
	}
	if have < want {
		return sluice.E("SLUICE-STATE-VERSION", "check the state DB", fmt.Sprintf("its schema has version %d, this binary needs %d", have, want),
			"run `sluice migrate up`, or serve with --migrate", nil)
	}
	return nil
}

func (db *DB) refuseNewer(ctx context.Context) error {
	have, want, err := db.Version(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return newer(have, want)
	}
	return nil
}

func newer(have, want int64) error {
	return sluice.E("SLUICE-STATE-VERSION", "check the state DB",
		fmt.Sprintf("its schema has version %d, this binary knows up to %d", have, want),
		"use the newer binary, or migrate down with it first", nil)
}

// Status lists the migrations and when each was applied.
func (db *DB) Status(ctx context.Context) ([]MigrationStatus, error) {
	all, err := migrations(db.dialect)
	if err != nil {
		return nil, err
	}
	applied := map[int64]time.Time{}
	exists, _, err := One(ctx, db, versionTable, nil, Value[int64])
	if err != nil {
		return nil, fmt.Errorf("read migrations of the state DB: %w", err)
	}
	if exists > 0 {
		_, err = All(ctx, db, versionList, nil, func(s Scan) (struct{}, error) {
			var v int64
			var at string
			if err := s(&v, Text(&at)); err != nil {
				return struct{}{}, err
			}
			applied[v] = parseStamp(at)
			return struct{}{}, nil
		})
		if err != nil {
			return nil, fmt.Errorf("read migrations of the state DB: %w", err)
		}
	}
	status := make([]MigrationStatus, len(all))
	for i, m := range all {
		status[i] = MigrationStatus{Version: m.version, Name: m.name}
		if at, ok := applied[m.version]; ok {
			status[i].AppliedAt = &at
		}
	}
	return status, nil
}

// parseStamp reads goose's time stamps, which are in UTC.
func parseStamp(s string) time.Time {
	for _, layout := range []string{"2006-01-02 15:04:05.999999", time.RFC3339Nano} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}
