package wire

import (
	"context"
	"crypto/tls"
	"database/sql"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/auth"
)

// Engine opens connections to the orgs' engines.
type Engine interface {
	// Connect gives a fresh connection to the org's lake. It may take as long as opening an instance does.
	Connect(ctx context.Context, org sluice.Org) (Conn, error)
}

// Conn is an engine connection that belongs to one session.
type Conn interface {
	// SQL is the connection of the pool; the session reaches through it to the driver's.
	SQL() *sql.Conn
	// Check is told every error that the connection gave; it retires the instance after a fatal one, and returns the error
	// without secrets.
	Check(err error) error
	// Retired is closed when the instance has been retired; the session ends.
	Retired() <-chan struct{}
	// Close rolls back and gives the connection back.
	Close() error
}

// Config is what all sessions of a server share.
type Config struct {
	Engine        Engine
	Auth          auth.Authenticator
	Secret        auth.Secret
	TLS           *tls.Config   // nil: SSLRequest is answered with N
	Bans          Bans          // nil: none
	Trust         bool          // no password from loopback, but for service names
	LoginTimeout  time.Duration // from accept to ReadyForQuery
	IdleInTx      time.Duration // 0: no limit
	MaxMessage    int
	SpoolBytes    int // what the rest of a suspended portal may take when another statement needs the connection
	ServerVersion string
	Log           *slog.Logger
	Queries       *atomic.Int64
	Sessions      func() []Info // of all clients, for pg_stat_activity
}

// Bans keep addresses away that have failed to log in too often.
type Bans interface {
	// Banned tells how much longer an address is kept away; 0 means that it is not.
	Banned(addr string) time.Duration
	// Failed notes a failed login.
	Failed(addr string)
}

// maxStartup bounds the startup packet, as PostgreSQL does.
const maxStartup = 10_000
