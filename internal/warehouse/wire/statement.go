package wire

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
	"sluice/internal/warehouse/value"
)

// prepared is a statement as Parse leaves it.
type prepared struct {
	text   string
	tokens []token.Token

	control *gate.Control // BEGIN, COMMIT …
	local   *gate.Local   // SET, SHOW …: answered without the engine
	sql     string        // what the engine gets
	kind    duck.StatementType
	stmt    *duck.Stmt
	serial  uint64 // of the transaction that stmt was made in
	params  []param
	columns []duck.Column
	rows    bool // running it gives rows
	dropped bool // no name leads to it any more; the portal that holds it frees it
}

// param is a parameter: what the client said in Parse, what the engine expects, what Describe reports.
type param struct {
	declared uint32
	oid      uint32
	t        *duck.Type
}

func (p *prepared) isControl() bool { return p.control != nil }
func (p *prepared) endsBlock() bool {
	return len(p.tokens) == 0 || p.control != nil && (p.control.Verb == gate.Commit || p.control.Verb == gate.Rollback)
}

func (p *prepared) close() {
	if p.stmt != nil {
		p.stmt.Close()
		p.stmt = nil
	}
}

// classify decides who answers a statement, and whether its client may send it.
func (s *Session) classify(p *prepared) error {
	if len(p.tokens) == 0 {
		return nil
	}
	if p.control = gate.ReadControl(p.tokens); p.control != nil {
		return nil
	}
	if p.local = gate.ReadLocal(p.tokens); p.local != nil {
		return nil
	}
	return gate.Check(s.who, p.tokens)
}

// resolve has the engine describe a statement, with the parameter types that the client declared.
func (s *Session) resolve(ctx context.Context, p *prepared, declared []uint32) error {
	switch {
	case len(p.tokens) == 0, p.control != nil:
		return nil
	case p.local != nil:
		return s.resolveLocal(p)
	}
	if err := s.unpin(ctx); err != nil {
		return err
	}
	stmt, sql, err := s.prepareTyped(ctx, p, declared)
	if err != nil {
		return s.engineError(ctx, err)
	}
	p.stmt, p.sql, p.kind, p.serial = stmt, sql, stmt.Kind(), s.serial
	p.columns = stmt.Columns()
	p.rows = givesRows(p.kind, p.tokens, p.columns)
	if err := gate.CheckKind(s.who, p.kind, p.tokens); err != nil {
		p.close()
		return err
	}
	return s.resolveParams(p, declared)
}

// prepareTyped prepares with the declared types as casts. Where the engine still finds no type, text is tried, then what
// the other side of an operator may want; its own error is the one reported.
func (s *Session) prepareTyped(ctx context.Context, p *prepared, declared []uint32) (*duck.Stmt, string, error) {
	typed := map[int]string{}
	for i, oid := range declared {
		if !value.Untyped(oid) {
			typed[i+1] = value.Cast(oid)
		}
	}
	sql := withCasts(p.text, p.tokens, typed)
	stmt, first := s.db.Prepare(ctx, sql)
	if first != nil && len(typed) > 0 {
		// A cast may stand where the grammar has none.
		if again, err := s.db.Prepare(ctx, p.text); err == nil {
			stmt, sql, first, typed = again, p.text, nil, map[int]string{}
		}
	}
	if first != nil || stmt.Resolved() {
		return stmt, sql, first
	}
	open := unresolved(stmt)
	for _, guess := range guesses {
		for n := range open {
			typed[n] = guess
			if n <= len(declared) && declared[n-1] != 0 && guess == "VARCHAR" {
				typed[n] = value.Cast(declared[n-1])
			}
		}
		trial := withCasts(p.text, p.tokens, typed)
		better, err := s.db.Prepare(ctx, trial)
		if err != nil {
			var e *duck.Error
			if errors.As(err, &e) && e.Type == duck.ErrorInterrupt {
				stmt.Close()
				return nil, "", err
			}
			continue
		}
		if better.Resolved() {
			stmt.Close()
			return better, trial, nil
		}
		better.Close()
	}
	return stmt, sql, nil
}

// guesses are tried in this order for parameters that the engine has no type for.
var guesses = []string{"VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "TIMESTAMP", "DATE", "INTERVAL", "VARCHAR[]", "BIGINT[]"}

func unresolved(stmt *duck.Stmt) map[int]bool {
	out := map[int]bool{}
	for _, p := range stmt.Params() {
		if n, err := p.Index(); err == nil && p.Type == nil {
			out[n] = true
		}
	}
	return out
}

// withCasts puts CAST around the parameters that have a type in typed.
func withCasts(text string, tokens []token.Token, typed map[int]string) string {
	if len(typed) == 0 {
		return text
	}
	var b strings.Builder
	last := 0
	for _, t := range tokens {
		if t.Kind != token.Param {
			continue
		}
		n, err := strconv.Atoi(t.Text)
		if err != nil || typed[n] == "" {
			continue
		}
		b.WriteString(text[last:t.Pos])
		fmt.Fprintf(&b, "CAST($%d AS %s)", n, typed[n])
		last = t.End
	}
	b.WriteString(text[last:])
	return b.String()
}

// resolveParams fills in what is known of each parameter. Numbers that the statement leaves out, and that the client
// declared, are parameters too.
func (s *Session) resolveParams(p *prepared, declared []uint32) error {
	known := map[int]*duck.Type{}
	var numbers []int
	for _, ep := range p.stmt.Params() {
		n, err := ep.Index()
		if err != nil {
			p.close()
			return sqlstate.New(sqlstate.SyntaxError, "%s", err)
		}
		known[n] = ep.Type
		numbers = append(numbers, n)
	}
	count := len(declared)
	if sort.Ints(numbers); len(numbers) > 0 {
		count = max(count, numbers[len(numbers)-1])
	}
	p.params = make([]param, count)
	for i := range p.params {
		pr := &p.params[i]
		if i < len(declared) {
			pr.declared = declared[i]
		}
		pr.t = known[i+1]
		if pr.t == nil {
			pr.t = &duck.Type{ID: duck.Varchar, Physical: duck.Varchar}
		}
		if pr.oid = pr.declared; pr.oid == 0 {
			pr.oid, _, _ = value.Describe(pr.t)
		}
	}
	return nil
}

// givesRows says whether a statement is answered with rows.
func givesRows(kind duck.StatementType, tokens []token.Token, columns []duck.Column) bool {
	switch kind {
	case duck.KindSelect, duck.KindExplain, duck.KindCall, duck.KindPragma:
		return true
	case duck.KindExecute:
		return len(columns) != 1 || columns[0].Name != "Count" || columns[0].Type.ID != duck.BigInt
	case duck.KindInsert, duck.KindUpdate, duck.KindDelete, duck.KindMerge:
		return gate.Returning(tokens)
	}
	return false
}
