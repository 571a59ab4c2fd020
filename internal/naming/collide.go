package naming

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/internal/sluice"
)

const (
	suffixChars     = 8
	suffixesPerHash = 6 // a SHA-256 has 52 characters of base32
	stemBytes       = maxBytes - 1 - suffixChars
)

// Collide gives the n-th substitute (0, 1, 2 …) for a derived name that is taken or reserved. The caller takes the first
// that is neither. It depends on the stream alone, so the same stream gets the same substitutes anywhere; it is at most
// 63 bytes, and never falls under a reserved prefix.
func Collide(team sluice.TeamID, sourceType, prefix, name string, stream sluice.StreamID, derived string, n int) string {
	n = max(n, 0)
	fields := []string{strconv.FormatInt(int64(team), 10), sourceType, prefix, name, string(stream)}
	if round := n / suffixesPerHash; round > 0 {
		fields = append(fields, strconv.Itoa(round)) // the hash is used up: go on with another one
	}
	hash := sha256.New()
	for _, f := range fields {
		// The length stops ("a", "bc") and ("ab", "c") from being one text.
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(f)))
		hash.Write(size[:])
		hash.Write([]byte(f))
	}
	text := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil)))
	at := n % suffixesPerHash * suffixChars
	return stem(derived) + "_" + text[at:at+suffixChars]
}

// stem is what a substitute keeps of the derived name. A suffix cannot lead out of a reserved prefix; dropping the
// underscores that make it one can.
func stem(derived string) string {
	if hasReservedPrefix(strings.ToLower(derived)) {
		derived = strings.TrimLeft(derived, "_")
	}
	if len(derived) <= stemBytes {
		return derived
	}
	end := stemBytes
	for end > 0 && !utf8.RuneStart(derived[end]) {
		end--
	}
	return derived[:end]
}

// reservedNames are the tables that other parts of the system own in a team's schema: events, and persons under their
// usual name. A team's own persons names are for the caller to check.
var reservedNames = map[string]bool{
	"events":                   true,
	"persons":                  true,
	"persons_distinct_ids":     true,
	"persons_raw":              true,
	"persons_distinct_ids_raw": true,
	"persons_streaming":        true,
}

var setAsidePersons = regexp.MustCompile(`^persons_batch_[0-9_]+$`)

// Reserved reports whether no stream may be bound to name, whatever its case.
func Reserved(name string) bool {
	name = strings.ToLower(name)
	return reservedNames[name] || hasReservedPrefix(name) || setAsidePersons.MatchString(name)
}

func hasReservedPrefix(lower string) bool {
	return strings.HasPrefix(lower, "_sluice_") || strings.HasPrefix(lower, "__ducklake")
}
