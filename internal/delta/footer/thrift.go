package footer

import (
	"errors"
	"math"
)

// The types of the compact protocol.
const (
	typeStop   = 0
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeI16    = 4
	typeI32    = 5
	typeI64    = 6
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
)

const maxNesting = 32

var (
	errShort  = errors.New("the footer ends inside a value")
	errThrift = errors.New("the footer is not as Thrift writes it")
)

// thrift takes values off the front of bytes. The first error stays; after it every value is zero.
type thrift struct {
	b       []byte
	err     error
	nesting int
}

func (t *thrift) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.b = nil
}

func (t *thrift) byte() byte {
	if len(t.b) == 0 {
		t.fail(errShort)
		return 0
	}
	c := t.b[0]
	t.b = t.b[1:]
	return c
}

func (t *thrift) varint() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		c := t.byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	t.fail(errThrift)
	return 0
}

func (t *thrift) int() int64 {
	n := t.varint()
	return int64(n>>1) ^ -int64(n&1)
}

// i32 is an integer that must fit 32 bits.
func (t *thrift) i32() int32 {
	n := t.int()
	if n < math.MinInt32 || n > math.MaxInt32 {
		t.fail(errThrift)
		return 0
	}
	return int32(n)
}

func (t *thrift) binary() []byte {
	n := t.varint()
	if n > uint64(len(t.b)) {
		t.fail(errShort)
		return nil
	}
	b := t.b[:n]
	t.b = t.b[n:]
	return b
}

// list begins a list and gives the type of its elements and their number, of which no more are claimed than bytes follow.
func (t *thrift) list() (element byte, n int) {
	head := t.byte()
	size := uint64(head >> 4)
	if size == 15 {
		size = t.varint()
	}
	if size > uint64(len(t.b)) {
		t.fail(errShort)
		return 0, 0
	}
	return head & 0xf, int(size)
}

// fields reads a struct: field is called for each with its id and type and reads its value.
func (t *thrift) fields(field func(id int16, kind byte)) {
	if t.nesting++; t.nesting > maxNesting {
		t.fail(errThrift)
	}
	defer func() { t.nesting-- }()
	id := int16(0)
	for t.err == nil {
		head := t.byte()
		if head == typeStop {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			n := t.int()
			if n < math.MinInt16 || n > math.MaxInt16 {
				t.fail(errThrift)
			}
			id = int16(n)
		}
		if t.err == nil {
			field(id, head&0xf)
		}
	}
}

// expect skips a value of another type than wanted and reports whether it is of the wanted one.
func (t *thrift) expect(kind, wanted byte) bool {
	if kind == wanted {
		return true
	}
	t.fail(errThrift)
	return false
}

// skip moves over a value of any type.
func (t *thrift) skip(kind byte) {
	switch kind {
	case typeTrue, typeFalse:
	case typeByte:
		t.byte()
	case typeI16, typeI32, typeI64:
		t.varint()
	case typeDouble:
		if len(t.b) < 8 {
			t.fail(errShort)
			return
		}
		t.b = t.b[8:]
	case typeBinary:
		t.binary()
	case typeList, typeSet:
		element, n := t.list()
		t.each(n, func() { t.element(element) })
	case typeMap:
		t.skipMap()
	case typeStruct:
		t.fields(func(_ int16, kind byte) { t.skip(kind) })
	default:
		t.fail(errThrift)
	}
}

// each calls f so many times, or until there is an error.
func (t *thrift) each(n int, f func()) {
	if t.nesting++; t.nesting > maxNesting {
		t.fail(errThrift)
	}
	for i := 0; i < n && t.err == nil; i++ {
		f()
	}
	t.nesting--
}

// element skips a value inside a list: there a boolean takes a byte.
func (t *thrift) element(kind byte) {
	if kind == typeTrue || kind == typeFalse {
		t.byte()
		return
	}
	t.skip(kind)
}

func (t *thrift) skipMap() {
	n := t.varint()
	if n == 0 {
		return
	}
	if n > uint64(len(t.b)) {
		t.fail(errShort)
		return
	}
	kinds := t.byte()
	t.each(int(n), func() {
		t.element(kinds >> 4)
		t.element(kinds & 0xf)
	})
}
