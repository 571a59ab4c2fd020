package duck

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	bindings "github.com/duckdb/duckdb-go-bindings"
	driver "github.com/duckdb/duckdb-go/v2"
)

// ErrNotDuckDB says that a driver connection is not one of duckdb-go's.
var ErrNotDuckDB = errors.New("not a connection of the DuckDB driver")

// reassert is how often an interrupt is repeated while a call is under way: the engine clears the flag when it moves from
// planning to running.
const reassert = 5 * time.Millisecond

// Conn is a borrowed DuckDB connection.
type Conn struct{ raw bindings.Connection }

// FromDriver borrows the engine connection inside a duckdb-go driver connection, as sql.Conn.Raw hands it out. The
// caller keeps the sql.Conn checked out for as long as it uses the result.
func FromDriver(driverConn any) (*Conn, error) {
	dc, ok := driverConn.(*driver.Conn)
	if !ok {
		return nil, fmt.Errorf("borrow engine connection from %T: %w", driverConn, ErrNotDuckDB)
	}
	// The driver has no accessor for its handle; its layout is pinned with its version, and TestFromDriver looks at it.
	handle := reflect.ValueOf(dc).Elem().FieldByName("conn")
	if !handle.IsValid() || handle.Kind() != reflect.Struct || !handle.FieldByName("Ptr").IsValid() {
		return nil, fmt.Errorf("borrow engine connection: unknown layout of %T: %w", driverConn, ErrNotDuckDB)
	}
	ptr := handle.FieldByName("Ptr").UnsafePointer()
	if ptr == nil {
		return nil, fmt.Errorf("borrow engine connection: it is closed: %w", ErrNotDuckDB)
	}
	return &Conn{raw: bindings.Connection{Ptr: ptr}}, nil
}

// guard sends interrupts for as long as ctx is over and the returned function has not been called. After that function
// has returned, none is sent.
func (c *Conn) guard(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	var over, gone chan struct{}
	over, gone = make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(gone)
		tick := time.NewTicker(reassert)
		defer tick.Stop()
		for {
			bindings.Interrupt(c.raw)
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		if !stop() {
			close(over)
			<-gone
		}
	}
}

// Prepare binds one statement without running it. A string with several statements is refused.
func (c *Conn) Prepare(ctx context.Context, sql string) (*Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, interrupted(ctx)
	}
	if strings.IndexByte(sql, 0) >= 0 {
		return nil, &Error{Type: ErrorParser, Msg: "Parser Error: a statement cannot hold a NUL character"}
	}
	release := c.guard(ctx)
	defer release()
	s := &Stmt{conn: c}
	if bindings.Prepare(c.raw, sql, &s.raw) == bindings.StateError {
		err := errorFromText(bindings.PrepareError(s.raw))
		bindings.DestroyPrepare(&s.raw)
		return nil, err
	}
	s.describe()
	return s, nil
}

// Exec runs a statement that has no parameters and drops its rows.
func (c *Conn) Exec(ctx context.Context, sql string) error {
	s, err := c.Prepare(ctx, sql)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.Execute(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.drain(ctx)
}

// Text runs a query and returns its first column as text; NULLs are left out. For the server's own small questions.
func (c *Conn) Text(ctx context.Context, sql string, args ...Value) ([]string, error) {
	s, err := c.Prepare(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for i, a := range args {
		if err := s.Bind(i+1, a); err != nil {
			return nil, err
		}
	}
	r, err := s.Execute(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []string
	for {
		ch, err := r.Next(ctx)
		if err != nil || ch == nil {
			return out, err
		}
		v := ch.Column(0)
		if v.Type.ID != Varchar {
			ch.Close()
			return nil, fmt.Errorf("read text of %q: its type is %s", sql, v.Type.Name())
		}
		for row := range ch.Size() {
			if !v.Null(row) {
				out = append(out, string(v.Bytes(row)))
			}
		}
		ch.Close()
	}
}

// PrepareExpanded prepares a statement that the engine itself takes apart: PIVOT without a list of values becomes
// CREATE TYPE … AS ENUM of the values, then the query. What comes before the query is run here.
func (c *Conn) PrepareExpanded(ctx context.Context, sql string) (*Stmt, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	var parts bindings.ExtractedStatements
	n := bindings.ExtractStatements(c.raw, sql, &parts)
	defer bindings.DestroyExtracted(&parts)
	if n == 0 {
		return nil, errorFromText(bindings.ExtractStatementsError(parts))
	}
	for i := bindings.IdxT(0); ; i++ {
		s, err := c.prepareExtracted(ctx, parts, i)
		if err != nil || i == n-1 {
			return s, err
		}
		err = s.runExpansion(ctx)
		s.Close()
		if err != nil {
			return nil, err
		}
	}
}

func (c *Conn) prepareExtracted(ctx context.Context, parts bindings.ExtractedStatements, i bindings.IdxT) (*Stmt, error) {
	release := c.guard(ctx)
	defer release()
	s := &Stmt{conn: c}
	if bindings.PrepareExtractedStatement(c.raw, parts, i, &s.raw) == bindings.StateError {
		err := errorFromText(bindings.PrepareError(s.raw))
		bindings.DestroyPrepare(&s.raw)
		return nil, err
	}
	s.describe()
	return s, nil
}

// runExpansion runs a part that the engine put before a query: nothing but the creation of a type may be one.
func (s *Stmt) runExpansion(ctx context.Context) error {
	if s.kind != KindCreate {
		return &Error{Type: ErrorInvalidInput, Msg: "Invalid Input Error: Cannot prepare multiple statements at once!"}
	}
	r, err := s.Execute(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.drain(ctx)
}
