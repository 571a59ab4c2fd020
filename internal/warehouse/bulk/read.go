package bulk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrFormat: the bytes are not of the format.
var ErrFormat = errors.New("bad copy file format")

// ErrTooLong: a row is longer than the Reader may hold.
var ErrTooLong = errors.New("a row is too long")

// Field is a column's value as it was written; Null has no bytes.
type Field struct {
	Bytes []byte
	Null  bool
}

// Reader takes COPY data apart. Feed it, then call Next until it says that it needs more; Close it at the end of the data
// and call Next again. The fields of a row are valid until the next call.
type Reader struct {
	opt     Options
	columns []string
	max     int

	buf     []byte
	from    int // of what is not read yet
	scanned int // of that, what is known to hold no end of a row
	quoted  bool
	line    int // of the row that was read last, from 1; of binary data the number of the row
	begun   bool
	ended   bool // no more bytes will come
	over    bool // the end mark was seen

	fields []Field
	plain  []byte // de-escaped fields
}

// NewReader reads rows of the columns; max bounds the bytes of one.
func NewReader(opt Options, columns []string, max int) *Reader {
	return &Reader{opt: opt, columns: columns, max: max, fields: make([]Field, 0, len(columns))}
}

// Feed adds bytes. They are copied.
func (r *Reader) Feed(b []byte) {
	if r.over {
		return
	}
	if r.from > 0 {
		n := copy(r.buf, r.buf[r.from:])
		r.buf, r.from = r.buf[:n], 0
	}
	r.buf = append(r.buf, b...)
}

// Close says that no more bytes will come.
func (r *Reader) Close() { r.ended = true }

// Line is where the last row stood.
func (r *Reader) Line() int { return r.line }

// Next gives the next row. Without one, ok is false: more bytes are needed, or after Close there is no row any more.
func (r *Reader) Next() (row []Field, ok bool, err error) {
	if r.over {
		return nil, false, nil
	}
	if r.opt.Format == Binary {
		return r.nextBinary()
	}
	for {
		line, ok := r.cut()
		switch {
		case !ok && len(r.buf)-r.from > r.max:
			r.line++
			return nil, false, fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.max)
		case !ok && r.quoted && r.ended && len(r.buf) > r.from:
			r.line++
			return nil, false, fmt.Errorf("unterminated CSV quoted field: %w", ErrFormat)
		case !ok:
			return nil, false, nil
		}
		r.line++
		if len(line) == 2 && line[0] == '\\' && line[1] == '.' {
			r.over = true
			return nil, false, nil
		}
		header := !r.begun && r.opt.Header
		r.begun = true
		if header && !r.opt.Match {
			continue
		}
		if r.opt.Format == CSV {
			err = r.splitCSV(line)
		} else {
			r.splitText(line)
		}
		if err == nil {
			err = r.checkCount()
		}
		if header && err == nil {
			if err = r.checkHeader(); err == nil {
				continue
			}
		}
		return r.fields, err == nil, err
	}
}

// cut takes the next line off the buffer, without its end.
func (r *Reader) cut() (line []byte, ok bool) {
	rest := r.buf[r.from:]
	at := r.scanned
	for {
		i := bytes.IndexByte(rest[at:], '\n')
		if r.opt.Format == CSV {
			i = r.endCSV(rest, at)
		}
		if i < 0 {
			break
		}
		end := at + i
		if r.opt.Format == Text && escaped(rest[:end]) {
			at = end + 1
			continue
		}
		r.from += end + 1
		r.scanned, r.quoted = 0, false
		return bytes.TrimSuffix(rest[:end], []byte{'\r'}), true
	}
	r.scanned = len(rest)
	if r.ended && len(rest) > 0 && !r.quoted {
		r.from += len(rest)
		r.scanned = 0
		return bytes.TrimSuffix(rest, []byte{'\r'}), true
	}
	return nil, false
}

// escaped reports whether what follows b is escaped by a backslash at its end.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// endCSV finds the next line end outside of quotes; -1: not there yet. It remembers whether what it has seen ends inside.
// An escape that is not the quote itself is looked at only inside of quotes.
func (r *Reader) endCSV(b []byte, from int) int {
	escape := false
	if r.quoted && r.opt.Escape != r.opt.Quote && from > 0 {
		n := 0
		for n < from && b[from-1-n] == r.opt.Escape {
			n++
		}
		escape = n%2 == 1
	}
	for i := from; i < len(b); i++ {
		if !r.quoted {
			nl := bytes.IndexByte(b[i:], '\n')
			end := len(b)
			if nl >= 0 {
				end = i + nl
			}
			q := bytes.IndexByte(b[i:end], r.opt.Quote)
			if q < 0 {
				if nl < 0 {
					return -1
				}
				return end - from
			}
			i += q
			r.quoted = true
			continue
		}
		switch {
		case escape:
			escape = false
		case b[i] == r.opt.Escape && r.opt.Escape != r.opt.Quote:
			escape = true
		case b[i] == r.opt.Quote: // a doubled one leaves and enters again
			r.quoted = false
		}
	}
	return -1
}

func (r *Reader) checkCount() error {
	switch {
	case len(r.fields) < len(r.columns):
		return fmt.Errorf("missing data for column %q: %w", r.columns[len(r.fields)], ErrFormat)
	case len(r.fields) > len(r.columns):
		return fmt.Errorf("extra data after last expected column: %w", ErrFormat)
	}
	return nil
}

func (r *Reader) checkHeader() error {
	for i, f := range r.fields {
		if string(f.Bytes) != r.columns[i] {
			return fmt.Errorf("column name mismatch in header line field %d: got %q, expected %q: %w", i+1, f.Bytes, r.columns[i], ErrFormat)
		}
	}
	return nil
}

func (r *Reader) add(b []byte, null bool) {
	r.fields = append(r.fields, Field{b, null})
}

func (r *Reader) splitText(line []byte) {
	r.fields, r.plain = r.fields[:0], r.plain[:0]
	if len(r.columns) == 0 && len(line) == 0 {
		return
	}
	if cap(r.plain) < len(line) { // fields point into it, so it must not move
		r.plain = make([]byte, 0, 2*len(line))
	}
	for from := 0; ; {
		end := from
		slash := false
		for end < len(line) && line[end] != r.opt.Delimiter {
			if line[end] == '\\' && end+1 < len(line) {
				slash = true
				end++
			}
			end++
		}
		raw := line[from:min(end, len(line))]
		switch {
		case string(raw) == r.opt.Null:
			r.add(nil, true)
		case slash:
			at := len(r.plain)
			r.plain = unescape(r.plain, raw)
			r.add(r.plain[at:], false)
		default:
			r.add(raw, false)
		}
		if end >= len(line) {
			return
		}
		from = end + 1
	}
}

// unescape decodes the backslashes of the text format.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' || i+1 == len(raw) {
			dst = append(dst, c)
			continue
		}
		i++
		switch c = raw[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'v':
			dst = append(dst, '\v')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, digits := int(c-'0'), 1
			for digits < 3 && i+1 < len(raw) && raw[i+1] >= '0' && raw[i+1] <= '7' {
				i++
				digits++
				n = n<<3 | int(raw[i]-'0')
			}
			dst = append(dst, byte(n))
		case 'x':
			n, digits := 0, 0
			for digits < 2 && i+1 < len(raw) && hexDigit(raw[i+1]) >= 0 {
				i++
				digits++
				n = n<<4 | hexDigit(raw[i])
			}
			if digits == 0 {
				dst = append(dst, 'x')
			} else {
				dst = append(dst, byte(n))
			}
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (r *Reader) splitCSV(line []byte) error {
	r.fields, r.plain = r.fields[:0], r.plain[:0]
	if len(r.columns) == 0 && len(line) == 0 {
		return nil
	}
	if cap(r.plain) < len(line) { // fields point into it, so it must not move
		r.plain = make([]byte, 0, 2*len(line))
	}
	for from := 0; ; {
		at, quoted, wasQuoted := len(r.plain), false, false
		i := from
		for ; i < len(line) && (quoted || line[i] != r.opt.Delimiter); i++ {
			c := line[i]
			switch {
			case !quoted && c == r.opt.Quote:
				quoted, wasQuoted = true, true
			case quoted && c == r.opt.Escape && i+1 < len(line) && (line[i+1] == r.opt.Quote || line[i+1] == r.opt.Escape):
				i++
				r.plain = append(r.plain, line[i])
			case quoted && c == r.opt.Quote:
				quoted = false
			default:
				r.plain = append(r.plain, c)
			}
		}
		if quoted {
			return fmt.Errorf("unterminated CSV quoted field: %w", ErrFormat)
		}
		b := r.plain[at:]
		r.add(b, r.isNull(len(r.fields), b, wasQuoted))
		if i >= len(line) {
			return nil
		}
		from = i + 1
	}
}

// isNull: a field that looks like NULL is NULL unless it was quoted; FORCE_NULL and FORCE_NOT_NULL change that.
func (r *Reader) isNull(column int, b []byte, quoted bool) bool {
	if string(b) != r.opt.Null || column >= len(r.columns) {
		return false
	}
	if quoted {
		return r.opt.ForceNull.Has(r.columns[column])
	}
	return !r.opt.ForceNotNull.Has(r.columns[column])
}

// signature begins binary data; flags and the length of an extension follow.
const signature = "PGCOPY\n\xff\r\n\x00"

const headerSize = len(signature) + 8

func (r *Reader) nextBinary() ([]Field, bool, error) {
	b := r.buf[r.from:]
	if !r.begun {
		if len(b) < headerSize {
			if r.ended {
				return nil, false, fmt.Errorf("COPY file signature not recognized: %w", ErrFormat)
			}
			return nil, false, nil
		}
		flags, extension := binary.BigEndian.Uint32(b[len(signature):]), binary.BigEndian.Uint32(b[len(signature)+4:])
		switch {
		case string(b[:len(signature)]) != signature:
			return nil, false, fmt.Errorf("COPY file signature not recognized: %w", ErrFormat)
		case flags&0xffff0000 != 0:
			return nil, false, fmt.Errorf("unrecognized critical flags in COPY file header: %w", ErrFormat)
		case int64(extension) > int64(r.max):
			return nil, false, fmt.Errorf("invalid COPY file header: %w", ErrFormat)
		case len(b) < headerSize+int(extension):
			return nil, false, nil
		}
		r.begun = true
		r.from += headerSize + int(extension)
		b = r.buf[r.from:]
	}
	row, n, err := r.tuple(b)
	r.from += n
	if err != nil || n > 0 && !r.over {
		r.line++
	}
	switch {
	case err == nil && n == 0 && len(b) > r.max:
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.max)
	case err == nil && n == 0 && r.ended && len(b) > 0:
		err = fmt.Errorf("unexpected EOF in COPY data: %w", ErrFormat)
	}
	return row, err == nil && n > 0 && !r.over, err
}

// tuple reads one row; n is 0 when it has not all arrived.
func (r *Reader) tuple(b []byte) (row []Field, n int, err error) {
	if len(b) < 2 {
		return nil, 0, nil
	}
	count := int16(binary.BigEndian.Uint16(b))
	if count == -1 {
		r.over = true
		return nil, 2, nil
	}
	if int(count) != len(r.columns) {
		return nil, 0, fmt.Errorf("row field count is %d, expected %d: %w", count, len(r.columns), ErrFormat)
	}
	r.fields = r.fields[:0]
	at := 2
	for range count {
		if len(b) < at+4 {
			return nil, 0, nil
		}
		size := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		switch {
		case size == -1:
			r.add(nil, true)
			continue
		case size < 0 || int64(size) > int64(r.max):
			return nil, 0, fmt.Errorf("invalid field size: %w", ErrFormat)
		case len(b) < at+int(size):
			return nil, 0, nil
		}
		r.add(b[at:at+int(size)], false)
		at += int(size)
	}
	return r.fields, at, nil
}
