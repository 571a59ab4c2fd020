package dv

import (
	"encoding/binary"
	"hash/crc32"
)

// MaxSize is the largest payload that is read.
const MaxSize = 256 << 20

// The frame of a payload in a file: its size before it, its CRC-32 behind it. The file begins with a byte that says the
// version of its format.
const (
	sizeBytes = 4
	crcBytes  = 4
	// Frame is how many bytes a payload takes in a file beyond its own.
	Frame = sizeBytes + crcBytes
	// Version is the only version of the file format.
	Version = 1
)

// CheckPlace checks where a deletion vector is said to be before it is read.
func CheckPlace(offset, size int64) error {
	switch {
	case size < 0 || size > MaxSize:
		return corrupt("its size of %d bytes is impossible", size)
	case offset < 1:
		return corrupt("its offset of %d lies before the first one", offset)
	case offset > 1<<62:
		return corrupt("its offset of %d is impossible", offset)
	}
	return nil
}

// CheckVersion checks the first byte of a file.
func CheckVersion(b byte) error {
	if b != Version {
		return corrupt("its file is of format version %d, not %d", b, Version)
	}
	return nil
}

// Unframe gives the payload of a frame, which is all of b.
func Unframe(b []byte, size int64) ([]byte, error) {
	if int64(len(b)) != size+Frame {
		return nil, corrupt("its file ends before it does")
	}
	if written := binary.BigEndian.Uint32(b); int64(written) != size {
		return nil, corrupt("its file says that it has %d bytes, the log says %d", written, size)
	}
	payload := b[sizeBytes : sizeBytes+size]
	if crc32.ChecksumIEEE(payload) != binary.BigEndian.Uint32(b[sizeBytes+size:]) {
		return nil, corrupt("its checksum is wrong")
	}
	return payload, nil
}

// UnknownStorage is the error of a storage type that is none of the three.
func UnknownStorage(storage string) error { return corrupt("its storage type %q is unknown", storage) }

// NoOffset is the error of a deletion vector in a file whose offset the log does not say, and that is not the first one.
func NoOffset() error { return corrupt("the log does not say its offset") }
