package naming

import (
	"crypto/sha3"
	"encoding/base64"
	"strings"
)

// SnakeCase is the rule of legacy_batch_v1 for one identifier. Writers used it for columns as well as for tables, so a
// key column is looked for under this spelling too. Blank text gives "".
func SnakeCase(s string) string {
	if trim(s) == "" {
		return ""
	}
	name, _ := legacyBatchV1(s)
	return name
}

// legacyBatchV1 is the rule of legacy_batch_v1 for one raw name; cut says that a tag stands in its middle.
func legacyBatchV1(raw string) (name string, cut bool) {
	raw = trim(raw)
	name = strings.ToLower(breakCamel(reduce(raw)))
	if name != "" && isDigit(name[0]) {
		name = "_" + name
	}
	stem := strings.TrimRight(name, "_")
	name = squeeze(stem + strings.Repeat("x", len(name)-len(stem)))
	if len(name) <= maxBytes {
		return name, false
	}
	return name[:29] + tag(raw) + name[len(name)-28:], true
}

// reduce maps raw to [A-Za-z0-9_]: five characters have a letter or an underscore of their own, each run of others
// becomes one underscore.
func reduce(raw string) string {
	var b strings.Builder
	inRun := false
	for i := range len(raw) {
		c := raw[i]
		other := false
		switch {
		case isWord(c) || c == '_':
		case c == '+' || c == '*':
			c = 'x'
		case c == '-':
			c = '_'
		case c == '@':
			c = 'a'
		case c == '|':
			c = 'l'
		default:
			c, other = '_', true
		}
		if !other || !inRun {
			b.WriteByte(c)
		}
		inRun = other
	}
	return b.String()
}

// breakCamel puts an underscore before a capital that starts a word: one that is followed by a lower-case letter and
// not preceded by an underscore, or one that is preceded by a lower-case letter or a digit.
func breakCamel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if i > 0 && isUpper(s[i]) {
			before := s[i-1]
			startsWord := before != '_' && i+1 < len(s) && isLower(s[i+1])
			if startsWord || isLower(before) || isDigit(before) {
				b.WriteByte('_')
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// squeeze makes each run of underscores one.
func squeeze(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] != '_' || i == 0 || s[i-1] != '_' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// tag is six characters that tell long names apart. It is taken from the raw text, so names that differ only in what
// the rule drops differ in their tag.
func tag(raw string) string {
	text := base64.RawStdEncoding.EncodeToString(sha3.SumSHAKE128([]byte(raw), 4))
	return strings.ToLower(strings.NewReplacer("/", "a", "+", "b").Replace(text))
}
