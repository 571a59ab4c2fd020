package wire

import (
	"context"
	"errors"
	"time"

	"sluice/internal/warehouse/gate/token"
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

// turnOf says what a statement needs. A service's transactions take their turn at BEGIN: SERIALIZABLE is alone.
func (s *Session) turnOf(t []token.Token) turn {
	if len(t) == 0 || t[0].Kind != token.Word {
		return noTurn
	}
	switch t[0].Text {
	case "create", "alter", "drop", "comment":
		return exclusive
	case "insert", "update", "delete", "merge", "truncate", "copy", "call":
		return shared
	case "begin", "start":
		if s.who.Role.Tenant() {
			return noTurn
		}
		for _, k := range t {
			if k.Is("serializable") {
				return exclusive
			}
		}
		return shared
	}
	return noTurn
}

// upgradeWait bounds the wait of a session that shares a turn and has to be alone. It keeps its share meanwhile, so that no
// table changes under it; two of them would wait for each other.
const upgradeWait = 5 * time.Second

// take waits for the turn that a statement needs.
func (s *Session) take(ctx context.Context, t []token.Token) error {
	want := s.turnOf(t)
	lock, ok := s.conn.(turns)
	if !ok || want <= s.holds {
		return nil
	}
	limit, upgrade := turnWait, s.holds == shared
	if upgrade {
		limit = upgradeWait
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, err := lock.Turn(wait, want == exclusive, upgrade)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return sqlstate.New("55P03", "other sessions have been writing to the lake for more than %s", limit).
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

// giveUp ends the session's turn, if it has one.
func (s *Session) giveUp() {
	if s.endTurn != nil {
		s.endTurn()
	}
	s.holds, s.endTurn = noTurn, nil
}
