package page

import (
	"encoding/binary"
	"errors"
)

var (
	errShort  = errors.New("a page ends too early")
	errBroken = errors.New("a page is not as its encoding says")
)

// hybrid gives numbers that are written as runs and as groups of packed bits. A number is at most 32 bits wide.
type hybrid struct {
	b     []byte
	width int

	left   uint64 // numbers left in the run or the groups
	packed bool
	value  uint32 // of a run
	bits   uint64 // of groups: bits that were taken off b and not used yet
	have   int
}

func newHybrid(b []byte, width int) (hybrid, error) {
	if width < 0 || width > 32 {
		return hybrid{}, errBroken
	}
	return hybrid{b: b, width: width}, nil
}

func (h *hybrid) next() (uint32, error) {
	for h.left == 0 {
		if err := h.begin(); err != nil {
			return 0, err
		}
	}
	h.left--
	if !h.packed {
		return h.value, nil
	}
	for h.have < h.width {
		if len(h.b) == 0 {
			return 0, errShort
		}
		h.bits |= uint64(h.b[0]) << h.have
		h.b, h.have = h.b[1:], h.have+8
	}
	v := uint32(h.bits & (1<<h.width - 1))
	h.bits >>= h.width
	h.have -= h.width
	return v, nil
}

// begin reads the head of the next run or row of groups.
func (h *hybrid) begin() error {
	head, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errShort
	}
	h.b = h.b[n:]
	h.bits, h.have = 0, 0
	h.packed = head&1 != 0
	if h.packed {
		if head>>1 > 1<<32 {
			return errBroken
		}
		h.left = head >> 1 * 8
		return nil
	}
	size := (h.width + 7) / 8
	if size > len(h.b) {
		return errShort
	}
	h.value = 0
	for i := range size {
		h.value |= uint32(h.b[i]) << (8 * i)
	}
	h.b = h.b[size:]
	h.left = head >> 1
	return nil
}
