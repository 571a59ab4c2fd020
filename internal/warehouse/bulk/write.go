package bulk

import (
	"bytes"
	"encoding/binary"
)

// Writer makes COPY data of rows. Begin, then for each row Row, the fields in order, and EndRow; then End.
type Writer struct {
	opt     Options
	columns []string
	force   []bool
	column  int
}

// NewWriter writes rows of the columns.
func NewWriter(opt Options, columns []string) *Writer {
	w := &Writer{opt: opt, columns: columns, force: make([]bool, len(columns))}
	for i, c := range columns {
		w.force[i] = opt.ForceQuote.Has(c)
	}
	return w
}

// Begin appends what stands before the first row, if anything does.
func (w *Writer) Begin(dst []byte) []byte {
	if w.opt.Format == Binary {
		return append(append(dst, signature...), 0, 0, 0, 0, 0, 0, 0, 0)
	}
	if !w.opt.Header {
		return dst
	}
	dst = w.Row(dst)
	for _, c := range w.columns {
		if w.opt.Format == CSV {
			dst = w.csv(w.separate(dst), []byte(c), false)
			w.column++
		} else {
			dst = w.Field(dst, []byte(c))
		}
	}
	return w.EndRow(dst)
}

// Row begins a row.
func (w *Writer) Row(dst []byte) []byte {
	w.column = 0
	if w.opt.Format == Binary {
		return binary.BigEndian.AppendUint16(dst, uint16(len(w.columns)))
	}
	return dst
}

func (w *Writer) separate(dst []byte) []byte {
	if w.column > 0 {
		return append(dst, w.opt.Delimiter)
	}
	return dst
}

// Null appends a NULL.
func (w *Writer) Null(dst []byte) []byte {
	if w.opt.Format == Binary {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = append(w.separate(dst), w.opt.Null...)
	w.column++
	return dst
}

// Field appends a value.
func (w *Writer) Field(dst, b []byte) []byte {
	switch w.opt.Format {
	case Binary:
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
	case CSV:
		dst = w.csv(w.separate(dst), b, w.force[w.column])
	case Text:
		dst = w.text(w.separate(dst), b)
	}
	w.column++
	return dst
}

// EndRow ends a row.
func (w *Writer) EndRow(dst []byte) []byte {
	if w.opt.Format == Binary {
		return dst
	}
	return append(dst, '\n')
}

// End appends what stands after the last row, if anything does.
func (w *Writer) End(dst []byte) []byte {
	if w.opt.Format == Binary {
		return append(dst, 0xff, 0xff)
	}
	return dst
}

func (w *Writer) text(dst, b []byte) []byte {
	for _, c := range b {
		switch {
		case c == '\\' || c == w.opt.Delimiter:
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\v':
			dst = append(dst, '\\', 'v')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func (w *Writer) csv(dst, b []byte, force bool) []byte {
	if !force && !w.needsQuotes(b) {
		return append(dst, b...)
	}
	dst = append(dst, w.opt.Quote)
	for _, c := range b {
		if c == w.opt.Quote || c == w.opt.Escape {
			dst = append(dst, w.opt.Escape)
		}
		dst = append(dst, c)
	}
	return append(dst, w.opt.Quote)
}

func (w *Writer) needsQuotes(b []byte) bool {
	if string(b) == w.opt.Null || len(w.columns) == 1 && string(b) == `\.` {
		return true
	}
	return bytes.IndexByte(b, w.opt.Delimiter) >= 0 || bytes.IndexByte(b, w.opt.Quote) >= 0 || bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}
