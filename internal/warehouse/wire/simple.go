package wire

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

// simple runs a string of statements. Several of them are one transaction, unless they say otherwise themselves.
func (s *Session) simple(ctx context.Context, text string) error {
	s.dropPortal("")
	s.dropPrepared("")
	statements := token.Split(text)
	if len(statements) == 0 {
		if err := s.io.send(&pgproto3.EmptyQueryResponse{}); err != nil {
			return err
		}
	}
	var err error
	for i := range statements {
		if err = s.simpleOne(ctx, statements[i], len(statements) > 1); err != nil {
			break
		}
	}
	if err == nil {
		err = s.endImplicit(ctx)
	}
	if err != nil {
		if fatal(err) {
			return err
		}
		if err := s.fail(ctx, err); err != nil {
			return err
		}
	}
	return s.ready()
}

func (s *Session) simpleOne(ctx context.Context, st token.Statement, several bool) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	start, rows := time.Now(), int64(0)
	defer func() { s.logQuery(st.Tokens, start, rows, err) }()
	s.showStatement(st.Text, st.Tokens)
	p := &prepared{text: st.Text, tokens: st.Tokens}
	if err := s.classify(p); err != nil {
		return err
	}
	if err := s.allowed(p); err != nil {
		return err
	}
	if several && s.tx.now == txIdle && !p.isControl() {
		if err := s.begin(ctx, true); err != nil {
			return err
		}
	}
	if err := s.take(ctx, p.tokens); err != nil {
		return err
	}
	defer p.close()
	if err := s.resolve(ctx, p, nil); err != nil {
		return shift(err, st.Offset)
	}
	if len(p.params) > 0 {
		return sqlstate.New("42P02", "there is no parameter $1")
	}
	po := &portal{stmt: p}
	if p.rows {
		po.formats = make([]int16, len(p.columns))
	}
	defer po.close()
	rows, err = s.run(ctx, po, 0, true)
	return shift(err, st.Offset)
}

// shift moves an error's position from the statement to the string that it stands in.
func shift(err error, offset int) error {
	if err == nil || offset == 0 || fatal(err) {
		return err
	}
	e := *sqlstate.From(err)
	if e.Position > 0 {
		e.Position += offset
	}
	return &e
}

// logQuery writes one line per statement; its text is not in it, for it may hold values.
func (s *Session) logQuery(tokens []token.Token, start time.Time, rows int64, err error) {
	s.cfg.Queries.Add(1)
	verb := ""
	if len(tokens) > 0 {
		verb = tokens[0].Text
	}
	code := ""
	if err != nil && !fatal(err) {
		code = sqlstate.From(err).Code
	}
	s.log.Debug("statement", "verb", verb, "rows", rows, "took_seconds", time.Since(start).Seconds(), "sqlstate", code)
}
