package value

import (
	"encoding/binary"
	"math"

	"sluice/internal/warehouse/duck"
)

var be = binary.BigEndian

func binaryEncoder(t *duck.Type) Encoder {
	switch t.ID {
	case duck.Boolean:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			if v.Bool(row) {
				return append(dst, 1), nil
			}
			return append(dst, 0), nil
		}
	case duck.TinyInt, duck.SmallInt, duck.UTinyInt:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint16(dst, uint16(v.Int(row))), nil
		}
	case duck.Integer, duck.USmallInt:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint32(dst, uint32(v.Int(row))), nil
		}
	case duck.BigInt, duck.UInteger, duck.Time:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint64(dst, uint64(v.Int(row))), nil
		}
	case duck.TimeNS:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint64(dst, uint64(v.Int(row)/1000)), nil
		}
	case duck.UBigInt, duck.HugeInt, duck.UHugeInt, duck.BigNum, duck.Decimal:
		return binaryNumeric
	case duck.Float:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint32(dst, math.Float32bits(v.Float32(row))), nil
		}
	case duck.Double:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			return be.AppendUint64(dst, math.Float64bits(v.Float64(row))), nil
		}
	case duck.Enum:
		return appendEnum
	case duck.Date:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			days, err := pgDate(v.Int(row))
			return be.AppendUint32(dst, uint32(days)), err
		}
	case duck.TimeTZ:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			micros, east := timeTZ(v.Uint64(row))
			return be.AppendUint32(be.AppendUint64(dst, uint64(micros)), uint32(-east)), nil
		}
	case duck.Timestamp, duck.TimestampS, duck.TimestampMS, duck.TimestampNS, duck.TimestampTZ:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			us, err := pgTimestamp(micros(t.ID, v.Int(row)))
			return be.AppendUint64(dst, uint64(us)), err
		}
	case duck.Interval:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			months, days, micros := v.Interval(row)
			dst = be.AppendUint64(dst, uint64(micros))
			return be.AppendUint32(be.AppendUint32(dst, uint32(days)), uint32(months)), nil
		}
	case duck.UUID:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			u := uuidBytes(v, row)
			return append(dst, u[:]...), nil
		}
	case duck.Bit:
		return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
			b := v.Bytes(row)
			from, to := bitRange(b)
			dst = be.AppendUint32(dst, uint32(to-from))
			at := len(dst)
			dst = append(dst, make([]byte, (to-from+7)/8)...)
			for i := from; i < to; i++ {
				if b[1+i/8]>>(7-i%8)&1 == 1 {
					dst[at+(i-from)/8] |= 0x80 >> ((i - from) % 8)
				}
			}
			return dst, nil
		}
	default: // VARCHAR, JSON, BLOB, GEOMETRY, NULL
		return appendBytes
	}
}
