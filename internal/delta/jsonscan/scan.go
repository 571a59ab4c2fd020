package jsonscan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may nest.
const MaxDepth = 64

// ErrShort says that the bytes end inside a value: more of them may complete it.
var ErrShort = errors.New("the text ends inside a value")

// SyntaxError is a place where the text is not JSON, or not the kind of value that was asked for.
type SyntaxError struct {
	Offset int
	What   string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.What) }

// Scanner reads one value after the other from Buf. A failed call leaves it where the failure was; it is not usable then.
type Scanner struct {
	Buf   []byte
	Pos   int
	depth int
}

func (s *Scanner) fail(what string) error { return &SyntaxError{s.Pos, what} }

// Space moves over white space and reports whether anything follows.
func (s *Scanner) Space() bool {
	for s.Pos < len(s.Buf) {
		switch s.Buf[s.Pos] {
		case ' ', '\n', '\r', '\t':
			s.Pos++
		default:
			return true
		}
	}
	return false
}

// peek gives the first byte of what follows.
func (s *Scanner) peek() (byte, error) {
	if !s.Space() {
		return 0, ErrShort
	}
	return s.Buf[s.Pos], nil
}

// Null moves over a null and reports whether there was one.
func (s *Scanner) Null() (bool, error) {
	c, err := s.peek()
	if err != nil || c != 'n' {
		return false, err
	}
	return true, s.word("null")
}

func (s *Scanner) word(w string) error {
	rest := s.Buf[s.Pos:]
	for i := range len(w) {
		if i == len(rest) {
			return ErrShort
		}
		if rest[i] != w[i] {
			return s.fail("not a value")
		}
	}
	s.Pos += len(w)
	return nil
}

// Bool reads true or false.
func (s *Scanner) Bool() (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, err
	}
	switch c {
	case 't':
		return true, s.word("true")
	case 'f':
		return false, s.word("false")
	}
	return false, s.fail("not true or false")
}

// Open moves into an object ('{') or an array ('[').
func (s *Scanner) Open(bracket byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != bracket {
		if bracket == '{' {
			return s.fail("not an object")
		}
		return s.fail("not an array")
	}
	if s.depth++; s.depth > MaxDepth {
		return s.fail("nested too deep")
	}
	s.Pos++
	return nil
}

// Key moves to the next member of an object, gives its key and stands before its value. It reports false, and has left
// the object, when there is none. The key is valid until the buffer changes.
func (s *Scanner) Key(first bool) ([]byte, bool, error) {
	more, err := s.next(first, '}')
	if !more || err != nil {
		return nil, false, err
	}
	key, err := s.Text(nil)
	if err != nil {
		return nil, false, err
	}
	c, err := s.peek()
	if err != nil {
		return nil, false, err
	}
	if c != ':' {
		return nil, false, s.fail("no colon after a key")
	}
	s.Pos++
	return key, true, nil
}

// Element moves to the next element of an array; false, and out of the array, when there is none.
func (s *Scanner) Element(first bool) (bool, error) { return s.next(first, ']') }

func (s *Scanner) next(first bool, end byte) (bool, error) {
	c, err := s.peek()
	if err != nil {
		return false, err
	}
	if c == end {
		s.Pos++
		s.depth--
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, s.fail("no comma between members")
	}
	s.Pos++
	return true, nil
}

// Int reads an integer that fits 64 bits, exactly.
func (s *Scanner) Int() (int64, error) {
	c, err := s.peek()
	if err != nil {
		return 0, err
	}
	start := s.Pos
	if c != '-' && (c < '0' || c > '9') {
		return 0, s.fail("not a 64-bit integer")
	}
	integer, err := s.number()
	if err != nil {
		return 0, err
	}
	n, ok := parseInt(s.Buf[start:s.Pos])
	if !integer || !ok {
		s.Pos = start
		return 0, s.fail("not a 64-bit integer")
	}
	return n, nil
}

func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// number moves over a number and reports whether it is written as an integer.
func (s *Scanner) number() (bool, error) {
	integer := true
	s.accept('-')
	if s.Pos == len(s.Buf) {
		return false, ErrShort
	}
	if s.Buf[s.Pos] == '0' {
		s.Pos++
	} else if err := s.digits(); err != nil {
		return false, err
	}
	if s.accept('.') {
		integer = false
		if err := s.digits(); err != nil {
			return false, err
		}
	}
	if s.accept('e') || s.accept('E') {
		integer = false
		if !s.accept('+') {
			s.accept('-')
		}
		if err := s.digits(); err != nil {
			return false, err
		}
	}
	if s.Pos < len(s.Buf) {
		switch c := s.Buf[s.Pos]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-', c == '+', c == '"':
			return false, s.fail("not a number")
		}
	}
	return integer, nil
}

func (s *Scanner) accept(c byte) bool {
	if s.Pos < len(s.Buf) && s.Buf[s.Pos] == c {
		s.Pos++
		return true
	}
	return false
}

func (s *Scanner) digits() error {
	start := s.Pos
	for s.Pos < len(s.Buf) && s.Buf[s.Pos] >= '0' && s.Buf[s.Pos] <= '9' {
		s.Pos++
	}
	switch {
	case s.Pos > start:
		return nil
	case s.Pos == len(s.Buf):
		return ErrShort
	}
	return s.fail("not a value")
}

// plain are the bytes of a string that stand for themselves.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainRun is how many bytes at the front of b stand for themselves. It looks at eight at a time: a byte of x-ones&^x has
// its high bit set if that byte of x is zero; above a zero byte it may be set wrongly, so only the lowest one counts.
func plainRun(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		special := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for i < len(b) && plain[b[i]] {
		i++
	}
	return i
}

// Raw moves over a string and gives what is between its quotes, and whether there are escapes in it. Escapes have the
// right form; surrogates may be alone.
func (s *Scanner) Raw() (raw []byte, escaped bool, err error) {
	c, err := s.peek()
	if err != nil {
		return nil, false, err
	}
	if c != '"' {
		return nil, false, s.fail("not a string")
	}
	buf, i := s.Buf, s.Pos+1
	start := i
	for {
		i += plainRun(buf[i:])
		if i == len(buf) {
			return nil, false, ErrShort
		}
		switch buf[i] {
		case '"':
			s.Pos = i + 1
			return buf[start:i], escaped, nil
		case '\\':
			escaped = true
			n, err := escapeLen(buf[i:])
			if err != nil {
				s.Pos = i
				if errors.Is(err, ErrShort) {
					return nil, false, ErrShort
				}
				return nil, false, s.fail(err.Error())
			}
			i += n
		default:
			s.Pos = i
			return nil, false, s.fail("a control character in a string")
		}
	}
}

var errEscape = errors.New("an unknown escape in a string")

func escapeLen(b []byte) (int, error) {
	if len(b) < 2 {
		return 0, ErrShort
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
		for i := 2; i < 6; i++ {
			if i >= len(b) {
				return 0, ErrShort
			}
			if hex(b[i]) < 0 {
				return 0, errEscape
			}
		}
		return 6, nil
	}
	return 0, errEscape
}

func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// Text reads a string. Without escapes it is a part of Buf; with them it is made in scratch, which may be nil.
func (s *Scanner) Text(scratch []byte) ([]byte, error) {
	raw, escaped, err := s.Raw()
	if err != nil || !escaped {
		return raw, err
	}
	text, ok := Unescape(scratch[:0], raw)
	if !ok {
		return nil, s.fail("half a surrogate pair in a string")
	}
	return text, nil
}

// Unescape appends what the inside of a string (as of Raw) stands for. It reports false for half a surrogate pair.
func Unescape(dst, raw []byte) ([]byte, bool) {
	for i := 0; i < len(raw); {
		start := i
		for i < len(raw) && raw[i] != '\\' {
			i++
		}
		dst = append(dst, raw[start:i]...)
		if i == len(raw) {
			break
		}
		c := raw[i+1]
		i += 2
		switch c {
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
		case 'u':
			r := rune16(raw[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				if len(raw) < i+6 || raw[i] != '\\' || raw[i+1] != 'u' {
					return dst, false
				}
				if r = utf16.DecodeRune(r, rune16(raw[i+2:])); r == utf8.RuneError {
					return dst, false
				}
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst, true
}

func rune16(b []byte) rune {
	return hex(b[0])<<12 | hex(b[1])<<8 | hex(b[2])<<4 | hex(b[3])
}

// Skip moves over any value.
func (s *Scanner) Skip() error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch c {
	case '"':
		_, _, err = s.Raw()
	case '{':
		err = s.skipObject()
	case '[':
		err = s.skipArray()
	case 't', 'f':
		_, err = s.Bool()
	case 'n':
		err = s.word("null")
	default:
		_, err = s.number()
	}
	return err
}

func (s *Scanner) skipObject() error {
	if err := s.Open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.next(first, '}')
		if !more || err != nil {
			return err
		}
		if _, _, err = s.Raw(); err != nil {
			return err
		}
		c, err := s.peek()
		if err != nil {
			return err
		}
		if c != ':' {
			return s.fail("no colon after a key")
		}
		s.Pos++
		if err := s.Skip(); err != nil {
			return err
		}
	}
}

func (s *Scanner) skipArray() error {
	if err := s.Open('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.next(first, ']')
		if !more || err != nil {
			return err
		}
		if err := s.Skip(); err != nil {
			return err
		}
	}
}

// Done checks that nothing but white space follows.
func (s *Scanner) Done() error {
	if s.Space() {
		return s.fail("more text after the value")
	}
	return nil
}
