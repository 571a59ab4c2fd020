package naming

import "strings"

// copyV1 is the rule of copy_v1 for one raw name; cut says that the result was too long. It works on bytes: every byte
// of a character outside ASCII is outside [0-9A-Za-z] too.
func copyV1(raw string) (name string, cut bool) {
	var b strings.Builder
	for i := range len(raw) {
		switch c := raw[i]; {
		case isWord(c):
			b.WriteByte(c)
		case b.Len() > 0 && isWord(raw[i-1]): // the first of a run; none at the start
			b.WriteByte('_')
		}
	}
	name = strings.ToLower(strings.TrimSuffix(b.String(), "_"))
	switch {
	case name == "":
		name = "data_import"
	case isDigit(name[0]):
		name = "data_import_" + name
	}
	if len(name) > maxBytes {
		return name[:maxBytes], true
	}
	return name, false
}
