package footer_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/delta/footer"
)

type nested struct {
	ID    int64             `parquet:"id"`
	Small int32             `parquet:"small,optional"`
	At    time.Time         `parquet:"at,timestamp(microsecond)"`
	Day   int32             `parquet:"day,date"`
	Money int64             `parquet:"money,decimal(2:18)"`
	Name  string            `parquet:"name"`
	Raw   []byte            `parquet:"raw"`
	Fixed [16]byte          `parquet:"fixed"`
	List  []string          `parquet:"list,list"`
	Map   map[string]*int64 `parquet:"map"`
	Group struct {
		Float float32 `parquet:"float"`
		Flag  bool    `parquet:"flag,optional"`
	} `parquet:"group"`
}

func file(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[nested](&b)
	if _, err := w.Write(make([]nested, 3)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func part(t testing.TB, b []byte) []byte {
	t.Helper()
	n, err := footer.Size(b[len(b)-footer.Tail:])
	if err != nil {
		t.Fatal(err)
	}
	return b[len(b)-footer.Tail-n : len(b)-footer.Tail]
}

func describe(b *strings.Builder, indent string, nodes []footer.Node) {
	for _, n := range nodes {
		fmt.Fprintf(b, "%s%s r%d p%d l%d %d,%d %d %t %d %t\n", indent, n.Name, n.Repetition, n.Physical, n.Logical, n.Precision, n.Scale, n.Bits, n.Signed, n.Unit, n.UTC)
		describe(b, indent+"  ", n.Children)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	b := part(t, file(t))
	f, err := footer.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	describe(&got, "", f.Columns)
	want := map[string]string{
		"id": "r0 p2 l9 0,0 64 true 0 false", "small": "r1 p1 l9 0,0 32 true 0 false", "at": "r0 p2 l8 0,0 0 false 2 true", "day": "r0 p1 l6 0,0 0 false 0 false",
		"money": "r0 p2 l5 18,2 0 false 0 false", "name": "r0 p6 l1 0,0 0 false 0 false", "raw": "r0 p6 l0 0,0 0 false 0 false", "fixed": "r0 p7 l0 0,0 0 false 0 false",
		"list": "r0 p-1 l3 0,0 0 false 0 false", "map": "r0 p-1 l2 0,0 0 false 0 false", "group": "r0 p-1 l0 0,0 0 false 0 false", "float": "r0 p4 l0 0,0 0 false 0 false", "flag": "r1 p0 l0 0,0 0 false 0 false",
	}
	for name, line := range want {
		if !strings.Contains(got.String(), name+" "+line+"\n") {
			t.Errorf("%s is not %s in\n%s", name, line, got.String())
		}
	}
	if f.Rows != 3 {
		t.Errorf("%d rows", f.Rows)
	}
	groups, err := footer.Groups(b)
	if err != nil || len(groups) != 1 || groups[0].Rows != 3 || len(groups[0].Chunks) != len(footer.Leaves(f.Columns)) {
		t.Fatalf("%+v, %v", groups, err)
	}
	for i, leaf := range footer.Leaves(f.Columns) {
		if groups[0].Chunks[i].Path != leaf.Path {
			t.Errorf("%q, want %q", groups[0].Chunks[i].Path, leaf.Path)
		}
	}
}

func TestSizeRefuses(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{"", "PAR1", "\x01\x00\x00\x00PARX", "\x01\x00\x00\x00PARE", "\xff\xff\xff\xffPAR1", "xx\x01\x00\x00\x00PAR1"} {
		if n, err := footer.Size([]byte(tail)); err == nil {
			t.Errorf("%q gives %d", tail, n)
		}
	}
}

// What a footer claims and does not hold is neither believed nor allocated.
func TestClaimsAreNotBelieved(t *testing.T) {
	t.Parallel()
	huge := binary.AppendUvarint([]byte{0x19, 0xfc}, 1<<40) // field 1, a list of 2^40 structs
	for name, b := range map[string][]byte{
		"empty":            {},
		"a list of 2^40":   huge,
		"schema of 2^40":   append([]byte{0x29}, huge[1:]...),
		"a text of 2^40":   binary.AppendUvarint([]byte{0x18}, 1<<40),
		"nested for ever":  bytes.Repeat([]byte{0x1c}, 1000),
		"lists for ever":   bytes.Repeat([]byte{0x19}, 1000),
		"an endless field": bytes.Repeat([]byte{0xff}, 100),
		"children claimed": {0x15, 2, 0x19, 0x1c, 0x55, 0xfe, 0xff, 0xff, 0xff, 0xf, 0, 0x16, 0, 0},
	} {
		if f, err := footer.Parse(b); err == nil {
			t.Errorf("%s is read as %+v", name, f)
		}
		if g, err := footer.Groups(b); err == nil && len(g) > 0 {
			t.Errorf("%s has the row groups %+v", name, g)
		}
	}
}

func FuzzFooter(f *testing.F) {
	f.Add(part(f, file(f)))
	f.Add([]byte{0x15, 2, 0x19, 0x1c, 0x55, 2, 0, 0x16, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		foot, err := footer.Parse(b)
		if err == nil && foot.Rows < 0 {
			t.Fatalf("%d rows", foot.Rows)
		}
		if err == nil {
			footer.Leaves(foot.Columns)
		}
		_, _ = footer.Groups(b)
	})
}
