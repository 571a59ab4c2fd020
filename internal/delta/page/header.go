package page

import (
	"sluice/internal/delta/thrift"
)

// The types of pages.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// header is what is before a page.
type header struct {
	kind         int32
	uncompressed int32
	compressed   int32
	values       int32 // nulls included
	encoding     int32
	levels       [2]int32 // encodings of repetition and definition levels; of the second form their bytes
	plain        bool     // of the second form: not compressed
	has          bool     // the part that fits the kind is there
}

// parseHeader reads a header at the begin of b and gives how many bytes it takes.
func parseHeader(b []byte) (header, int, error) {
	t := thrift.New(b)
	h := header{kind: -1, uncompressed: -1, compressed: -1}
	t.Fields(func(id int16, kind thrift.Type) {
		switch {
		case id == 1 && kind == thrift.I32:
			h.kind = t.Int32()
		case id == 2 && kind == thrift.I32:
			h.uncompressed = t.Int32()
		case id == 3 && kind == thrift.I32:
			h.compressed = t.Int32()
		case id == 5 && kind == thrift.Struct && h.kind == dataPage:
			h.has = true
			h.fields(t, map[int16]*int32{1: &h.values, 2: &h.encoding, 3: &h.levels[1], 4: &h.levels[0]})
		case id == 7 && kind == thrift.Struct && h.kind == dictionaryPage:
			h.has = true
			h.fields(t, map[int16]*int32{1: &h.values, 2: &h.encoding})
		case id == 8 && kind == thrift.Struct && h.kind == dataPageV2:
			h.has = true
			h.fields(t, map[int16]*int32{1: &h.values, 4: &h.encoding, 5: &h.levels[1], 6: &h.levels[0]})
		default:
			t.Skip(kind)
		}
	})
	return h, len(b) - t.Left(), t.Err()
}

func (h *header) fields(t *thrift.Reader, into map[int16]*int32) {
	t.Fields(func(id int16, kind thrift.Type) {
		at, ok := into[id]
		switch {
		case ok && kind == thrift.I32:
			*at = t.Int32()
		case id == 7 && kind == thrift.False && h.kind == dataPageV2:
			h.plain = true
		default:
			t.Skip(kind)
		}
	})
}
