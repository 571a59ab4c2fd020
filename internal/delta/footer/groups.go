package footer

import (
	"errors"
	"strings"

	"sluice/internal/delta/thrift"
)

// Codec is how pages are compressed.
type Codec int32

// The codecs.
const (
	Uncompressed Codec = 0
	Snappy       Codec = 1
	Gzip         Codec = 2
	Brotli       Codec = 4
	ZSTD         Codec = 6
	LZ4Raw       Codec = 7
)

// RowGroup is a part of a file's rows.
type RowGroup struct {
	Rows   int64
	Chunks []Chunk
}

// Chunk is the pages of a column in a row group.
type Chunk struct {
	Path   string // of the column, its parts separated by NULs
	Codec  Codec
	Offset int64
	Size   int64
}

// maxChunks is far above what any checkpoint has.
const maxChunks = 1 << 20

// Groups reads where the pages of a file lie. Its columns are in the order of Leaves.
func Groups(b []byte) ([]RowGroup, error) {
	t := thrift.New(b)
	var groups []RowGroup
	chunks := 0
	t.Fields(func(id int16, kind thrift.Type) {
		if id != 4 || !t.Expect(kind, thrift.List) {
			t.Skip(kind)
			return
		}
		_, n := t.List()
		t.Each(n, func() {
			g := readGroup(t)
			if chunks += len(g.Chunks) + 1; chunks > maxChunks {
				t.Fail(errors.New("the file has too many column chunks"))
			}
			groups = append(groups, g)
		})
	})
	return groups, t.Err()
}

func readGroup(t *thrift.Reader) (g RowGroup) {
	t.Fields(func(id int16, kind thrift.Type) {
		switch {
		case id == 1 && kind == thrift.List:
			_, n := t.List()
			t.Each(min(n, maxChunks+1), func() { g.Chunks = append(g.Chunks, readChunk(t)) })
		case id == 3 && kind == thrift.I64:
			g.Rows = t.Int()
		default:
			t.Skip(kind)
		}
	})
	return g
}

func readChunk(t *thrift.Reader) (c Chunk) {
	t.Fields(func(id int16, kind thrift.Type) {
		switch {
		case id == 1 && kind == thrift.Binary:
			t.Fail(errors.New("a column's pages are in another file"))
		case id == 3 && kind == thrift.Struct:
			readChunkMeta(t, &c)
		default:
			t.Skip(kind)
		}
	})
	return c
}

func readChunkMeta(t *thrift.Reader, c *Chunk) {
	data, dictionary := int64(0), int64(0)
	t.Fields(func(id int16, kind thrift.Type) {
		switch {
		case id == 3 && kind == thrift.List:
			_, n := t.List()
			var parts []string
			t.Each(n, func() { parts = append(parts, string(t.Bytes())) })
			c.Path = strings.Join(parts, "\x00")
		case id == 4 && kind == thrift.I32:
			c.Codec = Codec(t.Int32())
		case id == 7 && kind == thrift.I64:
			c.Size = t.Int()
		case id == 9 && kind == thrift.I64:
			data = t.Int()
		case id == 11 && kind == thrift.I64:
			dictionary = t.Int()
		default:
			t.Skip(kind)
		}
	})
	c.Offset = data
	if dictionary > 0 && dictionary < data {
		c.Offset = dictionary
	}
}

// Leaf is a column that has values, as the pages of its chunk write them.
type Leaf struct {
	Node   *Node
	Path   string // as in Chunk
	MaxDef int    // definition level of a value that is not null
	MaxRep int
}

// Leaves lists the columns that have values, depth first.
func Leaves(columns []Node) []Leaf {
	var leaves []Leaf
	var walk func(nodes []Node, path string, def, rep int)
	walk = func(nodes []Node, path string, def, rep int) {
		for i := range nodes {
			n := &nodes[i]
			at, d, r := path+n.Name, def, rep
			switch n.Repetition {
			case Required:
			case Optional:
				d++
			case Repeated:
				d, r = d+1, r+1
			}
			if n.Physical == Group {
				walk(n.Children, at+"\x00", d, r)
				continue
			}
			leaves = append(leaves, Leaf{n, at, d, r})
		}
	}
	walk(columns, "", 0, 0)
	return leaves
}
