package gate

import (
	"strings"

	"sluice/internal/warehouse/gate/token"
)

// Effect is what running a statement does to the lake, as far as its tokens tell.
type Effect struct {
	// Verb is the first word of the statement that does it: below WITH and EXPLAIN ANALYZE. Empty: it only reads.
	Verb string
	// Table is the table whose rows are changed or deleted: its last name, in lower case. The schema is left out, because what
	// a name without one means depends on the session; two tables of one name are taken for one.
	Table string
}

// effects are the verbs that change something, and how many words stand between them and a table's name.
var effects = map[string][]string{
	"insert": nil, "copy": nil, "call": nil, "create": nil, "alter": nil, "drop": nil, "comment": nil,
	"update": {"only"}, "delete": {"from", "only"}, "merge": {"into"}, "truncate": {"table", "only"},
}

// ReadEffect reads a statement's effect. That of EXECUTE is its statement's, which the session knows.
func ReadEffect(t []token.Token) Effect {
	if len(t) == 0 || t[0].Kind != token.Word {
		return Effect{}
	}
	switch t[0].Text {
	case "prepare":
		return Effect{}
	case "copy":
		if has(t, "to", "stdout") {
			return Effect{}
		}
	case "explain":
		if rest, ok := inner(t); ok && mentions(t[:len(t)-len(rest)], "analyze") {
			return ReadEffect(rest)
		}
		return Effect{}
	case "with":
		depth := 0
		for i := range t {
			switch {
			case t[i].Is("("):
				depth++
			case t[i].Is(")"):
				depth--
			case depth == 0 && (t[i].Is("insert") || t[i].Is("update") || t[i].Is("delete") || t[i].Is("merge")):
				return ReadEffect(t[i:])
			}
		}
		return Effect{}
	}
	skip, known := effects[t[0].Text]
	if !known {
		return Effect{}
	}
	e := Effect{Verb: t[0].Text}
	if skip == nil {
		return e
	}
	i := 1
	for _, w := range skip {
		if is(t, i, w) {
			i++
		}
	}
	for i+2 < len(t) && is(t, i+1, ".") {
		i += 2
	}
	if i < len(t) && t[i].Name() {
		e.Table = strings.ToLower(t[i].Text)
	}
	return e
}

// Prepared takes PREPARE name AS statement apart; name is empty for any other statement.
func Prepared(t []token.Token) (name string, statement []token.Token) {
	if !is(t, 0, "prepare") || len(t) < 2 || !t[1].Name() {
		return "", nil
	}
	statement, _ = inner(t)
	return strings.ToLower(t[1].Text), statement
}

// Executed is the name that EXECUTE runs, "" for any other statement.
func Executed(t []token.Token) string {
	if is(t, 0, "explain") {
		if rest, _ := inner(t); len(rest) > 0 && rest[0].Is("execute") {
			t = rest
		}
	}
	if !is(t, 0, "execute") || len(t) < 2 || !t[1].Name() {
		return ""
	}
	return strings.ToLower(t[1].Text)
}
