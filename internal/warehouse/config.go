package warehouse

import (
	"context"
	"crypto/tls"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/wire"
)

// Config is how a server runs. The zero value of each field is its default.
type Config struct {
	Listen         string        // host:port; default 127.0.0.1:15432
	TrustLoopback  bool          // no password for users that come from loopback to a loopback port, except svc_ names
	Bans           wire.Bans     // addresses that are kept away; nil: none
	TLS            *tls.Config   // nil: clients that ask for TLS are told that there is none
	MaxConnections int           // default 200
	Grace          time.Duration // how long statements and transactions may go on after the end was asked for; default 30 s
	LoginTimeout   time.Duration // from accept to the first ReadyForQuery, opening of the engine included; default 60 s
	IdleInTx       time.Duration // default 10 min; negative: no limit
	MaxMessage     int           // bytes of one message; default 1 GiB
	SpoolBytes     int           // rest of a suspended portal that is read ahead; default 64 MiB
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:15432"
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 200
	}
	def(&c.Grace, 30*time.Second)
	def(&c.LoginTimeout, time.Minute)
	def(&c.IdleInTx, 10*time.Minute)
	c.IdleInTx = max(c.IdleInTx, 0)
	if c.MaxMessage == 0 {
		c.MaxMessage = 1 << 30
	}
	if c.SpoolBytes == 0 {
		c.SpoolBytes = 64 << 20
	}
	return c
}

// Engine opens connections to the orgs' engines, see wire.Engine.
type Engine = wire.Engine

// Conn is an engine connection that belongs to one session, see wire.Conn.
type Conn = wire.Conn

// EngineFunc makes an Engine of a function, for owners whose Connect returns a type of their own.
type EngineFunc func(ctx context.Context, org sluice.Org) (Conn, error)

// Connect calls f.
func (f EngineFunc) Connect(ctx context.Context, org sluice.Org) (Conn, error) { return f(ctx, org) }
