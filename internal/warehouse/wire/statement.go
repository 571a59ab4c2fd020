package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	control   *gate.Control // BEGIN, COMMIT …
	local     *gate.Local   // SET, SHOW …: answered without the engine
	copy      *gate.Copy    // from or to the client
	sql       string        // what the engine gets
	kind      duck.StatementType
	stmt      *duck.Stmt
	late      bool // it is prepared anew with the values of its parameters, see typing
	params    []param
	columns   []duck.Column
	rows      bool // running it gives rows
	rewritten bool // text is not the client's any more, so places in it mean nothing to it
	dropped   bool // no name leads to it any more; the portal that holds it frees it
}

// param is a parameter: what the client said in Parse, what the engine expects, what Describe reports.
type param struct {
	declared uint32
	oid      uint32
	t        *duck.Type
}

func (p *prepared) isControl() bool { return p.control != nil }
func (p *prepared) endsBlock() bool {
	return len(p.tokens) == 0 || p.control != nil && (p.control.Verb == gate.Commit || p.control.Verb == gate.Rollback || p.control.Verb == gate.RollbackTo)
}

func (p *prepared) close() {
	if p.stmt != nil {
		p.stmt.Close()
		p.stmt = nil
	}
}

// unplaced takes the position off an error of a rewritten statement.
func (p *prepared) unplaced(err error) error {
	if err == nil || !p.rewritten || fatal(err) {
		return err
	}
	e := *sqlstate.From(err)
	e.Position = 0
	return &e
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
		if p.local.Verb == gate.Declare {
			return gate.Check(s.who, p.local.Cursor.Query)
		}
		return nil
	}
	if p.copy = gate.ReadCopy(p.text, p.tokens); p.copy != nil {
		return gate.CheckCopy(s.who, p.copy, p.text)
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
	case p.copy != nil:
		p.kind = duck.KindCopy
		if p.copy.Out {
			p.kind = duck.KindSelect // it writes nothing
		}
		return nil
	}
	if err := s.unpin(ctx); err != nil {
		return err
	}
	s.reads()
	if err := s.adapt(ctx, p); err != nil {
		return err
	}
	t, err := s.prepareTyped(ctx, p, declared)
	if err != nil {
		return p.unplaced(s.engineError(ctx, err))
	}
	p.stmt, p.sql, p.kind, p.columns, p.late = t.stmt, t.sql, t.stmt.Kind(), t.columns, t.late
	p.rows = givesRows(p.kind, p.tokens, p.columns)
	s.nameColumns(p.columns)
	if err := gate.CheckKind(s.who, p.kind, p.tokens); err != nil {
		p.close()
		return err
	}
	return s.resolveParams(p, declared, t.types)
}

// typing is a statement with a type for each of its parameters, as far as one was found.
type typing struct {
	stmt    *duck.Stmt
	sql     string
	types   map[int]*duck.Type // of the parameters that were cast
	columns []duck.Column
	late    bool // the columns, or the plan, depend on the parameters' values
}

// prepareTyped prepares with the declared types as casts. Where the engine still finds no type, text is tried, then what
// the other side of an operator may want. Arguments of table functions and the like never get one: such statements are
// prepared anew with their values, and only described here.
func (s *Session) prepareTyped(ctx context.Context, p *prepared, declared []uint32) (typing, error) {
	typed := map[int]*duck.Type{}
	for i, oid := range declared {
		if !value.Untyped(oid) {
			typed[i+1] = value.Cast(oid)
		}
	}
	sql := withCasts(p.text, p.tokens, typed)
	prepare := s.db.Prepare
	if gate.Pivots(p.tokens) {
		prepare = s.db.PrepareExpanded
	}
	stmt, err := prepare(ctx, sql)
	if err != nil && len(typed) > 0 && ctx.Err() == nil {
		// A cast may stand where the grammar has none.
		if again, err2 := s.db.Prepare(ctx, p.text); err2 == nil {
			stmt, sql, err, typed = again, p.text, nil, nil
		}
	}
	if err != nil {
		return typing{}, err
	}
	if stmt.Described() && len(unresolved(stmt, typed)) == 0 {
		return typing{stmt: stmt, sql: sql, types: typed, columns: stmt.Columns()}, nil
	}
	for _, guess := range guesses {
		found, err := s.tryTypes(ctx, p, stmt, typed, declared, guess)
		if err != nil {
			stmt.Close()
			return typing{}, err
		}
		if found.stmt != nil {
			stmt.Close()
			return found, nil
		}
	}
	return typing{stmt: stmt, sql: sql, types: typed, late: true}, nil
}

// guess is a type that is tried for parameters without one, and a value of it that stands in for theirs.
type guess struct {
	t       *duck.Type
	example string
}

// guesses are tried in this order.
var guesses = []guess{
	{duck.Scalar(duck.Varchar), "''"},
	{duck.Scalar(duck.BigInt), "1::BIGINT"},
	{duck.Scalar(duck.Integer), "1::INTEGER"},
	{duck.Scalar(duck.Double), "1::DOUBLE"},
	{duck.Scalar(duck.Timestamp), "TIMESTAMP '2000-01-01'"},
	{duck.Scalar(duck.Date), "DATE '2000-01-01'"},
	{duck.Scalar(duck.Interval), "INTERVAL 1 DAY"},
	{duck.ListOf(duck.Scalar(duck.Varchar)), "['']::VARCHAR[]"},
	{duck.ListOf(duck.Scalar(duck.BigInt)), "[1]::BIGINT[]"},
}

// tryTypes prepares with one guess for all parameters that stmt has no type for. Only an interrupt is an error.
func (s *Session) tryTypes(ctx context.Context, p *prepared, stmt *duck.Stmt, typed map[int]*duck.Type, declared []uint32, g guess) (typing, error) {
	types, examples := map[int]*duck.Type{}, map[int]string{}
	maps.Copy(types, typed)
	lists := inAny(p.tokens)
	for n := range unresolved(stmt, typed) {
		types[n], examples[n] = g.t, g.example
		if lists[n] && g.t.ID != duck.List { // x = ANY($1) compares with the elements
			types[n] = duck.ListOf(g.t)
			examples[n] = "[" + g.example + "]"
			continue
		}
		if n <= len(declared) && declared[n-1] != 0 && g == guesses[0] {
			types[n] = value.Cast(declared[n-1])
		}
	}
	for n, t := range typed {
		examples[n] = "CAST(NULL AS " + t.Name() + ")"
	}
	sql := withCasts(p.text, p.tokens, types)
	better, err := s.db.Prepare(ctx, sql)
	if err != nil {
		return typing{}, ifInterrupted(err)
	}
	if better.Described() && len(unresolved(better, types)) == 0 {
		return typing{stmt: better, sql: sql, types: types, columns: better.Columns()}, nil
	}
	trial, err := s.db.Prepare(ctx, replaceParams(p.text, p.tokens, examples))
	if err != nil {
		better.Close()
		return typing{}, ifInterrupted(err)
	}
	defer trial.Close()
	if !trial.Resolved() {
		better.Close()
		return typing{}, nil
	}
	return typing{stmt: better, sql: sql, types: types, columns: trial.Columns(), late: true}, nil
}

// inAny are the parameters that stand alone in ANY(…) or ALL(…).
func inAny(t []token.Token) map[int]bool {
	out := map[int]bool{}
	for i := range t {
		if i+3 >= len(t) || !t[i].Is("any") && !t[i].Is("all") || !t[i+1].Is("(") || t[i+2].Kind != token.Param || !t[i+3].Is(")") {
			continue
		}
		if n, err := strconv.Atoi(t[i+2].Text); err == nil {
			out[n] = true
		}
	}
	return out
}

func ifInterrupted(err error) error {
	var e *duck.Error
	if errors.As(err, &e) && e.Type == duck.ErrorInterrupt {
		return err
	}
	return nil
}

// unresolved are the parameters that neither the engine nor a cast gives a type. The engine forgets the type of a cast
// parameter that it casts once more itself.
func unresolved(stmt *duck.Stmt, typed map[int]*duck.Type) map[int]bool {
	out := map[int]bool{}
	for _, p := range stmt.Params() {
		if n, err := p.Index(); err == nil && p.Type == nil && typed[n] == nil {
			out[n] = true
		}
	}
	return out
}

// withCasts puts CAST around the parameters that have a type in typed.
func withCasts(text string, tokens []token.Token, typed map[int]*duck.Type) string {
	with := make(map[int]string, len(typed))
	for n, t := range typed {
		with[n] = fmt.Sprintf("CAST($%d AS %s)", n, t.Name())
	}
	return replaceParams(text, tokens, with)
}

// replaceParams puts other text in the place of numbered parameters.
func replaceParams(text string, tokens []token.Token, with map[int]string) string {
	if len(with) == 0 {
		return text
	}
	var b strings.Builder
	last := 0
	for _, t := range tokens {
		n, err := strconv.Atoi(t.Text)
		if t.Kind != token.Param || err != nil || with[n] == "" {
			continue
		}
		b.WriteString(text[last:t.Pos])
		b.WriteString(with[n])
		last = t.End
	}
	b.WriteString(text[last:])
	return b.String()
}

// resolveParams fills in what is known of each parameter. Numbers that the statement leaves out, and that the client
// declared, are parameters too.
func (s *Session) resolveParams(p *prepared, declared []uint32, typed map[int]*duck.Type) error {
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
		if pr.t = known[i+1]; pr.t == nil {
			pr.t = typed[i+1]
		}
		if pr.t == nil {
			pr.t = textType
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
