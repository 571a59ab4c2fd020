package duck

import (
	"context"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Result is a running or finished statement.
type Result struct {
	conn    *Conn
	raw     bindings.Result
	columns []Column
	closed  bool
}

// Columns are the result's columns.
func (r *Result) Columns() []Column { return r.columns }

// HasRows reports whether the statement is a query; if not, its only column is the engine's counter or flag.
func (r *Result) HasRows() bool {
	return bindings.ResultReturnType(r.raw) == bindings.ResultTypeQueryResult
}

// Changed is the number of rows that the statement changed, 0 where the engine does not count.
func (r *Result) Changed(ctx context.Context) (int64, error) {
	if bindings.ResultReturnType(r.raw) != bindings.ResultTypeChangedRows {
		return 0, nil
	}
	return int64(bindings.RowsChanged(&r.raw)), nil
}

// Next gives the next rows, nil at the end. The caller closes the chunk before it asks for another.
func (r *Result) Next(ctx context.Context) (*Chunk, error) {
	for {
		if ctx.Err() != nil {
			return nil, interrupted(ctx)
		}
		release := r.conn.guard(ctx)
		raw := bindings.FetchChunk(r.raw)
		release()
		if raw.Ptr == nil {
			if msg := bindings.ResultError(&r.raw); msg != "" {
				return nil, errorFromResult(&r.raw)
			}
			return nil, nil
		}
		n := int(bindings.DataChunkGetSize(raw))
		if n == 0 {
			bindings.DestroyDataChunk(&raw)
			continue
		}
		return newChunk(raw, n, r.columns), nil
	}
}

func (r *Result) drain(ctx context.Context) error {
	for {
		ch, err := r.Next(ctx)
		if err != nil || ch == nil {
			return err
		}
		ch.Close()
	}
}

// Close ends the statement if it still runs and frees its memory.
func (r *Result) Close() {
	if !r.closed {
		r.closed = true
		bindings.DestroyResult(&r.raw)
	}
}

// Chunk is up to 2,048 rows.
type Chunk struct {
	raw     bindings.DataChunk
	size    int
	vectors []Vector
}

func newChunk(raw bindings.DataChunk, n int, cols []Column) *Chunk {
	c := &Chunk{raw: raw, size: n, vectors: make([]Vector, len(cols))}
	for i := range cols {
		c.vectors[i].init(bindings.DataChunkGetVector(raw, bindings.IdxT(i)), cols[i].Type)
	}
	return c
}

// Size is the number of rows.
func (c *Chunk) Size() int { return c.size }

// Column is the i-th column, valid until Close.
func (c *Chunk) Column(i int) *Vector { return &c.vectors[i] }

// Close frees the chunk.
func (c *Chunk) Close() {
	if c.raw.Ptr != nil {
		bindings.DestroyDataChunk(&c.raw)
		c.raw.Ptr = nil
	}
}
