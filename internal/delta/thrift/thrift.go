// Package thrift reads values that Thrift's compact protocol has written, as the footers and page headers of Parquet files
// are. It is pure, believes no length before it has seen as many bytes, and allocates nothing.
package thrift

import (
	"errors"
	"math"
)

// Type is a type of the compact protocol.
type Type byte

// The types.
const (
	stop   Type = 0
	True   Type = 1
	False  Type = 2
	Byte   Type = 3
	I16    Type = 4
	I32    Type = 5
	I64    Type = 6
	Double Type = 7
	Binary Type = 8
	List   Type = 9
	Set    Type = 10
	Map    Type = 11
	Struct Type = 12
)

const maxNesting = 32

// The errors of a Reader.
var (
	ErrShort = errors.New("the text ends inside a value")
	ErrForm  = errors.New("the text is not as Thrift writes it")
)

// Reader takes values off the front of bytes. The first error stays; after it every value is zero.
type Reader struct {
	b       []byte
	err     error
	nesting int
}

// New reads from b.
func New(b []byte) *Reader { return &Reader{b: b} }

// Err is the first error.
func (t *Reader) Err() error { return t.err }

// Left is how many bytes have not been read.
func (t *Reader) Left() int { return len(t.b) }

// Fail ends the reading with an error, unless there was one before.
func (t *Reader) Fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.b = nil
}

// Byte reads a byte.
func (t *Reader) Byte() byte {
	if len(t.b) == 0 {
		t.Fail(ErrShort)
		return 0
	}
	c := t.b[0]
	t.b = t.b[1:]
	return c
}

func (t *Reader) varint() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		c := t.Byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	t.Fail(ErrForm)
	return 0
}

// Int reads an integer of any width.
func (t *Reader) Int() int64 {
	n := t.varint()
	return int64(n>>1) ^ -int64(n&1)
}

// Int32 is an integer that must fit 32 bits.
func (t *Reader) Int32() int32 {
	n := t.Int()
	if n < math.MinInt32 || n > math.MaxInt32 {
		t.Fail(ErrForm)
		return 0
	}
	return int32(n)
}

// Bytes reads a text, where it lies.
func (t *Reader) Bytes() []byte {
	n := t.varint()
	if n > uint64(len(t.b)) {
		t.Fail(ErrShort)
		return nil
	}
	b := t.b[:n]
	t.b = t.b[n:]
	return b
}

// List begins a list and gives the type of its elements and their number, of which no more are claimed than bytes follow.
func (t *Reader) List() (element Type, n int) {
	head := t.Byte()
	size := uint64(head >> 4)
	if size == 15 {
		size = t.varint()
	}
	if size > uint64(len(t.b)) {
		t.Fail(ErrShort)
		return 0, 0
	}
	return Type(head & 0xf), int(size)
}

// Fields reads a struct: field is called for each with its id and type and reads its value.
func (t *Reader) Fields(field func(id int16, kind Type)) {
	if t.nesting++; t.nesting > maxNesting {
		t.Fail(ErrForm)
	}
	defer func() { t.nesting-- }()
	id := int16(0)
	for t.err == nil {
		head := t.Byte()
		if Type(head) == stop {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			n := t.Int()
			if n < math.MinInt16 || n > math.MaxInt16 {
				t.Fail(ErrForm)
			}
			id = int16(n)
		}
		if t.err == nil {
			field(id, Type(head&0xf))
		}
	}
}

// Expect reports whether a value is of the wanted type; another one is an error.
func (t *Reader) Expect(kind, wanted Type) bool {
	if kind == wanted {
		return true
	}
	t.Fail(ErrForm)
	return false
}

// Skip moves over a value of any type.
func (t *Reader) Skip(kind Type) {
	switch kind {
	case True, False:
	case Byte:
		t.Byte()
	case I16, I32, I64:
		t.varint()
	case Double:
		if len(t.b) < 8 {
			t.Fail(ErrShort)
			return
		}
		t.b = t.b[8:]
	case Binary:
		t.Bytes()
	case List, Set:
		element, n := t.List()
		t.Each(n, func() { t.element(element) })
	case Map:
		t.skipMap()
	case Struct:
		t.Fields(func(_ int16, kind Type) { t.Skip(kind) })
	default:
		t.Fail(ErrForm)
	}
}

// Each calls f so many times, or until there is an error.
func (t *Reader) Each(n int, f func()) {
	if t.nesting++; t.nesting > maxNesting {
		t.Fail(ErrForm)
	}
	for i := 0; i < n && t.err == nil; i++ {
		f()
	}
	t.nesting--
}

// element skips a value inside a list: there a boolean takes a byte.
func (t *Reader) element(kind Type) {
	if kind == True || kind == False {
		t.Byte()
		return
	}
	t.Skip(kind)
}

func (t *Reader) skipMap() {
	n := t.varint()
	if n == 0 {
		return
	}
	if n > uint64(len(t.b)) {
		t.Fail(ErrShort)
		return
	}
	kinds := t.Byte()
	t.Each(int(n), func() {
		t.element(Type(kinds >> 4))
		t.element(Type(kinds & 0xf))
	})
}
