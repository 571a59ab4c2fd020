package page

import (
	"encoding/binary"
	"math/bits"
)

// packed gives integers that are written as differences, DELTA_BINARY_PACKED.
type packed struct {
	b          []byte // from the next block, or the next miniblock, on
	count      uint64 // numbers left
	value      int64
	first      bool
	perMini    int
	minis      int
	widths     []byte // of the miniblocks left in the block
	minDelta   int64
	mini       []byte // of the miniblock at hand
	width, bit int
	left       int // numbers left in it
}

func newPacked(b []byte) (packed, error) {
	p := packed{b: b, first: true}
	block, ok1 := p.uvarint()
	minis, ok2 := p.uvarint()
	count, ok3 := p.uvarint()
	value, ok4 := p.varint()
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return p, errShort
	}
	if block == 0 || block > 1<<16 || block%128 != 0 || minis == 0 || block%minis != 0 || block/minis%32 != 0 {
		return p, errBroken
	}
	p.count, p.value, p.perMini, p.minis = count, value, int(block/minis), int(minis)
	return p, nil
}

func (p *packed) uvarint() (uint64, bool) {
	n, size := binary.Uvarint(p.b)
	if size <= 0 {
		return 0, false
	}
	p.b = p.b[size:]
	return n, true
}

func (p *packed) varint() (int64, bool) {
	n, size := binary.Varint(p.b)
	if size <= 0 {
		return 0, false
	}
	p.b = p.b[size:]
	return n, true
}

func (p *packed) next() (int64, error) {
	if p.count == 0 {
		return 0, errShort
	}
	p.count--
	if p.first {
		p.first = false
		return p.value, nil
	}
	if p.left == 0 {
		if err := p.begin(); err != nil {
			return 0, err
		}
	}
	p.left--
	var delta uint64
	for got := 0; got < p.width; {
		at := p.bit / 8
		if at >= len(p.mini) {
			return 0, errShort
		}
		take := min(8-p.bit%8, p.width-got)
		delta |= uint64(p.mini[at]>>(p.bit%8)&(1<<take-1)) << got
		got += take
		p.bit += take
	}
	p.value += p.minDelta + int64(delta) // differences wrap around, as the format says
	return p.value, nil
}

// begin goes to the next miniblock.
func (p *packed) begin() error {
	if len(p.widths) == 0 {
		var ok bool
		if p.minDelta, ok = p.varint(); !ok || len(p.b) < p.minis {
			return errShort
		}
		p.widths, p.b = p.b[:p.minis], p.b[p.minis:]
	}
	p.width, p.widths = int(p.widths[0]), p.widths[1:]
	if p.width > 64 {
		return errBroken
	}
	size := min(p.perMini*p.width/8, len(p.b)) // the last miniblock may be cut where its numbers end
	p.mini, p.b = p.b[:size], p.b[size:]
	p.bit, p.left = 0, p.perMini
	return nil
}

// end moves to behind the last number and gives what follows, and the sum of the numbers, none of which may be negative
// or above limit.
func (p packed) end(limit int) (rest []byte, sum int64, err error) {
	for p.count > 0 {
		n, err := p.next()
		if err != nil {
			return nil, 0, err
		}
		if n < 0 || n > int64(limit) || bits.Len64(uint64(sum)) > 62 {
			return nil, 0, errBroken
		}
		sum += n
	}
	return p.b, sum, nil
}
