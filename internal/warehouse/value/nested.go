package value

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"sluice/internal/warehouse/duck"
)

func arrayBinary(elem uint32, enc Encoder) Encoder {
	return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
		child, from, to := v.List(row)
		if from == to { // an array without dimensions
			return be.AppendUint32(be.AppendUint64(dst, 0), elem), nil
		}
		dst = be.AppendUint32(dst, 1)
		flags := len(dst)
		dst = be.AppendUint32(be.AppendUint32(dst, 0), elem)
		dst = be.AppendUint32(be.AppendUint32(dst, uint32(to-from)), 1)
		for i := from; i < to; i++ {
			if child.Null(i) {
				dst[flags+3] = 1
				dst = be.AppendUint32(dst, math.MaxUint32)
				continue
			}
			at := len(dst)
			var err error
			if dst, err = enc(be.AppendUint32(dst, 0), child, i); err != nil {
				return dst, err
			}
			be.PutUint32(dst[at:], uint32(len(dst)-at-4))
		}
		return dst, nil
	}
}

func arrayText(enc Encoder) Encoder {
	return func(dst []byte, v *duck.Vector, row int) ([]byte, error) {
		child, from, to := v.List(row)
		dst = append(dst, '{')
		var elem []byte
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ',')
			}
			if child.Null(i) {
				dst = append(dst, "NULL"...)
				continue
			}
			var err error
			if elem, err = enc(elem[:0], child, i); err != nil {
				return dst, err
			}
			dst = appendElement(dst, elem)
		}
		return append(dst, '}'), nil
	}
}

// appendElement writes an array's element, quoted where PostgreSQL quotes.
func appendElement(dst, e []byte) []byte {
	quote := len(e) == 0 || len(e) == 4 && (e[0]|0x20) == 'n' && (e[1]|0x20) == 'u' && (e[2]|0x20) == 'l' && (e[3]|0x20) == 'l'
	for _, c := range e {
		switch c {
		case '{', '}', ',', '"', '\\', ' ', '\t', '\n', '\r', '\v', '\f':
			quote = true
		}
	}
	if !quote {
		return append(dst, e...)
	}
	dst = append(dst, '"')
	for _, c := range e {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// appendJSON writes any value, NULL too, as JSON: what PostgreSQL has no type for reaches clients as jsonb. Numbers keep all
// their digits; what JSON has no form for is a string as it would be in text.
func appendJSON(dst []byte, v *duck.Vector, row int, zone *time.Location) ([]byte, error) {
	if v.Null(row) {
		return append(dst, "null"...), nil
	}
	switch v.Type.ID {
	case duck.List, duck.Array:
		child, from, to := v.List(row)
		return appendItems(dst, '[', ']', to-from, func(dst []byte, i int) ([]byte, error) {
			return appendJSON(dst, child, from+i, zone)
		})
	case duck.Struct:
		return appendItems(dst, '{', '}', len(v.Type.Fields), func(dst []byte, i int) ([]byte, error) {
			dst = append(appendString(dst, []byte(v.Type.Fields[i].Name)), ':')
			return appendJSON(dst, v.Field(i), row, zone)
		})
	case duck.Map:
		child, from, to := v.List(row)
		return appendItems(dst, '{', '}', to-from, func(dst []byte, i int) ([]byte, error) {
			key, err := appendJSON(nil, child.Field(0), from+i, zone)
			if err != nil {
				return dst, err
			}
			if len(key) == 0 || key[0] != '"' { // a key is always a string
				key = appendString(nil, key)
			}
			return appendJSON(append(append(dst, key...), ':'), child.Field(1), from+i, zone)
		})
	case duck.Union:
		return appendJSON(dst, v.Union(row), row, zone)
	case duck.Variant, duck.Invalid:
		return dst, fmt.Errorf("encode a value of type %s: %w", v.Type.Name(), ErrType)
	case duck.Boolean:
		if v.Bool(row) {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	}
	text, err := textEncoder(v.Type, zone)(nil, v, row)
	if err != nil {
		return dst, err
	}
	switch s, _ := scalarOf(v.Type); {
	case v.Type.JSON:
		return append(dst, text...), nil
	case numeric[v.Type.ID] && json.Valid(text), s.oid == 0:
		return append(dst, text...), nil
	}
	return appendString(dst, text), nil
}

var numeric = map[duck.TypeID]bool{
	duck.TinyInt: true, duck.SmallInt: true, duck.Integer: true, duck.BigInt: true, duck.UTinyInt: true, duck.USmallInt: true,
	duck.UInteger: true, duck.UBigInt: true, duck.HugeInt: true, duck.UHugeInt: true, duck.BigNum: true, duck.Decimal: true,
	duck.Float: true, duck.Double: true,
}

func appendItems(dst []byte, open, end byte, n int, item func([]byte, int) ([]byte, error)) ([]byte, error) {
	dst = append(dst, open)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = item(dst, i); err != nil {
			return dst, err
		}
	}
	return append(dst, end), nil
}

func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
