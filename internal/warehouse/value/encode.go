package value

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"sluice/internal/warehouse/duck"
)

// Errors of this package.
var (
	// ErrRange: the value lies outside what the type can hold on the other side.
	ErrRange = errors.New("value out of range")
	// ErrDatetime is ErrRange of a date or time.
	ErrDatetime = fmt.Errorf("datetime field overflow: %w", ErrRange)
	// ErrType: the type cannot be sent or read.
	ErrType = errors.New("type not supported")
	// ErrSyntax: a parameter's bytes are not a value of its type.
	ErrSyntax = errors.New("invalid input")
	// ErrEncoding: a text's bytes are not UTF-8, or hold a zero.
	ErrEncoding = errors.New("invalid")
)

// Encoder appends the row's value, which is not NULL, without a length.
type Encoder func(dst []byte, v *duck.Vector, row int) ([]byte, error)

// NewEncoder makes the encoder of a type in a format. zone is the session's, for TIMESTAMPTZ in text.
func NewEncoder(t *duck.Type, format int16, zone *time.Location) (Encoder, error) {
	if format != Text && format != Binary {
		return nil, fmt.Errorf("encode %s: format code %d: %w", t.Name(), format, ErrType)
	}
	if t.ID == duck.Variant || t.ID == duck.Invalid {
		return nil, fmt.Errorf("encode a column of type %s: %w", t.Name(), ErrType)
	}
	if _, ok := scalarOf(t); ok {
		if format == Binary {
			return binaryEncoder(t), nil
		}
		return textEncoder(t, zone), nil
	}
	if t.ID == duck.List || t.ID == duck.Array {
		if elem, ok := scalarOf(t.Child); ok {
			if format == Binary {
				return arrayBinary(elem.oid, binaryEncoder(t.Child)), nil
			}
			return arrayText(textEncoder(t.Child, zone)), nil
		}
	}
	if format == Binary {
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) { // jsonb, version 1
			return appendJSON(append(dst, 1), v, row, zone)
		}, nil
	}
	return func(dst []byte, v *duck.Vector, row int) ([]byte, error) { return appendJSON(dst, v, row, zone) }, nil
}

func appendInt(dst []byte, v *duck.Vector, row int) ([]byte, error) {
	return strconv.AppendInt(dst, v.Int(row), 10), nil
}

func appendBytes(dst []byte, v *duck.Vector, row int) ([]byte, error) {
	return append(dst, v.Bytes(row)...), nil
}

func appendEnum(dst []byte, v *duck.Vector, row int) ([]byte, error) {
	return append(dst, v.Enum(row)...), nil
}

func uuidBytes(v *duck.Vector, row int) [16]byte {
	var u [16]byte
	lo, hi := v.Huge(row)
	binary.BigEndian.PutUint64(u[:8], hi^1<<63) // the engine flips the sign bit so that UUIDs sort
	binary.BigEndian.PutUint64(u[8:], lo)
	return u
}

// appendFloat writes the shortest text that reads back as the same number, as PostgreSQL does since version 12.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	digits := 15
	if bits == 32 {
		digits = 6
	}
	var buf [32]byte
	sci := strconv.AppendFloat(buf[:0], f, 'e', -1, bits)
	exp := 0
	for i := len(sci) - 1; i > 0; i-- {
		if sci[i] == 'e' {
			exp, _ = strconv.Atoi(string(sci[i+1:]))
			break
		}
	}
	if exp < -4 || exp >= digits {
		return append(dst, sci...)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

// appendBits writes a BIT's bits as 0 and 1; the first byte says how many of the second are padding.
func appendBits(dst, b []byte) []byte {
	for i, n := bitRange(b); i < n; i++ {
		dst = append(dst, '0'+b[1+i/8]>>(7-i%8)&1)
	}
	return dst
}

func bitRange(b []byte) (from, to int) {
	if len(b) < 2 {
		return 0, 0
	}
	return int(b[0]), (len(b) - 1) * 8
}

func textEncoder(t *duck.Type, zone *time.Location) Encoder {
	switch t.ID {
	case duck.Boolean:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			if v.Bool(row) {
				return append(dst, 't'), nil
			}
			return append(dst, 'f'), nil
		}
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		return appendInt
	case duck.UBigInt:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return strconv.AppendUint(dst, v.Uint64(row), 10), nil
		}
	case duck.HugeInt, duck.UHugeInt, duck.BigNum, duck.Decimal:
		return appendNumeric
	case duck.Float:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return appendFloat(dst, float64(v.Float32(row)), 32), nil
		}
	case duck.Double:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return appendFloat(dst, v.Float64(row), 64), nil
		}
	case duck.Enum:
		return appendEnum
	case duck.Blob, duck.Geometry:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return hex.AppendEncode(append(dst, `\x`...), v.Bytes(row)), nil
		}
	case duck.Date:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) { return appendDate(dst, v.Int(row)) }
	case duck.Time:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) { return appendTime(dst, v.Int(row)), nil }
	case duck.TimeNS:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return appendTime(dst, v.Int(row)/1000), nil
		}
	case duck.TimeTZ:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			micros, east := timeTZ(v.Uint64(row))
			return appendOffset(appendTime(dst, micros), east), nil
		}
	case duck.Timestamp, duck.TimestampS, duck.TimestampMS, duck.TimestampNS:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return appendTimestamp(dst, micros(t.ID, v.Int(row)), nil)
		}
	case duck.TimestampTZ:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return appendTimestamp(dst, micros(t.ID, v.Int(row)), zone)
		}
	case duck.Interval:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			months, days, micros := v.Interval(row)
			return appendInterval(dst, months, days, micros), nil
		}
	case duck.UUID:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			u := uuidBytes(v, row)
			dst = hex.AppendEncode(dst, u[:4])
			for _, part := range [][]byte{u[4:6], u[6:8], u[8:10], u[10:]} {
				dst = hex.AppendEncode(append(dst, '-'), part)
			}
			return dst, nil
		}
	case duck.Bit:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) { return appendBits(dst, v.Bytes(row)), nil }
	default: // VARCHAR, JSON, NULL
		return appendBytes
	}
}
