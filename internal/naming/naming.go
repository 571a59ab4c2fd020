package naming

import (
	"fmt"
	"strings"
	"unicode"

	"sluice/internal/sluice"
)

// maxBytes is the longest table name: PostgreSQL's limit, which readers of the warehouse rely on.
const maxBytes = 63

// Derived is a table name and how it came about, before collisions are looked at.
type Derived struct {
	Policy string `json:"policy"`
	Raw    string `json:"raw"`  // source type, prefix and name, joined
	Name   string `json:"name"` // matches ^[a-z_][a-z0-9_]{0,62}$
	Cut    bool   `json:"cut"`  // the name was too long: see Collide for what that can lead to
}

// Name derives the table name of a source under a policy. An empty prefix leaves its segment out. An unknown policy is
// SLUICE-NAME-POLICY, never a guess; a source whose parts are all blank is SLUICE-NAME-EMPTY under legacy_batch_v1,
// while copy_v1 has a name for it.
func Name(policy sluice.NamingPolicy, sourceType, prefix, name string) (Derived, error) {
	d := Derived{Policy: string(policy), Raw: raw(sourceType, prefix, name)}
	switch policy {
	case sluice.PolicyCopyV1:
		d.Name, d.Cut = copyV1(d.Raw)
	case sluice.PolicyLegacyBatchV1:
		if trim(sourceType) == "" && trim(prefix) == "" && trim(name) == "" {
			return Derived{}, sluice.E("SLUICE-NAME-EMPTY", "derive a table name", "source type, prefix and name are all blank",
				"give the stream a source type and a name", nil)
		}
		d.Name, d.Cut = legacyBatchV1(d.Raw)
	default:
		return Derived{}, sluice.E("SLUICE-NAME-POLICY", fmt.Sprintf("derive a table name for %q", d.Raw),
			fmt.Sprintf("unknown naming policy %q", string(policy)),
			fmt.Sprintf("use %s or %s", sluice.PolicyCopyV1, sluice.PolicyLegacyBatchV1), nil)
	}
	return d, nil
}

func raw(sourceType, prefix, name string) string {
	if prefix == "" {
		return sourceType + "_" + name
	}
	return sourceType + "_" + prefix + "_" + name
}

// trim drops white space at both ends. The four separators U+001C to U+001F count too: they did for the writers whose
// tables legacy_batch_v1 has to find again.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isWord(c byte) bool  { return isDigit(c) || isLower(c) || isUpper(c) }
