package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// LimitError says that one value is larger than what is read.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string { return fmt.Sprintf("a value is larger than %d bytes", e.Limit) }

// ErrUTF8 says that the text is not valid UTF-8.
var ErrUTF8 = errors.New("the text is not valid UTF-8")

const firstBuffer = 256 << 10

// Values reads a stream of JSON values, whatever white space is between and in them. decode gets a Scanner that stands
// before a value and reads all of it, parts of the buffer included; it is called again, from the start of the same value,
// if the value was not whole. emit is called once the value is known to be whole and valid, and before the buffer changes.
// A value that is larger than limit is a LimitError, an early end ErrShort.
//
// skip, if it is not nil, is asked about each line that is there as a whole when a value begins with it, and may say that
// nothing in it matters: then the line is taken for one value and not looked at.
func Values(r io.Reader, limit int, skip func(line []byte) bool, decode func(*Scanner) error, emit func() error) error {
	buf := make([]byte, 0, min(firstBuffer, limit))
	read, done := 0, false // bytes of buf that were visited; the stream has ended
	for {
		for !done && len(buf) < cap(buf) {
			n, err := r.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if errors.Is(err, io.EOF) {
				done = true
			} else if err != nil {
				return err
			}
		}
		for {
			s := Scanner{Buf: buf, Pos: read}
			if !s.Space() {
				read = s.Pos
				break
			}
			start := s.Pos
			if skip != nil {
				if end := bytes.IndexByte(buf[start:], '\n'); end >= 0 && skip(buf[start:start+end]) {
					read = start + end
					continue
				}
			}
			err := decode(&s)
			if errors.Is(err, ErrShort) {
				if done {
					return ErrShort
				}
				read = start
				break
			}
			if err == nil && s.Pos-start > limit {
				err = &LimitError{limit}
			}
			if err == nil && !utf8.Valid(buf[start:s.Pos]) {
				err = ErrUTF8
			}
			if err == nil {
				err = emit()
			}
			if err != nil {
				return err
			}
			read = s.Pos
		}
		if done {
			return nil
		}
		// What is left is the begin of a value: it moves to the front, and the buffer grows once it fills it.
		left := len(buf) - read
		switch {
		case left > limit:
			return &LimitError{limit}
		case left > cap(buf)/2:
			grown := make([]byte, left, min(2*cap(buf), limit+firstBuffer))
			copy(grown, buf[read:])
			buf = grown
		default:
			buf = append(buf[:0], buf[read:]...)
		}
		read = 0
	}
}
