package delta

import (
	"fmt"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/schema"
)

// leaf makes a value without parts of a value of a file. What a table's type allows is what its files can hold after any
// type widening; a cast that would change a value is never written, one that could overflow fails in the engine.
func (b *builder) leaf(ref string, t schema.Type, n *footer.Node) (expression, error) {
	from, err := leafType(n)
	if err != nil {
		return expression{}, b.misfit("%s", err)
	}
	cast := expression{ref + "::" + t.SQL(), true}
	call := func(format string) (expression, error) { return expression{text: fmt.Sprintf(format, ref)}, nil }
	fits := false
	switch t.Kind {
	case schema.Boolean:
		fits = from.kind == leafBoolean
	case schema.Byte, schema.Short, schema.Integer, schema.Long:
		fits = from.kind == leafInteger
	case schema.Float:
		fits = from.kind == leafFloat
	case schema.Double:
		fits = from.kind == leafFloat || from.kind == leafDouble || from.kind == leafInteger && from.bits <= 32
	case schema.Decimal:
		fits = from.kind == leafDecimal && int(n.Scale) <= t.Scale || from.kind == leafInteger
	case schema.String:
		if from.kind == leafBytes {
			return call("decode(%s)")
		}
		fits = from.kind == leafText
	case schema.Binary:
		if from.kind == leafText {
			return call("encode(%s)")
		}
		fits = from.kind == leafBytes
	case schema.Date:
		fits = from.kind == leafDate
	case schema.Timestamp:
		if from.kind == leafLocal {
			return call("timezone('UTC', %s::TIMESTAMP)")
		}
		fits = from.kind == leafInstant
	case schema.TimestampNTZ:
		if from.kind == leafInstant {
			return call("timezone('UTC', %s)")
		}
		fits = from.kind == leafLocal || from.kind == leafDate
	default: // it has parts, and no leaf is that
	}
	if !fits {
		return expression{}, b.misfit("the file holds %s, the table a %s", from.sql, t)
	}
	return cast, nil
}

type leafKind int

const (
	leafOther leafKind = iota
	leafBoolean
	leafInteger
	leafFloat
	leafDouble
	leafDecimal
	leafText
	leafBytes
	leafDate
	leafInstant // a timestamp that the engine reads as TIMESTAMPTZ
	leafLocal   // a timestamp that the engine reads without a zone; INT96 among them, whose values are in UTC
)

// leafOf is a type of a file's column: what it is, and how the engine reads it.
type leafOf struct {
	kind leafKind
	bits int // of an integer, as many as a signed one needs
	sql  string
}

func leafType(n *footer.Node) (leafOf, error) {
	switch n.Physical {
	case footer.Boolean:
		return leafOf{leafBoolean, 0, "BOOLEAN"}, nil
	case footer.Int32, footer.Int64:
		return integerType(n)
	case footer.Int96:
		return leafOf{leafLocal, 0, "TIMESTAMP"}, nil
	case footer.Float:
		return leafOf{leafFloat, 0, "FLOAT"}, nil
	case footer.Double:
		return leafOf{leafDouble, 0, "DOUBLE"}, nil
	case footer.ByteArray, footer.FixedByteArray:
		return bytesType(n)
	default: // footer.Group, and what a later format may add
		return leafOf{}, fmt.Errorf("the file has it in an unknown type")
	}
}

func integerType(n *footer.Node) (leafOf, error) {
	width := 32
	if n.Physical == footer.Int64 {
		width = 64
	}
	switch n.Logical {
	case footer.Plain:
		return leafOf{leafInteger, width, map[int]string{32: "INTEGER", 64: "BIGINT"}[width]}, nil
	case footer.Integer:
		names := map[int8]string{8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
		name, ok := names[n.Bits]
		switch {
		case !ok || int(n.Bits) > width:
			return leafOf{}, fmt.Errorf("the file has it as an integer of %d bits", n.Bits)
		case n.Signed:
			return leafOf{leafInteger, int(n.Bits), name}, nil
		}
		return leafOf{leafInteger, int(n.Bits) + 1, "U" + name}, nil
	case footer.Decimal:
		return decimalType(n)
	case footer.Date:
		if width == 32 {
			return leafOf{leafDate, 0, "DATE"}, nil
		}
	case footer.Timestamp:
		switch {
		case width == 32:
		case n.UTC:
			return leafOf{leafInstant, 0, "TIMESTAMPTZ"}, nil
		case n.Unit == footer.Nanos:
			return leafOf{leafLocal, 0, "TIMESTAMP_NS"}, nil
		default:
			return leafOf{leafLocal, 0, "TIMESTAMP"}, nil
		}
	case footer.Time:
		return leafOf{leafOther, 0, "TIME"}, nil
	default: // no meaning that a number can have
	}
	return leafOf{}, fmt.Errorf("the file has it as an integer of an unknown meaning")
}

func decimalType(n *footer.Node) (leafOf, error) {
	if n.Precision < 1 || n.Precision > 38 || n.Scale < 0 || n.Scale > n.Precision {
		return leafOf{}, fmt.Errorf("the file has it as decimal(%d,%d)", n.Precision, n.Scale)
	}
	return leafOf{leafDecimal, 0, fmt.Sprintf("DECIMAL(%d,%d)", n.Precision, n.Scale)}, nil
}

func bytesType(n *footer.Node) (leafOf, error) {
	switch n.Logical {
	case footer.Text, footer.Enum, footer.JSON:
		if n.Physical == footer.ByteArray {
			return leafOf{leafText, 0, "VARCHAR"}, nil
		}
	case footer.Plain, footer.BSON:
		return leafOf{leafBytes, 0, "BLOB"}, nil
	case footer.Decimal:
		return decimalType(n)
	case footer.UUID:
		return leafOf{leafOther, 0, "UUID"}, nil
	case footer.Float16:
		return leafOf{leafFloat, 0, "FLOAT"}, nil
	default: // no meaning that bytes can have
	}
	return leafOf{}, fmt.Errorf("the file has it as bytes of an unknown meaning")
}
