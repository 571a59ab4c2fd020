package gate

import (
	"strings"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

// Returning reports whether a writing statement has a RETURNING clause.
func Returning(t []token.Token) bool {
	depth := 0
	for i := range t {
		switch {
		case t[i].Is("("):
			depth++
		case t[i].Is(")"):
			depth--
		case depth == 0 && t[i].Is("returning"):
			return true
		}
	}
	return false
}

// Pivots reports whether a statement may be one that the engine takes apart: PIVOT without a list of values.
func Pivots(t []token.Token) bool {
	for _, k := range t {
		if k.Is("pivot") || k.Is("pivot_wider") {
			return true
		}
	}
	return false
}

// Writes reports whether a statement of the kind changes anything.
func Writes(k duck.StatementType) bool {
	switch k {
	case duck.KindSelect, duck.KindExplain, duck.KindPrepare, duck.KindTransaction:
		return false
	}
	return true
}

// Object is the kind of object that CREATE, DROP or ALTER is about, for the command tag: "table", "view" ….
func Object(t []token.Token) string {
	for _, k := range t[1:] {
		if k.Kind != token.Word {
			break
		}
		switch k.Text {
		case "or", "replace", "temp", "temporary", "recursive", "unique", "persistent", "unlogged", "global", "local":
			continue
		case "macro":
			return "function"
		}
		return k.Text
	}
	return ""
}

// CreatedAs gives the name, as written, of the table that CREATE TABLE … AS makes, else "".
func CreatedAs(t []token.Token, sql string) string {
	if !is(t, 0, "create") || Object(t) != "table" {
		return ""
	}
	i := 0
	for !t[i].Is("table") {
		i++
	}
	i++
	if is(t, i, "if") && is(t, i+1, "not") && is(t, i+2, "exists") {
		i += 3
	}
	from := i
	for i < len(t) && t[i].Name() && is(t, i+1, ".") {
		i += 2
	}
	if i >= len(t) || !t[i].Name() {
		return ""
	}
	name := sql[t[from].Pos:t[i].End]
	depth := 0
	for _, k := range t[i+1:] {
		switch {
		case k.Is("("):
			depth++
		case k.Is(")"):
			depth--
		case depth == 0 && k.Is("as"):
			return name
		}
	}
	return ""
}

// Alters remembers what a transaction did to tables: one that adds a column and renames a table commits, and makes the
// lake unusable (lake.md, rule 4).
type Alters struct{ added, renamed bool }

// Note takes a statement in; it refuses the second of the two.
func (a *Alters) Note(t []token.Token) error {
	if !is(t, 0, "alter") || !is(t, 1, "table") {
		return nil
	}
	// ADD [COLUMN], but not ADD CONSTRAINT; RENAME TO, but not RENAME [COLUMN] a TO b.
	for i := range t {
		switch {
		case t[i].Is("add") && !is(t, i+1, "constraint"):
			a.added = true
		case t[i].Is("rename") && is(t, i+1, "to"):
			a.renamed = true
		}
	}
	if a.added && a.renamed {
		return sqlstate.New(sqlstate.FeatureNotSupported, "ADD COLUMN and RENAME of a table in one transaction would damage the lake").
			WithHint("use two transactions")
	}
	return nil
}

// preparable are the statements that PREPARE and EXPLAIN may hold.
var preparable = set("select", "with", "values", "insert", "update", "delete", "merge", "from", "table", "pivot", "unpivot", "(")

// inner skips PREPARE name (types) AS and EXPLAIN (options); ok is false if what is left may not stand there.
func inner(t []token.Token) (rest []token.Token, ok bool) {
	switch {
	case is(t, 0, "prepare"):
		for i := range t {
			if t[i].Is("as") {
				rest = t[i+1:]
				break
			}
		}
	case is(t, 0, "explain"):
		rest = t[1:]
		if is(rest, 0, "(") && !is(rest, 1, "select") && !is(rest, 1, "with") && !is(rest, 1, "from") && !is(rest, 1, "values") && !is(rest, 1, "(") {
			for len(rest) > 0 && !rest[0].Is(")") {
				rest = rest[1:]
			}
			rest = rest[min(1, len(rest)):]
		}
		for is(rest, 0, "analyze") || is(rest, 0, "verbose") {
			rest = rest[1:]
		}
	default:
		return t, true
	}
	if len(rest) == 0 {
		return t, false
	}
	return rest, preparable[rest[0].Text] && rest[0].Kind != token.Quoted && rest[0].Kind != token.String ||
		is(rest, 0, "create") && is(t, 0, "explain")
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[strings.ToLower(w)] = true
	}
	return m
}
