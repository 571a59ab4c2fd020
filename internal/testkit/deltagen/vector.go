package deltagen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Form says how a vector's bitmaps are laid out.
type Form int

// The forms.
const (
	Arrays  Form = iota // as roaring chooses without runs: arrays and bitsets
	WithRun             // run containers where they are shorter
)

// Payload writes the payload of a vector: magic number and 64-bit roaring bitmap.
func Payload(form Form, positions ...uint64) []byte {
	high := map[uint32]*roaring.Bitmap{}
	for _, p := range positions {
		k := uint32(p >> 32)
		if high[k] == nil {
			high[k] = roaring.New()
		}
		high[k].Add(uint32(p))
	}
	keys := make([]uint32, 0, len(high))
	for k := range high {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint32(nil, 1681511377))
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(keys))))
	for _, k := range keys {
		if form == WithRun {
			high[k].RunOptimize()
		}
		b.Write(binary.LittleEndian.AppendUint32(nil, k))
		if _, err := high[k].WriteTo(&b); err != nil {
			panic(err) // into memory
		}
	}
	return b.Bytes()
}

const z85Alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// Z85 encodes bytes, padded with zeros to a multiple of 4.
func Z85(b []byte) string {
	b = append(bytes.Clone(b), make([]byte, (4-len(b)%4)%4)...)
	var out strings.Builder
	for ; len(b) > 0; b = b[4:] {
		n := binary.BigEndian.Uint32(b)
		var group [5]byte
		for i := 4; i >= 0; i-- {
			group[i] = z85Alphabet[n%85]
			n /= 85
		}
		out.Write(group[:])
	}
	return out.String()
}

// Cardinality counts distinct positions.
func cardinality(positions []uint64) int64 {
	return int64(len(slices.Compact(slices.Sorted(slices.Values(positions)))))
}

// Inline is a vector within the log.
func Inline(form Form, positions ...uint64) *DV {
	payload := Payload(form, positions...)
	return &DV{Storage: "i", Path: Z85(payload), Size: int64(len(payload)), Cardinality: cardinality(positions)}
}

// Frame is a payload as it stands in a file: size, payload, checksum.
func Frame(payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	b = append(b, payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(payload))
}

// Vectors is a file of vectors under construction.
type Vectors struct {
	g       *Table
	uuid    [16]byte
	prefix  string
	content []byte
}

// VectorFile begins a file of vectors, below prefix if that is not empty. number makes its name.
func (g *Table) VectorFile(prefix string, number uint64) *Vectors {
	v := &Vectors{g: g, prefix: prefix, content: []byte{1}}
	binary.BigEndian.PutUint64(v.uuid[:8], 0xd2c63900aa884000|number>>32)
	binary.BigEndian.PutUint64(v.uuid[8:], 0xb000000000000000|number)
	return v
}

// Name is the file's name below the table.
func (v *Vectors) Name() string {
	u := v.uuid
	name := fmt.Sprintf("deletion_vector_%x-%x-%x-%x-%x.bin", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	if v.prefix != "" {
		return v.prefix + "/" + name
	}
	return name
}

// Add puts a vector into the file and gives its descriptor, with a path relative to the table.
func (v *Vectors) Add(form Form, positions ...uint64) *DV {
	v.g.t.Helper()
	return v.AddPayload(Payload(form, positions...), cardinality(positions))
}

// AddPayload is Add with any bytes.
func (v *Vectors) AddPayload(payload []byte, cardinality int64) *DV {
	v.g.t.Helper()
	dv := &DV{Storage: "u", Path: v.prefix + Z85(v.uuid[:]), Offset: Int(int64(len(v.content))), Size: int64(len(payload)), Cardinality: cardinality}
	v.content = append(v.content, Frame(payload)...)
	v.write()
	return dv
}

// Edit changes the bytes of the file.
func (v *Vectors) Edit(edit func([]byte) []byte) {
	v.g.t.Helper()
	v.content = edit(v.content)
	v.write()
}

func (v *Vectors) write() {
	v.g.t.Helper()
	path := v.g.Path(v.Name())
	v.g.must(os.MkdirAll(filepath.Dir(path), 0o755))
	v.g.must(os.WriteFile(path, v.content, 0o644))
}

// Absolute gives the same vector by its absolute URI.
func (v *Vectors) Absolute(dv *DV, uri string) *DV {
	absolute := *dv
	absolute.Storage, absolute.Path = "p", uri
	return &absolute
}
