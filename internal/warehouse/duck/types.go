package duck

import (
	"fmt"
	"strings"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// TypeID names an engine type without its parameters.
type TypeID = bindings.Type

// The engine's types.
const (
	Invalid     = bindings.TypeInvalid
	Boolean     = bindings.TypeBoolean
	TinyInt     = bindings.TypeTinyInt
	SmallInt    = bindings.TypeSmallInt
	Integer     = bindings.TypeInteger
	BigInt      = bindings.TypeBigInt
	UTinyInt    = bindings.TypeUTinyInt
	USmallInt   = bindings.TypeUSmallInt
	UInteger    = bindings.TypeUInteger
	UBigInt     = bindings.TypeUBigInt
	Float       = bindings.TypeFloat
	Double      = bindings.TypeDouble
	Timestamp   = bindings.TypeTimestamp
	Date        = bindings.TypeDate
	Time        = bindings.TypeTime
	Interval    = bindings.TypeInterval
	HugeInt     = bindings.TypeHugeInt
	UHugeInt    = bindings.TypeUHugeInt
	Varchar     = bindings.TypeVarchar
	Blob        = bindings.TypeBlob
	Decimal     = bindings.TypeDecimal
	TimestampS  = bindings.TypeTimestampS
	TimestampMS = bindings.TypeTimestampMS
	TimestampNS = bindings.TypeTimestampNS
	Enum        = bindings.TypeEnum
	List        = bindings.TypeList
	Struct      = bindings.TypeStruct
	Map         = bindings.TypeMap
	Array       = bindings.TypeArray
	UUID        = bindings.TypeUUID
	Union       = bindings.TypeUnion
	Bit         = bindings.TypeBit
	TimeTZ      = bindings.TypeTimeTZ
	TimestampTZ = bindings.TypeTimestampTZ
	BigNum      = bindings.TypeBigNum
	SQLNull     = bindings.TypeSQLNull
	TimeNS      = bindings.TypeTimeNS
	Geometry    = bindings.TypeGeometry
	Variant     = bindings.TypeVariant
)

// Type is an engine type with its parameters.
type Type struct {
	ID       TypeID
	Physical TypeID // how values of DECIMAL and ENUM are stored; else what Int needs to know
	JSON     bool   // a VARCHAR that is JSON
	Width    int    // DECIMAL
	Scale    int    // DECIMAL
	Size     int    // ARRAY
	Child    *Type  // LIST, ARRAY; for MAP the STRUCT of key and value
	Fields   []Field
	Enum     []string
}

// Field is a field of a STRUCT or a member of a UNION.
type Field struct {
	Name string
	Type *Type
}

// Scalar is the type id without parameters.
func Scalar(id TypeID) *Type {
	t := &Type{ID: id, Physical: id}
	if id == Date {
		t.Physical = Integer
	}
	return t
}

// JSONType is JSON.
func JSONType() *Type { return &Type{ID: Varchar, Physical: Varchar, JSON: true} }

// DecimalType is DECIMAL(width, scale).
func DecimalType(width, scale int) *Type {
	t := &Type{ID: Decimal, Width: width, Scale: scale, Physical: HugeInt}
	switch {
	case width <= 4:
		t.Physical = SmallInt
	case width <= 9:
		t.Physical = Integer
	case width <= 18:
		t.Physical = BigInt
	}
	return t
}

// ListOf is a LIST of t.
func ListOf(t *Type) *Type { return &Type{ID: List, Physical: List, Child: t} }

func typeOf(lt bindings.LogicalType) *Type {
	t := &Type{ID: bindings.GetTypeId(lt)}
	t.Physical = t.ID
	child := func(c bindings.LogicalType) *Type {
		defer bindings.DestroyLogicalType(&c)
		return typeOf(c)
	}
	switch t.ID {
	case Varchar:
		t.JSON = bindings.LogicalTypeGetAlias(lt) == "JSON"
	case Date:
		t.Physical = Integer
	case Decimal:
		t.Width, t.Scale = int(bindings.DecimalWidth(lt)), int(bindings.DecimalScale(lt))
		t.Physical = bindings.DecimalInternalType(lt)
	case Enum:
		t.Physical = bindings.EnumInternalType(lt)
		n := bindings.EnumDictionarySize(lt)
		for i := range n {
			t.Enum = append(t.Enum, bindings.EnumDictionaryValue(lt, bindings.IdxT(i)))
		}
	case List:
		t.Child = child(bindings.ListTypeChildType(lt))
	case Array:
		t.Child, t.Size = child(bindings.ArrayTypeChildType(lt)), int(bindings.ArrayTypeArraySize(lt))
	case Map:
		key, value := child(bindings.MapTypeKeyType(lt)), child(bindings.MapTypeValueType(lt))
		t.Child = &Type{ID: Struct, Physical: Struct, Fields: []Field{{"key", key}, {"value", value}}}
	case Struct:
		n := bindings.StructTypeChildCount(lt)
		for i := bindings.IdxT(0); i < n; i++ {
			t.Fields = append(t.Fields, Field{bindings.StructTypeChildName(lt, i), child(bindings.StructTypeChildType(lt, i))})
		}
	case Union:
		n := bindings.UnionTypeMemberCount(lt)
		for i := bindings.IdxT(0); i < n; i++ {
			t.Fields = append(t.Fields, Field{bindings.UnionTypeMemberName(lt, i), child(bindings.UnionTypeMemberType(lt, i))})
		}
	}
	return t
}

// Equal reports whether two types are the same.
func (t *Type) Equal(o *Type) bool {
	if t == nil || o == nil {
		return t == o
	}
	if t.ID != o.ID || t.JSON != o.JSON || t.Width != o.Width || t.Scale != o.Scale || t.Size != o.Size || len(t.Fields) != len(o.Fields) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != o.Fields[i].Name || !t.Fields[i].Type.Equal(o.Fields[i].Type) {
			return false
		}
	}
	return t.Child == nil && o.Child == nil || t.Child.Equal(o.Child)
}

var names = map[TypeID]string{
	Boolean: "BOOLEAN", TinyInt: "TINYINT", SmallInt: "SMALLINT", Integer: "INTEGER", BigInt: "BIGINT",
	UTinyInt: "UTINYINT", USmallInt: "USMALLINT", UInteger: "UINTEGER", UBigInt: "UBIGINT", Float: "FLOAT",
	Double: "DOUBLE", Timestamp: "TIMESTAMP", Date: "DATE", Time: "TIME", Interval: "INTERVAL", HugeInt: "HUGEINT",
	UHugeInt: "UHUGEINT", Varchar: "VARCHAR", Blob: "BLOB", TimestampS: "TIMESTAMP_S", TimestampMS: "TIMESTAMP_MS",
	TimestampNS: "TIMESTAMP_NS", UUID: "UUID", Bit: "BIT", TimeTZ: "TIMETZ", TimestampTZ: "TIMESTAMPTZ", BigNum: "BIGNUM",
	SQLNull: `"NULL"`, TimeNS: "TIME_NS", Geometry: "GEOMETRY", Variant: "VARIANT",
}

// Name writes the type as the engine's SQL does. An ENUM has no name of its own here and is VARCHAR.
func (t *Type) Name() string {
	switch t.ID {
	case Varchar:
		if t.JSON {
			return "JSON"
		}
	case Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Width, t.Scale)
	case Enum:
		return "VARCHAR"
	case List:
		return t.Child.Name() + "[]"
	case Array:
		return fmt.Sprintf("%s[%d]", t.Child.Name(), t.Size)
	case Map:
		return fmt.Sprintf("MAP(%s, %s)", t.Child.Fields[0].Type.Name(), t.Child.Fields[1].Type.Name())
	case Struct, Union:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = `"` + strings.ReplaceAll(f.Name, `"`, `""`) + `" ` + f.Type.Name()
		}
		kind := "STRUCT"
		if t.ID == Union {
			kind = "UNION"
		}
		return kind + "(" + strings.Join(parts, ", ") + ")"
	}
	return names[t.ID]
}
