package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/lock"
)

// Causes of a statement context that the engine side has ended; see Conn.Statement.
var (
	// ErrInterrupted is the cause after Conn.Interrupt.
	ErrInterrupted = errors.New("the statement was interrupted")
	// ErrRetired is the cause when the instance was retired: the connection is of no more use, a new one may be had.
	ErrRetired = errors.New("the engine instance was retired")
)

// Conn is one connection to an org's instance: time zone UTC, current catalog "lake", no other state. It is fresh, never
// reused for another session, and is used by one goroutine at a time; only Interrupt and Retired may be called beside it.
//
// Transactions are statements (BEGIN, COMMIT, ROLLBACK): database/sql's own close the connection when their context ends.
type Conn struct {
	inst  *instance
	sql   *sql.Conn
	close sync.Once
	err   error // of the close

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the statement that runs
	end    context.CancelFunc      // of a statement whose rows may still be read

	tables *lock.Owner
}

// Org is the org whose lake the connection is on.
func (c *Conn) Org() sluice.Org { return c.inst.cfg.Org }

// SQL is the connection as database/sql sees it, for what Conn does not wrap (duckdb.GetTableNames and the like). The
// caller passes errors on to Check, takes statement contexts from Statement, and never closes it.
func (c *Conn) SQL() *sql.Conn { return c.sql }

// Retired is closed when the instance has been retired. Running statements are cancelled by then; whoever holds the
// connection closes it soon, because a lake on a DuckDB file opens again only after that.
func (c *Conn) Retired() <-chan struct{} { return c.inst.life.Done() }

// Turn waits until the connection may write to the lake: beside others that write rows, or, to change tables, alone
// (docs/adr/0009). Whoever waits to be alone is let in before those who come after it. With upgrade, the caller keeps the
// shared turn that it has. The function that it gives ends the turn and is called once.
func (c *Conn) Turn(ctx context.Context, exclusive, upgrade bool) (end func(), err error) {
	n := int64(1)
	switch {
	case exclusive && upgrade:
		n = allWriters - 1
	case exclusive:
		n = allWriters
	}
	if err := c.inst.writers.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { c.inst.writers.Release(n) }, nil
}

// Tables are the locks of the lake's tables, as this connection holds them (docs/adr/0008).
func (c *Conn) Tables() *lock.Owner { return c.tables }

// Statement derives the context of one statement: it ends with ctx, by Interrupt, and when the instance is retired
// (context.Cause tells which). COMMIT must never be cancelled, its outcome would be unknown: run it under
// context.WithoutCancel and without Statement.
func (c *Conn) Statement(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.inst.life, func() { cancel(ErrRetired) })
	c.mu.Lock()
	last := c.end
	c.cancel, c.end = cancel, nil
	c.mu.Unlock()
	if last != nil {
		last()
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// rowsStatement is Statement for a query whose rows outlive the call: the context ends with the next statement or Close.
func (c *Conn) rowsStatement(ctx context.Context) context.Context {
	ctx, done := c.Statement(ctx)
	c.mu.Lock()
	c.end = done
	c.mu.Unlock()
	return ctx
}

// Interrupt cancels the statement that runs, if any; the connection can be used again afterwards. It may be called from
// any goroutine.
func (c *Conn) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel(ErrInterrupted)
	}
}

// ExecContext runs a statement without rows.
func (c *Conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, done := c.Statement(ctx)
	defer done()
	res, err := c.sql.ExecContext(ctx, query, args...)
	return res, c.Check(err) //nolint:contextcheck // Check outlives the statement's context
}

// QueryContext runs a statement with rows. The next statement of the connection closes rows that are still open.
func (c *Conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := c.sql.QueryContext(c.rowsStatement(ctx), query, args...)
	return rows, c.Check(err) //nolint:contextcheck // Check outlives the statement's context
}

// QueryRowContext runs a statement of which one row is read; the caller passes the error of Scan on to Check.
func (c *Conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return c.sql.QueryRowContext(c.rowsStatement(ctx), query, args...)
}

// Raw runs f on the driver's connection.
func (c *Conn) Raw(f func(*duckdb.Conn) error) error {
	return c.Check(c.sql.Raw(func(driverConn any) error {
		dc, ok := driverConn.(*duckdb.Conn)
		if !ok {
			return fmt.Errorf("use engine connection: driver connection is a %T", driverConn)
		}
		return f(dc)
	}))
}

// Prepare prepares one statement without running it; the caller closes it before the connection. Text with several
// statements is the caller's fault: the engine would run all but the last.
func (c *Conn) Prepare(ctx context.Context, query string) (*duckdb.Stmt, error) {
	var stmt *duckdb.Stmt
	err := c.Raw(func(dc *duckdb.Conn) error { //nolint:contextcheck // Check outlives the statement's context
		s, err := dc.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		var ok bool
		if stmt, ok = s.(*duckdb.Stmt); !ok {
			return fmt.Errorf("prepare statement: driver statement is a %T", s)
		}
		return nil
	})
	return stmt, err
}

// Check is told every error that the connection gave. It retires the instance if the engine is beyond repair, and returns
// the error with the catalog's password cut out.
func (c *Conn) Check(err error) error {
	if err == nil {
		return nil
	}
	c.inst.examine(err)
	return c.inst.scrub(err)
}

// Close rolls an open transaction back and gives the connection back. It may be called twice.
func (c *Conn) Close() error {
	c.close.Do(func() {
		c.Interrupt()
		c.mu.Lock()
		end := c.end
		c.mu.Unlock()
		if end != nil {
			end()
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		// "No transaction is active" is the usual answer; a failed one leaves it to the engine, which rolls back when it
		// drops the connection.
		_, _ = c.sql.ExecContext(ctx, "ROLLBACK")
		if err := c.sql.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			c.err = fmt.Errorf("close engine connection: %w", c.inst.scrub(err))
		}
		c.tables.Unlock(true)
		c.inst.release()
	})
	return c.err
}

const closeTimeout = 10 * time.Second
