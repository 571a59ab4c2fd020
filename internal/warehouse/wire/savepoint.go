package wire

import (
	"context"

	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/sqlstate"
)

// savepoint is a place in a transaction that a client may want to go back to. The engine has none, so only what needs no
// undoing is gone back from (docs/adr/0026).
type savepoint struct {
	name    string
	wrote   int // statements that had written before it
	changes int // settings that had been changed before it
}

// point finds a savepoint by its name; the last of several counts.
func (s *Session) point(verb, name string) (int, error) {
	if s.tx.now == txIdle || s.tx.implicit {
		return 0, sqlstate.New(sqlstate.NoActiveTransaction, "%s can only be used in transaction blocks", verb)
	}
	for i := len(s.tx.points) - 1; i >= 0; i-- {
		if s.tx.points[i].name == name {
			return i, nil
		}
	}
	return 0, sqlstate.New(sqlstate.InvalidSavepoint, "savepoint %q does not exist", name)
}

func (s *Session) savepoint(name string) error {
	switch {
	case name == "":
		return sqlstate.New(sqlstate.SyntaxError, "syntax error: SAVEPOINT takes a name")
	case s.tx.now == txIdle || s.tx.implicit:
		return sqlstate.New(sqlstate.NoActiveTransaction, "SAVEPOINT can only be used in transaction blocks")
	}
	s.tx.points = append(s.tx.points, savepoint{name, s.tx.wrote, len(s.tx.changes)})
	return nil
}

func (s *Session) release(name string) error {
	i, err := s.point("RELEASE SAVEPOINT", name)
	if err == nil {
		s.tx.points = s.tx.points[:i]
	}
	return err
}

// abortPoint fails a block that has savepoints. Where the engine's transaction has survived the error (it was one of the
// parser, the binder or this server), it stays for a ROLLBACK TO.
func (s *Session) abortPoint(ctx context.Context) error {
	s.dropPortals()
	s.tx.now = txFailed
	if s.db.Exec(context.WithoutCancel(ctx), "SELECT 1") == nil {
		return nil
	}
	return s.rollbackEngine(ctx)
}

// rollbackTo goes back to a savepoint: by keeping the engine's transaction where nothing has been written since, by a new
// one where nothing had been written before. It then sees what others have committed meanwhile, as PostgreSQL's default
// isolation does.
func (s *Session) rollbackTo(ctx context.Context, name string) error {
	i, err := s.point("ROLLBACK TO SAVEPOINT", name)
	if err != nil {
		return err
	}
	p := s.tx.points[i]
	lost := !s.tx.engine || s.tx.wrote > p.wrote
	switch {
	case lost && p.wrote > 0:
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot roll back to savepoint %q of a transaction that had written before it", name).
			WithDetail("The engine undoes a transaction as a whole only.").WithHint("roll the whole transaction back")
	case lost:
		if err := s.restart(ctx); err != nil {
			return err
		}
	}
	s.dropPortals()
	s.takeBack(ctx, s.tx.changes[p.changes:], false)
	s.tx.now, s.tx.changes, s.tx.points = txOpen, s.tx.changes[:p.changes], s.tx.points[:i+1]
	return nil
}

// restart gives the client's transaction, of which nothing is to be kept, a new one of the engine.
func (s *Session) restart(ctx context.Context) error {
	if err := s.rollbackEngine(ctx); err != nil {
		return err
	}
	if err := s.db.Exec(context.WithoutCancel(ctx), "BEGIN TRANSACTION"); err != nil {
		return s.conn.Check(err)
	}
	s.tx.engine, s.tx.wrote, s.tx.altered = true, 0, gate.Alters{}
	return nil
}
