package schema

import (
	"fmt"
	"strings"
)

// Kind is a Delta type without its parameters.
type Kind string

// The kinds, as Delta spells them.
const (
	Boolean      Kind = "boolean"
	Byte         Kind = "byte"
	Short        Kind = "short"
	Integer      Kind = "integer"
	Long         Kind = "long"
	Float        Kind = "float"
	Double       Kind = "double"
	Decimal      Kind = "decimal"
	String       Kind = "string"
	Binary       Kind = "binary"
	Date         Kind = "date"
	Timestamp    Kind = "timestamp"
	TimestampNTZ Kind = "timestamp_ntz"
	Struct       Kind = "struct"
	Array        Kind = "array"
	Map          Kind = "map"
	Void         Kind = "void" // a column that has no type yet: its values are all NULL
)

// Type is a Delta type.
type Type struct {
	Kind             Kind
	Precision, Scale int     // of a decimal
	Fields           []Field // of a struct
	Element          *Type   // of an array, and the values of a map
	Key              *Type   // of a map
}

// Field is a column, or a member of a struct.
type Field struct {
	Name     string // logical
	Type     Type
	Nullable bool
	Physical string // the name in data files, in statistics and in partition values
	ID       int64  // field id in data files; 0 without one
}

// engine are the engine's names of the types that have no parameters.
var engine = map[Kind]string{
	Boolean: "BOOLEAN", Byte: "TINYINT", Short: "SMALLINT", Integer: "INTEGER", Long: "BIGINT",
	Float: "FLOAT", Double: "DOUBLE", String: "VARCHAR", Binary: "BLOB", Date: "DATE",
	Timestamp: "TIMESTAMPTZ", TimestampNTZ: "TIMESTAMP",
}

// Primitive reports whether the type has no parts. Only such columns partition a table.
func (t Type) Primitive() bool { return engine[t.Kind] != "" || t.Kind == Decimal }

// SQL is the engine's type.
func (t Type) SQL() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case Array:
		return t.Element.SQL() + "[]"
	case Map:
		return "MAP(" + t.Key.SQL() + ", " + t.Element.SQL() + ")"
	case Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = Quote(f.Name) + " " + f.Type.SQL()
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	case Void:
		return `"NULL"`
	default:
		return engine[t.Kind]
	}
}

// String is the type as Delta's tools show it: long, decimal(10,2), array<string>, struct<a:long>.
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Array:
		return "array<" + t.Element.String() + ">"
	case Map:
		return "map<" + t.Key.String() + "," + t.Element.String() + ">"
	case Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = f.Name + ":" + f.Type.String()
		}
		return "struct<" + strings.Join(parts, ",") + ">"
	default:
		return string(t.Kind)
	}
}

// typed reports whether there is anything to load: a struct without members has no values, and what holds a void has no
// type yet.
func (t Type) typed() bool {
	switch t.Kind {
	case Void:
		return false
	case Array:
		return t.Element.typed()
	case Map:
		return t.Key.typed() && t.Element.typed()
	case Struct:
		return len(t.Fields) > 0
	default:
		return true
	}
}

// Quote writes an identifier of the engine.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
