package token

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

type scanner struct {
	src string
	pos int
}

func (s *scanner) peek(n int) byte {
	if s.pos+n < len(s.src) {
		return s.src[s.pos+n]
	}
	return 0
}

// next gives the next token that is neither space nor comment.
func (s *scanner) next() (Token, bool) {
	if t, bad := s.skip(); bad {
		return t, true
	}
	if s.pos >= len(s.src) {
		return Token{}, false
	}
	from, c := s.pos, s.src[s.pos]
	switch {
	case c == '\'':
		s.pos++
		return s.quoted(from, String, '\'', false), true
	case c == '"':
		s.pos++
		return s.quoted(from, Quoted, '"', false), true
	case c == '$':
		return s.dollar(from), true
	case c == '?' && !isOp(s.peek(1)):
		s.pos++
		return Token{Param, "", from, s.pos, true}, true
	case c >= '0' && c <= '9', c == '.' && isDigit(s.peek(1)):
		return s.number(from), true
	case isIdentStart(c):
		return s.word(from), true
	case strings.IndexByte("()[]{},.;:", c) >= 0:
		s.pos++
		if c == ':' && (s.peek(0) == ':' || s.peek(0) == '=') {
			s.pos++
		}
		return Token{Op, s.src[from:s.pos], from, s.pos, true}, true
	case isOp(c):
		return s.operator(from), true
	}
	_, n := utf8.DecodeRuneInString(s.src[s.pos:])
	s.pos += n
	return Token{Other, s.src[from:s.pos], from, s.pos, true}, true
}

// skip passes space and comments. A comment without an end is a token, so that a statement does not vanish.
func (s *scanner) skip() (Token, bool) {
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.pos++
		case c == '-' && s.peek(1) == '-':
			s.line()
		case c == '/' && s.peek(1) == '*':
			if from := s.pos; !s.comment() {
				return Token{Other, s.src[from:], from, len(s.src), false}, true
			}
		case c >= utf8.RuneSelf:
			n := spaceLen(s.src[s.pos:])
			if n == 0 {
				return Token{}, false
			}
			s.pos += n
		default:
			return Token{}, false
		}
	}
	return Token{}, false
}

func (s *scanner) line() {
	for s.pos < len(s.src) && s.src[s.pos] != '\n' && s.src[s.pos] != '\r' {
		s.pos++
	}
}

// comment passes a comment, which may hold others; false if it has no end.
func (s *scanner) comment() bool {
	depth := 0
	for s.pos < len(s.src) {
		switch {
		case s.src[s.pos] == '/' && s.peek(1) == '*':
			depth++
			s.pos += 2
		case s.src[s.pos] == '*' && s.peek(1) == '/':
			depth--
			s.pos += 2
			if depth == 0 {
				return true
			}
		default:
			s.pos++
		}
	}
	return false
}

// quoted reads up to the closing quote; the opening one is passed already. A doubled quote stands for one.
func (s *scanner) quoted(from int, k Kind, quote byte, escapes bool) Token {
	var b strings.Builder
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == quote && s.peek(1) == quote:
			b.WriteByte(c)
			s.pos += 2
		case c == quote:
			s.pos++
			return Token{k, b.String(), from, s.pos, true}
		case c == '\\' && escapes && s.pos+1 < len(s.src):
			s.escape(&b)
		default:
			b.WriteByte(c)
			s.pos++
		}
	}
	return Token{Other, s.src[from:], from, len(s.src), false}
}

// escape decodes a backslash sequence of an E string.
func (s *scanner) escape(b *strings.Builder) {
	c := s.peek(1)
	s.pos += 2
	hex := func(digits int) {
		n := 0
		for n < digits && isHex(s.peek(n)) {
			n++
		}
		v, _ := strconv.ParseUint(s.src[s.pos:s.pos+n], 16, 32)
		s.pos += n
		if digits == 2 {
			b.WriteByte(byte(v))
		} else {
			b.WriteRune(rune(v))
		}
	}
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'x':
		hex(2)
	case 'u':
		hex(4)
	case 'U':
		hex(8)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v, n := int(c-'0'), 0
		for n < 2 && s.peek(0) >= '0' && s.peek(0) <= '7' {
			v = v*8 + int(s.peek(0)-'0')
			s.pos++
			n++
		}
		b.WriteByte(byte(v))
	default:
		b.WriteByte(c)
	}
}

// dollar reads $1, $name, $$text$$ and $tag$text$tag$.
func (s *scanner) dollar(from int) Token {
	if isDigit(s.peek(1)) {
		s.pos++
		for isDigit(s.peek(0)) {
			s.pos++
		}
		return Token{Param, s.src[from+1 : s.pos], from, s.pos, true}
	}
	end := s.pos + 1
	for end < len(s.src) && isIdentStart(s.src[end]) || end < len(s.src) && end > s.pos+1 && isDigit(s.src[end]) {
		end++
	}
	if end < len(s.src) && s.src[end] == '$' {
		tag := s.src[s.pos : end+1]
		body := end + 1
		if i := strings.Index(s.src[body:], tag); i >= 0 {
			s.pos = body + i + len(tag)
			return Token{String, s.src[body : body+i], from, s.pos, true}
		}
		s.pos = len(s.src)
		return Token{Other, s.src[from:], from, s.pos, false}
	}
	s.pos = end
	if end == from+1 {
		return Token{Other, "$", from, end, true}
	}
	return Token{Param, strings.ToLower(s.src[from+1 : end]), from, end, true}
}

// number reads a number. A letter after it begins a word, as in the engine: 1JOIN is 1 and JOIN.
func (s *scanner) number(from int) Token {
	hex := s.peek(0) == '0' && (s.peek(1)|0x20) == 'x' && isHex(s.peek(2))
	if hex {
		s.pos += 2
	}
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case isDigit(c), c == '.' && !hex, c == '_' && (isDigit(s.peek(1)) || hex), hex && isHex(c):
			s.pos++
		case (c|0x20) == 'e' && isDigit(s.peek(1)):
			s.pos++
		case (c|0x20) == 'e' && (s.peek(1) == '+' || s.peek(1) == '-') && isDigit(s.peek(2)):
			s.pos += 2
		default:
			return Token{Number, s.src[from:s.pos], from, s.pos, true}
		}
	}
	return Token{Number, s.src[from:s.pos], from, s.pos, true}
}

// word reads an identifier, or a literal that begins like one: E'…', B'…', X'…', N'…', U&'…', U&"…".
func (s *scanner) word(from int) Token {
	c := s.src[s.pos] | 0x20
	if s.peek(1) == '\'' && (c == 'e' || c == 'b' || c == 'x' || c == 'n') {
		s.pos += 2
		return s.quoted(from, String, '\'', c == 'e')
	}
	if c == 'u' && s.peek(1) == '&' && (s.peek(2) == '\'' || s.peek(2) == '"') {
		q := s.peek(2)
		s.pos += 3
		kind := String
		if q == '"' {
			kind = Quoted
		}
		t := s.quoted(from, kind, q, false)
		if t.Closed {
			t.Text = unicodeEscapes(t.Text)
		}
		return t
	}
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c >= utf8.RuneSelf {
			if spaceLen(s.src[s.pos:]) > 0 {
				break
			}
			_, n := utf8.DecodeRuneInString(s.src[s.pos:])
			s.pos += n
			continue
		}
		if !isIdentStart(c) && !isDigit(c) && c != '$' {
			break
		}
		s.pos++
	}
	return Token{Word, strings.ToLower(s.src[from:s.pos]), from, s.pos, true}
}

// unicodeEscapes decodes \XXXX and \+XXXXXX.
func unicodeEscapes(t string) string {
	var b strings.Builder
	for i := 0; i < len(t); {
		if t[i] != '\\' {
			b.WriteByte(t[i])
			i++
			continue
		}
		at, n := i+1, 4
		if at < len(t) && t[at] == '+' {
			at, n = at+1, 6
		}
		if at+n <= len(t) {
			if v, err := strconv.ParseUint(t[at:at+n], 16, 32); err == nil {
				b.WriteRune(rune(v))
				i = at + n
				continue
			}
		}
		b.WriteByte('\\')
		i++
		if i < len(t) && t[i] == '\\' {
			i++
		}
	}
	return b.String()
}

func (s *scanner) operator(from int) Token {
	for s.pos < len(s.src) && isOp(s.src[s.pos]) {
		if s.pos > from && (s.src[s.pos] == '-' && s.peek(1) == '-' || s.src[s.pos] == '/' && s.peek(1) == '*') {
			break
		}
		s.pos++
	}
	return Token{Op, s.src[from:s.pos], from, s.pos, true}
}

func isOp(c byte) bool    { return c != 0 && strings.IndexByte("~!@#^&|`?+-*/%<>=\\", c) >= 0 }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isIdentStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

// spaceLen is the length of a Unicode space at the start of t, which the engine reads as a space, else 0.
func spaceLen(t string) int {
	r, n := utf8.DecodeRuneInString(t)
	switch {
	case r == 0x85, r == 0xA0, r == 0x1680, r == 0x180E, r >= 0x2000 && r <= 0x200F, r == 0x2028, r == 0x2029, r == 0x202F,
		r == 0x205F, r == 0x2060, r == 0x3000, r == 0xFEFF:
		return n
	}
	return 0
}
