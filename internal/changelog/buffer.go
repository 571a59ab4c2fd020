package changelog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"sort"
	"time"
	"unicode/utf8"
)

// Message is one record of a topic, as it came.
type Message struct {
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Timestamp   int64  // ms; -1: none
	Key         []byte // nil: null
	Value       []byte // nil: null
	Headers     []Header
}

// Header is one header of a message.
type Header struct {
	Name  string
	Value []byte
}

// Range is what a buffer holds of one partition.
type Range struct {
	Partition   int32
	Expected    int64 // next_offset before the buffer
	Next        int64 // next_offset after it
	LeaderEpoch int32
	Timestamp   int64 // of the last message, ms; -1: none
	Messages    int64
}

// Buffer collects the messages of one slot for one flush. It is used by one goroutine at a time.
type Buffer struct {
	limits    Limits
	chunks    []*chunk
	ranges    map[int32]*Range
	rows      int64
	raw       int64 // bytes of keys, values and headers
	full      int64 // memory of chunks that take no more
	oldest    time.Time
	refetched int64
}

// Limits of what a message may be.
type Limits struct {
	MaxMessageBytes int
}

// NewBuffer makes a buffer that goes on at the given next offsets.
func NewBuffer(limits Limits, next map[int32]int64) *Buffer {
	b := &Buffer{limits: limits, ranges: map[int32]*Range{}}
	for p, o := range next {
		b.ranges[p] = &Range{Partition: p, Expected: o, Next: o, LeaderEpoch: -1, Timestamp: -1}
	}
	return b
}

// Add takes a message. One below the expected offset has been taken before and is left out; one of a partition that the
// buffer does not know is none of this slot's.
func (b *Buffer) Add(m *Message, now time.Time) bool {
	r := b.ranges[m.Partition]
	if r == nil || m.Offset < r.Next {
		b.refetched++
		return false
	}
	if b.rows == 0 {
		b.oldest = now
	}
	r.Next, r.LeaderEpoch, r.Timestamp = m.Offset+1, m.LeaderEpoch, m.Timestamp
	r.Messages++
	b.rows++
	b.raw += int64(len(m.Key) + len(m.Value))
	c := b.chunk()
	c.rows++
	flags, reason := int32(0), reasonNone
	c.int32(colPartition, m.Partition)
	c.int64(colOffset, m.Offset)
	c.int64(colTimestamp, m.Timestamp)
	switch {
	case m.Key == nil:
		flags |= flagNullKey
		c.bytes(colKey, nil)
		c.bytes(colBinaryKey, nil)
	case utf8.Valid(m.Key):
		c.bytes(colKey, m.Key)
		c.bytes(colBinaryKey, nil)
	default:
		flags |= flagBinaryKey
		c.bytes(colKey, []byte("base64:"+base64.StdEncoding.EncodeToString(m.Key)))
		c.bytes(colBinaryKey, m.Key)
	}
	if m.Value == nil {
		flags |= flagNullValue
	} else {
		reason = examine(m.Value, b.limits.MaxMessageBytes)
	}
	if reason == reasonNone {
		c.bytes(colValue, m.Value)
		c.bytes(colBinary, nil)
	} else {
		c.bytes(colValue, nil)
		c.bytes(colBinary, m.Value)
	}
	if len(m.Headers) > 0 {
		c.bytes(colHeaders, headersJSON(m.Headers))
	} else {
		c.bytes(colHeaders, nil)
	}
	c.int32(colFlags, flags)
	c.int32(colReason, int32(reason))
	return true
}

// setHeaders gives the message that was added last its headers, as JSON.
func (b *Buffer) setHeaders(text []byte) {
	c := b.chunks[len(b.chunks)-1]
	h := &c.cols[colHeaders]
	*h = (*h)[:len(*h)-4] // it had none: an empty text is its length alone
	c.bytes(colHeaders, text)
}

// Advance notes that everything below an offset has been seen: control records are no messages, but are passed.
func (b *Buffer) Advance(partition int32, next int64, leaderEpoch int32) {
	if r := b.ranges[partition]; r != nil && next > r.Next {
		r.Next, r.LeaderEpoch = next, leaderEpoch
	}
}

func (b *Buffer) chunk() *chunk {
	if n := len(b.chunks); n > 0 {
		if c := b.chunks[n-1]; c.rows < chunkRows && c.used() < chunkBytes {
			return c
		}
		last := b.chunks[n-1]
		b.full += last.held()
		c := &chunk{}
		for i, col := range last.cols { // messages are much like those before them: little is copied, and little stays empty
			c.cols[i] = make([]byte, 0, len(col)+len(col)/32+chunkSlack)
		}
		b.chunks = append(b.chunks, c)
		return c
	}
	b.chunks = append(b.chunks, &chunk{})
	return b.chunks[0]
}

const chunkSlack = 1 << 10

// Rows is the number of messages in the buffer.
func (b *Buffer) Rows() int64 { return b.rows }

// Raw is the size of their keys and values.
func (b *Buffer) Raw() int64 { return b.raw }

// Held is the memory that the buffer takes.
func (b *Buffer) Held() int64 {
	if len(b.chunks) == 0 {
		return 0
	}
	return b.full + b.chunks[len(b.chunks)-1].held()
}

// Oldest is when the first message of the buffer came; zero: there is none.
func (b *Buffer) Oldest() time.Time { return b.oldest }

// Refetched is how many messages were left out because they had been taken before.
func (b *Buffer) Refetched() int64 { return b.refetched }

// Next gives the offsets after the buffer, for the one that follows it.
func (b *Buffer) Next() map[int32]int64 {
	next := make(map[int32]int64, len(b.ranges))
	for p, r := range b.ranges {
		next[p] = r.Next
	}
	return next
}

// Ranges lists the partitions that the buffer takes further, in order.
func (b *Buffer) Ranges() []Range {
	var out []Range
	for _, r := range b.ranges {
		if r.Next > r.Expected {
			out = append(out, *r)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Partition < out[j].Partition })
	return out
}

// write writes the messages as a Parquet file.
func (b *Buffer) write(w io.Writer) error { return writeRaw(w, b.chunks) }

// reason says why a message cannot be a row, found before the engine sees it.
type reason int32

const (
	reasonNone reason = iota
	reasonEmpty
	reasonNotUTF8
	reasonTooDeep
	reasonTooLarge
	reasonBadName
)

// reasonNames are the words of the quarantine table, by reason.
var reasonNames = [...]string{"", "empty", "not_utf8", "too_deep", "too_large", "bad_name"}

// maxDepth is how deep a document may be nested.
const maxDepth = 100

// examine looks at what the engine would choke on or could not keep.
func examine(v []byte, most int) reason {
	switch {
	case len(v) == 0:
		return reasonEmpty
	case most > 0 && len(v) > most:
		return reasonTooLarge
	case !utf8.Valid(v):
		return reasonNotUTF8
	case bytes.Count(v, []byte("{"))+bytes.Count(v, []byte("[")) > maxDepth && depth(v) > maxDepth:
		return reasonTooDeep
	case bytes.Contains(v, []byte(`\u0000`)) && nulInName(v):
		return reasonBadName
	}
	return reasonNone
}

// depth is how deep v is nested, whether or not it is well formed.
func depth(v []byte) int {
	most, now, quoted := 0, 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case quoted:
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			now++
			most = max(most, now)
		case c == '}', c == ']':
			now--
		}
	}
	return most
}

// nulInName reports whether a name in a document has a NUL, which no column and no JSON path can have. What is not well
// formed is left to the engine.
func nulInName(v []byte) bool {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var objects []bool // whether each open bracket is an object's
	isName := false    // whether the next text is a name
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		switch t := tok.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				objects = append(objects, t == '{')
				isName = t == '{'
				continue
			default:
				objects = objects[:len(objects)-1]
			}
		case string:
			if isName {
				if bytes.IndexByte([]byte(t), 0) >= 0 {
					return true
				}
				isName = false
				continue
			}
		}
		isName = len(objects) > 0 && objects[len(objects)-1]
	}
}

// headersJSON is the list of headers as the table and the quarantine keep it: pairs, because names may come twice.
func headersJSON(hs []Header) []byte {
	pairs := make([][2]any, len(hs))
	for i, h := range hs {
		pairs[i][0] = asText([]byte(h.Name))
		if h.Value != nil {
			pairs[i][1] = asText(h.Value)
		}
	}
	out, _ := json.Marshal(pairs) // strings and nulls always can be written
	return out
}

// asText gives bytes as text: as they are, or as base64 with a prefix that says so.
func asText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}
