package page

import (
	"encoding/binary"

	"sluice/internal/delta/footer"
)

// The encodings of values.
const (
	encPlain           = 0
	encPlainDictionary = 2
	encRLE             = 3
	encDeltaPacked     = 5
	encDeltaLength     = 6
	encDeltaBytes      = 7
	encDictionary      = 8
)

// decoder gives the values of a page that are not null: integers as int64, texts as bytes that hold until the next call.
type decoder interface {
	next() (int64, []byte, error)
}

func newDecoder(encoding int32, physical footer.Physical, b []byte, d *dictionary) (decoder, error) {
	text := physical == footer.ByteArray
	switch encoding {
	case encPlain:
		return &plain{b: b, physical: physical}, nil
	case encPlainDictionary, encDictionary:
		if d == nil {
			return nil, errBroken
		}
		if len(b) == 0 {
			return &indexed{d: d}, nil // a page of nulls
		}
		h, err := newHybrid(b[1:], int(b[0]))
		return &indexed{h, d}, err
	case encDeltaPacked:
		if text {
			return nil, errBroken
		}
		p, err := newPacked(b)
		return &deltas{p, physical == footer.Int32}, err
	case encDeltaLength:
		if !text {
			return nil, errBroken
		}
		return newLengths(b)
	case encDeltaBytes:
		if !text {
			return nil, errBroken
		}
		return newPrefixed(b)
	}
	return nil, errUnknown
}

type plain struct {
	b        []byte
	physical footer.Physical
}

func (p *plain) next() (int64, []byte, error) {
	size := 4
	if p.physical == footer.Int64 {
		size = 8
	}
	if len(p.b) < size {
		return 0, nil, errShort
	}
	head := p.b[:size]
	p.b = p.b[size:]
	switch p.physical {
	case footer.Int32:
		return int64(int32(binary.LittleEndian.Uint32(head))), nil, nil
	case footer.Int64:
		return int64(binary.LittleEndian.Uint64(head)), nil, nil
	default: // text, its length before it
	}
	n := binary.LittleEndian.Uint32(head)
	if uint64(n) > uint64(len(p.b)) {
		return 0, nil, errShort
	}
	text := p.b[:n:n]
	p.b = p.b[n:]
	return 0, text, nil
}

// dictionary is the values that a column's pages refer to.
type dictionary struct {
	ints    []int64
	texts   []byte
	offsets []uint32 // of the texts, with their end
}

func newDictionary(b []byte, physical footer.Physical, count int32) (*dictionary, error) {
	if int64(count)*4 > int64(len(b)) { // no value takes less
		return nil, errShort
	}
	d := &dictionary{}
	p := plain{b: b, physical: physical}
	if physical != footer.ByteArray {
		d.ints = make([]int64, 0, count)
	} else {
		d.offsets = make([]uint32, 1, count+1)
		d.texts = make([]byte, 0, len(b))
	}
	for range count {
		n, text, err := p.next()
		if err != nil {
			return nil, err
		}
		if physical != footer.ByteArray {
			d.ints = append(d.ints, n)
			continue
		}
		d.texts = append(d.texts, text...)
		d.offsets = append(d.offsets, uint32(len(d.texts)))
	}
	return d, nil
}

type indexed struct {
	h hybrid
	d *dictionary
}

func (x *indexed) next() (int64, []byte, error) {
	i, err := x.h.next()
	if err != nil {
		return 0, nil, err
	}
	if x.d.offsets == nil {
		if int(i) >= len(x.d.ints) {
			return 0, nil, errBroken
		}
		return x.d.ints[i], nil, nil
	}
	if int(i)+1 >= len(x.d.offsets) {
		return 0, nil, errBroken
	}
	from, to := x.d.offsets[i], x.d.offsets[i+1]
	return 0, x.d.texts[from:to:to], nil
}

type deltas struct {
	p      packed
	narrow bool // differences wrap around at 32 bits
}

func (d *deltas) next() (int64, []byte, error) {
	n, err := d.p.next()
	if d.narrow {
		n = int64(int32(n))
	}
	return n, nil, err
}

// lengths gives texts whose lengths come first, DELTA_LENGTH_BYTE_ARRAY.
type lengths struct {
	p packed
	b []byte
}

func newLengths(b []byte) (*lengths, error) {
	p, err := newPacked(b)
	if err != nil {
		return nil, err
	}
	rest, sum, err := p.end(len(b))
	if err == nil && sum > int64(len(rest)) {
		err = errShort
	}
	return &lengths{p, rest}, err
}

func (l *lengths) next() (int64, []byte, error) {
	n, err := l.p.next()
	if err != nil {
		return 0, nil, err
	}
	if n < 0 || n > int64(len(l.b)) {
		return 0, nil, errShort
	}
	text := l.b[:n:n]
	l.b = l.b[n:]
	return 0, text, nil
}

// prefixed gives texts that share their begin with the one before, DELTA_BYTE_ARRAY.
type prefixed struct {
	shared packed
	rest   *lengths
	text   []byte
}

func newPrefixed(b []byte) (*prefixed, error) {
	shared, err := newPacked(b)
	if err != nil {
		return nil, err
	}
	behind, _, err := shared.end(len(b))
	if err != nil {
		return nil, err
	}
	rest, err := newLengths(behind)
	return &prefixed{shared: shared, rest: rest, text: []byte{}}, err
}

func (p *prefixed) next() (int64, []byte, error) {
	n, err := p.shared.next()
	if err != nil {
		return 0, nil, err
	}
	_, suffix, err := p.rest.next()
	if err != nil {
		return 0, nil, err
	}
	if n < 0 || n > int64(len(p.text)) {
		return 0, nil, errBroken
	}
	p.text = append(p.text[:n], suffix...)
	return 0, p.text, nil
}
