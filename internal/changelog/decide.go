package changelog

import (
	"sort"
	"strings"

	"sluice/internal/lake"
)

// What columns a table gets, and how each value is read, is decided here, from nothing but the table's schema, the
// definition and what the buffer holds. docs/adr/0132 has the reasons.

// Kind is the type of a JSON value, as the engine names it. An object and an array are both a Document, and so is a name with
// several nested shapes.
type Kind string

// The kinds.
const (
	Null     Kind = "NULL"
	Boolean  Kind = "BOOLEAN"
	Integer  Kind = "BIGINT"  // a negative one
	Natural  Kind = "UBIGINT" // 0 to 2^64-1
	Double   Kind = "DOUBLE"
	Text     Kind = "VARCHAR"
	Document Kind = "JSON"
)

// Seen is one name that messages of a buffer have, with the kinds of its values, in order of their first appearance.
type Seen struct {
	Name  string
	Kinds []Kind
}

func (s Seen) has(k Kind) bool {
	for _, have := range s.Kinds {
		if have == k {
			return true
		}
	}
	return false
}

// Reading is how the values of one column are read.
type Reading string

// The readings, from the cheapest to the dearest.
const (
	// AsIs: the engine's own conversion is right for each kind that was seen.
	AsIs Reading = "as_is"
	// Checked: it is right or gives NULL.
	Checked Reading = "checked"
	// Exact: each value by its kind, and only if nothing is lost.
	Exact Reading = "exact"
)

// Field is one column of the table that the buffer has values for.
type Field struct {
	Name    string // in messages
	Column  string // in the table; the same but perhaps for case
	Type    lake.Type
	Unit    string // of numbers that are times
	Pinned  bool
	Reading Reading
	Kinds   []Kind // that were seen; only for Exact
}

// Plan is what a flush does with what it has seen.
type Plan struct {
	Add    lake.Columns // new columns, in order
	Widen  lake.Columns // columns that take a wider type, with that type
	Fields []Field
	// Known are the names that have a column or are ignored; values of others go to _extra. It matters only if Others.
	Known  []string
	Others []Other
	Clash  []string // pins that the table's column cannot take
}

// Other is a name that gets no column, and why: it is warned about once.
type Other struct{ Name, Why string }

// Changes reports whether the table has to be altered.
func (p Plan) Changes() bool { return len(p.Add) > 0 || len(p.Widen) > 0 }

// MayConflict reports whether a value can end in _extra.
func (p Plan) MayConflict() bool {
	for _, f := range p.Fields {
		if f.Reading != AsIs {
			return true
		}
	}
	return len(p.Others) > 0
}

// Reasons why a name gets no column.
const (
	whyReserved = "the name is reserved"
	whyCase     = "another column has the name in another case"
	whyEmpty    = "the name is empty"
	whyLong     = "the name is longer than 255 bytes"
	whyMany     = "the table has max_columns columns"
)

// metadataColumns are the columns that each table of a changelog begins with, and their types (spec/changelog.md §1.3).
var metadataColumns = []lake.Column{
	{Name: "_topic_epoch", Type: lake.Type{Base: "INTEGER"}},
	{Name: "_partition", Type: lake.Type{Base: "INTEGER"}},
	{Name: "_offset", Type: lake.Type{Base: "BIGINT"}},
	{Name: "_timestamp", Type: timestamptz},
	{Name: "_key", Type: lake.Type{Base: "VARCHAR"}},
	{Name: "_headers", Type: lake.Type{Base: "JSON"}},
	{Name: "_tombstone", Type: lake.Type{Base: "BOOLEAN"}},
	{Name: "_op", Type: lake.Type{Base: "VARCHAR"}},
	{Name: "_version", Type: lake.Type{Base: "BIGINT"}},
	{Name: "_extra", Type: lake.Type{Base: "JSON"}},
	{Name: "_inserted_at", Type: timestamptz},
	{Name: "_inserted_month", Type: lake.Type{Base: "DATE"}},
}

var timestamptz = lake.Type{Base: "TIMESTAMP WITH TIME ZONE"}

// unfit says why a name can never be a column, or is empty.
func unfit(name string) string {
	lower := strings.ToLower(name)
	switch {
	case name == "":
		return whyEmpty
	case len(name) > 255:
		return whyLong
	case lower == "rowid" || lower == "snapshot_id":
		return whyReserved
	}
	for _, m := range metadataColumns {
		if m.Name == lower {
			return whyReserved
		}
	}
	return ""
}

// Decide makes the plan of a flush. table are the columns that the table has, metadata columns among them.
func Decide(table lake.Columns, d Definition, seen []Seen) Plan {
	var p Plan
	have := map[string]lake.Column{} // by folded name
	payload := 0
	for _, c := range table {
		have[strings.ToLower(c.Name)] = c
		if unfit(c.Name) == "" {
			payload++
		}
	}
	ignored := map[string]bool{}
	for _, n := range d.IgnoreColumns {
		ignored[n] = true
		p.Known = append(p.Known, n)
	}
	pins := map[string]Pin{}
	for n, pin := range d.Columns {
		pins[n] = pin
	}
	p.widen(table, d)
	for _, s := range seen {
		if ignored[s.Name] {
			continue
		}
		why := unfit(s.Name)
		c, exists := have[strings.ToLower(s.Name)]
		switch {
		case why != "":
		case exists && c.Name != s.Name:
			why = whyCase
		case !exists && !needsColumn(s):
			continue // nothing but NULL: the column appears with its first value, and NULL is what its absence says
		case !exists && payload >= d.MaxColumns:
			why = whyMany
		}
		if why != "" {
			if needsColumn(s) {
				p.Others = append(p.Others, Other{s.Name, why})
			}
			continue
		}
		pin, pinned := pins[s.Name]
		coerce := pin.Coerce == "text"
		if !exists {
			t, mixed := infer(s, pin, pinned)
			c = lake.Column{Name: s.Name, Type: t}
			p.Add = append(p.Add, c)
			have[strings.ToLower(s.Name)] = c
			payload++
			coerce = coerce || mixed
		} else if w, ok := p.Widen.Find(c.Name); ok {
			c.Type = w.Type
		}
		p.Known = append(p.Known, s.Name)
		p.Fields = append(p.Fields, field(s, c, pin, pinned, coerce))
	}
	return p
}

// needsColumn reports whether a name has a value that is not NULL.
func needsColumn(s Seen) bool {
	for _, k := range s.Kinds {
		if k != Null {
			return true
		}
	}
	return false
}

// widen lists the pinned columns that may take their pin's wider type, and those that cannot take it.
func (p *Plan) widen(table lake.Columns, d Definition) {
	for n, pin := range d.Columns {
		want, err := lake.ParseType(pin.Type)
		if err != nil {
			continue // complete has parsed it
		}
		for _, c := range table {
			if c.Name != n || c.Type.Equal(want) || unfit(n) != "" {
				continue
			}
			if Widens(c.Type, want) {
				p.Widen = append(p.Widen, lake.Column{Name: c.Name, Type: want})
			} else {
				p.Clash = append(p.Clash, n)
			}
		}
	}
	sort.Slice(p.Widen, func(i, j int) bool { return p.Widen[i].Name < p.Widen[j].Name })
	sort.Strings(p.Clash)
}

// Widens reports whether the lake can turn a column into a wider type in place (spec/lake.md §7).
func Widens(from, to lake.Type) bool {
	for _, ladder := range [][]string{
		{"TINYINT", "SMALLINT", "INTEGER", "BIGINT"},
		{"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"},
		{"FLOAT", "DOUBLE"},
		{"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"},
	} {
		f, t := -1, -1
		for i, base := range ladder {
			if base == from.Base {
				f = i
			}
			if base == to.Base {
				t = i
			}
		}
		if f >= 0 && t > f {
			return true
		}
	}
	return from.Base == "DECIMAL" && to.Base == "DECIMAL" && from.Scale == to.Scale && to.Width > from.Width
}

// infer gives the type of a new column. mixed: kinds that have no type in common became text.
func infer(s Seen, pin Pin, pinned bool) (t lake.Type, mixed bool) {
	if pinned {
		t, _ := lake.ParseType(pin.Type) // complete has parsed it
		return t, false
	}
	boolean, integer, double, text, document := s.has(Boolean), s.has(Integer) || s.has(Natural), s.has(Double), s.has(Text), s.has(Document)
	switch {
	case document:
		return lake.Type{Base: "JSON"}, false
	case text && !boolean && !integer && !double:
		return lake.Type{Base: "VARCHAR"}, false
	case boolean && !integer && !double && !text:
		return lake.Type{Base: "BOOLEAN"}, false
	case boolean || text:
		return lake.Type{Base: "VARCHAR"}, true
	case double:
		return lake.Type{Base: "DOUBLE"}, false
	}
	return lake.Type{Base: "BIGINT"}, false
}

// field chooses the cheapest reading that is right for each kind that was seen.
func field(s Seen, c lake.Column, pin Pin, pinned, coerce bool) Field {
	f := Field{Name: s.Name, Column: c.Name, Type: c.Type, Unit: pin.Unit, Pinned: pinned, Reading: AsIs}
	if coerce && c.Type.Base == "VARCHAR" {
		return f
	}
	for _, k := range s.Kinds {
		switch reading(k, c.Type.Base) {
		case Exact:
			f.Reading, f.Kinds = Exact, s.Kinds
			return f
		case Checked:
			f.Reading = Checked
		case AsIs:
		}
	}
	return f
}

// reading says how right the engine's own conversion of a kind to a type is.
func reading(k Kind, base string) Reading {
	switch {
	case k == Null, base == "JSON":
		return AsIs
	case base == "BOOLEAN" && k == Boolean, base == "VARCHAR" && k == Text, base == "DOUBLE" && k == Double,
		base == "BIGINT" && k == Integer, base == "UBIGINT" && k == Natural:
		return AsIs
	case base == "BIGINT" && k == Natural:
		return Checked // 2^63 and more give NULL
	}
	return Exact
}
