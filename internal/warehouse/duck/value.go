package duck

import (
	"encoding/binary"
	"fmt"
	"math/big"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Value is a value of the engine, made to be bound. It is freed with Close.
type Value struct{ raw bindings.Value }

// Close frees the value.
func (v Value) Close() {
	if v.raw.Ptr != nil {
		bindings.DestroyValue(&v.raw)
	}
}

// NullValue is NULL.
func NullValue() Value { return Value{bindings.CreateNullValue()} }

// BoolValue is a BOOLEAN.
func BoolValue(b bool) Value { return Value{bindings.CreateBool(b)} }

// TextValue is a VARCHAR.
func TextValue(s string) Value {
	return Value{bindings.CreateVarcharLength(s, bindings.IdxT(len(s)))}
}

// BlobValue is a BLOB.
func BlobValue(b []byte) Value { return Value{bindings.CreateBlob(b)} }

// Float32Value is a FLOAT.
func Float32Value(f float32) Value { return Value{bindings.CreateFloat(f)} }

// Float64Value is a DOUBLE.
func Float64Value(f float64) Value { return Value{bindings.CreateDouble(f)} }

// IntValue is an integer of the type id; it fails when n does not fit.
func IntValue(id TypeID, n int64) (Value, error) {
	fits := func(lo, hi int64) bool { return n >= lo && n <= hi }
	switch {
	case id == TinyInt && fits(-1<<7, 1<<7-1):
		return Value{bindings.CreateInt8(int8(n))}, nil
	case id == SmallInt && fits(-1<<15, 1<<15-1):
		return Value{bindings.CreateInt16(int16(n))}, nil
	case id == Integer && fits(-1<<31, 1<<31-1):
		return Value{bindings.CreateInt32(int32(n))}, nil
	case id == BigInt:
		return Value{bindings.CreateInt64(n)}, nil
	case id == UTinyInt && fits(0, 1<<8-1):
		return Value{bindings.CreateUInt8(uint8(n))}, nil
	case id == USmallInt && fits(0, 1<<16-1):
		return Value{bindings.CreateUInt16(uint16(n))}, nil
	case id == UInteger && fits(0, 1<<32-1):
		return Value{bindings.CreateUInt32(uint32(n))}, nil
	case id == UBigInt && n >= 0:
		return Value{bindings.CreateUInt64(uint64(n))}, nil
	}
	return Value{}, fmt.Errorf("value %d is out of range for type %s", n, names[id])
}

// BigValue is an integer of any size in the type id (BIGINT, UBIGINT, HUGEINT or UHUGEINT).
func BigValue(id TypeID, n *big.Int) (Value, error) {
	lo := new(big.Int).And(n, new(big.Int).SetUint64(^uint64(0))).Uint64()
	hi := new(big.Int).Rsh(n, 64)
	switch {
	case id == HugeInt && hi.IsInt64():
		return Value{bindings.CreateHugeInt(bindings.NewHugeInt(lo, hi.Int64()))}, nil
	case id == UHugeInt && n.Sign() >= 0 && hi.IsUint64():
		return Value{bindings.CreateUHugeInt(bindings.NewUHugeInt(lo, hi.Uint64()))}, nil
	case id == UBigInt && n.IsUint64():
		return Value{bindings.CreateUInt64(n.Uint64())}, nil
	case n.IsInt64():
		return IntValue(id, n.Int64())
	}
	return Value{}, fmt.Errorf("value %s is out of range for type %s", n, names[id])
}

// DecimalValue is a DECIMAL(width, scale) with the unscaled value n, which has at most 38 digits.
func DecimalValue(width, scale int, n *big.Int) Value {
	lo := new(big.Int).And(n, new(big.Int).SetUint64(^uint64(0))).Uint64()
	hi := new(big.Int).Rsh(n, 64).Int64()
	return Value{bindings.CreateDecimal(bindings.NewDecimal(uint8(width), uint8(scale), bindings.NewHugeInt(lo, hi)))}
}

// DateValue is a DATE, in days since 1970-01-01.
func DateValue(days int32) Value { return Value{bindings.CreateDate(bindings.NewDate(days))} }

// TimeValue is a TIME, in microseconds since midnight.
func TimeValue(micros int64) Value { return Value{bindings.CreateTime(bindings.NewTime(micros))} }

// TimestampValue is a TIMESTAMP, or with id TimestampTZ a TIMESTAMPTZ, in microseconds since 1970-01-01.
func TimestampValue(id TypeID, micros int64) Value {
	if id == TimestampTZ {
		return Value{bindings.CreateTimestampTZ(bindings.NewTimestamp(micros))}
	}
	return Value{bindings.CreateTimestamp(bindings.NewTimestamp(micros))}
}

// IntervalValue is an INTERVAL.
func IntervalValue(months, days int32, micros int64) Value {
	return Value{bindings.CreateInterval(bindings.NewInterval(months, days, micros))}
}

// UUIDValue is a UUID.
func UUIDValue(u [16]byte) Value {
	return Value{bindings.CreateUUID(bindings.NewUHugeInt(binary.BigEndian.Uint64(u[8:]), binary.BigEndian.Uint64(u[:8])))}
}

// ListValue is a LIST with elements of the type elem. It copies the elements.
func ListValue(elem *Type, values []Value) (Value, error) {
	lt, err := logical(elem)
	if err != nil {
		return Value{}, err
	}
	defer bindings.DestroyLogicalType(&lt)
	raws := make([]bindings.Value, len(values))
	for i := range values {
		raws[i] = values[i].raw
	}
	return Value{bindings.CreateListValue(lt, raws)}, nil
}

func logical(t *Type) (bindings.LogicalType, error) {
	switch t.ID {
	case Decimal:
		return bindings.CreateDecimalType(uint8(t.Width), uint8(t.Scale)), nil
	case Struct, Map, Union, List, Array, Enum, Invalid:
		return bindings.LogicalType{}, fmt.Errorf("a list of %s cannot be bound", t.Name())
	}
	lt := bindings.CreateLogicalType(t.ID)
	if t.JSON {
		bindings.LogicalTypeSetAlias(lt, "JSON")
	}
	return lt, nil
}
