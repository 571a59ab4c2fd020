package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/page"
)

// row has a column of each kind that is read, in each encoding that is read.
type row struct {
	Plain     string             `parquet:"plain,plain"`
	Dict      string             `parquet:"dict,dict,optional"`
	Lengths   string             `parquet:"lengths,delta"`
	Prefixes  string             `parquet:"prefixes,optional"`
	Int32     int32              `parquet:"int32,plain"`
	Int64     int64              `parquet:"int64,dict,optional"`
	Packed32  int32              `parquet:"packed32,delta"`
	Packed64  int64              `parquet:"packed64,delta,optional"`
	List      []string           `parquet:"list,list,optional"`
	Map       map[string]*string `parquet:"map"`
	Null      *string            `parquet:"null,optional"`
	Structure *struct {
		Deep *int64 `parquet:"deep,optional"`
	} `parquet:"structure,optional"`
}

func optional[T any](rnd *rand.Rand, v T) *T {
	if rnd.IntN(3) == 0 {
		return nil
	}
	return &v
}

func randomRows(rnd *rand.Rand, n int) []row {
	rows := make([]row, n)
	word := func() string { return strings.Repeat("abc", rnd.IntN(4)) + fmt.Sprint(rnd.IntN(50)) }
	last := ""
	for i := range rows {
		if rnd.IntN(5) != 0 {
			last += string(rune('a' + rnd.IntN(26)))
		} else {
			last = ""
		}
		r := &rows[i]
		r.Plain, r.Dict, r.Lengths, r.Prefixes = word(), word(), word(), last
		r.Int32, r.Int64 = rnd.Int32(), rnd.Int64N(9)
		r.Packed32, r.Packed64 = int32(rnd.Uint32()), int64(rnd.Uint64())
		if rnd.IntN(10) == 0 {
			r.Packed32, r.Packed64 = math.MinInt32, math.MaxInt64
		}
		for range rnd.IntN(4) {
			r.List = append(r.List, word())
		}
		if rnd.IntN(2) == 0 {
			r.Map = map[string]*string{word(): optional(rnd, word()), "": nil}
		}
		if rnd.IntN(2) == 0 {
			r.Structure = &struct {
				Deep *int64 `parquet:"deep,optional"`
			}{optional(rnd, int64(i))}
		}
	}
	return rows
}

// Values are what another library reads, in all encodings, codecs and forms of pages.
func TestValuesAreThoseOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for name, codec := range map[string]compress.Codec{
		"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd, "brotli": &parquet.Brotli, "lz4": &parquet.Lz4Raw,
	} {
		for _, form := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s %d", name, form), func(t *testing.T) {
				t.Parallel()
				compare(t, seed, write(t, seed, codec, form), write(t, seed, &parquet.Uncompressed, 1))
			})
		}
	}
}

func write(t *testing.T, seed uint64, codec compress.Codec, form int) []byte {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(codec), parquet.DataPageVersion(form),
		parquet.PageBufferSize(1000+rnd.IntN(5000)), parquet.MaxRowsPerRowGroup(700))
	if _, err := w.Write(randomRows(rnd, 2000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// compare reads b, and with the other library the same rows as they are in reference: not every codec of that library can
// be relied on.
func compare(t *testing.T, seed uint64, b, reference []byte) {
	t.Helper()
	theirs, err := parquet.OpenFile(bytes.NewReader(reference), int64(len(reference)))
	if err != nil {
		t.Fatal(err)
	}
	leaves, groups := open(t, b)
	for g, group := range theirs.RowGroups() {
		for c, chunk := range group.ColumnChunks() {
			budget := &page.Budget{Left: 1 << 30}
			r, err := page.New(bytes.NewReader(b), int64(len(b)), leaves[c], groups[g].Chunks[c], budget)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			pages := chunk.Pages()
			for {
				p, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				values := make([]parquet.Value, p.NumValues())
				if n, err := p.Values().ReadValues(values); n != len(values) {
					t.Fatal(n, err)
				}
				for _, want := range values {
					got, err := r.Next()
					if err != nil || !equal(got, want) {
						t.Fatalf("seed %d: column %s, value %d: %+v, want %+v; %v", seed, leaves[c].Path, n, got, want, err)
					}
					n++
				}
			}
			if v, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("column %s goes on with %+v, %v", leaves[c].Path, v, err)
			}
			r.Close()
			if pages.Close(); budget.Left != 1<<30 {
				t.Errorf("column %s keeps %d bytes of the budget", leaves[c].Path, 1<<30-budget.Left)
			}
		}
	}
}

func open(t *testing.T, b []byte) ([]footer.Leaf, []footer.RowGroup) {
	t.Helper()
	size, err := footer.Size(b[len(b)-footer.Tail:])
	if err != nil {
		t.Fatal(err)
	}
	foot := b[len(b)-footer.Tail-size : len(b)-footer.Tail]
	f, err := footer.Parse(foot)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := footer.Groups(foot)
	if err != nil {
		t.Fatal(err)
	}
	return footer.Leaves(f.Columns), groups
}

func equal(got page.Value, want parquet.Value) bool {
	if got.Null != want.IsNull() || got.Def != want.DefinitionLevel() || got.Rep != want.RepetitionLevel() {
		return false
	}
	switch {
	case got.Null:
		return true
	case want.Kind() == parquet.Int32:
		return got.Int == int64(want.Int32())
	case want.Kind() == parquet.Int64:
		return got.Int == want.Int64()
	}
	return got.Text != nil && bytes.Equal(got.Text, want.ByteArray())
}
