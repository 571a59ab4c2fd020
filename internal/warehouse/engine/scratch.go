package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/duckdb/duckdb-go/v2"

	"sluice/internal/extension"
	"sluice/internal/sluice"
	"sluice/internal/warehouse/duck"
)

// ScratchConfig is what an engine without a lake is opened with. The zero value is the default.
type ScratchConfig struct {
	Name        string // of the job, for the spill directory
	MemoryBytes int64  // 0: DefaultMemoryBytes
	Threads     int    // 0: one per CPU
	TempDir     string // in which the spill directory is made; empty: the system's
	HTTP        bool   // load httpfs, from Extensions
	Extensions  string
}

// Scratch is one connection to an engine of its own, without a lake, for a job that reads and writes files. It is used by
// one goroutine; only Progress may be called from others.
type Scratch struct {
	db    *sql.DB
	conn  *sql.Conn
	raw   *duck.Conn
	spill *spillDir
}

// OpenScratch opens an engine.
func OpenScratch(ctx context.Context, cfg ScratchConfig) (_ *Scratch, err error) {
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = DefaultMemoryBytes
	}
	if cfg.HTTP {
		if err := extension.VerifyOnce(cfg.Extensions, "httpfs"); err != nil {
			return nil, fmt.Errorf("open an engine: %w", err)
		}
	}
	s := &Scratch{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.spill, err = newSpillDir(cfg.TempDir, sluice.Org(cfg.Name)); err != nil {
		return nil, scratchError("make its spill directory", err)
	}
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, scratchError("start it", err)
	}
	s.db = sql.OpenDB(connector)
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return nil, scratchError("start it", err)
	}
	for _, set := range cfg.settings(s.spill.path) {
		if _, err := s.conn.ExecContext(ctx, set); err != nil {
			return nil, scratchError("prepare it", err)
		}
	}
	err = s.conn.Raw(func(c any) (err error) {
		s.raw, err = duck.FromDriver(c)
		return err
	})
	return s, err
}

func (cfg ScratchConfig) settings(spill string) []string {
	out := []string{
		"SET GLOBAL autoinstall_known_extensions = false",
		"SET GLOBAL autoload_known_extensions = false",
		"SET GLOBAL allow_community_extensions = false",
		"SET GLOBAL allow_persistent_secrets = false",
		fmt.Sprintf("SET GLOBAL memory_limit = '%dB'", cfg.MemoryBytes),
		"SET GLOBAL temp_directory = " + quoteLiteral(spill),
		"SET TimeZone = 'UTC'",
		"SET enable_progress_bar = true", // without it nothing is counted; nothing is printed either way
		"SET enable_progress_bar_print = false",
	}
	if cfg.Threads > 0 {
		out = append(out, fmt.Sprintf("SET GLOBAL threads = %d", cfg.Threads))
	}
	if cfg.HTTP {
		out = append(out, "SET GLOBAL extension_directory = "+quoteLiteral(cfg.Extensions), "LOAD httpfs",
			"SET GLOBAL http_proxy = ''", "SET GLOBAL http_keep_alive = true")
	}
	return out
}

func scratchError(doing string, err error) error {
	return sluice.E("SLUICE-ENGINE-OPEN", "open an engine", doing+": "+err.Error(), "see sluice doctor", err)
}

// ExecContext runs a statement.
func (s *Scratch) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.conn.ExecContext(ctx, query, args...)
}

// QueryRowContext runs a statement that gives a row.
func (s *Scratch) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return s.conn.QueryRowContext(ctx, query, args...)
}

// Progress is how much of the statement that runs is done, between 0 and 1; less than 0 if it is not known.
func (s *Scratch) Progress() float64 { return s.raw.Progress() }

// Close ends the engine and removes what it spilled.
func (s *Scratch) Close() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	s.spill.remove()
	return err
}
