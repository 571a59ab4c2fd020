package lake

import (
	"fmt"
	"strconv"
	"strings"
)

// Type is an engine type, parsed from the text that DESCRIBE gives. Base is upper case; a nested type has its parts in
// Fields (STRUCT, UNION), Elem (LIST, ARRAY, MAP value) and Key (MAP key).
type Type struct {
	Base   string // BIGINT, DECIMAL, VARCHAR, STRUCT, LIST, ARRAY, MAP, …
	Width  int    // DECIMAL
	Scale  int    // DECIMAL
	Size   int    // ARRAY
	Fields []Column
	Key    *Type
	Elem   *Type
}

// NullType is the base of a Parquet column that has no type yet, because nothing but NULL was written to it. The engine
// reads such a column as INTEGER.
const NullType = `"NULL"`

// HasNull reports whether the type, or a part of it, has no type yet.
func (t Type) HasNull() bool { return t.has(func(p Type) bool { return p.Base == NullType }) }

// has looks for a part of the type, the type itself included.
func (t Type) has(what func(Type) bool) bool {
	if what(t) || t.Key != nil && t.Key.has(what) || t.Elem != nil && t.Elem.has(what) {
		return true
	}
	for _, f := range t.Fields {
		if f.Type.has(what) {
			return true
		}
	}
	return false
}

// Column is a named type.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Columns is an ordered list of columns.
type Columns []Column

// Find looks a column up, ignoring case as the lake does.
func (cs Columns) Find(name string) (Column, bool) {
	for _, c := range cs {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return Column{}, false
}

// Names lists the columns' names.
func (cs Columns) Names() []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.Name
	}
	return out
}

// String renders the type as SQL.
func (t Type) String() string {
	switch t.Base {
	case "DECIMAL":
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Width, t.Scale)
	case "LIST":
		return t.Elem.String() + "[]"
	case "ARRAY":
		return fmt.Sprintf("%s[%d]", t.Elem.String(), t.Size)
	case "MAP":
		return "MAP(" + t.Key.String() + ", " + t.Elem.String() + ")"
	case "STRUCT", "UNION":
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = Ident(f.Name) + " " + f.Type.String()
		}
		return t.Base + "(" + strings.Join(parts, ", ") + ")"
	}
	return t.Base
}

// Equal reports whether two types are the same, field names compared without case.
func (t Type) Equal(u Type) bool {
	if t.Base != u.Base || t.Width != u.Width || t.Scale != u.Scale || t.Size != u.Size || len(t.Fields) != len(u.Fields) {
		return false
	}
	for i, f := range t.Fields {
		if !strings.EqualFold(f.Name, u.Fields[i].Name) || !f.Type.Equal(u.Fields[i].Type) {
			return false
		}
	}
	return ptrEqual(t.Key, u.Key) && ptrEqual(t.Elem, u.Elem)
}

func ptrEqual(a, b *Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// ParseType reads the engine's text form of a type, such as `DECIMAL(18,3)`, `STRUCT(a INTEGER, "b c" VARCHAR[])` or
// `MAP(VARCHAR, BIGINT)`.
func ParseType(s string) (Type, error) {
	p := typeParser{in: s}
	t, err := p.parse()
	if err != nil {
		return Type{}, fmt.Errorf("parse type %q: %w", s, err)
	}
	if p.skip(); p.pos != len(p.in) {
		return Type{}, fmt.Errorf("parse type %q: rest %q", s, p.in[p.pos:])
	}
	return t, nil
}

type typeParser struct {
	in  string
	pos int
}

func (p *typeParser) skip() {
	for p.pos < len(p.in) && p.in[p.pos] == ' ' {
		p.pos++
	}
}

func (p *typeParser) eat(c byte) bool {
	if p.skip(); p.pos < len(p.in) && p.in[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *typeParser) parse() (Type, error) {
	p.skip()
	start := p.pos
	for p.pos < len(p.in) && !strings.ContainsRune("()[],", rune(p.in[p.pos])) {
		p.pos++
	}
	t := Type{Base: canonicalBase(strings.ToUpper(strings.TrimSpace(p.in[start:p.pos])))}
	if t.Base == "" {
		return t, fmt.Errorf("no type name at %d", start)
	}
	if err := p.arguments(&t); err != nil {
		return t, err
	}
	for p.eat('[') {
		elem := t
		if p.eat(']') {
			t = Type{Base: "LIST", Elem: &elem}
			continue
		}
		n, err := p.number(']')
		if err != nil {
			return t, err
		}
		t = Type{Base: "ARRAY", Elem: &elem, Size: n}
	}
	return t, nil
}

func (p *typeParser) arguments(t *Type) error {
	if !p.eat('(') {
		switch t.Base {
		case "DECIMAL":
			t.Width, t.Scale = 18, 3
		case "STRUCT", "UNION", "MAP":
			return fmt.Errorf("%s without its parts", t.Base)
		}
		return nil
	}
	var err error
	switch t.Base {
	case "DECIMAL":
		if t.Width, err = p.number(','); err != nil {
			return err
		}
		t.Scale, err = p.number(')')
		return err
	case "STRUCT", "UNION":
		return p.fields(t)
	case "MAP":
		k, err := p.parse()
		if err != nil {
			return err
		}
		if !p.eat(',') {
			return fmt.Errorf("expected , at %d", p.pos)
		}
		v, err := p.parse()
		if err != nil {
			return err
		}
		t.Key, t.Elem = &k, &v
		if !p.eat(')') {
			return fmt.Errorf("expected ) at %d", p.pos)
		}
		return nil
	}
	return p.opaque() // ENUM('a', 'b'), GEOMETRY('EPSG:4326'): the arguments do not matter here
}

func (p *typeParser) fields(t *Type) error {
	for {
		name, err := p.name()
		if err != nil {
			return err
		}
		ft, err := p.parse()
		if err != nil {
			return err
		}
		t.Fields = append(t.Fields, Column{Name: name, Type: ft})
		if p.eat(')') {
			return nil
		}
		if !p.eat(',') {
			return fmt.Errorf("expected , or ) at %d", p.pos)
		}
	}
}

func (p *typeParser) name() (string, error) {
	p.skip()
	if p.pos < len(p.in) && p.in[p.pos] == '"' {
		return p.quoted('"')
	}
	start := p.pos
	for p.pos < len(p.in) && p.in[p.pos] != ' ' {
		p.pos++
	}
	if start == p.pos {
		return "", fmt.Errorf("no field name at %d", start)
	}
	return p.in[start:p.pos], nil
}

func (p *typeParser) quoted(q byte) (string, error) {
	var b strings.Builder
	for p.pos++; p.pos < len(p.in); p.pos++ {
		if p.in[p.pos] != q {
			b.WriteByte(p.in[p.pos])
			continue
		}
		if p.pos+1 < len(p.in) && p.in[p.pos+1] == q {
			b.WriteByte(q)
			p.pos++
			continue
		}
		p.pos++
		return b.String(), nil
	}
	return "", fmt.Errorf("unterminated quote")
}

func (p *typeParser) number(end byte) (int, error) {
	start := p.pos
	for p.pos < len(p.in) && p.in[p.pos] != end {
		p.pos++
	}
	if p.pos == len(p.in) {
		return 0, fmt.Errorf("expected %c", end)
	}
	n, err := strconv.Atoi(strings.TrimSpace(p.in[start:p.pos]))
	p.pos++
	return n, err
}

func (p *typeParser) opaque() error {
	for p.pos < len(p.in) {
		switch p.in[p.pos] {
		case '\'':
			if _, err := p.quoted('\''); err != nil {
				return err
			}
		case ')':
			p.pos++
			return nil
		default:
			p.pos++
		}
	}
	return fmt.Errorf("unterminated arguments")
}

// canonicalBase maps the engine's spellings to one.
func canonicalBase(s string) string {
	switch s {
	case "TIMESTAMPTZ":
		return "TIMESTAMP WITH TIME ZONE"
	case "TIMETZ":
		return "TIME WITH TIME ZONE"
	case "NUMERIC":
		return "DECIMAL"
	case "INT":
		return "INTEGER"
	case "TEXT", "STRING":
		return "VARCHAR"
	}
	return s
}
