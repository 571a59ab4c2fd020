package catalog

import (
	"encoding/hex"
	"strings"

	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/value"
)

// closing is the place of the bracket that closes the one at i, or -1.
func (r *rewriter) closing(i int) int {
	depth := 0
	for ; i < len(r.t); i++ {
		switch {
		case r.is(i, "("):
			depth++
		case r.is(i, ")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// lists are the words that say what a list of expressions is; only SELECT's have names.
var lists = map[string]bool{
	"select": true, "from": true, "where": true, "on": true, "group": true, "order": true, "by": true, "having": true, "values": true, "in": true, "limit": true,
	"set": true, "returning": true, "when": true, "then": true, "else": true, "and": true, "or": true, "not": true, "using": true, "join": true,
}

// item reports whether the tokens from i to before j are a whole item of a SELECT list without a name.
func (r *rewriter) item(i, j int) bool {
	if !r.is(i-1, "select") && !r.is(i-1, ",") && !r.is(i-1, "distinct") || j < len(r.t) && !r.is(j, ",") && !r.is(j, "from") && !r.is(j, ")") && !r.is(j, "where") {
		return false
	}
	depth := 0
	for k := i - 1; k >= 0; k-- {
		switch {
		case r.is(k, ")"):
			depth++
		case r.is(k, "("):
			if depth--; depth < 0 {
				return false
			}
		case depth == 0 && r.t[k].Kind == token.Word && lists[r.t[k].Text]:
			return r.t[k].Text == "select"
		}
	}
	return false
}

// named replaces a call, and keeps the name that PostgreSQL gives its column.
func (r *rewriter) named(i, j int, text, name string) int {
	if r.item(i, j) {
		text += ` AS "` + name + `"`
	}
	return r.replace(i, j, text)
}

// castCall rewrites CAST(x AS regclass), whose x may be any expression.
func (r *rewriter) castCall(i int) int {
	end := r.closing(i + 1)
	if end < 0 || !r.is(end-2, "as") || r.t[end-1].Kind != token.Word {
		return i + 1
	}
	name := r.t[end-1].Text
	if name != "regclass" && name != "regtype" && name != "regnamespace" && name != "oid" {
		return i + 1
	}
	if name == "oid" {
		return r.around(i, end, "CAST(", " AS BIGINT)")
	}
	return r.around(i, end, "sluice_"+name+"(", ")")
}

// around puts other text in the place of "CAST(" and of " AS type)"; what is between them is rewritten as well.
func (r *rewriter) around(i, end int, before, after string) int {
	r.replace(i, i+2, before)
	for k := i + 2; k < end-2; {
		k = r.step(k)
	}
	return r.replace(end-2, end+1, after)
}

// format rewrites format('%I.%I', a, b): the engine's function of that name has another language.
func (r *rewriter) format(from, i int) int {
	if i+2 >= len(r.t) || r.t[i+2].Kind != token.String || !strings.Contains(r.t[i+2].Text, "%") {
		return i + 1
	}
	end := r.closing(i + 1)
	if end < 0 {
		return i + 1
	}
	r.replace(from, i+1, "concat")
	r.replace(i+1, i+2, "(")
	var args []string // text around the arguments
	pattern, last := r.t[i+2].Text, 0
	for k := 0; k+1 < len(pattern); k++ {
		if pattern[k] != '%' {
			continue
		}
		switch pattern[k+1] {
		case 's', 'I', 'L':
			args = append(args, pattern[last:k], string(pattern[k+1]))
			last = k + 2
		case '%':
			args = append(args, pattern[last:k+1], "")
			last = k + 2
		default:
			return i + 1
		}
		k++
	}
	k := i + 3
	r.replace(i+2, i+3, "''")
	for a := 0; a < len(args); a += 2 {
		if args[a] != "" {
			r.out.WriteString(", " + literal(args[a]))
		}
		if args[a+1] == "" {
			continue
		}
		if !r.is(k, ",") {
			return k
		}
		wrap := map[string]string{"s": ", (", "I": ", quote_ident(", "L": ", quote_nullable("}[args[a+1]]
		r.replace(k, k+1, wrap)
		depth := 0
		for k++; k < end && (depth > 0 || !r.is(k, ",")); {
			switch {
			case r.is(k, "("):
				depth++
			case r.is(k, ")"):
				depth--
			}
			next := r.step(k)
			for m := k + 1; m < next && m < end; m++ { // a call that was rewritten as a whole
				if r.is(m, "(") {
					depth++
				} else if r.is(m, ")") {
					depth--
				}
			}
			k = next
		}
		r.out.WriteString(r.sql[r.last:r.t[k-1].End])
		r.last = r.t[k-1].End
		r.out.WriteString(")")
	}
	if last < len(pattern) {
		r.out.WriteString(", " + literal(pattern[last:]))
	}
	return end
}

// scalarTable rewrites a function of one value that stands in FROM: string_to_array(…) s is a table of one row.
func (r *rewriter) scalarTable(i int) int {
	if !r.is(i-1, "from") && !r.is(i-1, ",") || r.item(i, i+1) {
		return i + 1
	}
	end := r.closing(i + 1)
	alias := end + 1
	if end < 0 {
		return i + 1
	}
	if r.is(alias, "as") {
		alias++
	}
	if alias >= len(r.t) || !r.t[alias].Name() || r.t[alias].Kind == token.Word && clause[r.t[alias].Text] {
		return i + 1
	}
	column, next := r.sql[r.t[alias].Pos:r.t[alias].End], alias+1
	name := column
	if r.is(alias+1, "(") && r.is(alias+3, ")") {
		column, next = r.sql[r.t[alias+2].Pos:r.t[alias+2].End], alias+4
	}
	r.replace(i, i+1, "(SELECT "+r.t[i].Text)
	for k := i + 1; k < end; {
		k = r.step(k)
	}
	return r.replace(end, next, ") AS "+column+") AS "+name)
}

// arrayLiteral writes PostgreSQL's form of an array of one dimension, {1,"a b",NULL}, as a list of the engine.
func arrayLiteral(s string) (string, bool) {
	items, ok := value.SplitArray(s)
	if !ok {
		return "", false
	}
	parts := make([]string, len(items))
	for i, it := range items {
		if parts[i] = "NULL"; it != nil {
			parts[i] = literal(*it)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

// byteaLiteral reads PostgreSQL's hexadecimal form of a bytea, which the engine takes for other bytes.
func byteaLiteral(k token.Token) (string, bool) {
	digits, ok := strings.CutPrefix(k.Text, `\x`)
	if !ok || k.Kind != token.String {
		return "", false
	}
	if _, err := hex.DecodeString(digits); err != nil {
		return "", false
	}
	return "from_hex(" + literal(digits) + ")", true
}
