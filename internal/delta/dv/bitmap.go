package dv

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// The first four bytes of a payload, little-endian.
const (
	magic    = 1681511377
	magicOld = 1681511376 // a form with big-endian numbers that no file of a table ever had
)

// The bitmaps of 32 bits: see RoaringFormatSpec.
const (
	cookieRuns   = 12347
	cookieNoRuns = 12346
	offsetsFrom  = 4 // with runs, offsets are written only from so many containers on
	arrayLimit   = 4096
	bitsetBytes  = 8192
)

// Vector is a set of deleted rows. It keeps the payload and reads positions from it as they are asked for.
type Vector struct {
	payload     []byte
	cardinality int64
}

// Decode checks a payload: its form, that it has as many positions as the log says, and that they lie below rows, the
// number of rows of the data file; a negative number of rows is not known. The payload is kept.
func Decode(payload []byte, cardinality, rows int64) (*Vector, error) {
	v := &Vector{payload: payload}
	last := int64(-1)
	err := walk(payload, func(c container) bool {
		v.cardinality += int64(c.count)
		last = c.last()
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case v.cardinality != cardinality:
		return nil, corrupt("it has %d positions, the log says %d", v.cardinality, cardinality)
	case rows >= 0 && last >= rows:
		return nil, corrupt("it deletes row %d of a file with %d rows", last, rows)
	}
	return v, nil
}

// Cardinality is the number of deleted rows.
func (v *Vector) Cardinality() int64 { return v.cardinality }

// Positions gives the deleted rows, counted from 0, in order.
func (v *Vector) Positions() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		_ = walk(v.payload, func(c container) bool { return c.each(yield) }) // Decode has found it sound
	}
}

// reader takes numbers off the front of bytes.
type reader struct{ b []byte }

func (r *reader) take(n int) ([]byte, bool) {
	if n > len(r.b) {
		return nil, false
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b, true
}

func (r *reader) uint32() (uint32, bool) {
	b, ok := r.take(4)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

func short() error { return corrupt("it ends too early") }

// walk reads a payload and gives its containers in order, until visit returns false.
func walk(payload []byte, visit func(container) bool) error {
	r := &reader{payload}
	m, ok := r.uint32()
	switch {
	case !ok:
		return short()
	case m == magicOld:
		return corrupt("it has the magic number of an old form that is not read")
	case m != magic:
		return corrupt("its magic number is %d", m)
	}
	b, ok := r.take(8)
	if !ok {
		return short()
	}
	buckets := binary.LittleEndian.Uint64(b)
	if buckets > uint64(len(r.b))/8 {
		return corrupt("it says that it has %d bitmaps, more than fit", buckets)
	}
	previous := int64(-1)
	for range buckets {
		key, ok := r.uint32()
		if !ok {
			return short()
		}
		if key>>31 != 0 || int64(key) <= previous {
			return corrupt("the keys of its bitmaps are out of order")
		}
		previous = int64(key)
		if more, err := walkBitmap(r, int64(key)<<32, visit); err != nil || !more {
			return err
		}
	}
	if len(r.b) != 0 {
		return corrupt("%d bytes follow it", len(r.b))
	}
	return nil
}

// walkBitmap reads one bitmap of 32 bits, whose positions begin at base.
func walkBitmap(r *reader, base int64, visit func(container) bool) (bool, error) {
	cookie, ok := r.uint32()
	if !ok {
		return false, short()
	}
	var (
		count uint32
		runs  []byte // a bit for each container that is one of runs
	)
	switch {
	case cookie&0xffff == cookieRuns:
		count = cookie>>16 + 1
		if runs, ok = r.take(int(count+7) / 8); !ok {
			return false, short()
		}
	case cookie == cookieNoRuns:
		if count, ok = r.uint32(); !ok {
			return false, short()
		}
		if count > 1<<16 {
			return false, corrupt("a bitmap has %d containers", count)
		}
	default:
		return false, corrupt("a bitmap begins with %d", cookie)
	}
	header, ok := r.take(4 * int(count))
	if ok && (runs == nil || count >= offsetsFrom) {
		_, ok = r.take(4 * int(count))
	}
	if !ok {
		return false, short()
	}
	previous := -1
	for i := range int(count) {
		key := int(binary.LittleEndian.Uint16(header[4*i:]))
		if key <= previous {
			return false, corrupt("the keys of its containers are out of order")
		}
		previous = key
		c := container{
			base:  base + int64(key)<<16,
			count: int(binary.LittleEndian.Uint16(header[4*i+2:])) + 1,
			runs:  runs != nil && runs[i/8]&(1<<(i%8)) != 0,
		}
		if err := c.read(r); err != nil {
			return false, err
		}
		if !visit(c) {
			return false, nil
		}
	}
	return true, nil
}

// container is a set of up to 65,536 positions from base on: runs, sorted numbers, or bits.
type container struct {
	base  int64
	count int
	runs  bool
	data  []byte
}

func (c *container) bitset() bool { return !c.runs && c.count > arrayLimit }

func (c *container) number(i int) int { return int(binary.LittleEndian.Uint16(c.data[2*i:])) }

// read takes the container's bytes and checks them.
func (c *container) read(r *reader) error {
	size := 2 * c.count
	switch {
	case c.runs:
		b, ok := r.take(2)
		if !ok {
			return short()
		}
		size = 4 * int(binary.LittleEndian.Uint16(b))
	case c.bitset():
		size = bitsetBytes
	}
	var ok bool
	if c.data, ok = r.take(size); !ok {
		return short()
	}
	found := 0
	switch {
	case c.runs:
		end := -1
		for i := 0; i < len(c.data)/2; i += 2 {
			from, length := c.number(i), c.number(i+1)+1
			if from <= end || from+length > 1<<16 {
				return corrupt("the runs of a container are out of order")
			}
			end = from + length - 1
			found += length
		}
	case c.bitset():
		for i := 0; i < bitsetBytes; i += 8 {
			found += bits.OnesCount64(binary.LittleEndian.Uint64(c.data[i:]))
		}
	default:
		found = c.count
		for i := 1; i < c.count; i++ {
			if c.number(i) <= c.number(i-1) {
				return corrupt("the numbers of a container are out of order")
			}
		}
	}
	if found != c.count {
		return corrupt("a container has %d positions and says that it has %d", found, c.count)
	}
	return nil
}

// last is the greatest position.
func (c *container) last() int64 {
	last := 0
	switch {
	case c.runs:
		n := len(c.data)/2 - 2
		last = c.number(n) + c.number(n+1)
	case c.bitset():
		for i := bitsetBytes - 8; i >= 0; i -= 8 {
			if word := binary.LittleEndian.Uint64(c.data[i:]); word != 0 {
				last = 8*i + bits.Len64(word) - 1
				break
			}
		}
	default:
		last = c.number(c.count - 1)
	}
	return c.base + int64(last)
}

// each gives the positions in order, until yield returns false.
func (c *container) each(yield func(int64) bool) bool {
	switch {
	case c.runs:
		for i := 0; i < len(c.data)/2; i += 2 {
			from := c.base + int64(c.number(i))
			for p := range int64(c.number(i+1)) + 1 {
				if !yield(from + p) {
					return false
				}
			}
		}
	case c.bitset():
		for i := 0; i < bitsetBytes; i += 8 {
			word := binary.LittleEndian.Uint64(c.data[i:])
			for ; word != 0; word &= word - 1 {
				if !yield(c.base + int64(8*i+bits.TrailingZeros64(word))) {
					return false
				}
			}
		}
	default:
		for i := range c.count {
			if !yield(c.base + int64(c.number(i))) {
				return false
			}
		}
	}
	return true
}
