package duck

import (
	"context"
	"unsafe"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// chunkRows is how many rows a chunk of the engine holds.
const chunkRows = 2048

// Appender collects rows and hands them to a statement, many at a time. Each handing over is a statement of its own, so
// the caller holds a transaction around it.
type Appender struct {
	conn  *Conn
	raw   bindings.Appender
	types []bindings.LogicalType
	chunk bindings.DataChunk
	cols  []Builder
	row   int
	bytes int
	limit int
}

// NewAppender makes an appender for a statement that reads its rows from a table called source, with columns of the types,
// called names. limit bounds the bytes of long values that are collected before they are handed over.
func (c *Conn) NewAppender(sql, source string, types []*Type, names []string, limit int) (*Appender, error) {
	a := &Appender{conn: c, cols: make([]Builder, len(types)), limit: limit}
	for _, t := range types {
		lt, err := logicalNested(t)
		if err != nil {
			a.Close()
			return nil, err
		}
		a.types = append(a.types, lt)
	}
	if bindings.AppenderCreateQuery(c.raw, sql, a.types, source, names, &a.raw) == bindings.StateError {
		err := a.err()
		a.Close()
		return nil, err
	}
	a.chunk = bindings.CreateDataChunk(a.types)
	for i, t := range types {
		a.cols[i].Type = t
	}
	a.reset()
	return a, nil
}

func (a *Appender) err() error {
	data := bindings.AppenderErrorData(a.raw)
	defer bindings.DestroyErrorData(&data)
	return &Error{Type: ErrorType(bindings.ErrorDataErrorType(data)), Msg: bindings.ErrorDataMessage(data)}
}

// reset makes the chunk empty; its memory may move.
func (a *Appender) reset() {
	bindings.DataChunkReset(a.chunk)
	a.row = 0
	for i := range a.cols {
		a.cols[i].init(bindings.DataChunkGetVector(a.chunk, bindings.IdxT(i)))
	}
}

// Column is the i-th column, in which the row that is being built is set.
func (a *Appender) Column(i int) *Builder { return &a.cols[i] }

// Row is the row of the columns that is being built.
func (a *Appender) Row() int { return a.row }

// EndRow ends the row; size is what its long values take. From time to time it runs the statement.
func (a *Appender) EndRow(ctx context.Context, size int) error {
	a.row++
	a.bytes += size
	if a.row < chunkRows && a.bytes < a.limit {
		return nil
	}
	if err := a.hand(ctx); err != nil {
		return err
	}
	if a.bytes < a.limit {
		return nil
	}
	a.bytes = 0
	return a.run(ctx, bindings.AppenderFlush)
}

// hand gives the chunk to the engine, which runs the statement when it has collected enough.
func (a *Appender) hand(ctx context.Context) error {
	if a.row == 0 {
		return nil
	}
	for i := range a.cols {
		a.cols[i].finish()
	}
	bindings.DataChunkSetSize(a.chunk, bindings.IdxT(a.row))
	err := a.run(ctx, func(raw bindings.Appender) bindings.State { return bindings.AppendDataChunk(raw, a.chunk) })
	if err == nil {
		a.reset()
	}
	return err
}

func (a *Appender) run(ctx context.Context, f func(bindings.Appender) bindings.State) error {
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	release := a.conn.guard(ctx)
	defer release()
	if f(a.raw) == bindings.StateError {
		return a.err()
	}
	return nil
}

// Finish runs the statement for the rows that are left.
func (a *Appender) Finish(ctx context.Context) error {
	if err := a.hand(ctx); err != nil {
		return err
	}
	return a.run(ctx, bindings.AppenderFlush)
}

// Close frees the appender. Rows that have not been handed over are dropped.
func (a *Appender) Close() {
	if a.raw.Ptr != nil {
		bindings.AppenderClear(a.raw) // or destroying it would run the statement once more
		bindings.AppenderDestroy(&a.raw)
	}
	if a.chunk.Ptr != nil {
		bindings.DestroyDataChunk(&a.chunk)
	}
	for i := range a.types {
		bindings.DestroyLogicalType(&a.types[i])
	}
	a.types = nil
}

// logicalNested is logical, and lists of it.
func logicalNested(t *Type) (bindings.LogicalType, error) {
	if t.ID != List {
		return logical(t)
	}
	child, err := logicalNested(t.Child)
	if err != nil {
		return bindings.LogicalType{}, err
	}
	defer bindings.DestroyLogicalType(&child)
	return bindings.CreateListType(child), nil
}

// Builder is a column whose values are being set: a vector that is written to.
type Builder struct {
	Type     *Type
	raw      bindings.Vector
	data     unsafe.Pointer
	validity unsafe.Pointer // nil until the first NULL
	child    *Builder       // of a LIST
	length   int            // of a LIST's child
	capacity int
}

func (b *Builder) init(raw bindings.Vector) {
	b.raw, b.data, b.validity = raw, bindings.VectorGetData(raw), nil
	if b.Type.ID != List {
		return
	}
	if b.child == nil {
		b.child = &Builder{Type: b.Type.Child}
	}
	b.length, b.capacity = 0, 0
	b.child.init(bindings.ListVectorGetChild(raw))
}

func (b *Builder) finish() {
	if b.Type.ID == List {
		bindings.ListVectorSetSize(b.raw, bindings.IdxT(b.length))
		b.child.finish()
	}
}

func put[T any](b *Builder, row int, v T) {
	*(*T)(unsafe.Add(b.data, uintptr(row)*unsafe.Sizeof(v))) = v
}

// SetNull sets NULL.
func (b *Builder) SetNull(row int) {
	if b.validity == nil {
		bindings.VectorEnsureValidityWritable(b.raw)
		b.validity = bindings.VectorGetValidity(b.raw)
	}
	word := (*uint64)(unsafe.Add(b.validity, row/64*8))
	*word &^= 1 << (uint(row) % 64)
	if b.Type.ID == List {
		put(b, row, [2]uint64{})
	}
}

// SetBool sets a BOOLEAN.
func (b *Builder) SetBool(row int, v bool) {
	if v {
		put(b, row, uint8(1))
	} else {
		put(b, row, uint8(0))
	}
}

// SetInt sets what Vector.Int reads; false says that the value does not fit.
func (b *Builder) SetInt(row int, n int64) bool {
	fits := true
	switch b.Type.Physical {
	case TinyInt:
		fits = n == int64(int8(n))
		put(b, row, int8(n))
	case SmallInt:
		fits = n == int64(int16(n))
		put(b, row, int16(n))
	case Integer:
		fits = n == int64(int32(n))
		put(b, row, int32(n))
	case UTinyInt:
		fits = n == int64(uint8(n))
		put(b, row, uint8(n))
	case USmallInt:
		fits = n == int64(uint16(n))
		put(b, row, uint16(n))
	case UInteger:
		fits = n == int64(uint32(n))
		put(b, row, uint32(n))
	default:
		put(b, row, n)
	}
	return fits
}

// SetUint64 sets a UBIGINT.
func (b *Builder) SetUint64(row int, n uint64) { put(b, row, n) }

// SetHuge sets the two halves of a 128-bit value.
func (b *Builder) SetHuge(row int, lower, upper uint64) { put(b, row, [2]uint64{lower, upper}) }

// SetFloat32 sets a FLOAT.
func (b *Builder) SetFloat32(row int, f float32) { put(b, row, f) }

// SetFloat64 sets a DOUBLE.
func (b *Builder) SetFloat64(row int, f float64) { put(b, row, f) }

// SetInterval sets an INTERVAL.
func (b *Builder) SetInterval(row int, months, days int32, micros int64) {
	put(b, row, struct {
		months, days int32
		micros       int64
	}{months, days, micros})
}

// SetBytes sets VARCHAR (valid UTF-8), BLOB, BIT and the like.
func (b *Builder) SetBytes(row int, v []byte) {
	if len(v) > inlineLength {
		bindings.UnsafeVectorAssignStringElementLen(b.raw, bindings.IdxT(row), v)
		return
	}
	var cell [16]byte
	*(*uint32)(unsafe.Pointer(&cell)) = uint32(len(v))
	copy(cell[4:], v)
	put(b, row, cell)
}

// SetList sets a LIST of n elements, and gives the column that they are set in and the place of the first one.
func (b *Builder) SetList(row, n int) (child *Builder, from int) {
	from = b.length
	if b.length+n > b.capacity {
		b.capacity = max(2*b.capacity, b.length+n, chunkRows)
		bindings.ListVectorSetSize(b.raw, bindings.IdxT(b.length)) // what is there is copied
		bindings.ListVectorReserve(b.raw, bindings.IdxT(b.capacity))
		b.child.raw = bindings.ListVectorGetChild(b.raw)
		b.child.data = bindings.VectorGetData(b.child.raw)
		if b.child.validity != nil {
			bindings.VectorEnsureValidityWritable(b.child.raw)
			b.child.validity = bindings.VectorGetValidity(b.child.raw)
		}
	}
	b.length += n
	put(b, row, [2]uint64{uint64(from), uint64(n)})
	return b.child, from
}

// Copy sets the value that a column of a result has in a row; both have the same type, which is no nested one.
func (b *Builder) Copy(row int, v *Vector, from int) bool {
	if v.Null(from) {
		b.SetNull(row)
		return true
	}
	size := uintptr(0)
	switch v.Type.Physical {
	case Boolean, TinyInt, UTinyInt:
		size = 1
	case SmallInt, USmallInt:
		size = 2
	case Integer, UInteger, Float:
		size = 4
	case BigInt, UBigInt, Double, Time, TimeNS, TimeTZ, Timestamp, TimestampS, TimestampMS, TimestampNS, TimestampTZ:
		size = 8
	case HugeInt, UHugeInt, UUID, Interval:
		size = 16
	case Varchar, Blob, Bit, BigNum:
		b.SetBytes(row, v.Bytes(from))
		return true
	default:
		return false
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(b.data, uintptr(row)*size)), size), unsafe.Slice((*byte)(unsafe.Add(v.data, uintptr(from)*size)), size))
	return true
}
