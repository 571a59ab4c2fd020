package segment

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Kind says what a file of the log is.
type Kind int

// The kinds of files.
const (
	Commit    Kind = iota + 1
	Classic        // N.checkpoint.parquet
	Multipart      // N.checkpoint.o.p.parquet
	V2JSON         // N.checkpoint.<uuid>.json
	V2Parquet      // N.checkpoint.<uuid>.parquet
	Checksum       // N.crc
)

// Checkpoint reports whether the file is one, or a part of one.
func (k Kind) Checkpoint() bool { return k >= Classic && k <= V2Parquet }

// Name is what a file's name says.
type Name struct {
	Kind        Kind
	Version     int64
	Part, Parts int    // of a multi-part checkpoint, from 1
	UUID        string // of a checkpoint of the second form
}

const versionDigits, partDigits = 20, 10

// ParseName reads the name of a file in _delta_log. It reports false for all that a reader ignores.
func ParseName(name string) (Name, bool) {
	version, ok := number(name, versionDigits)
	if !ok {
		return Name{}, false
	}
	n := Name{Version: version}
	rest := name[versionDigits:]
	switch rest {
	case ".json":
		n.Kind = Commit
		return n, true
	case ".crc":
		n.Kind = Checksum
		return n, true
	case ".checkpoint.parquet":
		n.Kind = Classic
		return n, true
	}
	rest, ok = strings.CutPrefix(rest, ".checkpoint.")
	if !ok {
		return Name{}, false
	}
	middle, extension, _ := strings.Cut(rest, ".")
	if len(middle) == 36 && uuid.Validate(middle) == nil {
		n.UUID = middle
		switch extension {
		case "json":
			n.Kind = V2JSON
		case "parquet":
			n.Kind = V2Parquet
		}
		return n, n.Kind != 0
	}
	part, ok1 := number(rest, partDigits)
	if !ok1 || len(rest) < partDigits+1 || rest[partDigits] != '.' {
		return Name{}, false
	}
	rest = rest[partDigits+1:]
	parts, ok2 := number(rest, partDigits)
	if !ok2 || rest[partDigits:] != ".parquet" || part < 1 || part > parts || parts > maxParts {
		return Name{}, false
	}
	n.Kind, n.Part, n.Parts = Multipart, int(part), int(parts)
	return n, true
}

// maxParts is far above what any writer makes.
const maxParts = 1 << 20

// number reads exactly so many digits at the front of text.
func number(text string, digits int) (int64, bool) {
	if len(text) < digits {
		return 0, false
	}
	for _, c := range []byte(text[:digits]) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	return n, err == nil
}

// Start is the greatest key that lies before all files of a version: a listing after it gives that version and later ones.
func Start(version int64) string {
	if version == 0 {
		return ""
	}
	digits := strconv.FormatInt(version-1, 10)
	return strings.Repeat("0", versionDigits-len(digits)) + digits + "~"
}
