package duck

import (
	"math/big"
	"unsafe"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Vector is one column of a chunk, or the inside of a nested one. It points into the engine's memory.
type Vector struct {
	Type     *Type
	data     unsafe.Pointer
	validity unsafe.Pointer
	children []Vector
}

func (v *Vector) init(raw bindings.Vector, t *Type) {
	v.Type = t
	v.data = bindings.VectorGetData(raw)
	v.validity = bindings.VectorGetValidity(raw)
	switch t.ID {
	case List, Map:
		v.children = make([]Vector, 1)
		v.children[0].init(bindings.ListVectorGetChild(raw), t.Child)
	case Array:
		v.children = make([]Vector, 1)
		v.children[0].init(bindings.ArrayVectorGetChild(raw), t.Child)
	case Struct:
		v.children = make([]Vector, len(t.Fields))
		for i := range t.Fields {
			v.children[i].init(bindings.StructVectorGetChild(raw, bindings.IdxT(i)), t.Fields[i].Type)
		}
	case Union: // the tag comes first, then the members
		v.children = make([]Vector, len(t.Fields)+1)
		v.children[0].init(bindings.StructVectorGetChild(raw, 0), tagType)
		for i := range t.Fields {
			v.children[i+1].init(bindings.StructVectorGetChild(raw, bindings.IdxT(i+1)), t.Fields[i].Type)
		}
	}
}

var tagType = &Type{ID: UTinyInt, Physical: UTinyInt}

// Null reports whether the row's value is NULL.
func (v *Vector) Null(row int) bool {
	if v.validity == nil {
		return false
	}
	word := *(*uint64)(unsafe.Add(v.validity, row/64*8))
	return word&(1<<(uint(row)%64)) == 0
}

func at[T any](v *Vector, row int) T {
	var zero T
	return *(*T)(unsafe.Add(v.data, uintptr(row)*unsafe.Sizeof(zero)))
}

// Bool reads a BOOLEAN.
func (v *Vector) Bool(row int) bool { return at[uint8](v, row) != 0 }

// Float32 reads a FLOAT.
func (v *Vector) Float32(row int) float32 { return at[float32](v, row) }

// Float64 reads a DOUBLE.
func (v *Vector) Float64(row int) float64 { return at[float64](v, row) }

// Int reads any signed integer up to 64 bits, an unsigned one up to 32, a DATE (days), and the times and timestamps in
// their own units.
func (v *Vector) Int(row int) int64 {
	switch v.Type.Physical {
	case TinyInt:
		return int64(at[int8](v, row))
	case SmallInt:
		return int64(at[int16](v, row))
	case Integer:
		return int64(at[int32](v, row))
	case UTinyInt:
		return int64(at[uint8](v, row))
	case USmallInt:
		return int64(at[uint16](v, row))
	case UInteger:
		return int64(at[uint32](v, row))
	default:
		return at[int64](v, row)
	}
}

// Uint64 reads a UBIGINT and the bits of a TIMETZ.
func (v *Vector) Uint64(row int) uint64 { return at[uint64](v, row) }

// Huge reads the two halves of a 128-bit value: lower, upper.
func (v *Vector) Huge(row int) (uint64, uint64) {
	h := at[[2]uint64](v, row)
	return h[0], h[1]
}

// Interval reads an INTERVAL: months, days, microseconds.
func (v *Vector) Interval(row int) (int32, int32, int64) {
	i := at[struct {
		months, days int32
		micros       int64
	}](v, row)
	return i.months, i.days, i.micros
}

// inlineLength is the longest string that lies inside its 16-byte cell.
const inlineLength = 12

// Bytes reads VARCHAR, BLOB, BIT, BIGNUM and GEOMETRY. The slice is valid until the chunk is closed.
func (v *Vector) Bytes(row int) []byte {
	cell := unsafe.Add(v.data, uintptr(row)*16)
	n := *(*uint32)(cell)
	if n <= inlineLength {
		return unsafe.Slice((*byte)(unsafe.Add(cell, 4)), int(n))
	}
	return unsafe.Slice(*(**byte)(unsafe.Add(cell, 8)), int(n))
}

// Enum reads an ENUM's text.
func (v *Vector) Enum(row int) string { return v.Type.Enum[v.Int(row)] }

// List gives the elements of a LIST, MAP or ARRAY as a range of the child vector.
func (v *Vector) List(row int) (child *Vector, from, to int) {
	if v.Type.ID == Array {
		return &v.children[0], row * v.Type.Size, (row + 1) * v.Type.Size
	}
	e := at[[2]uint64](v, row)
	return &v.children[0], int(e[0]), int(e[0] + e[1])
}

// Field gives the i-th field of a STRUCT.
func (v *Vector) Field(i int) *Vector { return &v.children[i] }

// Union gives the member that a UNION's row holds.
func (v *Vector) Union(row int) *Vector { return &v.children[1+v.children[0].Int(row)] }

// Big reads HUGEINT, UHUGEINT, UBIGINT, BIGNUM and the unscaled value of a DECIMAL.
func (v *Vector) Big(row int) *big.Int {
	switch v.Type.ID {
	case UBigInt:
		return new(big.Int).SetUint64(v.Uint64(row))
	case UHugeInt:
		lo, hi := v.Huge(row)
		return halves(new(big.Int).SetUint64(hi), lo)
	case BigNum:
		return bigNum(v.Bytes(row))
	}
	if v.Type.Physical != HugeInt {
		return big.NewInt(v.Int(row))
	}
	lo, hi := v.Huge(row)
	return halves(big.NewInt(int64(hi)), lo)
}

func halves(hi *big.Int, lo uint64) *big.Int {
	hi.Lsh(hi, 64)
	return hi.Add(hi, new(big.Int).SetUint64(lo))
}

// bigNum decodes the engine's layout: three bytes of header whose first bit is set for positive numbers, then the
// magnitude, big-endian; a negative number is complemented.
func bigNum(b []byte) *big.Int {
	if len(b) < 4 {
		return new(big.Int)
	}
	if b[0]&0x80 != 0 {
		return new(big.Int).SetBytes(b[3:])
	}
	inv := make([]byte, len(b)-3)
	for i := range inv {
		inv[i] = ^b[i+3]
	}
	n := new(big.Int).SetBytes(inv)
	return n.Neg(n)
}
