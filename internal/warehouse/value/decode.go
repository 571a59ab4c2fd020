package value

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/internal/warehouse/duck"
)

// ErrEngine says that a text is left to the engine to read: bind it as VARCHAR and cast it to the parameter's type. The
// engine knows more spellings than this package, and the session's time zone.
var ErrEngine = errors.New("the engine reads this text")

// Decode reads a parameter, not NULL, as a value of the type that the engine expects, t. declared is the OID of the Parse
// message, 0 if there was none; it matters where it is text, which is sent alike in both formats.
func Decode(t *duck.Type, declared uint32, format int16, raw []byte) (duck.Value, error) {
	switch format {
	case Text:
		return decodeText(t, raw)
	case Binary:
		switch declared {
		case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.UnknownOID:
			return decodeText(t, raw)
		}
		return decodeBinary(t, raw)
	}
	return duck.Value{}, fmt.Errorf("read parameter: format code %d: %w", format, ErrType)
}

func syntax(t *duck.Type, s string) error {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Errorf("%w syntax for type %s: %q", ErrSyntax, strings.ToLower(t.Name()), s)
}

func validText(raw []byte) (duck.Value, error) {
	if !utf8.Valid(raw) {
		return duck.Value{}, fmt.Errorf("%w byte sequence for encoding UTF8", ErrSyntax)
	}
	return duck.TextValue(string(raw)), nil
}

func decodeText(t *duck.Type, raw []byte) (duck.Value, error) {
	s := string(raw)
	trimmed := strings.TrimSpace(s)
	switch t.ID {
	case duck.Varchar, duck.Enum, duck.Invalid, duck.SQLNull:
		return validText(raw)
	case duck.Boolean:
		if b, ok := parseBool(trimmed); ok {
			return duck.BoolValue(b), nil
		}
		return duck.Value{}, syntax(t, s)
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			return duck.Value{}, fmt.Errorf("value %q is out of range for type %s: %w", s, strings.ToLower(t.Name()), ErrRange)
		}
		if err != nil {
			return duck.Value{}, ErrEngine
		}
		return intValue(t, n)
	case duck.UBigInt, duck.HugeInt, duck.UHugeInt, duck.Decimal:
		d, err := parseNumeric(s)
		if err != nil {
			return duck.Value{}, ErrEngine
		}
		return d.value(t)
	case duck.Float, duck.Double:
		f, err := strconv.ParseFloat(trimmed, 64)
		if err != nil {
			return duck.Value{}, ErrEngine
		}
		if t.ID == duck.Float {
			return duck.Float32Value(float32(f)), nil
		}
		return duck.Float64Value(f), nil
	case duck.Blob:
		if rest, ok := strings.CutPrefix(s, `\x`); ok {
			b, err := hex.DecodeString(rest)
			if err != nil {
				return duck.Value{}, syntax(t, s)
			}
			return duck.BlobValue(b), nil
		}
		b, err := unescapeBytes(s)
		if err != nil {
			return duck.Value{}, syntax(t, s)
		}
		return duck.BlobValue(b), nil
	case duck.UUID:
		b, err := hex.DecodeString(strings.ReplaceAll(strings.Trim(trimmed, "{}"), "-", ""))
		if err != nil || len(b) != 16 {
			return duck.Value{}, syntax(t, s)
		}
		return duck.UUIDValue([16]byte(b)), nil
	case duck.Date:
		if d, err := time.Parse("2006-01-02", s); err == nil {
			return duck.DateValue(int32(floorDiv(d.Unix(), 86400))), nil
		}
	case duck.Timestamp:
		if ts, err := time.Parse("2006-01-02 15:04:05", s); err == nil {
			return duck.TimestampValue(t.ID, ts.UnixMicro()), nil
		}
	case duck.TimestampTZ:
		for _, layout := range []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07", "2006-01-02T15:04:05Z07:00"} {
			if ts, err := time.Parse(layout, s); err == nil {
				return duck.TimestampValue(t.ID, ts.UnixMicro()), nil
			}
		}
	case duck.List, duck.Array:
		if _, ok := scalarOf(t.Child); ok && strings.HasPrefix(trimmed, "{") {
			return arrayFromText(t, trimmed)
		}
	}
	return duck.Value{}, ErrEngine
}

func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "t", "true", "y", "yes", "on", "1":
		return true, true
	case "f", "false", "n", "no", "off", "0":
		return false, true
	}
	return false, false
}

// intValue makes an integer of type t; one that does not fit stays what it is, so that a comparison with it is right.
func intValue(t *duck.Type, n int64) (duck.Value, error) {
	if v, err := duck.IntValue(t.ID, n); err == nil {
		return v, nil
	}
	return duck.IntValue(duck.BigInt, n)
}

// unescapeBytes reads bytea's old text form: \\ and \ooo.
func unescapeBytes(s string) ([]byte, error) {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '\\' {
			out = append(out, '\\')
			i++
			continue
		}
		if i+3 >= len(s) {
			return nil, ErrSyntax
		}
		n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
		if err != nil {
			return nil, ErrSyntax
		}
		out = append(out, byte(n))
		i += 3
	}
	return out, nil
}

func arrayFromText(t *duck.Type, s string) (duck.Value, error) {
	items, ok := SplitArray(s)
	if !ok {
		return duck.Value{}, fmt.Errorf("%w: malformed array literal", ErrSyntax)
	}
	return listOf(t, len(items), func(i int) (duck.Value, error) {
		if items[i] == nil {
			return duck.NullValue(), nil
		}
		return decodeText(t.Child, []byte(*items[i]))
	})
}

func listOf(t *duck.Type, n int, item func(int) (duck.Value, error)) (duck.Value, error) {
	values := make([]duck.Value, 0, n)
	defer func() {
		for _, v := range values {
			v.Close()
		}
	}()
	for i := range n {
		v, err := item(i)
		if err != nil {
			return duck.Value{}, err
		}
		values = append(values, v)
	}
	return duck.ListValue(t.Child, values)
}

// SplitArray takes {a,"b c",NULL} apart; nil is NULL. Arrays in arrays are not read.
func SplitArray(s string) ([]*string, bool) {
	if s = strings.TrimSpace(s); !strings.HasPrefix(s, "{") {
		return nil, false
	}
	s = strings.TrimSpace(s[1:])
	if s == "}" {
		return nil, true
	}
	var out []*string
	for {
		s = strings.TrimLeft(s, " \t\n\r")
		var b strings.Builder
		quoted := strings.HasPrefix(s, `"`)
		i := 0
		if quoted {
			for i = 1; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' && i+1 < len(s) {
					i++
				}
				b.WriteByte(s[i])
			}
			i++
		} else {
			for ; i < len(s) && s[i] != ',' && s[i] != '}'; i++ {
				if s[i] == '{' || s[i] == '"' {
					return nil, false
				}
				if s[i] == '\\' && i+1 < len(s) {
					i++
				}
				b.WriteByte(s[i])
			}
		}
		if i >= len(s) {
			return nil, false
		}
		item := b.String()
		if !quoted {
			item = strings.TrimSpace(item)
		}
		if !quoted && strings.EqualFold(item, "null") {
			out = append(out, nil)
		} else {
			out = append(out, &item)
		}
		rest := strings.TrimLeft(s[i:], " \t\n\r")
		switch {
		case strings.TrimSpace(rest) == "}":
			return out, true
		case strings.HasPrefix(rest, ","):
			s = rest[1:]
		default:
			return nil, false
		}
	}
}

func decodeBinary(t *duck.Type, raw []byte) (duck.Value, error) {
	wrong := fmt.Errorf("binary %s of %d bytes: %w", strings.ToLower(t.Name()), len(raw), ErrSyntax)
	size := func(n int) bool { return len(raw) == n }
	switch t.ID {
	case duck.Varchar, duck.Enum:
		if t.JSON && len(raw) > 0 && raw[0] == 1 { // jsonb, version 1
			raw = raw[1:]
		}
		return validText(raw)
	case duck.Boolean:
		if size(1) {
			return duck.BoolValue(raw[0] != 0), nil
		}
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		switch len(raw) {
		case 2:
			return intValue(t, int64(int16(be.Uint16(raw))))
		case 4:
			return intValue(t, int64(int32(be.Uint32(raw))))
		case 8:
			return intValue(t, int64(be.Uint64(raw)))
		}
	case duck.UBigInt, duck.HugeInt, duck.UHugeInt, duck.Decimal, duck.BigNum:
		d, err := decodeNumeric(raw)
		if err != nil {
			return duck.Value{}, err
		}
		return d.value(t)
	case duck.Float, duck.Double:
		var f float64
		switch len(raw) {
		case 4:
			f = float64(math.Float32frombits(be.Uint32(raw)))
		case 8:
			f = math.Float64frombits(be.Uint64(raw))
		default:
			return duck.Value{}, wrong
		}
		if t.ID == duck.Float {
			return duck.Float32Value(float32(f)), nil
		}
		return duck.Float64Value(f), nil
	case duck.Blob, duck.Geometry:
		return duck.BlobValue(raw), nil
	case duck.UUID:
		if size(16) {
			return duck.UUIDValue([16]byte(raw)), nil
		}
	case duck.Date:
		if size(4) {
			return dateFrom(int32(be.Uint32(raw)))
		}
	case duck.Time, duck.TimeNS:
		if size(8) {
			return duck.TimeValue(int64(be.Uint64(raw))), nil
		}
	case duck.Timestamp, duck.TimestampS, duck.TimestampMS, duck.TimestampNS, duck.TimestampTZ:
		if size(8) {
			return timestampFrom(t.ID, int64(be.Uint64(raw)))
		}
	case duck.Interval:
		if size(16) {
			return duck.IntervalValue(int32(be.Uint32(raw[12:])), int32(be.Uint32(raw[8:])), int64(be.Uint64(raw))), nil
		}
	case duck.List, duck.Array:
		return arrayFromBinary(t, raw)
	case duck.Struct, duck.Map, duck.Union:
		if len(raw) > 0 && raw[0] == 1 {
			return duck.Value{}, ErrEngine
		}
	}
	return duck.Value{}, wrong
}

func dateFrom(days int32) (duck.Value, error) {
	d, err := engineDate(days)
	if err != nil {
		return duck.Value{}, err
	}
	return duck.DateValue(int32(d)), nil
}

// engineDate gives a date of PostgreSQL's as the engine stores it.
func engineDate(days int32) (int64, error) {
	switch {
	case days == math.MaxInt32:
		return infiniteDay, nil
	case days == math.MinInt32:
		return -infiniteDay, nil
	case int64(days)+epochDays > maxDay:
		return 0, dayError()
	}
	return int64(days) + epochDays, nil
}

func timestampFrom(id duck.TypeID, us int64) (duck.Value, error) {
	n, err := engineTimestamp(us)
	if err != nil {
		return duck.Value{}, err
	}
	return duck.TimestampValue(id, n), nil
}

// engineTimestamp gives a timestamp of PostgreSQL's as the engine stores it.
func engineTimestamp(us int64) (int64, error) {
	switch us {
	case math.MaxInt64:
		return infiniteTime, nil
	case math.MinInt64:
		return -infiniteTime, nil
	}
	if us > infiniteTime-1-epochMicros {
		return 0, timeError()
	}
	return us + epochMicros, nil
}

func arrayFromBinary(t *duck.Type, raw []byte) (duck.Value, error) {
	if _, ok := scalarOf(t.Child); !ok {
		return duck.Value{}, fmt.Errorf("a parameter of type %s: %w", t.Name(), ErrType)
	}
	items, err := splitBinaryArray(raw)
	if err != nil {
		return duck.Value{}, err
	}
	return listOf(t, len(items), func(i int) (duck.Value, error) {
		if items[i] == nil {
			return duck.NullValue(), nil
		}
		return decodeBinary(t.Child, items[i])
	})
}

// splitBinaryArray reads ndim, flags, element OID, then per dimension size and lower bound, then the elements; nil is NULL.
func splitBinaryArray(raw []byte) ([][]byte, error) {
	bad := fmt.Errorf("binary array of %d bytes: %w", len(raw), ErrSyntax)
	if len(raw) < 12 {
		return nil, bad
	}
	dims := be.Uint32(raw)
	if dims == 0 {
		return nil, nil
	}
	if dims != 1 || len(raw) < 20 {
		return nil, fmt.Errorf("an array of %d dimensions: %w", dims, ErrType)
	}
	n := int(be.Uint32(raw[12:]))
	raw = raw[20:]
	if n > len(raw)/4 { // each element has at least its length
		return nil, bad
	}
	items := make([][]byte, n)
	for i := range items {
		if len(raw) < 4 {
			return nil, bad
		}
		size := int32(be.Uint32(raw))
		raw = raw[4:]
		if size < 0 {
			continue
		}
		if int(size) > len(raw) {
			return nil, bad
		}
		items[i] = raw[:size:size]
		raw = raw[size:]
	}
	return items, nil
}

// FromVector makes a value of a cell that the engine has read from a text (see ErrEngine).
func FromVector(v *duck.Vector, row int) (duck.Value, error) {
	if v.Null(row) {
		return duck.NullValue(), nil
	}
	switch v.Type.ID {
	case duck.Boolean:
		return duck.BoolValue(v.Bool(row)), nil
	case duck.TinyInt, duck.SmallInt, duck.Integer, duck.BigInt, duck.UTinyInt, duck.USmallInt, duck.UInteger:
		return duck.IntValue(v.Type.ID, v.Int(row))
	case duck.Decimal:
		return duck.DecimalValue(v.Type.Width, v.Type.Scale, v.Big(row)), nil
	case duck.HugeInt, duck.UHugeInt, duck.UBigInt:
		return duck.BigValue(v.Type.ID, new(big.Int).Set(v.Big(row)))
	case duck.Float:
		return duck.Float32Value(v.Float32(row)), nil
	case duck.Double:
		return duck.Float64Value(v.Float64(row)), nil
	case duck.Date:
		return duck.DateValue(int32(v.Int(row))), nil
	case duck.Time:
		return duck.TimeValue(v.Int(row)), nil
	case duck.Timestamp, duck.TimestampTZ:
		return duck.TimestampValue(v.Type.ID, v.Int(row)), nil
	case duck.Interval:
		return duck.IntervalValue(v.Interval(row)), nil
	case duck.Varchar:
		return duck.TextValue(string(v.Bytes(row))), nil
	}
	return duck.Value{}, fmt.Errorf("a parameter of type %s: %w", v.Type.Name(), ErrType)
}
