package wire

import (
	"context"
	"errors"
	"strings"
	"time"

	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/lock"
	"sluice/internal/warehouse/sqlstate"
)

// turn is what a session holds of its lake while it writes. The engine frees the schema entries that it keeps between
// transactions when one of them changes tables, also under the feet of others that are writing: tables then land in another
// schema, or the process dies (docs/adr/0009). So a transaction that changes tables has the lake's writers to itself.
type turn int

const (
	noTurn    turn = iota
	shared         // writes rows: beside others that do
	exclusive      // changes tables: alone
)

// turnWait bounds the wait for a turn. The client is told to come back, as for any lock.
const turnWait = 60 * time.Second

// turns is what a connection offers where the engine needs it.
type turns interface {
	// Turn waits for a turn beside others that write rows, or alone. With upgrade the caller keeps the shared turn that it
	// has and waits for the rest.
	Turn(ctx context.Context, exclusive, upgrade bool) (end func(), err error)
}

// tabled is what a connection offers whose lake's tables have locks (docs/adr/0008).
type tabled interface{ Tables() *lock.Owner }

// effectOf is what running a statement does; that of EXECUTE is its statement's.
func (s *Session) effectOf(t []token.Token) gate.Effect {
	if name := gate.Executed(t); name != "" {
		return s.sqlPrepared[name]
	}
	return gate.ReadEffect(t)
}

// turnOf says what a statement needs. A service's transactions take their turn at BEGIN: SERIALIZABLE is alone.
func (s *Session) turnOf(verb string, t []token.Token) turn {
	switch verb {
	case "create", "alter", "drop", "comment":
		return exclusive
	case "insert", "update", "delete", "merge", "truncate", "copy", "call":
		return shared
	}
	if len(t) == 0 || s.who.Role.Tenant() || !t[0].Is("begin") && !t[0].Is("start") {
		return noTurn
	}
	for _, k := range t {
		if k.Is("serializable") {
			return exclusive
		}
	}
	return shared
}

// upgradeWait bounds the wait of a session that shares a turn and has to be alone. It keeps its share meanwhile, so that no
// table changes under it; two of them would wait for each other.
const upgradeWait = 5 * time.Second

// take waits for what a statement needs of the lake, in the order that lets others go on meanwhile: the lock of the table
// that it changes, then its turn among the writers.
func (s *Session) take(ctx context.Context, t []token.Token) error {
	e := s.effectOf(t)
	if e.Table != "" {
		if err := s.lockTable(ctx, e.Table); err != nil {
			return err
		}
	}
	return s.takeTurn(ctx, s.turnOf(e.Verb, t))
}

// takeToBind waits for what the engine needs to look at a statement. Inside a transaction it will see the lake as it is now,
// so a table that the statement changes is locked before.
func (s *Session) takeToBind(ctx context.Context, t []token.Token) error {
	if s.tx.now == txOpen {
		return s.take(ctx, t)
	}
	return s.takeTurn(ctx, s.turnOf(s.effectOf(t).Verb, t))
}

// lockTable makes the session the only one that changes or deletes rows of a table, to the end of its transaction.
func (s *Session) lockTable(ctx context.Context, table string) error {
	locks, ok := s.conn.(tabled)
	if !ok || !s.who.Role.Tenant() && strings.HasPrefix(table, "ctl_") { // the fence keeps its table's writers apart
		return nil
	}
	since := lock.Always
	if s.tx.now == txOpen && s.tx.read {
		since = s.tx.since
	}
	wait, cancel := context.WithTimeoutCause(ctx, turnWait, sqlstate.New(sqlstate.LockNotAvailable,
		"another transaction has been changing table %q for more than %s", table, turnWait).WithHint("end transactions that are open, and try again"))
	defer cancel()
	err := locks.Tables().Lock(wait, table, since)
	switch {
	case errors.Is(err, lock.ErrChanged):
		return sqlstate.New(sqlstate.SerializationFailure, "could not serialize access: table %q was changed by another transaction", table).
			WithHint("repeat the transaction")
	case errors.Is(err, lock.ErrDeadlock):
		return sqlstate.New(sqlstate.Deadlock, "deadlock detected: another transaction that has table %q locked waits for this one", table).
			WithHint("repeat the transaction")
	}
	return err
}

// reads is called before the engine reads the lake for a statement: from there on, an open transaction sees what was
// committed until now, and nothing later.
func (s *Session) reads() {
	if s.tx.now != txOpen || s.tx.read {
		return
	}
	s.tx.read = true
	if locks, ok := s.conn.(tabled); ok {
		s.tx.since = locks.Tables().Now()
	}
}

// unlock ends the locks of tables; changed says that the transaction may have been committed.
func (s *Session) unlock(changed bool) {
	if locks, ok := s.conn.(tabled); ok {
		locks.Tables().Unlock(changed)
	}
}

// takeTurn waits for the session's turn among the lake's writers.
func (s *Session) takeTurn(ctx context.Context, want turn) error {
	l, ok := s.conn.(turns)
	if !ok || want <= s.holds {
		return nil
	}
	limit, upgrade := turnWait, s.holds == shared
	if upgrade {
		limit = upgradeWait
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, err := l.Turn(wait, want == exclusive, upgrade)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return sqlstate.New(sqlstate.LockNotAvailable, "other sessions have been writing to the lake for more than %s", limit).
				WithHint("end transactions that are open, and try again")
		}
		return s.conn.Check(err)
	}
	if before := s.endTurn; before != nil {
		s.endTurn = func() { end(); before() }
	} else {
		s.endTurn = end
	}
	s.holds = want
	return nil
}

// giveUp ends the session's turn and locks, if it has any.
func (s *Session) giveUp() {
	s.unlock(true)
	if s.endTurn != nil {
		s.endTurn()
	}
	s.holds, s.endTurn = noTurn, nil
}
