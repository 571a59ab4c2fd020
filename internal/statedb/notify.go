package statedb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgChannel is the one PostgreSQL channel; the payload is ours.
const pgChannel = "sluice"

const listenRetry = time.Second

// hub passes wake-ups on inside one process.
type hub struct {
	mu   sync.Mutex
	subs map[chan string]struct{}
}

func (h *hub) add() chan string {
	c := make(chan string, 16)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[chan string]struct{}{}
	}
	h.subs[c] = struct{}{}
	return c
}

func (h *hub) remove(c chan string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, c)
	close(c)
}

func (h *hub) send(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		select {
		case c <- channel:
		default: // a listener that has 16 wake-ups waiting is awake
		}
	}
}

var notifyQuery = mustParse("Notify", "SELECT {{pg}}pg_notify('"+pgChannel+"', :channel){{end}}{{sqlite}}:channel{{end}}")

// Notify wakes the listeners of a channel once tx is committed: in every process on PostgreSQL, in this one on SQLite.
func (db *DB) Notify(ctx context.Context, tx *Tx, channel string) error {
	if tx.wakeup[channel] {
		return nil
	}
	tx.wakeup[channel] = true
	if db.dialect == SQLite {
		return nil
	}
	if _, err := Exec(ctx, tx, notifyQuery, Args{"channel": channel}); err != nil {
		return fmt.Errorf("notify %s: %w", channel, err)
	}
	return nil
}

// Listen receives the names of channels that were notified, until ctx is over; then the channel is closed. Wake-ups can
// be lost (a broken connection, another process on SQLite), so callers poll as well. On PostgreSQL each listener has a
// connection of its own, and hears an empty name after a reconnect, because it may have missed something.
func (db *DB) Listen(ctx context.Context) <-chan string {
	c := db.hub.add()
	if db.dialect == PostgreSQL {
		go func() {
			defer db.hub.remove(c)
			for ctx.Err() == nil {
				if err := db.listenOnce(ctx, c); err != nil && ctx.Err() == nil {
					logger().Warn("wake-ups are off for a moment, polling goes on", "error", err)
				}
				select {
				case <-time.After(listenRetry):
				case <-ctx.Done():
				}
			}
		}()
		return c
	}
	context.AfterFunc(ctx, func() { db.hub.remove(c) })
	return c
}

func (db *DB) listenOnce(ctx context.Context, c chan string) error {
	conn, err := pgx.Connect(ctx, db.dsn)
	if err != nil {
		return fmt.Errorf("connect for wake-ups: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is under way on it
	if _, err := conn.Exec(ctx, "LISTEN "+pgChannel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	push := func(name string) {
		select {
		case c <- name:
		default:
		}
	}
	push("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for a wake-up: %w", err)
		}
		push(n.Payload)
	}
}
