package value

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"sluice/internal/warehouse/duck"
)

const (
	numericNegative = 0x4000
	numericBase     = 4 // decimal digits per digit of the binary format
)

// unscaled gives the decimal digits of the row's value without sign and point.
func unscaled(buf []byte, v *duck.Vector, row int) (digits []byte, negative bool, scale int) {
	if v.Type.ID == duck.Decimal {
		scale = v.Type.Scale
	}
	if v.Type.ID == duck.Decimal && v.Type.Physical != duck.HugeInt {
		n := v.Int(row)
		if n < 0 { // no DECIMAL of 18 digits reaches the one value that has no positive counterpart
			return strconv.AppendInt(buf, -n, 10), true, scale
		}
		return strconv.AppendInt(buf, n, 10), false, scale
	}
	n := v.Big(row)
	negative = n.Sign() < 0
	return n.Abs(n).Append(buf, 10), negative, scale
}

func appendNumeric(dst []byte, v *duck.Vector, row int) ([]byte, error) {
	var buf [48]byte
	digits, negative, scale := unscaled(buf[:0], v, row)
	if negative {
		dst = append(dst, '-')
	}
	if scale == 0 {
		return append(dst, digits...), nil
	}
	whole := len(digits) - scale
	if whole <= 0 {
		dst = append(dst, '0', '.')
		for range -whole {
			dst = append(dst, '0')
		}
		return append(dst, digits...), nil
	}
	dst = append(dst, digits[:whole]...)
	return append(append(dst, '.'), digits[whole:]...), nil
}

func binaryNumeric(dst []byte, v *duck.Vector, row int) ([]byte, error) {
	var buf [48]byte
	digits, negative, scale := unscaled(buf[:0], v, row)
	return encodeNumeric(dst, digits, negative, scale), nil
}

// encodeNumeric writes ndigits, weight, sign, dscale and the digits to base 10,000: the value is the sum of
// digit[i] · 10000^(weight−i). Zeros at both ends are left out.
func encodeNumeric(dst, digits []byte, negative bool, scale int) []byte {
	var groups [24]uint16
	out := groups[:0]
	whole := len(digits) - scale
	weight := (whole+numericBase-1)/numericBase - 1
	if whole <= 0 {
		weight = -(-whole / numericBase) - 1
	}
	// The first digit stands at the place 10^(whole-1); the first group begins at 10^(4·weight+3).
	lead := (weight+1)*numericBase - whole
	for i := -lead; i < len(digits); i += numericBase {
		var g uint16
		for j := i; j < i+numericBase; j++ {
			g *= 10
			if j >= 0 && j < len(digits) {
				g += uint16(digits[j] - '0')
			}
		}
		out = append(out, g)
	}
	for len(out) > 0 && out[0] == 0 {
		out, weight = out[1:], weight-1
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	sign := uint16(0)
	if len(out) == 0 {
		weight = 0
	} else if negative {
		sign = numericNegative
	}
	dst = be.AppendUint16(dst, uint16(len(out)))
	dst = be.AppendUint16(dst, uint16(weight))
	dst = be.AppendUint16(be.AppendUint16(dst, sign), uint16(scale))
	for _, g := range out {
		dst = be.AppendUint16(dst, g)
	}
	return dst
}

// decimal is a number as clients send it: unscaled · 10^−scale.
type decimal struct {
	unscaled *big.Int
	scale    int
}

func decodeNumeric(b []byte) (decimal, error) {
	if len(b) < 8 || len(b) != 8+2*int(be.Uint16(b)) {
		return decimal{}, fmt.Errorf("binary numeric of %d bytes: %w", len(b), ErrSyntax)
	}
	weight, sign, scale := int(int16(be.Uint16(b[2:]))), be.Uint16(b[4:]), int(be.Uint16(b[6:]))
	if sign != 0 && sign != numericNegative {
		return decimal{}, fmt.Errorf("numeric NaN or infinity: %w", ErrRange)
	}
	n := (len(b) - 8) / 2
	if weight > 40 || n > 40 || scale > 1000 || weight < -300 {
		return decimal{}, fmt.Errorf("numeric with more than 38 digits: %w", ErrRange)
	}
	u := new(big.Int)
	for i := range n {
		g := be.Uint16(b[8+2*i:])
		if g > 9999 {
			return decimal{}, fmt.Errorf("binary numeric digit %d: %w", g, ErrSyntax)
		}
		u.Add(u.Mul(u, big.NewInt(10000)), big.NewInt(int64(g)))
	}
	if sign == numericNegative {
		u.Neg(u)
	}
	// u stands at the place 10000^(weight-n+1); bring it to 10^-scale.
	return decimal{u, -numericBase * (weight - n + 1)}.rescale(scale), nil
}

func parseNumeric(s string) (decimal, error) {
	s = strings.TrimSpace(s)
	mantissa, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exp, err = strconv.Atoi(s[i+1:]); err != nil || exp > 1000 || exp < -1000 {
			return decimal{}, fmt.Errorf("%q as numeric: %w", s, ErrSyntax)
		}
		mantissa = s[:i]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	if len(mantissa) > 2000 || strings.Trim(strings.TrimLeft(whole, "+-")+frac, "0123456789") != "" {
		return decimal{}, fmt.Errorf("%q as numeric: %w", s, ErrSyntax)
	}
	u, ok := new(big.Int).SetString(whole+frac, 10)
	if !ok {
		return decimal{}, fmt.Errorf("%q as numeric: %w", s, ErrSyntax)
	}
	d := decimal{u, len(frac) - exp}
	if d.scale < 0 {
		d = d.rescale(0)
	}
	return d, nil
}

// rescale changes the scale; it drops only zeros, and keeps the scale that it needs.
func (d decimal) rescale(scale int) decimal {
	ten := big.NewInt(10)
	u := new(big.Int).Set(d.unscaled)
	for d.scale < scale {
		u.Mul(u, ten)
		d.scale++
	}
	for d.scale > scale {
		q, r := new(big.Int).QuoRem(u, ten, new(big.Int))
		if r.Sign() != 0 {
			break
		}
		u, d.scale = q, d.scale-1
	}
	return decimal{u, d.scale}
}

func (d decimal) digits() int { return len(new(big.Int).Abs(d.unscaled).String()) }

// value makes the number a value of t, or of the smallest DECIMAL that holds it where t would round it.
func (d decimal) value(t *duck.Type) (duck.Value, error) {
	if t.ID != duck.Decimal {
		if n := d.rescale(0); n.scale == 0 {
			if v, err := duck.BigValue(t.ID, n.unscaled); err == nil {
				return v, nil
			}
		}
	} else if n := d.rescale(t.Scale); n.scale == t.Scale && n.digits() <= t.Width {
		return duck.DecimalValue(t.Width, t.Scale, n.unscaled), nil
	}
	width := max(d.digits(), d.scale)
	if width > 38 {
		return duck.Value{}, fmt.Errorf("numeric with %d digits: %w", width, ErrRange)
	}
	return duck.DecimalValue(width, d.scale, d.unscaled), nil
}
