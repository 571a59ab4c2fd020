package page

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/thrift"
)

const (
	// MaxPage is the largest page that is read, in bytes of its text.
	MaxPage = 64 << 20
	// maxHeader is the largest header of a page; it may hold the least and the greatest value.
	maxHeader = 256 << 10
)

// Budget is how many bytes the pages of several columns may hold at once.
type Budget struct{ Left int }

func (b *Budget) take(n int) error {
	if n > b.Left {
		return fmt.Errorf("its pages are too large to be held at once")
	}
	b.Left -= n
	return nil
}

// Value is a value with its levels. Text holds until the next call; it is nil for integers and nulls.
type Value struct {
	Rep, Def int
	Null     bool
	Int      int64
	Text     []byte
}

// Reader reads the values of a column in a row group.
type Reader struct {
	leaf   footer.Leaf
	codec  footer.Codec
	budget *Budget
	src    *bufio.Reader
	rest   int64 // bytes of the chunk that were not read

	held   int // of the budget
	dict   *dictionary
	inDict int // of the budget
	left   int32
	rep    hybrid
	def    hybrid
	values decoder
}

// New reads a chunk of a file of a size. The leaf is the chunk's column: integers or texts.
func New(r io.ReaderAt, size int64, leaf footer.Leaf, chunk footer.Chunk, budget *Budget) (*Reader, error) {
	switch {
	case leaf.Path != chunk.Path:
		return nil, errors.New("its columns are not in the order of its schema")
	case leaf.Node.Physical != footer.Int32 && leaf.Node.Physical != footer.Int64 && leaf.Node.Physical != footer.ByteArray:
		return nil, fmt.Errorf("a column is neither of integers nor of texts")
	case chunk.Offset < 0 || chunk.Size < 0 || chunk.Offset > size || chunk.Size > size-chunk.Offset:
		return nil, errors.New("a column lies outside the file")
	}
	return &Reader{
		leaf: leaf, codec: chunk.Codec, budget: budget, rest: chunk.Size,
		src: bufio.NewReaderSize(io.NewSectionReader(r, chunk.Offset, chunk.Size), maxHeader),
	}, nil
}

// Close gives back what the reader has taken of the budget.
func (r *Reader) Close() {
	r.budget.Left += r.held + r.inDict
	r.held, r.inDict, r.left, r.rest = 0, 0, 0, 0
}

// Next gives the next value; io.EOF after the last one.
func (r *Reader) Next() (v Value, err error) {
	for r.left == 0 {
		if r.rest == 0 {
			return v, io.EOF
		}
		if err := r.page(); err != nil {
			return v, unexpected(err)
		}
	}
	r.left--
	if r.leaf.MaxRep > 0 {
		n, err := r.rep.next()
		if err != nil {
			return v, err
		}
		v.Rep = int(n)
	}
	if r.leaf.MaxDef > 0 {
		n, err := r.def.next()
		if err != nil {
			return v, err
		}
		v.Def = int(n)
	}
	if v.Rep > r.leaf.MaxRep || v.Def > r.leaf.MaxDef {
		return v, errBroken
	}
	if v.Null = v.Def < r.leaf.MaxDef; !v.Null {
		v.Int, v.Text, err = r.values.next()
	}
	return v, err
}

// unexpected: nothing that is missing in a page is the end of the column.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// page reads the next page.
func (r *Reader) page() error {
	h, err := r.header()
	if err != nil {
		return err
	}
	if h.compressed < 0 || int64(h.compressed) > r.rest || h.uncompressed < 0 || h.uncompressed > MaxPage || h.values < 0 {
		return errBroken
	}
	r.rest -= int64(h.compressed)
	switch {
	case h.kind != dataPage && h.kind != dataPageV2 && h.kind != dictionaryPage, h.kind == dictionaryPage && r.dict != nil:
		_, err := r.src.Discard(int(h.compressed)) // an index, or something newer
		return err
	case !h.has:
		return errBroken
	}
	r.budget.Left += r.held
	r.held = 0
	if err := r.budget.take(int(h.compressed) + int(h.uncompressed)); err != nil {
		return err
	}
	r.held = int(h.compressed) + int(h.uncompressed)
	raw := make([]byte, h.compressed) // no more than the file has
	if _, err := io.ReadFull(r.src, raw); err != nil {
		return err
	}
	switch h.kind {
	case dictionaryPage:
		return r.dictionary(h, raw)
	case dataPageV2:
		return r.second(h, raw)
	}
	return r.first(h, raw)
}

// header reads the header of the next page: as little as there is of it, as much as it needs.
func (r *Reader) header() (header, error) {
	for want := 512; ; want *= 8 {
		want = int(min(int64(want), maxHeader, r.rest))
		b, err := r.src.Peek(want)
		if err != nil {
			return header{}, err
		}
		h, n, err := parseHeader(b)
		if errors.Is(err, thrift.ErrShort) && want < maxHeader && int64(want) < r.rest {
			continue
		}
		if err != nil {
			return header{}, err
		}
		r.rest -= int64(n)
		_, err = r.src.Discard(n)
		return h, err
	}
}

func (r *Reader) dictionary(h header, raw []byte) error {
	if h.encoding != encPlain && h.encoding != encPlainDictionary {
		return errUnknown
	}
	text, err := decompress(r.codec, raw, int(h.uncompressed))
	if err != nil {
		return err
	}
	// It is held as long as the column is read: twice the bytes of its text, with the offsets.
	if err := r.budget.take(2 * len(text)); err != nil {
		return err
	}
	r.inDict = 2 * len(text)
	r.dict, err = newDictionary(text, r.leaf.Node.Physical, h.values)
	return err
}

// first reads a page of the first form: levels and values are compressed together.
func (r *Reader) first(h header, raw []byte) error {
	text, err := decompress(r.codec, raw, int(h.uncompressed))
	if err != nil {
		return err
	}
	for i, level := range []struct {
		to  *hybrid
		max int
	}{{&r.rep, r.leaf.MaxRep}, {&r.def, r.leaf.MaxDef}} {
		if level.max == 0 {
			continue
		}
		if h.levels[i] != encRLE {
			return errUnknown
		}
		if len(text) < 4 {
			return errShort
		}
		size := binary.LittleEndian.Uint32(text)
		text = text[4:]
		if uint64(size) > uint64(len(text)) {
			return errShort
		}
		if *level.to, err = newHybrid(text[:size], bits.Len(uint(level.max))); err != nil {
			return err
		}
		text = text[size:]
	}
	return r.begin(h, text)
}

// second reads a page of the second form: the levels are not compressed.
func (r *Reader) second(h header, raw []byte) error {
	rep, def := int64(h.levels[0]), int64(h.levels[1])
	if rep < 0 || def < 0 || rep+def > int64(len(raw)) || rep+def > int64(h.uncompressed) {
		return errBroken
	}
	var err error
	if r.rep, err = newHybrid(raw[:rep], bits.Len(uint(r.leaf.MaxRep))); err != nil {
		return err
	}
	if r.def, err = newHybrid(raw[rep:rep+def], bits.Len(uint(r.leaf.MaxDef))); err != nil {
		return err
	}
	text, size := raw[rep+def:], int(int64(h.uncompressed)-rep-def)
	switch {
	case !h.plain && len(text) > 0:
		if text, err = decompress(r.codec, text, size); err != nil {
			return err
		}
	case len(text) != size:
		return errBroken
	}
	return r.begin(h, text)
}

func (r *Reader) begin(h header, text []byte) (err error) {
	if len(text) == 0 {
		// A page of nulls: some encodings write nothing then.
		r.values = &plain{physical: r.leaf.Node.Physical}
	} else if r.values, err = newDecoder(h.encoding, r.leaf.Node.Physical, text, r.dict); err != nil {
		return err
	}
	r.left = h.values
	return nil
}
