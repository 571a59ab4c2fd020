package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/duckdb/duckdb-go/v2"

	"sluice/internal/warehouse/lock"
)

// instance is one open DuckDB with an org's lake attached. Fields from refs on are guarded by the registry's mutex.
type instance struct {
	reg    *Registry
	cfg    Config
	db     *sql.DB
	lock   *fileLock // DuckDB-file catalogs only
	spill  *spillDir
	secret scrubber
	life   context.Context // ends when the instance is taken out of service
	end    context.CancelFunc
	gone   chan struct{} // closed when all is closed and unlocked
	born   time.Time

	probing sync.Mutex          // one probe at a time
	writers *semaphore.Weighted // the lake's writers; one that changes tables takes all of it
	tables  lock.Tables

	refs    int
	used    time.Time
	leaving bool
	recycle bool
}

// allWriters is more writers than an instance ever has.
const allWriters = 1 << 30

// openInstance opens and locks down an instance. With create, a lake that does not exist yet is made.
func openInstance(ctx context.Context, reg *Registry, cfg Config, create bool) (_ *instance, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	i := &instance{reg: reg, cfg: cfg, secret: newScrubber(cfg.Lake.Password), gone: make(chan struct{}), writers: semaphore.NewWeighted(allWriters), born: time.Now(), used: time.Now()}
	i.life, i.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			i.end()
			err = errors.Join(err, i.shut())
		}
	}()
	if err = verifyExtensions(cfg); err != nil {
		return nil, err
	}
	if create {
		err = makeDirs(cfg)
	} else {
		err = checkCatalog(cfg)
	}
	if err != nil {
		return nil, err
	}
	if cfg.Lake.Kind == LakeDuckDB {
		if i.lock, err = lockCatalog(cfg.Org, cfg.Lake.Catalog); err != nil {
			return nil, err
		}
	}
	if i.spill, err = newSpillDir(cfg.TempDir, cfg.Org); err != nil {
		return nil, openError(cfg.Org, "make spill directory", err)
	}
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, openError(cfg.Org, "start engine", err)
	}
	i.db = sql.OpenDB(connector)
	// Connections are never reused: temporary tables, settings and prepared statements of one session must not reach
	// the next.
	i.db.SetMaxIdleConns(-1)
	if err = i.setUp(ctx, create); err != nil {
		return nil, err
	}
	return i, nil
}

// connect opens a connection for a caller that has acquired the instance, and releases it if that does not work.
func (i *instance) connect(ctx context.Context) (*Conn, error) {
	conn, err := i.db.Conn(ctx)
	if err == nil {
		c := &Conn{inst: i, sql: conn, tables: i.tables.Owner()}
		if err = i.greet(ctx, conn); err == nil {
			return c, nil
		}
		err = c.Check(err) //nolint:contextcheck // Check outlives the statement's context
		_ = c.Close()      // releases
	} else {
		err = i.scrub(err)
		i.release()
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("connect to engine of org %s: %w", i.cfg.Org, err)
	}
	return nil, openError(i.cfg.Org, "connect", err)
}

// greet gives a new connection its state.
func (i *instance) greet(ctx context.Context, conn *sql.Conn) error {
	for _, q := range []string{"USE lake", "SET TimeZone = 'UTC'"} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// examine retires the instance if err says that it is beyond repair. A catalog file that could not be checkpointed (a full
// disk) is put out of use by the engine with an IO error, a type that a missing Parquet file has too: there the catalog
// itself is asked, because the text is one that a user can produce.
func (i *instance) examine(err error) {
	if reason := fatal(err); reason != "" {
		i.retire(reason)
		return
	}
	if i.cfg.Lake.Kind == LakeDuckDB && errorType(err) == duckdb.ErrorTypeIO && i.probing.TryLock() {
		defer i.probing.Unlock()
		ctx, cancel := context.WithTimeout(i.life, probeTimeout)
		defer cancel()
		if perr := i.probe(ctx); perr != nil && ctx.Err() == nil {
			i.retire("catalog")
		}
	}
}

const probeTimeout = 5 * time.Second

// probe reads from the catalog on a connection of its own.
func (i *instance) probe(ctx context.Context) error {
	var n int
	if err := i.db.QueryRowContext(ctx, "SELECT count(*) FROM "+metadata+".ducklake_metadata").Scan(&n); err != nil {
		return fmt.Errorf("read the catalog of org %s: %w", i.cfg.Org, i.scrub(err))
	}
	return nil
}

func (i *instance) release()              { i.reg.release(i, false) }
func (i *instance) retire(reason string)  { i.reg.drop(i, reason) }
func (i *instance) scrub(err error) error { return i.secret.clean(err) }

// shut closes the engine and then gives up the lock and the spill directory.
func (i *instance) shut() error {
	var err error
	if i.db != nil {
		if err = i.scrub(i.db.Close()); err != nil {
			err = fmt.Errorf("close engine of org %s: %w", i.cfg.Org, err)
		}
	}
	i.spill.remove()
	i.lock.unlock()
	return err
}

// makeDirs makes the local directories of a new lake.
func makeDirs(cfg Config) error {
	var dirs []string
	if cfg.Lake.Kind == LakeDuckDB {
		dirs = append(dirs, parent(cfg.Lake.Catalog))
	}
	if !isRemote(cfg.Lake.DataPath) {
		// The folder, too, in which the loader writes the files that it registers.
		dirs = append(dirs, cfg.Lake.DataPath, filepath.Join(cfg.Lake.DataPath, "_sluice", "w"))
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return openError(cfg.Org, "make directories of the lake", err)
		}
	}
	return nil
}
