package gate

import (
	"strings"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

// controlSchema holds the fences and markers of the loader.
const controlSchema = "_sluice"

// refuse names the rule, so that a person knows what to change and metrics can count.
func refuse(rule, format string, args ...any) error {
	e := sqlstate.New(sqlstate.InsufficientPrivilege, format, args...)
	e.Detail = "SLUICE-WAREHOUSE-REFUSED: rule " + rule
	return e
}

// Check decides from a statement's tokens whether who may send it to the engine.
func Check(who auth.Principal, t []token.Token) error {
	if len(t) == 0 {
		return nil
	}
	for _, k := range t {
		if !k.Closed {
			return sqlstate.New(sqlstate.SyntaxError, "unterminated quoted string, identifier or comment")
		}
	}
	if err := checkVerb(who, t); err != nil {
		return err
	}
	if who.Role == auth.Maintainer {
		return nil
	}
	if err := checkNames(who, t); err != nil {
		return err
	}
	if who.Role.Tenant() {
		return checkTables(t)
	}
	return nil
}

// checkVerb looks at the kind of statement.
func checkVerb(who auth.Principal, t []token.Token) error {
	verb := t[0].Text
	if t[0].Kind == token.Quoted || t[0].Kind == token.String {
		verb = ""
	}
	allowed := verbs[verb] || !who.Role.Tenant() && serviceVerbs[verb]
	if who.Role == auth.Reader {
		allowed = reading[verb]
	}
	if !allowed && !known[verb] {
		return sqlstate.New(sqlstate.SyntaxError, "syntax error at or near %q", t[0].Text)
	}
	if !allowed {
		return refuse("verb", "permission denied: %s statements may not be run here", strings.ToUpper(t[0].Text))
	}
	rest, ok := inner(t)
	if !ok {
		return refuse("verb", "permission denied: %s of this statement may not be run here", strings.ToUpper(verb))
	}
	switch verb {
	case "create", "alter", "drop":
		if obj := Object(t); !objects[obj] {
			return refuse("object", "permission denied: %s %s may not be run here", strings.ToUpper(verb), strings.ToUpper(obj))
		}
	case "show":
		if is(t, 1, "databases") && who.Role.Tenant() {
			return refuse("verb", "permission denied: SHOW DATABASES may not be run here")
		}
	case "explain":
		if is(rest, 0, "create") {
			return checkVerb(who, rest)
		}
	}
	return nil
}

// checkNames looks at every name in the statement.
func checkNames(who auth.Principal, t []token.Token) error {
	tenant := who.Role.Tenant()
	for i, k := range t {
		if !k.Name() {
			continue
		}
		n := strings.ToLower(k.Text)
		if !tenant && service[n] {
			continue
		}
		call := is(t, i+1, "(") && !columnList(t, i)
		if startsWith(n, prefixes) || call && startsWith(n, families) {
			return refuse("name", "permission denied for %s", k.Text)
		}
		if names[n] {
			return refuse("name", "permission denied for %s", k.Text)
		}
		if call && functions[n] && !open[n] {
			return refuse("function", "permission denied for function %s", k.Text)
		}
	}
	return nil
}

// columnList reports whether what follows the name at i in brackets are the columns of a table, not a call's arguments:
// INSERT INTO t (…), CREATE TABLE t (…).
func columnList(t []token.Token, i int) bool {
	for i >= 2 && t[i-1].Is(".") {
		i -= 2
	}
	if is(t, 0, "insert") {
		return is(t, i-1, "into")
	}
	// Only the created table itself: there is nothing before it but CREATE [OR REPLACE] [TEMP] TABLE [IF NOT EXISTS].
	for _, k := range t[:i] {
		if k.Kind != token.Word || !created[k.Text] {
			return false
		}
	}
	return is(t, 0, "create")
}

var created = set("create", "or", "replace", "temp", "temporary", "table", "if", "not", "exists")

func startsWith(name string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(name, b) {
			return true
		}
	}
	return false
}

// clauses are the words after which a list of tables begins, or ends.
var (
	tablesBegin = set("from", "join", "using", "into", "table", "update", "describe", "desc", "summarize", "show", "pivot", "unpivot", "pivot_wider", "pivot_longer", "tables")
	tablesEnd   = set("select", "where", "group", "order", "having", "limit", "offset", "qualify", "window", "values", "set", "on", "returning", "union", "except", "intersect", "when")
)

// checkTables refuses a string, or a quoted name that looks like a path, where a table's name stands: the engine would
// read a file of that name.
func checkTables(t []token.Token) error {
	type level struct{ tables bool }
	stack := []level{{}}
	top := func() *level { return &stack[len(stack)-1] }
	expected := false // the next token stands in a table's place
	for i, k := range t {
		switch {
		case k.Is("("):
			call := i > 0 && t[i-1].Name() && !tablesBegin[t[i-1].Text] && !tablesEnd[t[i-1].Text]
			stack = append(stack, level{tables: expected && !call})
			expected = expected && !call
			continue
		case k.Is(")"):
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			expected = false
			continue
		case k.Kind == token.Word && tablesBegin[k.Text]:
			top().tables, expected = true, true
			continue
		case k.Kind == token.Word && tablesEnd[k.Text]:
			top().tables, expected = false, false
			continue
		case k.Is(",") && top().tables:
			expected = true
			continue
		case k.Kind == token.Word && (k.Text == "lateral" || k.Text == "only" || k.Text == "if" || k.Text == "exists" || k.Text == "not"):
			continue
		}
		if !expected {
			continue
		}
		switch {
		case k.Kind == token.String:
			return refuse("path", "permission denied: a string cannot stand for a table")
		case k.Kind == token.Quoted && looksLikeFile(k.Text):
			return refuse("path", "permission denied: %q looks like a file", k.Text)
		}
		expected = is(t, i+1, ".") || k.Is(".")
	}
	return nil
}

func looksLikeFile(name string) bool {
	n := strings.ToLower(name)
	if strings.ContainsAny(n, `/\*?[`) {
		return true
	}
	for _, e := range fileEndings {
		if strings.HasSuffix(n, e) {
			return true
		}
	}
	return false
}

// CheckKind decides from the engine's classification of a prepared statement, which no spelling can deceive.
func CheckKind(who auth.Principal, kind duck.StatementType, t []token.Token) error {
	switch kind {
	case duck.KindSelect, duck.KindExplain:
		return nil
	case duck.KindInsert, duck.KindUpdate, duck.KindDelete, duck.KindMerge, duck.KindCreate, duck.KindCreateFunc, duck.KindAlter,
		duck.KindDrop, duck.KindAnalyze, duck.KindVacuum, duck.KindPrepare, duck.KindExecute:
		if who.Role == auth.Reader {
			return refuse("reader", "permission denied: user %s may only read", who.Name)
		}
		if who.Role.Tenant() && mentions(t, controlSchema) {
			return refuse("control", "permission denied for schema %s", controlSchema)
		}
		return nil
	case duck.KindCopy, duck.KindCall, duck.KindPragma, duck.KindSet:
		if !who.Role.Tenant() {
			return nil
		}
	}
	return refuse("kind", "permission denied: %s statements may not be run here", strings.ToUpper(t[0].Text))
}

func mentions(t []token.Token, name string) bool {
	for _, k := range t {
		if k.Name() && strings.EqualFold(k.Text, name) {
			return true
		}
	}
	return false
}

// ServiceSettings are the engine's settings that Sluice's services may SET.
var ServiceSettings = set("preserve_insertion_order", "threads", "ducklake_max_retry_count", "ducklake_retry_wait_ms", "ducklake_retry_backoff")
