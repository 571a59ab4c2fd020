package dv

import (
	"fmt"
	"math"

	"github.com/google/uuid"

	"sluice/internal/sluice"
)

// Code is the code of a deletion vector that is not as it must be.
const Code sluice.Code = "SLUICE-DELTA-DV-CORRUPT"

func corrupt(format string, args ...any) error {
	return sluice.E(Code, "", "the deletion vector is corrupt: "+fmt.Sprintf(format, args...),
		"restore the deletion vector's file from a copy, or have the table's writer rewrite the data file", nil)
}

const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

const none = 0xff

var digit = func() (t [256]byte) {
	for c := range t {
		t[c] = none
	}
	for i := range len(alphabet) {
		t[alphabet[i]] = byte(i)
	}
	return t
}()

// Z85 decodes ZeroMQ's base 85: five characters stand for four bytes.
func Z85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, corrupt("its Z85 text has %d characters, not a multiple of 5", len(text))
	}
	out := make([]byte, 0, len(text)/5*4)
	for i := 0; i < len(text); i += 5 {
		var n uint64
		for j := i; j < i+5; j++ {
			d := digit[text[j]]
			if d == none {
				return nil, corrupt("its Z85 text has a character that is not one of Z85's at %d", j)
			}
			n = n*85 + uint64(d)
		}
		if n > math.MaxUint32 {
			return nil, corrupt("the group at %d of its Z85 text is larger than 32 bits", i)
		}
		out = append(out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return out, nil
}

// uuidLength is that of a UUID in Z85.
const uuidLength = 20

// File gives the file that the text of a deletion vector of storage u stands for, relative to the table.
func File(text string) (string, error) {
	if len(text) < uuidLength {
		return "", corrupt("its path has %d characters, fewer than the %d of a UUID", len(text), uuidLength)
	}
	prefix, id := text[:len(text)-uuidLength], text[len(text)-uuidLength:]
	b, err := Z85(id)
	if err != nil {
		return "", err
	}
	name := "deletion_vector_" + uuid.UUID(b).String() + ".bin"
	if prefix != "" {
		name = prefix + "/" + name
	}
	return name, nil
}

// Inline gives the payload that the text of a deletion vector of storage i is: Z85, padded to a multiple of four bytes.
func Inline(text string, size int64) ([]byte, error) {
	if size < 0 || size > MaxSize {
		return nil, corrupt("its size of %d bytes is impossible", size)
	}
	b, err := Z85(text)
	if err != nil {
		return nil, err
	}
	if size > int64(len(b)) || int64(len(b))-size > 3 {
		return nil, corrupt("its text holds %d bytes, which does not fit the size of %d", len(b), size)
	}
	return b[:size], nil
}
