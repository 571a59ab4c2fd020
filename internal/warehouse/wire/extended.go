package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/value"
)

func (s *Session) parse(ctx context.Context, m *pgproto3.Parse) error {
	if m.Name != "" && s.prepared[m.Name] != nil {
		return sqlstate.New(sqlstate.DuplicateStatement, "prepared statement %q already exists", m.Name)
	}
	s.dropPrepared(m.Name)
	statements := token.Split(m.Query)
	if len(statements) > 1 {
		return sqlstate.New(sqlstate.SyntaxError, "cannot insert multiple commands into a prepared statement")
	}
	p := &prepared{}
	offset := 0
	if len(statements) == 1 {
		p.text, p.tokens, offset = statements[0].Text, statements[0].Tokens, statements[0].Offset
	}
	if err := s.classify(p); err != nil {
		return err
	}
	if err := s.allowed(p); err != nil {
		return err
	}
	if err := s.takeToBind(ctx, p.tokens); err != nil {
		return err
	}
	if err := s.resolve(ctx, p, m.ParameterOIDs); err != nil {
		return shift(err, offset)
	}
	s.prepared[m.Name] = p
	return s.io.send(&pgproto3.ParseComplete{})
}

func (s *Session) bind(ctx context.Context, m *pgproto3.Bind) error {
	st := s.prepared[m.PreparedStatement]
	if st == nil {
		return noStatement(m.PreparedStatement)
	}
	if m.DestinationPortal != "" && s.portals[m.DestinationPortal] != nil {
		return sqlstate.New(sqlstate.DuplicateCursor, "cursor %q already exists", m.DestinationPortal)
	}
	if err := s.allowed(st); err != nil {
		return err
	}
	if len(m.Parameters) != len(st.params) {
		return sqlstate.New(sqlstate.ProtocolViolation, "bind message supplies %d parameters, but prepared statement %q requires %d",
			len(m.Parameters), m.PreparedStatement, len(st.params))
	}
	if n := len(m.ParameterFormatCodes); n > 1 && n != len(m.Parameters) {
		return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d parameter formats but %d parameters", n, len(m.Parameters))
	}
	if n := len(m.ResultFormatCodes); n > 1 && len(st.columns) > 0 && (!st.rows || n != len(st.columns)) {
		return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d result formats but query has %d columns", n, len(st.columns))
	}
	s.dropPortal(m.DestinationPortal)
	po := &portal{name: m.DestinationPortal, stmt: st, formats: m.ResultFormatCodes}
	if st.late {
		inlined, err := s.inline(ctx, st, m)
		if err != nil {
			return err
		}
		po.stmt = inlined
		s.portals[m.DestinationPortal] = po
		return s.io.send(&pgproto3.BindComplete{})
	}
	for i, raw := range m.Parameters {
		v, err := s.argument(ctx, st.params[i], format(m.ParameterFormatCodes, i), raw)
		if err != nil {
			po.close()
			return fmt.Errorf("parameter $%d: %w", i+1, err)
		}
		po.args = append(po.args, v)
	}
	s.portals[m.DestinationPortal] = po
	return s.io.send(&pgproto3.BindComplete{})
}

// argument reads a parameter; a text that only the engine can read goes through it.
func (s *Session) argument(ctx context.Context, p param, format int16, raw []byte) (duck.Value, error) {
	if raw == nil {
		return duck.NullValue(), nil
	}
	v, err := value.Decode(p.t, p.declared, format, raw)
	if !errors.Is(err, value.ErrEngine) {
		return v, err
	}
	if err := s.unpin(ctx); err != nil {
		return duck.Value{}, err
	}
	v, err = s.cast(ctx, p.t, string(raw))
	return v, s.engineError(ctx, err)
}

// cast has the engine read a text as a value of type t.
func (s *Session) cast(ctx context.Context, t *duck.Type, text string) (duck.Value, error) {
	stmt, err := s.db.Prepare(ctx, "SELECT CAST($1::VARCHAR AS "+t.Name()+")")
	if err != nil {
		return duck.Value{}, err
	}
	defer stmt.Close()
	arg := duck.TextValue(text)
	defer arg.Close()
	if err := stmt.Bind(1, arg); err != nil {
		return duck.Value{}, err
	}
	r, err := stmt.Execute(ctx)
	if err != nil {
		return duck.Value{}, err
	}
	defer r.Close()
	ch, err := r.Next(ctx)
	if err != nil || ch == nil {
		return duck.Value{}, err
	}
	defer ch.Close()
	v, err := value.FromVector(ch.Column(0), 0)
	if errors.Is(err, value.ErrType) { // nested types: the engine casts when it runs the statement
		return duck.TextValue(text), nil
	}
	return v, err
}

// inline prepares a statement whose columns depend on its parameters, with their values in it.
func (s *Session) inline(ctx context.Context, st *prepared, m *pgproto3.Bind) (*prepared, error) {
	if err := s.unpin(ctx); err != nil {
		return nil, err
	}
	values := map[int]string{}
	for i, raw := range m.Parameters {
		text, err := value.Literal(st.params[i].oid, format(m.ParameterFormatCodes, i), raw)
		if err != nil {
			return nil, fmt.Errorf("parameter $%d: %w", i+1, err)
		}
		values[i+1] = text
	}
	p := &prepared{text: st.text, tokens: st.tokens, dropped: true, sql: replaceParams(st.text, st.tokens, values)}
	var err error
	if p.stmt, err = s.db.Prepare(ctx, p.sql); err != nil {
		return nil, s.engineError(ctx, err)
	}
	p.kind, p.columns = p.stmt.Kind(), p.stmt.Columns()
	s.nameColumns(p.columns)
	p.rows = givesRows(p.kind, p.tokens, p.columns)
	if err := gate.CheckKind(s.who, p.kind, p.tokens); err != nil {
		p.close()
		return nil, err
	}
	if n := len(m.ResultFormatCodes); n > 1 && p.rows && n != len(p.columns) {
		p.close()
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d result formats but query has %d columns", n, len(p.columns))
	}
	return p, nil
}

func (s *Session) describe(m *pgproto3.Describe) error {
	switch m.ObjectType {
	case 'S':
		st := s.prepared[m.Name]
		if st == nil {
			return noStatement(m.Name)
		}
		oids := make([]uint32, len(st.params))
		for i, p := range st.params {
			oids[i] = p.oid
		}
		if err := s.io.send(&pgproto3.ParameterDescription{ParameterOIDs: oids}); err != nil {
			return err
		}
		return s.describeRows(st, nil)
	case 'P':
		po := s.portals[m.Name]
		if po == nil {
			return noPortal(m.Name)
		}
		return s.describeRows(po.stmt, po.formats)
	}
	return sqlstate.New(sqlstate.ProtocolViolation, "invalid DESCRIBE message subtype %d", m.ObjectType)
}

func (s *Session) describeRows(st *prepared, formats []int16) error {
	if !st.rows || len(st.columns) == 0 {
		return s.io.send(&pgproto3.NoData{})
	}
	return s.io.send(rowDescription(st.columns, formats))
}

func (s *Session) execute(ctx context.Context, m *pgproto3.Execute) (err error) {
	po := s.portals[m.Portal]
	if po == nil {
		return noPortal(m.Portal)
	}
	if err := s.allowed(po.stmt); err != nil {
		return err
	}
	if po.done {
		if po.stmt.rows { // a finished query is at its end; it does not run again
			return s.complete(rowTag(po.stmt, 0))
		}
		return sqlstate.New(sqlstate.ObjectNotReady, "portal %q cannot be run", m.Portal)
	}
	// One statement and its Sync run on their own; more until Sync are one transaction.
	if s.tx.now == txIdle && !s.single && len(po.stmt.tokens) > 0 && po.stmt.control == nil && po.stmt.local == nil {
		if err := s.begin(ctx, true); err != nil {
			return err
		}
	}
	s.showStatement(po.stmt.text, po.stmt.tokens)
	start, rows := time.Now(), int64(0)
	defer func() { s.logQuery(po.stmt.tokens, start, rows, err) }()
	rows, err = s.run(ctx, po, int(m.MaxRows), false)
	return err
}

func (s *Session) closeObject(m *pgproto3.Close) error {
	switch m.ObjectType {
	case 'S':
		s.dropPrepared(m.Name)
	case 'P':
		s.dropPortal(m.Name)
	default:
		return sqlstate.New(sqlstate.ProtocolViolation, "invalid CLOSE message subtype %d", m.ObjectType)
	}
	return s.io.send(&pgproto3.CloseComplete{})
}

func noStatement(name string) error {
	if name == "" {
		return sqlstate.New(sqlstate.InvalidStatementName, "unnamed prepared statement does not exist")
	}
	return sqlstate.New(sqlstate.InvalidStatementName, "prepared statement %q does not exist", name)
}

func noPortal(name string) error {
	return sqlstate.New(sqlstate.InvalidCursorName, "portal %q does not exist", name)
}
