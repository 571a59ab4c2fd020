package lake

import (
	"strings"

	"sluice/internal/sluice"
)

// Catalog is the name under which every engine attaches the org's lake.
const Catalog = "lake"

// ControlSchema holds Sluice's own tables in each lake. It is hidden from tenants.
const ControlSchema = "_sluice"

// Ident quotes an identifier. It is the only place where identifiers are quoted.
func Ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal quotes a text value for the rare places that take no parameter.
func Literal(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// PathLiteral quotes a file path so that it names that file and no other: glob characters are escaped by putting each
// into a bracket expression of its own.
func PathLiteral(path string) string {
	var b strings.Builder
	for _, r := range path {
		switch r {
		case '*', '?', '[':
			b.WriteByte('[')
			b.WriteRune(r)
			b.WriteByte(']')
		default:
			b.WriteRune(r)
		}
	}
	return Literal(b.String())
}

// Table names a table of the lake.
type Table struct{ Schema, Name string }

// SQL renders the table with its catalog, so that no schema can be mistaken for a catalog.
func (t Table) SQL() string { return Catalog + "." + Ident(t.Schema) + "." + Ident(t.Name) }

// String renders the table for people.
func (t Table) String() string { return t.Schema + "." + t.Name }

// ControlTable names the control table of a stream: the fence and the markers live in one table per stream, because two
// UPDATEs of a shared table conflict whatever the row (spec/lake.md §4).
func ControlTable(id sluice.StreamID) Table {
	return Table{Schema: ControlSchema, Name: "ctl_" + strings.ReplaceAll(string(id), "-", "")}
}

func identList(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = Ident(n)
	}
	return strings.Join(q, ", ")
}
