package wire

import (
	"context"
	"time"

	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/sqlstate"
)

type txState uint8

const (
	txIdle   txState = iota
	txOpen           // the engine has a transaction
	txFailed         // the client is in a block that can only be rolled back; the engine has no transaction any more
)

// transaction is PostgreSQL's view of the session, kept by the server: the engine would let a failed transaction go on,
// and answers OK to its COMMIT.
type transaction struct {
	now      txState
	engine   bool // the engine has a transaction: with savepoints also while the client's has failed
	began    time.Time
	implicit bool // begun by the server, around a string of several statements or a pipeline
	readOnly bool
	read     bool   // the engine has read the lake in it
	since    uint64 // when it first did, in the time of the tables' locks
	wrote    int    // statements that may have changed something
	points   []savepoint
	altered  gate.Alters
	changes  []change
	overlay  bool // the catalog's views were made, or renewed, in it
	ddl      bool // it has changed the schema
}

func (t *transaction) open() bool { return t.now != txIdle }

// status is the byte of ReadyForQuery.
func (t *transaction) status() byte {
	switch t.now {
	case txOpen:
		return 'T'
	case txFailed:
		return 'E'
	case txIdle:
	}
	return 'I'
}

func (t *transaction) state() string {
	switch t.now {
	case txOpen:
		return "idle in transaction"
	case txFailed:
		return "idle in transaction (aborted)"
	case txIdle:
	}
	return "idle"
}

// begin starts a transaction in the engine. It is not interruptible: an interrupted one would leave the state unknown.
func (s *Session) begin(ctx context.Context, implicit bool) error {
	if err := s.db.Exec(context.WithoutCancel(ctx), "BEGIN TRANSACTION"); err != nil {
		return s.conn.Check(err)
	}
	s.tx = transaction{now: txOpen, engine: true, implicit: implicit, readOnly: s.vars.readOnly, began: time.Now()}
	return nil
}

// commit ends the engine's transaction. A COMMIT is never cancelled; whatever it answers, the transaction is over.
func (s *Session) commit(ctx context.Context) error {
	s.dropPortals()
	changes := s.tx.changes
	s.tx = transaction{}
	err := s.db.Exec(context.WithoutCancel(ctx), "COMMIT")
	if err != nil {
		s.forgetOverlay()
		err = s.conn.Check(err)
		_ = s.db.Exec(context.WithoutCancel(ctx), "ROLLBACK") // "no transaction is active" is the usual answer
	}
	s.unlock(true) // also after an error, whose meaning is not certain
	s.takeBack(ctx, changes, err == nil)
	return err
}

// rollback ends the client's transaction, and the engine's, if it still has one.
func (s *Session) rollback(ctx context.Context) error {
	changes := s.tx.changes
	err := s.rollbackEngine(ctx)
	s.tx = transaction{}
	s.takeBack(ctx, changes, false)
	return err
}

// rollbackEngine ends the engine's transaction, if there is one; the client's stays what it is.
func (s *Session) rollbackEngine(ctx context.Context) error {
	s.dropPortals()
	if !s.tx.engine {
		return nil
	}
	err := s.conn.Check(s.db.Exec(context.WithoutCancel(ctx), "ROLLBACK"))
	if s.tx.overlay {
		s.forgetOverlay()
	}
	s.tx.engine, s.tx.read, s.tx.overlay, s.tx.ddl = false, false, false, false
	s.unlock(false)
	return err
}

// abort is called after any error: an open block is failed from now on, and the engine is rolled back at once, so that
// it holds nothing while the client makes up its mind. Only a client with savepoints may want to go on.
func (s *Session) abort(ctx context.Context) {
	if s.tx.now != txOpen {
		return
	}
	var err error
	switch {
	case s.tx.implicit:
		err = s.rollback(ctx)
	case len(s.tx.points) > 0:
		err = s.abortPoint(ctx)
	default:
		err = s.rollback(ctx)
		s.tx.now = txFailed
	}
	if err != nil {
		s.log.Warn("rollback after an error did not work", "error", err.Error())
	}
}

// endImplicit commits what the server began for a string or a pipeline; outside a block it also ends all portals.
func (s *Session) endImplicit(ctx context.Context) error {
	if s.tx.now == txOpen && s.tx.implicit {
		return s.commit(ctx)
	}
	if s.tx.now == txIdle {
		s.dropPortals()
	}
	return nil
}

// allowed refuses everything but the end of a failed block.
func (s *Session) allowed(p *prepared) error {
	if s.tx.now == txFailed && !p.endsBlock() {
		return sqlstate.New(sqlstate.InFailedTransaction, "current transaction is aborted, commands ignored until end of transaction block")
	}
	return nil
}

// control runs BEGIN, COMMIT and the like and gives the command tag.
func (s *Session) control(ctx context.Context, c gate.Control) (string, error) {
	switch c.Verb {
	case gate.Begin:
		return s.controlBegin(ctx, c)
	case gate.Commit:
		if s.tx.now == txIdle {
			return "COMMIT", s.warn(sqlstate.NoActiveTransaction, "there is no transaction in progress")
		}
		if s.tx.now == txFailed {
			return "ROLLBACK", s.chain(ctx, c, s.rollback(ctx))
		}
		if s.tx.implicit {
			if err := s.warn(sqlstate.NoActiveTransaction, "there is no transaction in progress"); err != nil {
				return "", err
			}
		}
		return "COMMIT", s.chain(ctx, c, s.commit(ctx))
	case gate.Rollback:
		if s.tx.now == txIdle {
			return "ROLLBACK", s.warn(sqlstate.NoActiveTransaction, "there is no transaction in progress")
		}
		return "ROLLBACK", s.chain(ctx, c, s.rollback(ctx))
	case gate.Savepoint:
		return "SAVEPOINT", s.savepoint(c.Name)
	case gate.Release:
		return "RELEASE", s.release(c.Name)
	case gate.RollbackTo:
		return "ROLLBACK", s.rollbackTo(ctx, c.Name)
	case gate.TwoPhase:
	}
	return "", sqlstate.New(sqlstate.FeatureNotSupported, "two-phase commit is not supported")
}

func (s *Session) chain(ctx context.Context, c gate.Control, err error) error {
	if err != nil || !c.Chain {
		return err
	}
	return s.begin(ctx, false)
}

func (s *Session) controlBegin(ctx context.Context, c gate.Control) (string, error) {
	switch {
	case s.tx.now == txIdle:
		if err := s.begin(ctx, false); err != nil {
			return "", err
		}
	case s.tx.implicit: // BEGIN inside a string makes the block the client's own
		s.tx.implicit = false
	default:
		if err := s.warn(sqlstate.ActiveTransaction, "there is already a transaction in progress"); err != nil {
			return "", err
		}
	}
	if c.ReadOnly != nil {
		s.tx.readOnly = *c.ReadOnly
	}
	return c.Tag, nil
}
