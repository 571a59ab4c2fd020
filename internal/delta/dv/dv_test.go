package dv_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"sluice/internal/delta/dv"
	"sluice/internal/sluice"
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
	isCorrupt(t, "a group above 32 bits", func() error {
		_, err := dv.Inline("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", 34)
		return err
	})
}

func isCorrupt(t *testing.T, name string, f func() error) {
	t.Helper()
	if err := f(); sluice.CodeOf(err) != dv.Code {
		t.Errorf("%s: %v", name, err)
	}
}

// payload writes positions as RoaringBitmap does.
func payload(t testing.TB, optimize bool, positions ...uint64) []byte {
	t.Helper()
	bitmap := roaring64.BitmapOf(positions...)
	if optimize {
		bitmap.RunOptimize()
	}
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint32(nil, 1681511377))
	if _, err := bitmap.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func span(from, to, step uint64) (list []uint64) {
	for p := from; p < to; p += step {
		list = append(list, p)
	}
	return list
}

// Case 48: sets of all kinds of containers, at the borders of containers and of bitmaps.
func TestCase48_Sets(t *testing.T) {
	t.Parallel()
	for name, positions := range map[string][]uint64{
		"empty":                     {},
		"one":                       {0},
		"all rows":                  span(0, 100_000, 1),
		"around 2^16":               {65534, 65535, 65536, 65537},
		"around 2^32":               {1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<32 + 1},
		"the greatest":              {1<<63 - 1},
		"an array of 4096":          span(0, 8192, 2),
		"a bitset of 4097":          span(0, 8194, 2),
		"a full container":          span(65536, 131072, 1),
		"runs in many containers":   append(span(10, 70_000, 1), span(200_000, 300_000, 1)...),
		"three containers, no runs": {1, 70_000, 140_000},
		"five containers":           {1, 70_000, 140_000, 210_000, 280_000},
	} {
		for _, optimize := range []bool{false, true} {
			v, err := dv.Decode(payload(t, optimize, positions...), int64(len(positions)), -1)
			if err != nil {
				t.Errorf("%s, runs %t: %v", name, optimize, err)
				continue
			}
			i := 0
			for p := range v.Positions() {
				if i >= len(positions) || uint64(p) != positions[i] {
					t.Errorf("%s, runs %t: position %d is %d", name, optimize, i, p)
					break
				}
				i++
			}
			if i != len(positions) || v.Cardinality() != int64(i) {
				t.Errorf("%s, runs %t: %d positions", name, optimize, i)
			}
		}
	}
}

// Case 49: each check broken alone.
func TestCase49_Hostile(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	good := payload(t, false, 3, 4, 7)
	edit := func(f func(b []byte) []byte) []byte { return f(slices.Clone(good)) }
	// After the magic number (4) and the number of bitmaps (8) come a key (4), the cookie (4), the number of containers
	// (4), a key and a count (4), an offset (4), and the numbers.
	for name, b := range map[string][]byte{
		"empty":                      {},
		"old magic":                  edit(func(b []byte) []byte { le.PutUint32(b, 1681511376); return b }),
		"no magic":                   edit(func(b []byte) []byte { le.PutUint32(b, 7); return b }),
		"no number of bitmaps":       good[:10],
		"2^62 bitmaps":               edit(func(b []byte) []byte { le.PutUint64(b[4:], 1<<62); return b }),
		"2^27 bitmaps":               edit(func(b []byte) []byte { le.PutUint64(b[4:], 1<<27); return b }),
		"two bitmaps, one there":     edit(func(b []byte) []byte { le.PutUint64(b[4:], 2); return b }),
		"no bitmap, bytes follow":    edit(func(b []byte) []byte { le.PutUint64(b[4:], 0); return b }),
		"key with the top bit":       edit(func(b []byte) []byte { le.PutUint32(b[12:], 1<<31); return b }),
		"keys do not rise":           edit(func(b []byte) []byte { le.PutUint64(b[4:], 2); return append(b, b[12:]...) }),
		"unknown cookie":             edit(func(b []byte) []byte { le.PutUint32(b[16:], 1); return b }),
		"too many containers":        edit(func(b []byte) []byte { le.PutUint32(b[20:], 1<<16+1); return b }),
		"more containers than bytes": edit(func(b []byte) []byte { le.PutUint32(b[20:], 1<<16); return b }),
		"count above what is there":  edit(func(b []byte) []byte { le.PutUint16(b[26:], 4000); return b }),
		"a bitset that is not there": edit(func(b []byte) []byte { le.PutUint16(b[26:], 65535); return b }),
		"numbers do not rise":        edit(func(b []byte) []byte { le.PutUint16(b[34:], 3); return b }),
		"cut":                        good[:len(good)-1],
		"bytes follow":               append(slices.Clone(good), 0),
		"bitset with another count":  func() []byte { b := payload(t, false, span(0, 10_000, 1)...); b[40] = 0; return b }(),
		"runs that overlap":          runs([2]uint16{0, 5}, [2]uint16{5, 1}),
		"a run beyond the container": runs([2]uint16{65535, 1}),
		"runs of another count":      append(runs([2]uint16{0, 5})[:22], runs([2]uint16{0, 6})[22:]...),
		"more runs than are there":   runs([2]uint16{0, 5})[:26],
	} {
		isCorrupt(t, name, func() error {
			_, err := dv.Decode(b, 3, 100)
			return err
		})
	}
	isCorrupt(t, "another cardinality", func() error { _, err := dv.Decode(good, 4, 100); return err })
	isCorrupt(t, "a row that is not there", func() error { _, err := dv.Decode(good, 3, 7); return err })
	if _, err := dv.Decode(good, 3, 8); err != nil {
		t.Error(err)
	}
}

// runs writes a bitmap of one container of runs.
func runs(list ...[2]uint16) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 1681511377)
	b = le.AppendUint64(b, 1)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, 12347)
	b = append(b, 1)
	count := -1
	for _, r := range list {
		count += int(r[1]) + 1
	}
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, uint16(count))
	b = le.AppendUint16(b, uint16(len(list)))
	for _, r := range list {
		b = le.AppendUint16(le.AppendUint16(b, r[0]), r[1])
	}
	return b
}

func TestCase49_FrameAndPlace(t *testing.T) {
	t.Parallel()
	good := payload(t, false, 3, 4, 7)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(good)))
	frame = append(frame, good...)
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(good))
	size := int64(len(good))
	if got, err := dv.Unframe(frame, size); err != nil || !bytes.Equal(got, good) {
		t.Errorf("%x, %v", got, err)
	}
	for name, f := range map[string]func() error{
		"another size":       func() error { _, err := dv.Unframe(frame, size-1); return err },
		"size in the file":   func() error { b := slices.Clone(frame); b[3]++; _, err := dv.Unframe(b, size); return err },
		"a wrong bit":        func() error { b := slices.Clone(frame); b[9]++; _, err := dv.Unframe(b, size); return err },
		"a wrong checksum":   func() error { b := slices.Clone(frame); b[len(b)-1]++; _, err := dv.Unframe(b, size); return err },
		"a cut file":         func() error { _, err := dv.Unframe(frame[:len(frame)-1], size); return err },
		"version":            func() error { return dv.CheckVersion(2) },
		"offset 0":           func() error { return dv.CheckPlace(0, 10) },
		"offset below 0":     func() error { return dv.CheckPlace(-1, 10) },
		"offset of 2^63-1":   func() error { return dv.CheckPlace(1<<63-1, 10) },
		"size below 0":       func() error { return dv.CheckPlace(1, -1) },
		"size above 256 MiB": func() error { return dv.CheckPlace(1, dv.MaxSize+1) },
		"unknown storage":    func() error { return dv.UnknownStorage("x") },
		"short UUID":         func() error { _, err := dv.File("vBn[lx{q8@P<9BNH/is"); return err },
		"not Z85":            func() error { _, err := dv.File("vBn[lx{q8@P<9BNH/is\""); return err },
		"not 5 each":         func() error { _, err := dv.Inline("abcdef", 4); return err },
		"inline, too short":  func() error { _, err := dv.Inline("abcde", 5); return err },
		"inline, too long":   func() error { _, err := dv.Inline("abcdeabcde", 4); return err },
		"inline, below 0":    func() error { _, err := dv.Inline("abcde", -1); return err },
	} {
		isCorrupt(t, name, f)
	}
}

// What bytes claim is not allocated: 2^27 bitmaps in a few bytes, 65,536 containers in none.
func TestCase49_NothingIsAllocatedOnTrust(t *testing.T) {
	// Not parallel: what others allocate would be counted too.
	b := payload(t, false, 3)
	binary.LittleEndian.PutUint64(b[4:], 1<<27)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		isCorrupt(t, "2^27 bitmaps", func() error { _, err := dv.Decode(b, 1, 10); return err })
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
}

// What is decoded is what RoaringBitmap decodes; what it refuses is refused.
func FuzzDecode(f *testing.F) {
	for _, positions := range [][]uint64{{}, {1}, {1, 2, 3}, span(0, 5000, 1), {1 << 40, 1<<40 + 65536}} {
		f.Add(payload(f, false, positions...))
		f.Add(payload(f, true, positions...))
	}
	f.Add(runs([2]uint16{0, 5}, [2]uint16{7, 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := dv.Decode(b, -1, -1)
		if err == nil {
			t.Fatal("a cardinality of -1 fits")
		}
		// The number of positions is taken from the decoder's own words: decoding goes on only where all else is well.
		text := err.Error()
		rest, ok := strings.CutPrefix(text, "the deletion vector is corrupt: it has ")
		number, _, isCount := strings.Cut(rest, " positions, the log says")
		if !ok || !isCount {
			return
		}
		count := int64(0)
		for _, c := range number {
			count = count*10 + int64(c-'0')
		}
		v, err := dv.Decode(b, count, -1)
		if err != nil {
			t.Fatal(err)
		}
		theirs := roaring64.New()
		if _, err := theirs.ReadFrom(bytes.NewReader(b[4:])); err != nil {
			t.Fatalf("%d positions, and RoaringBitmap says %v", count, err)
		}
		if got := theirs.GetCardinality(); got != uint64(count) {
			t.Fatalf("%d positions, and RoaringBitmap says %d", count, got)
		}
		i, next := 0, theirs.Iterator()
		for p := range v.Positions() {
			if want := next.Next(); uint64(p) != want {
				t.Fatalf("position %d is %d, and to RoaringBitmap %d", i, p, want)
			}
			if i++; i == 100_000 {
				return
			}
		}
	})
}

func FuzzZ85(f *testing.F) {
	f.Add("vBn[lx{q8@P<9BNH/isA")
	f.Add("ab^-aqEH.-t@S}K{vb[*k^")
	f.Add("#####")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := dv.Z85(text)
		if err == nil && len(b) != len(text)/5*4 {
			t.Fatalf("%d bytes of %d characters", len(b), len(text))
		}
		if name, err := dv.File(text); err == nil && !strings.HasSuffix(name, ".bin") {
			t.Fatal(name)
		}
		_, _ = dv.Inline(text, int64(len(b)))
	})
}
