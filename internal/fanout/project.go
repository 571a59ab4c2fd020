package fanout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Columns that a destination's rows have besides the payload.
const (
	timestampColumn  = "_timestamp"   // of the message
	insertedAtColumn = "_inserted_at" // one value per transaction of the destination
)

// metadataColumns are the changelog's own; they are no payload.
var metadataColumns = []string{
	"_topic_epoch", "_partition", "_offset", "_timestamp", "_key", "_headers", "_tombstone", "_op", "_extra", "_inserted_at", "_inserted_month",
}

// Output is one column of a destination.
type Output struct {
	Name string
	Type lake.Type
	// Value is SQL over the source's row f. Bad is SQL that is true where the row's value does not fit; empty: all fit.
	Value, Bad string
	// Strict columns send the row to quarantine as bad_key.
	Strict bool
	// NullIfBad columns are NULL where the value does not fit.
	NullIfBad bool
}

// Projection is what a source's row becomes.
type Projection struct {
	Outputs []Output
	Keys    []string // spelt as the outputs
	Version string
	Deleted string
	Stamped bool     // the rows have _inserted_at
	Dropped []string // source columns that nobody asked for
}

// Project plans the columns of a destination. target are the columns of its table; nil: there is none yet, and the plan says
// how it is made. What does not fit is SLUICE-FANOUT-PROJECTION, or TARGET-SHAPE if it is the table that does not.
func Project(d Definition, source, target lake.Columns) (Projection, error) {
	p := &projecting{d: d, source: source}
	for _, name := range append(append([]string{}, d.Keys...), d.Version, d.Deleted) {
		if name == "" {
			continue
		}
		if err := p.take(name, d.Columns[name]); err != nil {
			return p.out, err
		}
	}
	for _, name := range sortedNames(d.Columns) {
		if err := p.take(name, d.Columns[name]); err != nil {
			return p.out, err
		}
	}
	if err := p.rest(); err != nil {
		return p.out, err
	}
	if err := p.fill(target); err != nil {
		return p.out, err
	}
	for _, k := range d.Keys {
		o, _ := p.find(k)
		p.out.Keys = append(p.out.Keys, o.Name)
	}
	p.out.Version, p.out.Deleted = d.Version, d.Deleted
	p.out.Stamped = !slices.Contains(d.Drop, insertedAtColumn)
	if target == nil {
		return p.out, nil
	}
	return p.out, p.fit(target)
}

type projecting struct {
	d      Definition
	source lake.Columns
	out    Projection
}

func refuseProjection(format string, a ...any) error {
	return sluice.E("SLUICE-FANOUT-PROJECTION", "plan the destination's columns", fmt.Sprintf(format, a...), "correct columns, drop or fill of the fan-out", nil)
}

func (p *projecting) find(name string) (*Output, bool) {
	for i := range p.out.Outputs {
		if strings.EqualFold(p.out.Outputs[i].Name, name) {
			return &p.out.Outputs[i], true
		}
	}
	return nil, false
}

// take adds an output of a source column.
func (p *projecting) take(name string, m Mapped) error {
	if _, ok := p.find(name); ok {
		return nil
	}
	from := m.From
	if from == "" {
		from = name
	}
	src, ok := p.source.Find(from)
	if !ok {
		return refuseProjection("the source has no column %s for %s", from, name)
	}
	strict := containsFold(p.d.Keys, name) || strings.EqualFold(name, p.d.Version)
	if slices.ContainsFunc(p.d.Drop, func(s string) bool { return strings.EqualFold(s, from) }) && (strict || strings.EqualFold(from, p.d.Route)) {
		return refuseProjection("column %s is a key, the route or the version: it cannot be dropped", from)
	}
	to := src.Type
	if m.Type != "" {
		var err error
		if to, err = lake.ParseType(m.Type); err != nil {
			return refuseProjection("column %s: %v", name, err)
		}
	}
	value, bad, err := Cast("f."+lake.Ident(src.Name), src.Type, to)
	if err != nil {
		return refuseProjection("column %s: %v", name, err)
	}
	p.out.Outputs = append(p.out.Outputs, Output{Name: name, Type: to, Value: value, Bad: bad, Strict: strict, NullIfBad: m.NullIfBad})
	return nil
}

// rest takes or counts the payload columns that nobody named.
func (p *projecting) rest() error {
	for _, c := range p.source {
		if containsFold(p.d.Drop, c.Name) || p.isTaken(c.Name) {
			continue
		}
		if p.d.Kind == SourceChangelog && containsFold(metadataColumns, c.Name) {
			continue
		}
		switch p.d.Unknown {
		case UnknownAdd:
			if err := p.take(c.Name, Mapped{}); err != nil {
				return err
			}
		case UnknownRefuse:
			return refuseProjection("source column %s is neither mapped nor dropped", c.Name)
		default:
			p.out.Dropped = append(p.out.Dropped, c.Name)
		}
	}
	if _, ok := p.find(timestampColumn); !ok && p.d.Kind == SourceChangelog && !containsFold(p.d.Drop, timestampColumn) {
		return p.take(timestampColumn, Mapped{})
	}
	return nil
}

// isTaken reports whether a source column feeds an output.
func (p *projecting) isTaken(column string) bool {
	return slices.ContainsFunc(p.out.Outputs, func(o Output) bool { return strings.EqualFold(p.d.from(o.Name), column) })
}

// fill adds the constants.
func (p *projecting) fill(target lake.Columns) error {
	for _, name := range sortedNames(p.d.Fill) {
		t := lake.Type{Base: "VARCHAR"}
		if c, ok := target.Find(name); ok {
			t = c.Type
		}
		if m, ok := p.find(name); ok {
			return refuseProjection("column %s has a source and a filling", m.Name)
		}
		value := "CAST(NULL AS " + t.String() + ")"
		if v := p.d.Fill[name]; v != nil {
			value = "CAST(" + lake.Literal(*v) + " AS " + t.String() + ")"
		}
		p.out.Outputs = append(p.out.Outputs, Output{Name: name, Type: t, Value: value})
	}
	return nil
}

// fit compares the plan with a table that exists; the order of its columns does not matter, and wider types pass.
func (p *projecting) fit(target lake.Columns) error {
	var wrong []string
	for i := range p.out.Outputs {
		o := &p.out.Outputs[i]
		c, ok := target.Find(o.Name)
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("it has no column %s %s", o.Name, o.Type))
		case !c.Type.Equal(o.Type) && !widens(o.Type, c.Type):
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", c.Name, c.Type, o.Type))
		default:
			o.Name = c.Name
		}
	}
	if _, ok := target.Find(insertedAtColumn); p.out.Stamped && !ok {
		wrong = append(wrong, "it has no column "+insertedAtColumn+" TIMESTAMPTZ")
	}
	for _, c := range target {
		if _, ok := p.find(c.Name); !ok && !(p.out.Stamped && strings.EqualFold(c.Name, insertedAtColumn)) {
			wrong = append(wrong, fmt.Sprintf("its column %s has neither a source nor a filling", c.Name))
		}
	}
	if len(wrong) > 0 {
		return sluice.E("SLUICE-FANOUT-TARGET-SHAPE", "compare the destination's table", strings.Join(wrong, "; "),
			"correct the table or the fan-out's columns, then `sluice fanout resume`", nil)
	}
	return nil
}

// TableColumns are the columns of a table that is made for the projection.
func (p Projection) TableColumns() lake.Columns {
	var out lake.Columns
	for _, o := range p.Outputs {
		out = append(out, lake.Column{Name: o.Name, Type: o.Type})
	}
	if p.Stamped {
		out = append(out, lake.Column{Name: insertedAtColumn, Type: lake.Type{Base: "TIMESTAMP WITH TIME ZONE"}})
	}
	return out
}

// Names are the names of the outputs.
func (p Projection) Names() []string {
	out := make([]string, len(p.Outputs))
	for i, o := range p.Outputs {
		out[i] = o.Name
	}
	return out
}

// Hash is of everything that decides what a destination's rows are, so that what was found out under one hash holds under it.
func (p Projection) Hash(d Definition, route, sourceUUID string) string {
	h := sha256.New()
	fmt.Fprintln(h, d.Route, route, sourceUUID, d.Mode, d.Tombstones, d.Moved)
	for _, o := range p.Outputs {
		fmt.Fprintln(h, o.Name, o.Type, o.Value)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

var integers = []string{"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}

// bits of the value range of an integer type, and whether it has negative ones.
func integer(base string) (bits int, signed, ok bool) {
	i := slices.Index(integers, base)
	if i < 0 {
		return 0, false, false
	}
	return 8 << (i % 4), i < 4, true
}

// widens reports whether every value of a type is one of the other, unchanged.
func widens(from, to lake.Type) bool {
	fb, fs, fi := integer(from.Base)
	tb, ts, ti := integer(to.Base)
	switch {
	case fi && ti:
		return fs == ts && fb <= tb || !fs && ts && fb < tb
	case from.Base == "FLOAT" && to.Base == "DOUBLE":
		return true
	case from.Base == "DECIMAL" && to.Base == "DECIMAL":
		return from.Scale == to.Scale && from.Width <= to.Width
	}
	return false
}

// Cast gives SQL that turns a value into another type, exactly or not at all, and SQL that is true where it does not go. The
// engine's own casts round and guess: 1.5 would become 2 (spec/changelog.md §5.2).
func Cast(value string, from, to lake.Type) (sql, bad string, err error) {
	_, _, fromInt := integer(from.Base)
	_, _, toInt := integer(to.Base)
	check := func(sql string) (string, string, error) {
		return sql, fmt.Sprintf("(%s IS NOT NULL AND (%s) IS NULL)", value, sql), nil
	}
	cast := fmt.Sprintf("TRY_CAST(%s AS %s)", value, to)
	switch {
	case from.Equal(to):
		return value, "", nil
	case widens(from, to), to.Base == "VARCHAR":
		return fmt.Sprintf("CAST(%s AS %s)", value, to), "", nil
	case fromInt && to.Base == "BOOLEAN":
		return check(fmt.Sprintf("CASE %s WHEN 0 THEN false WHEN 1 THEN true END", value))
	case from.Base == "VARCHAR" && to.Base == "BOOLEAN":
		return check(fmt.Sprintf("CASE %s WHEN '0' THEN false WHEN 'false' THEN false WHEN '1' THEN true WHEN 'true' THEN true END", value))
	case fromInt && toInt, from.Base == "VARCHAR" && slices.Contains([]string{"UUID", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DOUBLE"}, to.Base):
		return check(cast)
	case from.Base == "VARCHAR" && toInt:
		return check(fmt.Sprintf("CASE WHEN regexp_full_match(%s, '[+-]?[0-9]+') THEN %s END", value, cast))
	case from.Base == "DOUBLE" && toInt, fromInt && to.Base == "DOUBLE":
		return check(fmt.Sprintf("CASE WHEN TRY_CAST(%s AS %s) = %s THEN %s END", cast, from, value, cast))
	case from.Base == "VARCHAR" && to.Base == "JSON":
		return check(fmt.Sprintf("CASE WHEN json_valid(%s) THEN CAST(%[1]s AS JSON) END", value))
	}
	return "", "", fmt.Errorf("%s does not become %s exactly", from, to)
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}
