package page_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/page"
)

// headed writes a page of the first form with a header that says what it is told to.
func headed(uncompressed, values int, encoding byte, body []byte) []byte {
	zigzag := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)<<1) }
	b := append([]byte{0x15}, zigzag(0)...)
	b = append(append(b, 0x15), zigzag(uncompressed)...)
	b = append(append(b, 0x15), zigzag(len(body))...)
	b = append(append(b, 0x2c, 0x15), zigzag(values)...)
	b = append(b, 0x15, encoding<<1, 0x15, 3<<1, 0x15, 3<<1, 0, 0)
	return append(b, body...)
}

// A few bytes that claim gigabytes are refused, or read one value at a time, within a budget and without asking for more.
func TestBombs(t *testing.T) {
	// Not parallel: what others allocate would be counted too.
	run := binary.AppendUvarint(nil, (1<<31-1)<<1) // a run of 2^31-1 levels
	levels := append(binary.LittleEndian.AppendUint32(nil, uint32(len(run)+1)), append(run, 0)...)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := encoder.EncodeAll(make([]byte, 100<<20), nil)
	packed := binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<40) // blocks of 128 in 4, 2^40 values
	for name, c := range map[string]struct {
		codec footer.Codec
		body  []byte
	}{
		"a run of levels":              {footer.Uncompressed, headed(len(levels), 1<<31-1, 0, levels)},
		"a page of 2 GiB":              {footer.Snappy, headed(1<<31-1, 10, 0, []byte{1, 2, 3})},
		"Snappy that says 4 GiB":       {footer.Snappy, headed(20, 10, 0, []byte{0xff, 0xff, 0xff, 0xff, 0xf, 0})},
		"Snappy that says 60 MiB":      {footer.Snappy, headed(60<<20, 10, 0, snappy.Encode(nil, []byte("x")))},
		"zstd of 100 MiB said to be 9": {footer.ZSTD, headed(9, 10, 0, zeros)},
		"2^40 packed values":           {footer.Uncompressed, headed(len(levels)+len(packed)+1, 10, 5, slices.Concat(levels[:len(levels)-1], []byte{1}, packed, []byte{0}))},
	} {
		leaf := footer.Leaf{Node: &footer.Node{Physical: footer.Int64}, MaxDef: 1}
		budget := &page.Budget{Left: 1 << 20}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := page.New(bytes.NewReader(c.body), int64(len(c.body)), leaf, footer.Chunk{Codec: c.codec, Size: int64(len(c.body))}, budget)
		if err != nil {
			t.Fatal(err)
		}
		n, start := 0, time.Now()
		for err = nil; err == nil && n < 100_000; n++ {
			_, err = r.Next()
		}
		r.Close()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %d bytes were allocated in %s", name, got, time.Since(start))
		}
		if errors.Is(err, io.EOF) || err == nil && n < 100_000 || budget.Left != 1<<20 {
			t.Errorf("%s: %d values, %v, %d bytes of the budget left", name, n, err, budget.Left)
		}
	}
}
