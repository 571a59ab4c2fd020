package wire

import (
	"context"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/value"
)

// A cursor of SQL is a portal with a name, as in PostgreSQL: DECLARE makes it, FETCH runs it for some rows.

func refusedCursor(c *gate.Cursor) error {
	if c.Refused == "hold" {
		return sqlstate.New(sqlstate.FeatureNotSupported, "cursors WITH HOLD are not supported")
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "cursors can only scan forward")
}

func (s *Session) declare(ctx context.Context, st *prepared) error {
	l := st.local
	switch {
	case l.Cursor.Refused != "":
		return refusedCursor(l.Cursor)
	case s.tx.now == txIdle || s.tx.implicit:
		return sqlstate.New(sqlstate.NoActiveTransaction, "DECLARE CURSOR can only be used in transaction blocks")
	case s.portals[l.Name] != nil:
		return sqlstate.New(sqlstate.DuplicateCursor, "cursor %q already exists", l.Name)
	}
	from := l.Cursor.Query[0].Pos
	q := &prepared{text: st.text[from:], dropped: true}
	for _, k := range l.Cursor.Query {
		k.Pos, k.End = k.Pos-from, k.End-from
		q.tokens = append(q.tokens, k)
	}
	if err := s.resolve(ctx, q, nil); err != nil {
		return shift(err, from)
	}
	if len(q.params) > 0 || !q.rows || q.kind != duck.KindSelect {
		q.close()
		return sqlstate.New(sqlstate.FeatureNotSupported, "a cursor can only be declared for a query without parameters")
	}
	po := &portal{name: l.Name, stmt: q}
	if l.Cursor.Binary {
		po.formats = []int16{value.Binary}
	}
	s.portals[l.Name] = po
	return nil
}

func (s *Session) cursor(name string) (*portal, error) {
	po := s.portals[name]
	if po == nil || name == "" {
		return nil, sqlstate.New(sqlstate.InvalidCursorName, "cursor %q does not exist", name)
	}
	return po, nil
}

// resolveFetch describes FETCH: it gives the columns of its cursor.
func (s *Session) resolveFetch(p *prepared) error {
	if p.local.Cursor.Refused != "" {
		return refusedCursor(p.local.Cursor)
	}
	po, err := s.cursor(p.local.Name)
	if err != nil {
		return err
	}
	p.rows, p.kind, p.columns = true, duck.KindSelect, po.stmt.columns
	return nil
}

// fetch runs FETCH, and MOVE, which sends nothing.
func (s *Session) fetch(ctx context.Context, p *portal, describe bool) (int64, error) {
	l := p.stmt.local
	if l.Cursor.Refused != "" {
		return 0, refusedCursor(l.Cursor)
	}
	po, err := s.cursor(l.Name)
	if err != nil {
		return 0, err
	}
	if err := s.fetchFormat(po, p.formats); err != nil {
		return 0, err
	}
	if describe && l.Verb == gate.Fetch {
		if err := s.io.send(rowDescription(po.stmt.columns, po.formats)); err != nil {
			return 0, err
		}
	}
	if l.Cursor.None || po.done {
		return 0, nil
	}
	if !po.started {
		po.started = true
		if err := s.start(ctx, po); err != nil {
			return 0, err
		}
		s.pinned = po
	}
	if l.Verb == gate.Move {
		return s.move(ctx, po, l.Cursor.Rows)
	}
	n, done, err := s.rows(ctx, po, l.Cursor.Rows)
	po.done = done
	return n, err
}

// fetchFormat makes the cursor send its rows as this FETCH wants them.
func (s *Session) fetchFormat(po *portal, formats []int16) error {
	if len(formats) == 0 || po.started && sameFormats(po, formats) {
		return nil
	}
	if po.started {
		return sqlstate.New(sqlstate.FeatureNotSupported, "the format of a cursor's rows cannot change")
	}
	po.formats = formats
	return nil
}

func sameFormats(po *portal, formats []int16) bool {
	for i := range po.stmt.columns {
		if format(po.formats, i) != format(formats, i) {
			return false
		}
	}
	return true
}

func (s *Session) move(ctx context.Context, po *portal, limit int) (n int64, err error) {
	for limit == 0 || n < int64(limit) {
		if len(po.spool) > 0 {
			po.spool = po.spool[1:]
		} else if row, err := po.next(ctx, nil); err != nil {
			return n, s.engineError(ctx, err)
		} else if row == nil {
			po.done = true
			return n, nil
		}
		n++
	}
	return n, nil
}

// closeCursor runs CLOSE name and CLOSE ALL.
func (s *Session) closeCursor(name string) error {
	if name == "all" {
		s.dropPortals()
		return nil
	}
	if _, err := s.cursor(name); err != nil {
		return err
	}
	s.dropPortal(name)
	return nil
}
