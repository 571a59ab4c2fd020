package dv_test

import (
	"slices"
	"testing"

	"sluice/internal/delta/dv"
)

// The vectors of the protocol's text, and of public tables.
func TestVectorsOfTheProtocol(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"vBn[lx{q8@P<9BNH/isA":   "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
		"ab^-aqEH.-t@S}K{vb[*k^": "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
	} {
		if got, err := dv.File(text); err != nil || got != want {
			t.Errorf("File(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, c := range []struct {
		text string
		size int64
		want []int64
	}{
		{"^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44, []int64{3, 4, 7, 11, 18, 29}},
		{"^Bg9^0rr910000000000iXQKl0rr91000935c8Xg000311onP9", 40, []int64{0, 1, 4, 5}},
	} {
		payload, err := dv.Inline(c.text, c.size)
		if err != nil {
			t.Fatal(err)
		}
		v, err := dv.Decode(payload, int64(len(c.want)), 30)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(v.Positions()); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	if _, err := dv.Inline("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", 34); err == nil {
		t.Error("a group above 32 bits is accepted")
	}
}
