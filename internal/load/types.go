package load

import (
	"strings"

	"sluice/internal/lake"
)

// Fitness says how a file column's type stands to the target column's.
type Fitness int

// The fitnesses.
const (
	Same        Fitness = iota
	Narrower            // a lossless cast exists
	Wider               // the target can be widened
	Conflicting         // neither
)

// StoredType gives the type under which the lake keeps a file type (spec/loader.md §10); ok is false if it cannot hold
// it. Parts without a type stay as they are; Typed leaves them out.
func StoredType(t lake.Type) (stored lake.Type, ok bool) {
	switch t.Base {
	case "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE",
		"DATE", "TIME", "TIME WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
		"TIMESTAMP WITH TIME ZONE", "INTERVAL", "VARCHAR", "BLOB", "UUID", "JSON", "GEOMETRY", "VARIANT", lake.NullType:
		return t, true
	case "DECIMAL":
		return t, t.Width <= 38
	case "ENUM":
		return lake.Type{Base: "VARCHAR"}, true
	case "HUGEINT", "UHUGEINT":
		// DuckLake would keep these as DOUBLE and lose digits without a word.
		return lake.Type{Base: "DECIMAL", Width: 38}, true
	case "FLOAT16":
		return lake.Type{Base: "FLOAT"}, true
	case "LIST", "ARRAY":
		elem, ok := StoredType(*t.Elem)
		return lake.Type{Base: "LIST", Elem: &elem}, ok
	case "MAP":
		key, ok := StoredType(*t.Key)
		elem, ok2 := StoredType(*t.Elem)
		return lake.Type{Base: "MAP", Key: &key, Elem: &elem}, ok && ok2
	case "STRUCT":
		out := lake.Type{Base: "STRUCT"}
		for _, f := range t.Fields {
			ft, ok := StoredType(f.Type)
			if !ok {
				return t, false
			}
			out.Fields = append(out.Fields, lake.Column{Name: f.Name, Type: ft})
		}
		return out, true
	}
	return t, false
}

// Typed gives a type without the parts that have no type yet: storing those now would fix a wrong type for ever. ok is
// false if nothing is left.
func Typed(t lake.Type) (typed lake.Type, ok bool) {
	if !t.HasNull() {
		return t, true
	}
	switch t.Base {
	case "LIST":
		elem, ok := Typed(*t.Elem)
		return lake.Type{Base: "LIST", Elem: &elem}, ok
	case "MAP":
		key, ok := Typed(*t.Key)
		elem, ok2 := Typed(*t.Elem)
		return lake.Type{Base: "MAP", Key: &key, Elem: &elem}, ok && ok2
	case "STRUCT":
		out := lake.Type{Base: "STRUCT"}
		for _, f := range t.Fields {
			if ft, ok := Typed(f.Type); ok {
				out.Fields = append(out.Fields, lake.Column{Name: f.Name, Type: ft})
			}
		}
		return out, len(out.Fields) > 0
	}
	return t, false
}

// integers in order of width: a value of the left fits into each one further right of the same row.
var integers = [][]string{
	{"TINYINT", "SMALLINT", "INTEGER", "BIGINT"},
	{"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"},
}

// digits of the largest value of an integer type.
var digits = map[string]int{
	"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}

func rank(base string) (row, col int) {
	for r, names := range integers {
		for c, n := range names {
			if n == base {
				return r, c
			}
		}
	}
	return -1, -1
}

// Fit compares a file's (stored) type with the target's and, if the target has to widen, says to what. The widening
// matrix is what ALTER can do on a lake: integers of one sign, FLOAT to DOUBLE, DECIMAL of one scale, new fields of a
// STRUCT, and all of these inside of lists, maps and structs. TIMESTAMP to TIMESTAMPTZ is not among them: rows written
// before would be read in the time zone of whoever reads (docs/adr/0060).
func Fit(file, target lake.Type) (Fitness, lake.Type) {
	switch {
	case file.Equal(target):
		return Same, target
	case file.Base == lake.NullType, lossless(file, target):
		return Narrower, target
	case file.Base != target.Base:
	case file.Base == "LIST":
		fit, elem := Fit(*file.Elem, *target.Elem)
		return fit, lake.Type{Base: "LIST", Elem: &elem}
	case file.Base == "MAP":
		fit, key := Fit(*file.Key, *target.Key)
		fit2, elem := Fit(*file.Elem, *target.Elem)
		return max(fit, fit2), lake.Type{Base: "MAP", Key: &key, Elem: &elem}
	case file.Base == "STRUCT":
		return fitFields(file, target)
	}
	fr, fc := rank(file.Base)
	tr, tc := rank(target.Base)
	switch {
	case fr >= 0 && fr == tr && fc > tc:
		return Wider, file
	case file.Base == "DOUBLE" && target.Base == "FLOAT":
		return Wider, file
	case file.Base == "DECIMAL" && target.Base == "DECIMAL" && file.Scale == target.Scale && file.Width > target.Width:
		return Wider, file
	}
	return Conflicting, target
}

// fitFields compares two structs field by field, by name. The target's fields come first and are never dropped.
func fitFields(file, target lake.Type) (Fitness, lake.Type) {
	wide := lake.Type{Base: "STRUCT", Fields: append([]lake.Column(nil), target.Fields...)}
	worst, shared := Narrower, false
	for _, f := range file.Fields {
		known := false
		for i, have := range target.Fields {
			if !strings.EqualFold(f.Name, have.Name) {
				continue
			}
			fit, typ := Fit(f.Type, have.Type)
			wide.Fields[i].Type = typ
			worst, known, shared = max(worst, fit), true, true
		}
		if known {
			continue
		}
		if typ, ok := Typed(f.Type); ok {
			wide.Fields = append(wide.Fields, lake.Column{Name: f.Name, Type: typ})
			worst, shared = max(worst, Wider), true
		}
	}
	if !shared {
		return Conflicting, target // the engine casts no struct to one with which it shares no field
	}
	return worst, wide
}

// LeftOut names the fields of a file type that a target type does not have, and ok is false if the one cannot be cast to
// the other without them.
func LeftOut(name string, file, target lake.Type) (fields []string, ok bool) {
	if file.Base != target.Base {
		return nil, true // what does not fit is found when it is cast
	}
	switch file.Base {
	case "LIST":
		return LeftOut(name, *file.Elem, *target.Elem)
	case "MAP":
		return LeftOut(name, *file.Elem, *target.Elem)
	case "STRUCT":
		for _, f := range file.Fields {
			have, known := lake.Columns(target.Fields).Find(f.Name)
			if !known {
				fields = append(fields, name+"."+f.Name)
				continue
			}
			more, can := LeftOut(name+"."+f.Name, f.Type, have.Type)
			if !can {
				return nil, false
			}
			fields, ok = append(fields, more...), true
		}
		return fields, ok
	}
	return nil, true
}

// lossless reports whether each value of a can be cast to b and back.
func lossless(a, b lake.Type) bool {
	ar, ac := rank(a.Base)
	br, bc := rank(b.Base)
	switch {
	case ar >= 0 && br >= 0:
		return ar == br && ac <= bc || ar == 1 && br == 0 && ac < bc
	case ar >= 0 && b.Base == "DECIMAL":
		return b.Width-b.Scale >= digits[a.Base]
	case ar >= 0 && b.Base == "DOUBLE":
		return ac <= 2 // 32 bits fit into a mantissa of 53
	case ar >= 0 && b.Base == "FLOAT":
		return ac <= 1 // 16 bits fit into a mantissa of 24
	}
	switch a.Base {
	case "FLOAT":
		return b.Base == "DOUBLE"
	case "DECIMAL":
		return b.Base == "DECIMAL" && a.Scale <= b.Scale && a.Width-a.Scale <= b.Width-b.Scale
	case "DATE":
		return b.Base == "TIMESTAMP"
	case "TIMESTAMP_S":
		return b.Base == "TIMESTAMP_MS" || b.Base == "TIMESTAMP"
	case "TIMESTAMP_MS":
		return b.Base == "TIMESTAMP"
	case "TIMESTAMP":
		return b.Base == "TIMESTAMP WITH TIME ZONE" // sessions run in UTC
	case "JSON":
		return b.Base == "VARCHAR"
	}
	return false
}
