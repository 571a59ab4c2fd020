package wire

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/value"
)

// portal is a statement with its parameters, ready to run, running or done.
type portal struct {
	name    string
	stmt    *prepared
	args    []duck.Value
	formats []int16 // of the result's columns

	result   *duck.Result
	encoders []value.Encoder
	chunk    *duck.Chunk
	row      int
	spool    [][]byte // rows read ahead of the client, encoded
	started  bool
	done     bool
}

func (p *portal) close() {
	if p.chunk != nil {
		p.chunk.Close()
		p.chunk = nil
	}
	if p.result != nil {
		p.result.Close()
		p.result = nil
	}
	for _, a := range p.args {
		a.Close()
	}
	p.args, p.spool = nil, nil
	if p.stmt.dropped {
		p.stmt.close()
	}
}

func (s *Session) dropPortal(name string) {
	if p := s.portals[name]; p != nil {
		if s.pinned == p {
			s.pinned = nil
		}
		p.close()
		delete(s.portals, name)
	}
}

func (s *Session) dropPortals() {
	for name := range s.portals {
		s.dropPortal(name)
	}
}

func (s *Session) dropPrepared(name string) {
	if p := s.prepared[name]; p != nil {
		p.close()
		p.dropped = true
		delete(s.prepared, name)
	}
}

// unpin frees the engine connection for another statement: the rest of a suspended portal is read ahead, as far as the
// limit goes.
func (s *Session) unpin(ctx context.Context) error {
	p := s.pinned
	if p == nil {
		return nil
	}
	size := 0
	for _, r := range p.spool {
		size += len(r)
	}
	for {
		row, err := p.next(ctx, nil)
		if err != nil {
			return s.engineError(ctx, err)
		}
		if row == nil {
			break
		}
		if size += len(row); size > s.cfg.SpoolBytes {
			p.spool = append(p.spool, row)
			return sqlstate.New(sqlstate.ProgramLimit, "the open portal %q has more than %d bytes of rows left", p.name, s.cfg.SpoolBytes).
				WithHint("fetch its rows or close it before the next statement")
		}
		p.spool = append(p.spool, row)
	}
	s.pinned = nil
	p.result.Close()
	p.result = nil
	return nil
}

// start runs the portal's statement in the engine.
func (s *Session) start(ctx context.Context, p *portal) error {
	if err := s.take(ctx, p.stmt.tokens); err != nil {
		return err
	}
	if err := s.unpin(ctx); err != nil {
		return err
	}
	s.reads()
	if err := s.fresh(ctx, p.stmt); err != nil {
		return err
	}
	for i, ep := range p.stmt.stmt.Params() {
		n, err := ep.Index()
		if err != nil || n > len(p.args) {
			return sqlstate.New(sqlstate.ProtocolViolation, "parameter $%s has no value", ep.Name)
		}
		if err := p.stmt.stmt.Bind(i+1, p.args[n-1]); err != nil {
			return s.engineError(ctx, err)
		}
	}
	result, err := p.stmt.stmt.Execute(ctx)
	if err != nil {
		return s.engineError(ctx, err)
	}
	if gate.Writes(p.stmt.kind) {
		s.tx.wrote++
		s.tx.ddl = s.tx.ddl || alters(p.stmt.kind)
	}
	if name, st := gate.Prepared(p.stmt.tokens); name != "" {
		s.sqlPrepared[name] = gate.ReadEffect(st)
	}
	p.result = result
	if !p.stmt.rows {
		return nil
	}
	s.nameColumns(result.Columns())
	if !sameShape(p.stmt.columns, result.Columns()) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "cached plan must not change result type")
	}
	p.encoders = make([]value.Encoder, len(result.Columns()))
	for i, c := range result.Columns() {
		if p.encoders[i], err = value.NewEncoder(c.Type, format(p.formats, i), s.vars.zone); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	return nil
}

// fresh makes sure that there is a statement of the engine; the name that held it may be gone. One that is there may
// be of an earlier transaction: the engine binds it anew when its tables have changed.
func (s *Session) fresh(ctx context.Context, p *prepared) error {
	if p.stmt != nil {
		return nil
	}
	stmt, err := s.db.Prepare(ctx, p.sql)
	if err != nil {
		return s.engineError(ctx, err)
	}
	p.stmt = stmt
	return nil
}

// sameShape reports whether a client can read rows of the columns now as it was told.
func sameShape(then, now []duck.Column) bool {
	if len(then) != len(now) {
		return false
	}
	for i := range then {
		a, _, _ := value.Describe(then[i].Type)
		b, _, _ := value.Describe(now[i].Type)
		if a != b || then[i].Name != now[i].Name {
			return false
		}
	}
	return true
}

// format gives the format of column i: none means text, one is for all.
func format(codes []int16, i int) int16 {
	switch {
	case len(codes) == 0:
		return value.Text
	case len(codes) == 1:
		return codes[0]
	}
	return codes[i]
}

// next appends the next row as a DataRow message, or returns nil at the end.
func (p *portal) next(ctx context.Context, dst []byte) ([]byte, error) {
	if p.result == nil {
		return nil, nil
	}
	for p.chunk == nil || p.row == p.chunk.Size() {
		if p.chunk != nil {
			p.chunk.Close()
			p.chunk = nil
		}
		var err error
		if p.chunk, err = p.result.Next(ctx); err != nil || p.chunk == nil {
			return nil, err
		}
		p.row = 0
	}
	from := len(dst)
	dst = append(dst, 'D', 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.encoders)))
	for i, enc := range p.encoders {
		v := p.chunk.Column(i)
		if v.Null(p.row) {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		at := len(dst)
		var err error
		if dst, err = enc(append(dst, 0, 0, 0, 0), v, p.row); err != nil {
			return nil, fmt.Errorf("column %q: %w", p.result.Columns()[i].Name, err)
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	binary.BigEndian.PutUint32(dst[from+1:], uint32(len(dst)-from-1))
	p.row++
	return dst, nil
}

// rows sends up to limit rows (0: all) and says whether the portal is at its end.
func (s *Session) rows(ctx context.Context, p *portal, limit int) (n int64, done bool, err error) {
	for limit == 0 || n < int64(limit) {
		if len(p.spool) > 0 {
			s.io.out = append(s.io.out, p.spool[0]...)
			p.spool = p.spool[1:]
		} else {
			from := len(s.io.out)
			out, err := p.next(ctx, s.io.out)
			if err != nil {
				s.io.out = s.io.out[:from]
				return n, false, s.engineError(ctx, err)
			}
			if out == nil {
				return n, true, nil
			}
			s.io.out = out
		}
		n++
		if err := s.io.relieve(); err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// run executes a portal up to limit rows and answers with rows and a command tag, or PortalSuspended. With describe it
// sends the RowDescription first.
func (s *Session) run(ctx context.Context, p *portal, limit int, describe bool) (rows int64, err error) {
	st := p.stmt
	switch {
	case len(st.tokens) == 0:
		return 0, s.io.send(&pgproto3.EmptyQueryResponse{})
	case st.control != nil:
		tag, err := s.control(ctx, *st.control)
		if err != nil {
			return 0, err
		}
		return 0, s.complete(tag)
	case st.local != nil:
		return s.runLocal(ctx, p, describe)
	case st.copy != nil:
		return s.runCopy(ctx, p)
	}
	if !p.started {
		if err := s.mayRun(st); err != nil {
			return 0, err
		}
		p.started = true
		if err := s.start(ctx, p); err != nil {
			return 0, err
		}
		if describe && st.rows {
			if err := s.io.send(rowDescription(st.columns, p.formats)); err != nil {
				return 0, err
			}
		}
	}
	if !st.rows {
		return 0, s.finish(ctx, p)
	}
	n, done, err := s.rows(ctx, p, limit)
	if err != nil {
		return n, err
	}
	if !done {
		s.pinned = p
		if p.result == nil {
			s.pinned = nil
		}
		return n, s.io.send(&pgproto3.PortalSuspended{})
	}
	if s.pinned == p {
		s.pinned = nil
	}
	if p.result != nil {
		p.result.Close()
		p.result = nil
	}
	p.done = true
	return n, s.complete(rowTag(st, n))
}

// mayRun checks what depends on the transaction.
func (s *Session) mayRun(st *prepared) error {
	if s.tx.readOnly || s.vars.readOnly && s.tx.now == txIdle {
		if gate.Writes(st.kind) {
			return sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute %s in a read-only transaction", upper(st.tokens[0].Text))
		}
	}
	if s.tx.now != txOpen {
		return nil
	}
	return s.tx.altered.Note(st.tokens)
}

// finish ends a statement without rows.
func (s *Session) finish(ctx context.Context, p *portal) error {
	changed, err := p.result.Changed(ctx)
	p.result.Close()
	p.result = nil
	p.done = true
	if err != nil {
		return s.engineError(ctx, err)
	}
	return s.complete(s.changeTag(ctx, p.stmt, changed))
}

func (s *Session) complete(tag string) error {
	return s.io.send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

func rowDescription(columns []duck.Column, formats []int16) *pgproto3.RowDescription {
	m := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(columns))}
	for i, c := range columns {
		oid, size, mod := value.Describe(c.Type)
		m.Fields[i] = pgproto3.FieldDescription{
			Name: []byte(c.Name), DataTypeOID: oid, DataTypeSize: size, TypeModifier: mod, Format: format(formats, i),
		}
	}
	return m
}
