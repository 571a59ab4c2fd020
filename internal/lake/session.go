package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/sluice"
)

// Credential lets a loader into an org's warehouse.
type Credential struct {
	User     string
	Password string
	Expires  time.Time
}

// Credentials issues short-lived credentials for an org's warehouse.
type Credentials interface {
	Credential(ctx context.Context, org sluice.Org) (Credential, error)
}

// Refusals is what Credentials that keep what they issue have as well.
type Refusals interface {
	// Refused tells that a warehouse has not let a credential in: it is not given again.
	Refused(org sluice.Org, c Credential)
}

// Dialer opens sessions to the warehouse endpoint.
type Dialer struct {
	// Addr of the warehouse endpoint, host:port.
	Addr func() string
	// Credentials of the loader.
	Credentials Credentials
	// ConnectTimeout bounds a connect; a cold instance may take minutes. Zero: 5 min.
	ConnectTimeout time.Duration
}

// cancelGrace is how long a cancelled statement may take to end before its socket is closed (spec/loader.md §8).
const cancelGrace = 30 * time.Second

// endTimeout bounds the statements that end a transaction; they are never cancelled by the caller.
const endTimeout = 2 * time.Minute

// Session is one connection to an org's warehouse, used by one goroutine at a time. After any error it is Broken and may
// only be closed.
type Session struct {
	Org     sluice.Org
	Opened  time.Time
	Expires time.Time // of its credential
	conn    *pgx.Conn
	broken  bool
	known   map[Table]Target
	schemas map[string]Columns // of files, by a hash of their schema
	info    info
}

// info is what a session knows about its lake.
type info struct {
	catalog  string // duckdb, postgres
	dataPath string // ends in a slash
}

// Open connects. Errors are Failures of PhaseConnect.
func (d *Dialer) Open(ctx context.Context, org sluice.Org) (*Session, error) {
	doing := fmt.Sprintf("open a session to the warehouse of org %s", org)
	cred, err := d.Credentials.Credential(ctx, org)
	if err != nil {
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	cfg, err := pgx.ParseConfig("sslmode=disable application_name=sluice-loader")
	if err != nil {
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	host, port, err := splitAddr(d.Addr())
	if err != nil {
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	cfg.Host, cfg.Port, cfg.Database = host, port, string(org)
	cfg.User, cfg.Password = cred.User, cred.Password
	cfg.Fallbacks = nil
	cfg.ConnectTimeout = 5 * time.Minute
	if d.ConnectTimeout > 0 {
		cfg.ConnectTimeout = d.ConnectTimeout
	}
	cfg.DialFunc = dialer().DialContext
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	// A cancelled statement sends a protocol cancel and then waits for its end: the session learns what became of it.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, CancelRequestDelay: 0, DeadlineDelay: cancelGrace}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		if kept, ok := d.Credentials.(Refusals); ok && (sqlState(err) == "28P01" || sqlState(err) == "28000") {
			kept.Refused(org, cred)
		}
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	s := &Session{Org: org, Opened: time.Now(), Expires: cred.Expires, conn: conn, known: map[Table]Target{}, schemas: map[string]Columns{}}
	if _, err := conn.Exec(ctx, "SET TimeZone = 'UTC'"); err != nil {
		_ = s.Close()
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	if err := conn.QueryRow(ctx, "SELECT catalog_type, data_path FROM ducklake_settings("+Literal(Catalog)+")").Scan(&s.info.catalog, &s.info.dataPath); err != nil {
		_ = s.Close()
		return nil, AsFailure(err, PhaseConnect, doing)
	}
	return s, nil
}

// closeTimeout is how long the server may take to say goodbye.
const closeTimeout = 2 * time.Second

// Close ends the session and waits until the server has ended it too: the place that it took in the org's budget is free
// only then. A transaction that is still open is rolled back by the server.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	raw, err := s.conn.PgConn().Hijack()
	if err != nil { // it is closed already, or a statement is under way
		return s.conn.Close(ctx)
	}
	defer func() { _ = raw.Conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := raw.Conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	raw.Frontend.Send(&pgproto3.Terminate{})
	if err := raw.Frontend.Flush(); err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	// Whatever was still on its way is of no interest; the end of it is.
	if _, err := io.Copy(io.Discard, raw.Conn); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("close a session: %w", err)
	}
	return nil
}

// Broken reports whether the session has seen an error and must not be used again.
func (s *Session) Broken() bool { return s.broken || s.conn.IsClosed() }

func (s *Session) fail(err error, phase Phase, doing string) error {
	s.broken = true
	return AsFailure(err, phase, doing)
}

// read runs fn inside a transaction that is closed afterwards, so that nothing stays idle in a transaction and no
// decision is made on an old snapshot.
func (s *Session) read(ctx context.Context, phase Phase, doing string, fn func() error) error {
	if _, err := s.conn.Exec(ctx, "BEGIN"); err != nil {
		return s.fail(err, phase, doing)
	}
	if err := fn(); err != nil {
		s.rollback()
		return s.fail(err, phase, doing)
	}
	if _, err := s.conn.Exec(ctx, "COMMIT"); err != nil {
		return s.fail(err, phase, doing)
	}
	return nil
}

func (s *Session) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	// The session is closed after an error anyway, which rolls back too; an error here changes nothing.
	_, _ = s.conn.Exec(ctx, "ROLLBACK")
}

// sqlState gives the SQLSTATE of err, or "".
func sqlState(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}
