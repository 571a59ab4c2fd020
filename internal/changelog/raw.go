package changelog

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The raw messages of a flush go to the engine as one Parquet file: required columns, PLAIN, uncompressed, one page for each
// column of a row group. That is the least work for both sides (docs/adr/0131). What a buffer holds is what the file will
// hold, byte for byte, so a buffer of a million messages is a few dozen objects and its size is known exactly.

// Flags of a raw message.
const (
	flagNullValue = 1 << iota
	flagNullKey
	flagBinaryKey // the key is not UTF-8: it is in kb, and k has it as base64
)

// rawColumn is one column of the raw file.
type rawColumn struct {
	name string
	kind int32 // of Parquet
	text bool
}

// Parquet's physical types.
const (
	parquetInt32     = 1
	parquetInt64     = 2
	parquetByteArray = 6
)

// The columns of the raw file: partition, offset, timestamp in ms (-1: none), flags, poison reason, key as text,
// value, headers, value that is not text, key that is not text.
var rawColumns = [...]rawColumn{
	{"p", parquetInt32, false},
	{"o", parquetInt64, false},
	{"t", parquetInt64, false},
	{"f", parquetInt32, false},
	{"r", parquetInt32, false},
	{"k", parquetByteArray, true},
	{"v", parquetByteArray, true},
	{"h", parquetByteArray, true},
	{"b", parquetByteArray, false},
	{"kb", parquetByteArray, false},
}

// Positions in rawColumns.
const (
	colPartition = iota
	colOffset
	colTimestamp
	colFlags
	colReason
	colKey
	colValue
	colHeaders
	colBinary
	colBinaryKey
)

// A chunk becomes a row group: the engine reads row groups in parallel.
const (
	chunkBytes = 2 << 20
	chunkRows  = 64 << 10
)

type chunk struct {
	rows int
	cols [len(rawColumns)][]byte
}

func (c *chunk) int32(col int, v int32) {
	c.cols[col] = binary.LittleEndian.AppendUint32(c.cols[col], uint32(v))
}

func (c *chunk) int64(col int, v int64) {
	c.cols[col] = binary.LittleEndian.AppendUint64(c.cols[col], uint64(v))
}

func (c *chunk) bytes(col int, v []byte) {
	c.cols[col] = append(binary.LittleEndian.AppendUint32(c.cols[col], uint32(len(v))), v...)
}

// held is the memory that the chunk takes.
func (c *chunk) held() int64 {
	var n int64
	for _, b := range c.cols {
		n += int64(cap(b))
	}
	return n
}

// used is the size of what is in the chunk.
func (c *chunk) used() int {
	n := 0
	for _, b := range c.cols {
		n += len(b)
	}
	return n
}

// writeRaw writes chunks as a Parquet file.
func writeRaw(w io.Writer, chunks []*chunk) error {
	out := &counter{w: w}
	if _, err := out.Write([]byte("PAR1")); err != nil {
		return fmt.Errorf("write raw messages: %w", err)
	}
	var groups []rowGroup
	for _, c := range chunks {
		g := rowGroup{rows: int64(c.rows)}
		for _, data := range c.cols {
			at := out.n
			if _, err := out.Write(pageHeader(len(data), c.rows)); err != nil {
				return fmt.Errorf("write raw messages: %w", err)
			}
			if _, err := out.Write(data); err != nil {
				return fmt.Errorf("write raw messages: %w", err)
			}
			g.columns = append(g.columns, columnChunk{at, out.n - at})
		}
		groups = append(groups, g)
	}
	foot := footer(groups)
	foot = binary.LittleEndian.AppendUint32(foot, uint32(len(foot)))
	if _, err := out.Write(append(foot, "PAR1"...)); err != nil {
		return fmt.Errorf("write raw messages: %w", err)
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type rowGroup struct {
	rows    int64
	columns []columnChunk
}

type columnChunk struct{ at, size int64 }

func pageHeader(size, values int) []byte {
	var t thrift
	t.i32(1, 0) // a data page
	t.i32(2, int32(size))
	t.i32(3, int32(size))
	t.begin(5)
	t.i32(1, int32(values))
	t.i32(2, 0) // PLAIN
	t.i32(3, 3) // levels would be RLE; required columns have none
	t.i32(4, 3)
	t.end()
	t.stop()
	return t.buf
}

func footer(groups []rowGroup) []byte {
	var t thrift
	var rows int64
	for _, g := range groups {
		rows += g.rows
	}
	t.i32(1, 1) // version
	t.list(2, thriftStruct, len(rawColumns)+1)
	t.element()
	t.text(4, "messages")
	t.i32(5, int32(len(rawColumns)))
	t.end()
	for _, c := range rawColumns {
		t.element()
		t.i32(1, c.kind)
		t.i32(3, 0) // required
		t.text(4, c.name)
		if c.text {
			t.i32(6, 0) // UTF8
		}
		t.end()
	}
	t.i64(3, rows)
	t.list(4, thriftStruct, len(groups))
	for _, g := range groups {
		t.element()
		t.list(1, thriftStruct, len(g.columns))
		var total int64
		for i, c := range g.columns {
			total += c.size
			t.element()
			t.i64(2, c.at)
			t.begin(3)
			t.i32(1, rawColumns[i].kind)
			t.list(2, thriftI32, 1)
			t.varint(0) // PLAIN
			t.list(3, thriftBinary, 1)
			t.raw(rawColumns[i].name)
			t.i32(4, 0) // uncompressed
			t.i64(5, g.rows)
			t.i64(6, c.size)
			t.i64(7, c.size)
			t.i64(9, c.at)
			t.end()
			t.end()
		}
		t.i64(2, total)
		t.i64(3, g.rows)
		t.end()
	}
	t.text(6, "sluice")
	t.stop()
	return t.buf
}

// thrift writes Thrift's compact protocol, as far as Parquet's footers need it.
type thrift struct {
	buf  []byte
	last []int16 // the last field of each open struct
	at   int16
}

// Types of the compact protocol.
const (
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

func (t *thrift) field(id int16, typ byte) {
	t.buf = append(t.buf, byte(id-t.at)<<4|typ) // ids rise by less than 16 here
	t.at = id
}

func (t *thrift) varint(v int64) { t.buf = binary.AppendUvarint(t.buf, uint64(v)<<1^uint64(v>>63)) }

func (t *thrift) i32(id int16, v int32) {
	t.field(id, thriftI32)
	t.varint(int64(v))
}

func (t *thrift) i64(id int16, v int64) {
	t.field(id, thriftI64)
	t.varint(v)
}

func (t *thrift) raw(s string) {
	t.buf = append(binary.AppendUvarint(t.buf, uint64(len(s))), s...)
}

func (t *thrift) text(id int16, s string) {
	t.field(id, thriftBinary)
	t.raw(s)
}

func (t *thrift) list(id int16, typ byte, n int) {
	t.field(id, thriftList)
	if n < 15 {
		t.buf = append(t.buf, byte(n)<<4|typ)
		return
	}
	t.buf = binary.AppendUvarint(append(t.buf, 0xf0|typ), uint64(n))
}

// begin opens a struct that is a field, element one that is in a list; end closes either.
func (t *thrift) begin(id int16) {
	t.field(id, thriftStruct)
	t.element()
}

func (t *thrift) element() {
	t.last = append(t.last, t.at)
	t.at = 0
}

func (t *thrift) end() {
	t.stop()
	t.at = t.last[len(t.last)-1]
	t.last = t.last[:len(t.last)-1]
}

func (t *thrift) stop() { t.buf = append(t.buf, 0) }
