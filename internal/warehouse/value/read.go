package value

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/warehouse/duck"
)

// Reader sets a column's value, not NULL, from the bytes of a COPY.
type Reader func(b *duck.Builder, row int, raw []byte) error

// CastText has the engine read a text as a value of the column's type.
type CastText func(b *duck.Builder, row int, text []byte) error

// NewReader makes the reader of a type in a format. zone is the session's, for a TIMESTAMPTZ without an offset. Texts in
// spellings that only the engine knows go through cast.
func NewReader(t *duck.Type, format int16, zone *time.Location, cast CastText) (Reader, error) {
	if t.ID == duck.List {
		elem, err := NewReader(t.Child, format, zone, cast)
		if err != nil {
			return nil, err
		}
		if format == Binary {
			return arrayReaderBinary(elem), nil
		}
		return arrayReaderText(elem), nil
	}
	var read Reader
	if format == Binary {
		read = binaryReader(t)
	} else {
		read = textReader(t, zone)
	}
	if read == nil {
		return nil, fmt.Errorf("a column of type %s: %w", t.Name(), ErrType)
	}
	return func(b *duck.Builder, row int, raw []byte) error {
		err := read(b, row, raw)
		if errors.Is(err, ErrEngine) {
			if format == Binary {
				return fmt.Errorf("binary %s of %d bytes: %w", strings.ToLower(t.Name()), len(raw), ErrSyntax)
			}
			return cast(b, row, raw)
		}
		return err
	}, nil
}

func setInt(b *duck.Builder, row int, n int64) error {
	if !b.SetInt(row, n) {
		return fmt.Errorf("value %d is out of range for type %s: %w", n, strings.ToLower(b.Type.Name()), ErrRange)
	}
	return nil
}

// setText sets a VARCHAR.
func setText(b *duck.Builder, row int, raw []byte) error {
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return fmt.Errorf("%w byte sequence for encoding UTF8", ErrEncoding)
	}
	b.SetBytes(row, raw)
	return nil
}

func setJSON(b *duck.Builder, row int, raw []byte) error {
	if !json.Valid(raw) {
		return fmt.Errorf("%w syntax for type json", ErrSyntax)
	}
	return setText(b, row, raw)
}

func setEnum(b *duck.Builder, row int, raw []byte) error {
	for i, label := range b.Type.Enum {
		if string(raw) == label {
			return setInt(b, row, int64(i))
		}
	}
	return syntax(b.Type, string(raw))
}

func setFloat(b *duck.Builder, row int, f float64) error {
	if b.Type.ID == duck.Double {
		b.SetFloat64(row, f)
		return nil
	}
	if math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
		return fmt.Errorf("value %g is out of range for type real: %w", f, ErrRange)
	}
	b.SetFloat32(row, float32(f))
	return nil
}

func setUUID(b *duck.Builder, row int, u []byte) {
	b.SetHuge(row, be.Uint64(u[8:]), be.Uint64(u)^1<<63)
}

// setNumber sets an integer beyond 64 bits, or a DECIMAL; digits behind its scale are rounded away from zero.
func setNumber(b *duck.Builder, row int, d decimal) error {
	scale, limit := 0, 39
	if b.Type.ID == duck.Decimal {
		scale, limit = b.Type.Scale, b.Type.Width
	}
	n := d.round(scale)
	tooLarge := fmt.Errorf("numeric field overflow: value is out of range for type %s: %w", strings.ToLower(b.Type.Name()), ErrRange)
	switch b.Type.ID {
	case duck.UBigInt:
		if !n.IsUint64() {
			return tooLarge
		}
		b.SetUint64(row, n.Uint64())
		return nil
	case duck.UHugeInt:
		if n.Sign() < 0 || n.BitLen() > 128 {
			return tooLarge
		}
	case duck.HugeInt:
		if n.BitLen() > 127 {
			return tooLarge
		}
	default:
		if len(new(big.Int).Abs(n).String()) > limit {
			return tooLarge
		}
	}
	if b.Type.ID == duck.Decimal && b.Type.Physical != duck.HugeInt {
		return setInt(b, row, n.Int64())
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	high := new(big.Int).Rsh(n, 64)
	if b.Type.ID == duck.UHugeInt {
		b.SetHuge(row, low, high.Uint64())
	} else {
		b.SetHuge(row, low, uint64(high.Int64()))
	}
	return nil
}

// round gives the unscaled number of another scale.
func (d decimal) round(scale int) *big.Int {
	ten := big.NewInt(10)
	if d.scale <= scale {
		return new(big.Int).Mul(d.unscaled, new(big.Int).Exp(ten, big.NewInt(int64(scale-d.scale)), nil))
	}
	unit := new(big.Int).Exp(ten, big.NewInt(int64(d.scale-scale)), nil)
	q, r := new(big.Int).QuoRem(d.unscaled, unit, new(big.Int))
	if r.Abs(r).Lsh(r, 1).Cmp(unit) >= 0 {
		q.Add(q, big.NewInt(int64(d.unscaled.Sign())))
	}
	return q
}

func textReader(t *duck.Type, zone *time.Location) Reader {
	switch t.ID {
	case duck.Varchar:
		if t.JSON {
			return setJSON
		}
		return setText
	case duck.Boolean:
		return func(b *duck.Builder, row int, raw []byte) error {
			v, ok := parseBool(strings.TrimSpace(string(raw)))
			if !ok {
				return syntax(t, string(raw))
			}
			b.SetBool(row, v)
			return nil
		}
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		return readInt
	case duck.UBigInt, duck.HugeInt, duck.UHugeInt, duck.Decimal:
		return readNumber
	case duck.Float, duck.Double:
		return readFloat
	case duck.Blob:
		return func(b *duck.Builder, row int, raw []byte) error {
			if rest, ok := bytes.CutPrefix(raw, []byte(`\x`)); ok {
				out, err := hex.AppendDecode(nil, rest)
				if err != nil {
					return syntax(t, string(raw))
				}
				b.SetBytes(row, out)
				return nil
			}
			out, err := unescapeBytes(string(raw))
			if err != nil {
				return syntax(t, string(raw))
			}
			b.SetBytes(row, out)
			return nil
		}
	case duck.UUID:
		return func(b *duck.Builder, row int, raw []byte) error {
			u, err := hex.DecodeString(strings.ReplaceAll(strings.Trim(strings.TrimSpace(string(raw)), "{}"), "-", ""))
			if err != nil || len(u) != 16 {
				return syntax(t, string(raw))
			}
			setUUID(b, row, u)
			return nil
		}
	case duck.Date:
		return func(b *duck.Builder, row int, raw []byte) error {
			if days, rest, ok := scanDate(raw); ok && len(rest) == 0 {
				b.SetInt(row, days)
				return nil
			}
			return ErrEngine
		}
	case duck.Time:
		return func(b *duck.Builder, row int, raw []byte) error {
			if us, rest, ok := scanTime(raw); ok && len(rest) == 0 {
				b.SetInt(row, us)
				return nil
			}
			return ErrEngine
		}
	case duck.Timestamp, duck.TimestampTZ:
		return func(b *duck.Builder, row int, raw []byte) error { return readTimestamp(b, row, raw, zone) }
	case duck.Enum:
		return setEnum
	case duck.TimeNS, duck.TimeTZ, duck.TimestampS, duck.TimestampMS, duck.TimestampNS, duck.Interval, duck.Bit:
		return func(*duck.Builder, int, []byte) error { return ErrEngine }
	}
	return nil
}

func readInt(b *duck.Builder, row int, raw []byte) error {
	if n, ok := scanInt(raw); ok {
		return setInt(b, row, n)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("value %q is out of range for type %s: %w", raw, strings.ToLower(b.Type.Name()), ErrRange)
	case err != nil:
		return syntax(b.Type, string(raw))
	}
	return setInt(b, row, n)
}

// scanInt reads up to 18 digits with a sign; false leaves the rest to others.
func scanInt(raw []byte) (int64, bool) {
	digits := raw
	if len(raw) > 0 && raw[0] == '-' {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(raw) {
		n = -n
	}
	return n, true
}

func readNumber(b *duck.Builder, row int, raw []byte) error {
	if b.Type.ID == duck.Decimal && b.Type.Physical != duck.HugeInt && len(raw) <= 18 {
		if n, ok := scanDecimal(raw, b.Type.Scale, b.Type.Width); ok {
			return setInt(b, row, n)
		}
	}
	d, err := parseNumeric(string(raw))
	if err != nil {
		if s := strings.TrimSpace(string(raw)); strings.EqualFold(s, "nan") || strings.HasSuffix(strings.ToLower(s), "infinity") {
			return fmt.Errorf("numeric %s: %w", s, ErrRange)
		}
		return syntax(b.Type, string(raw))
	}
	return setNumber(b, row, d)
}

// scanDecimal reads a plain number with no more digits behind the point than scale.
func scanDecimal(raw []byte, scale, width int) (int64, bool) {
	i, n, seen, behind := 0, int64(0), 0, -1
	if len(raw) > 0 && raw[0] == '-' {
		i = 1
	}
	for ; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '.' && behind < 0:
			behind = 0
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
			seen++
			if behind >= 0 {
				behind++
			}
		default:
			return 0, false
		}
	}
	behind = max(behind, 0)
	if seen == 0 || behind > scale || seen+scale-behind > min(width, 18) {
		return 0, false
	}
	for ; behind < scale; behind++ {
		n *= 10
	}
	if raw[0] == '-' {
		n = -n
	}
	return n, true
}

func readFloat(b *duck.Builder, row int, raw []byte) error {
	s := strings.TrimSpace(string(raw))
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("value %q is out of range for type %s: %w", raw, strings.ToLower(b.Type.Name()), ErrRange)
	case err != nil, strings.ContainsAny(s, "_xXpP"):
		return syntax(b.Type, string(raw))
	}
	return setFloat(b, row, f)
}

// scanDate reads YYYY-MM-DD.
func scanDate(raw []byte) (days int64, rest []byte, ok bool) {
	if len(raw) < 10 || raw[4] != '-' || raw[7] != '-' {
		return 0, nil, false
	}
	y, ok1 := scanInt(raw[:4])
	m, ok2 := scanInt(raw[5:7])
	d, ok3 := scanInt(raw[8:10])
	if !ok1 || !ok2 || !ok3 || y < 1 || m < 1 || m > 12 || d < 1 || d > 28 && d > monthDays(y, m) {
		return 0, nil, false
	}
	return daysOf(y, int(m), int(d)), raw[10:], true
}

func monthDays(y, m int64) int64 {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// scanTime reads HH:MM:SS with up to six digits behind a point.
func scanTime(raw []byte) (us int64, rest []byte, ok bool) {
	if len(raw) < 8 || raw[2] != ':' || raw[5] != ':' {
		return 0, nil, false
	}
	h, ok1 := scanInt(raw[:2])
	m, ok2 := scanInt(raw[3:5])
	s, ok3 := scanInt(raw[6:8])
	if !ok1 || !ok2 || !ok3 || h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 59 {
		return 0, nil, false
	}
	us = ((h*60+m)*60 + s) * 1_000_000
	rest = raw[8:]
	if len(rest) == 0 || rest[0] != '.' {
		return us, rest, true
	}
	rest = rest[1:]
	unit := int64(100_000)
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' {
		if unit == 0 {
			return 0, nil, false // to be rounded
		}
		us += int64(rest[0]-'0') * unit
		unit /= 10
		rest = rest[1:]
	}
	return us, rest, true
}

func readTimestamp(b *duck.Builder, row int, raw []byte, zone *time.Location) error {
	days, rest, ok := scanDate(raw)
	if !ok || len(rest) == 0 || rest[0] != ' ' && rest[0] != 'T' {
		return ErrEngine
	}
	us, rest, ok := scanTime(rest[1:])
	if !ok {
		return ErrEngine
	}
	us += days * dayMicros
	if b.Type.ID == duck.Timestamp {
		if len(rest) > 0 {
			return ErrEngine
		}
		b.SetInt(row, us)
		return nil
	}
	if len(rest) == 0 {
		if zone != time.UTC {
			return ErrEngine
		}
		b.SetInt(row, us)
		return nil
	}
	east, ok := scanOffset(rest)
	if !ok {
		return ErrEngine
	}
	b.SetInt(row, us-east*1_000_000)
	return nil
}

// scanOffset reads Z, ±HH, ±HHMM or ±HH:MM as seconds east of UTC.
func scanOffset(raw []byte) (int64, bool) {
	if string(raw) == "Z" {
		return 0, true
	}
	if raw[0] != '+' && raw[0] != '-' {
		return 0, false
	}
	digits := bytes.ReplaceAll(raw[1:], []byte{':'}, nil)
	n, ok := scanInt(digits)
	switch {
	case !ok || n < 0:
		return 0, false
	case len(digits) == 2:
		n *= 3600
	case len(digits) == 4:
		n = n/100*3600 + n%100*60
	default:
		return 0, false
	}
	if n > 16*3600 {
		return 0, false
	}
	if raw[0] == '-' {
		n = -n
	}
	return n, true
}

func binaryReader(t *duck.Type) Reader {
	sized := func(n int, set func(b *duck.Builder, row int, raw []byte) error) Reader {
		return func(b *duck.Builder, row int, raw []byte) error {
			if len(raw) != n {
				return ErrEngine
			}
			return set(b, row, raw)
		}
	}
	switch t.ID {
	case duck.Varchar:
		if !t.JSON {
			return setText
		}
		return func(b *duck.Builder, row int, raw []byte) error {
			return setJSON(b, row, bytes.TrimPrefix(raw, []byte{1})) // jsonb, version 1
		}
	case duck.Enum:
		return setEnum
	case duck.Blob:
		return func(b *duck.Builder, row int, raw []byte) error { b.SetBytes(row, raw); return nil }
	case duck.Boolean:
		return sized(1, func(b *duck.Builder, row int, raw []byte) error { b.SetBool(row, raw[0] != 0); return nil })
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		return func(b *duck.Builder, row int, raw []byte) error {
			switch len(raw) {
			case 2:
				return setInt(b, row, int64(int16(be.Uint16(raw))))
			case 4:
				return setInt(b, row, int64(int32(be.Uint32(raw))))
			case 8:
				return setInt(b, row, int64(be.Uint64(raw)))
			}
			return ErrEngine
		}
	case duck.UBigInt, duck.HugeInt, duck.UHugeInt, duck.Decimal:
		return func(b *duck.Builder, row int, raw []byte) error {
			d, err := decodeNumeric(raw)
			if err != nil {
				return err
			}
			return setNumber(b, row, d)
		}
	case duck.Float, duck.Double:
		return func(b *duck.Builder, row int, raw []byte) error {
			switch len(raw) {
			case 4:
				return setFloat(b, row, float64(math.Float32frombits(be.Uint32(raw))))
			case 8:
				return setFloat(b, row, math.Float64frombits(be.Uint64(raw)))
			}
			return ErrEngine
		}
	case duck.UUID:
		return sized(16, func(b *duck.Builder, row int, raw []byte) error { setUUID(b, row, raw); return nil })
	case duck.Date:
		return sized(4, func(b *duck.Builder, row int, raw []byte) error {
			days, err := engineDate(int32(be.Uint32(raw)))
			b.SetInt(row, days)
			return err
		})
	case duck.Time:
		return sized(8, func(b *duck.Builder, row int, raw []byte) error {
			us := int64(be.Uint64(raw))
			if us < 0 || us > dayMicros {
				return fmt.Errorf("time out of range: %w", ErrDatetime)
			}
			b.SetInt(row, us)
			return nil
		})
	case duck.Timestamp, duck.TimestampTZ, duck.TimestampS, duck.TimestampMS:
		return sized(8, func(b *duck.Builder, row int, raw []byte) error {
			us, err := engineTimestamp(int64(be.Uint64(raw)))
			if us != infiniteTime && us != -infiniteTime {
				switch t.ID {
				case duck.TimestampS:
					us = floorDiv(us, 1_000_000)
				case duck.TimestampMS:
					us = floorDiv(us, 1000)
				}
			}
			b.SetInt(row, us)
			return err
		})
	case duck.Interval:
		return sized(16, func(b *duck.Builder, row int, raw []byte) error {
			b.SetInterval(row, int32(be.Uint32(raw[12:])), int32(be.Uint32(raw[8:])), int64(be.Uint64(raw)))
			return nil
		})
	}
	return nil
}

func arrayReaderText(elem Reader) Reader {
	return func(b *duck.Builder, row int, raw []byte) error {
		s := strings.TrimSpace(string(raw))
		bad := fmt.Errorf("%w: malformed array literal", ErrSyntax)
		if !strings.HasPrefix(s, "{") {
			return bad
		}
		items, ok := SplitArray(s)
		if !ok {
			return bad
		}
		child, from := b.SetList(row, len(items))
		for i, it := range items {
			if it == nil {
				child.SetNull(from + i)
			} else if err := elem(child, from+i, []byte(*it)); err != nil {
				return err
			}
		}
		return nil
	}
}

func arrayReaderBinary(elem Reader) Reader {
	return func(b *duck.Builder, row int, raw []byte) error {
		items, err := splitBinaryArray(raw)
		if err != nil {
			return err
		}
		child, from := b.SetList(row, len(items))
		for i, it := range items {
			if it == nil {
				child.SetNull(from + i)
			} else if err := elem(child, from+i, it); err != nil {
				return err
			}
		}
		return nil
	}
}
