package value

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"sluice/internal/warehouse/duck"
)

// Binary numerics: what pgx, an implementation of its own, reads from ours and writes for us.
func TestNumericBinary(t *testing.T) {
	t.Parallel()
	m := pgtype.NewMap()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "digits")
		scale := rapid.IntRange(0, 38).Draw(t, "scale")
		negative := rapid.Bool().Draw(t, "negative")
		n, _ := new(big.Int).SetString(digits, 10)
		ours := encodeNumeric(nil, []byte(n.String()), negative, scale)

		var got pgtype.Numeric
		if err := m.Scan(pgtype.NumericOID, pgtype.BinaryFormatCode, ours, &got); err != nil {
			t.Fatal(err)
		}
		if negative {
			n.Neg(n)
		}
		want := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
		if have := rat(got.Int, -int(got.Exp)); have.Cmp(want) != 0 {
			t.Fatalf("%s with scale %d reads as %s", n, scale, have)
		}

		theirs, err := m.Encode(pgtype.NumericOID, pgtype.BinaryFormatCode, pgtype.Numeric{Int: n, Exp: -int32(scale), Valid: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := decodeNumeric(theirs)
		if err != nil || rat(d.unscaled, d.scale).Cmp(want) != 0 {
			t.Fatalf("%x read as %v, %v", theirs, d, err)
		}
	})
}

func rat(n *big.Int, scale int) *big.Rat {
	ten := big.NewInt(10)
	if scale < 0 {
		return new(big.Rat).SetInt(new(big.Int).Mul(n, ten.Exp(ten, big.NewInt(int64(-scale)), nil)))
	}
	return new(big.Rat).SetFrac(n, ten.Exp(ten, big.NewInt(int64(scale)), nil))
}

func TestParseNumeric(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0/1", "-1.50": "-3/2", "+7": "7/1", "1e3": "1000/1", "1.25E-2": "1/80", ".5": "1/2", "5.": "5/1", " 12 ": "12/1", "-0.000": "0/1",
	} {
		d, err := parseNumeric(in)
		if err != nil || rat(d.unscaled, d.scale).String() != want {
			t.Errorf("%q: %v, %v", in, d, err)
		}
	}
	for _, in := range []string{"", "x", "1.2.3", "1e", "1e9999", "--1", "NaN", "1 2", "0x1", strings.Repeat("9", 3000)} {
		if _, err := parseNumeric(in); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestCivil(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int64Range(-2147483647, 2147483647).Draw(t, "days")
		if y, m, d := civil(days); daysOf(y, m, d) != days || m < 1 || m > 12 || d < 1 || d > 31 {
			t.Fatalf("day %d is %d-%d-%d", days, y, m, d)
		}
	})
}

func TestSplitArray(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{}": "", "{ }": "", "{1,2}": "1|2", `{a, "b,c" ,NULL,"NULL"}`: "a|b,c|<nil>|NULL", `{"q\"u\\"}`: `q"u\`, `{""}`: "", `{a\,b}`: "a,b",
	} {
		items, ok := SplitArray(in)
		var got []string
		for _, s := range items {
			if s == nil {
				got = append(got, "<nil>")
			} else {
				got = append(got, *s)
			}
		}
		if !ok || strings.Join(got, "|") != want {
			t.Errorf("%s: %q %v", in, got, ok)
		}
	}
	for _, in := range []string{"{", "{1", "{1,2}}", "{{1},{2}}", `{"a}`, `{"a"b}`, "{1}x"} {
		if items, ok := SplitArray(in); ok {
			t.Errorf("%s was read as %d items", in, len(items))
		}
	}
}

// FuzzDecode checks that no parameter makes the decoders panic.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(0), int16(1), []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7})
	f.Add(uint8(1), int16(0), []byte(`{1,"2",NULL}`))
	f.Add(uint8(2), int16(1), []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 7})
	f.Add(uint8(3), int16(0), []byte(`\x00ff`))
	integer := &duck.Type{ID: duck.Integer, Physical: duck.Integer}
	types := []*duck.Type{
		{ID: duck.List, Child: integer},
		{ID: duck.Decimal, Width: 10, Scale: 2},
		{ID: duck.HugeInt},
		{ID: duck.Blob},
		{ID: duck.Varchar},
		{ID: duck.Varchar, JSON: true},
		integer,
		{ID: duck.Date},
		{ID: duck.Timestamp},
		{ID: duck.TimestampTZ},
		{ID: duck.Time},
		{ID: duck.Interval},
		{ID: duck.UUID},
		{ID: duck.Boolean},
		{ID: duck.Double},
		{ID: duck.List, Child: &duck.Type{ID: duck.Decimal, Width: 4, Scale: 1}},
		{ID: duck.UTinyInt},
	}
	f.Fuzz(func(_ *testing.T, which uint8, format int16, raw []byte) {
		if v, err := Decode(types[int(which)%len(types)], 0, format&1, raw); err == nil {
			v.Close()
		}
		_, _ = Literal(uint32(which), format&1, raw)
	})
}
