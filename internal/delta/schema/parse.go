package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/delta/jsonscan"
	"sluice/internal/sluice"
)

// Code is the code of a schema that cannot be read.
const Code sluice.Code = "SLUICE-DELTA-SCHEMA"

func refuse(format string, args ...any) error {
	return sluice.E(Code, "", fmt.Sprintf(format, args...), "have the table's writer change the column, or leave the table out", nil)
}

// Mapping is how the columns of data files are found.
type Mapping string

// The ways of mapping columns.
const (
	ByLogical Mapping = "none" // by their logical names
	ByName    Mapping = "name" // by their physical names
	ByID      Mapping = "id"   // by Parquet field ids
)

// Schema is the columns of a version of a table.
type Schema struct {
	Fields    []Field // those that have a type
	Mapping   Mapping
	Partition []int    // places in Fields of the partition columns, in the order of the metadata
	Void      []string // columns that have no type yet and are left out
}

// PartitionFields are the partition columns.
func (s *Schema) PartitionFields() []Field {
	fields := make([]Field, len(s.Partition))
	for i, at := range s.Partition {
		fields[i] = s.Fields[at]
	}
	return fields
}

// Parse reads the schemaString of a metadata action, "" for a table that has none, and the names of its partition columns.
func Parse(text string, partition []string, mapping Mapping) (*Schema, error) {
	s := &Schema{Mapping: mapping}
	if text == "" {
		if len(partition) > 0 {
			return nil, refuse("the table has partition columns and no schema")
		}
		return s, nil
	}
	p := parser{s: jsonscan.Scanner{Buf: []byte(text)}, mapping: mapping}
	root, err := p.parseType()
	if err == nil {
		err = p.s.Done()
	}
	var (
		syntax *jsonscan.SyntaxError
		field  *jsonscan.FieldError
	)
	switch {
	case errors.As(err, &field):
		return nil, refuse("the schema is not as it must be: %s", field.Error())
	case errors.As(err, &syntax), errors.Is(err, jsonscan.ErrShort):
		return nil, refuse("the schema is not valid JSON: %v", err)
	case err != nil:
		return nil, err
	case root.Kind != Struct:
		return nil, refuse("the schema is a %s, not a struct", root.Kind)
	}
	s.Void = p.void
	s.Fields = root.Fields
	return s, s.resolvePartition(partition)
}

func (s *Schema) resolvePartition(names []string) error {
	for _, name := range names {
		at := slices.IndexFunc(s.Fields, func(f Field) bool { return sameName(f.Name, name) })
		switch {
		case at < 0:
			return refuse("partition column %s is not in the schema, or has no type", name)
		case !s.Fields[at].Type.Primitive():
			return refuse("partition column %s is of type %s", name, s.Fields[at].Type)
		case slices.Contains(s.Partition, at):
			return refuse("partition column %s is named twice", name)
		}
		s.Partition = append(s.Partition, at)
	}
	return nil
}

func sameName(a, b string) bool { return strings.ToLower(a) == strings.ToLower(b) } //nolint:staticcheck // as the engine compares, not by Unicode folding

type parser struct {
	s       jsonscan.Scanner
	mapping Mapping
	path    []string
	void    []string
}

func (p *parser) at() string { return strings.Join(p.path, ".") }

func (p *parser) text() (string, error) {
	b, err := p.s.Text(nil)
	return string(b), err
}

var typeMembers = []string{"type", "fields", "elementType", "keyType", "valueType"}

// parseType reads a type: a text, or an object for one with parts.
func (p *parser) parseType() (Type, error) {
	if p.s.Space() && p.s.Buf[p.s.Pos] == '"' {
		name, err := p.text()
		if err != nil {
			return Type{}, err
		}
		return p.primitive(name)
	}
	var (
		kind                string
		fields              []Field
		hasFields           bool
		element, key, value *Type
	)
	err := jsonscan.Members(&p.s, typeMembers, func(i int) (err error) {
		switch i {
		case 0:
			kind, err = p.text()
		case 1:
			hasFields = true
			fields, err = p.parseFields()
		case 2:
			element, err = p.part("element")
		case 3:
			key, err = p.part("key")
		case 4:
			value, err = p.part("value")
		}
		return err
	})
	switch {
	case err != nil:
		return Type{}, err
	case kind == "struct" && hasFields:
		return Type{Kind: Struct, Fields: fields}, nil
	case kind == "array" && element != nil:
		return Type{Kind: Array, Element: element}, nil
	case kind == "map" && key != nil && value != nil:
		return Type{Kind: Map, Key: key, Element: value}, nil
	}
	return Type{}, refuse("column %s has the unknown type %q", p.at(), kind)
}

func (p *parser) part(name string) (*Type, error) {
	p.path = append(p.path, name)
	t, err := p.parseType()
	p.path = p.path[:len(p.path)-1]
	return &t, err
}

func (p *parser) primitive(name string) (Type, error) {
	if t, ok := primitive(name); ok {
		return t, nil
	}
	return Type{}, refuse("column %s has the unknown type %q", p.at(), name)
}

// primitive reads the name of a type without parts.
func primitive(name string) (Type, bool) {
	kind := Kind(name)
	switch {
	case engine[kind] != "":
		return Type{Kind: kind}, true
	case name == "void", name == "null":
		return Type{Kind: Void}, true
	case strings.HasPrefix(name, "string collate "):
		return Type{Kind: String}, true
	case name == "decimal":
		return Type{Kind: Decimal, Precision: 10}, true
	}
	inner, ok := strings.CutPrefix(name, "decimal(")
	if !ok {
		return Type{}, false
	}
	inner, ok = strings.CutSuffix(inner, ")")
	precision, scale, both := strings.Cut(inner, ",")
	if !ok || !both {
		return Type{}, false
	}
	pr, err := strconv.ParseUint(strings.TrimSpace(precision), 10, 8)
	sc, err2 := strconv.ParseUint(strings.TrimSpace(scale), 10, 8)
	if err != nil || err2 != nil || pr < 1 || pr > 38 || sc > pr {
		return Type{}, false
	}
	return Type{Kind: Decimal, Precision: int(pr), Scale: int(sc)}, true
}

func (p *parser) parseFields() ([]Field, error) {
	if err := p.s.Open('['); err != nil {
		return nil, err
	}
	fields, names := []Field{}, map[string]bool{}
	for first := true; ; first = false {
		more, err := p.s.Element(first)
		if !more || err != nil {
			return fields, err
		}
		f, err := p.parseField()
		if err != nil {
			return nil, err
		}
		full := strings.Join(append(slices.Clone(p.path), f.Name), ".")
		if lower := strings.ToLower(f.Name); names[lower] {
			return nil, refuse("two columns are called %s; names must differ in more than their case", full)
		} else {
			names[lower] = true
		}
		if !f.Type.typed() {
			p.void = append(p.void, full)
			continue
		}
		fields = append(fields, f)
	}
}

var fieldMembers = []string{"name", "type", "nullable", "metadata"}

func (p *parser) parseField() (Field, error) {
	// The name is needed for messages about the type, and may come after it.
	at := p.s
	name := ""
	err := jsonscan.Members(&at, fieldMembers[:1], func(int) (err error) {
		b, err := at.Text(nil)
		name = string(b)
		return err
	})
	if err != nil {
		return Field{}, err
	}
	if name == "" {
		return Field{}, refuse("a column of %q has no name", p.at())
	}
	p.path = append(p.path, name)
	defer func() { p.path = p.path[:len(p.path)-1] }()

	f := Field{Name: name, Nullable: true}
	var m fieldMetadata
	hasType := false
	err = jsonscan.Members(&p.s, fieldMembers, func(i int) (err error) {
		switch i {
		case 0:
			err = p.s.Skip()
		case 1:
			hasType = true
			f.Type, err = p.parseType()
		case 2:
			f.Nullable, err = p.s.Bool()
		case 3:
			m, err = p.parseMetadata()
		}
		return err
	})
	switch {
	case err != nil:
		return Field{}, err
	case !hasType:
		return Field{}, refuse("column %s has no type", p.at())
	}
	for _, c := range m.changes {
		if !c.supported() {
			return Field{}, refuse("column %s was changed from %s to %s, which is not supported", p.at(), c.from, c.to)
		}
	}
	switch p.mapping {
	case ByLogical:
		f.Physical = f.Name
	case ByName, ByID:
		f.Physical, f.ID = m.physical, m.id
		if f.Physical == "" {
			return Field{}, refuse("column %s has no physical name, though columns are mapped", p.at())
		}
		if p.mapping == ByID && !m.hasID {
			return Field{}, refuse("column %s has no field id, though columns are mapped by id", p.at())
		}
	}
	return f, nil
}

type fieldMetadata struct {
	physical string
	id       int64
	hasID    bool
	changes  []change
}

var metadataMembers = []string{"delta.columnMapping.physicalName", "delta.columnMapping.id", "delta.typeChanges"}

func (p *parser) parseMetadata() (m fieldMetadata, err error) {
	err = jsonscan.Members(&p.s, metadataMembers, func(i int) (err error) {
		switch i {
		case 0:
			m.physical, err = p.text()
		case 1:
			m.hasID = true
			m.id, err = p.s.Int()
		case 2:
			m.changes, err = p.parseChanges()
		}
		return err
	})
	return m, err
}
