package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// key is one leaf of the tree: where it is, how it is called, and how a text becomes its value.
type key struct {
	path    string
	env     string // SLUICE_…
	alias   string // a short name in the environment, or empty
	deflt   string
	doc     string
	dsn     bool // a secret that may be a literal without a password
	isList  bool
	isPlace bool // a secret
	value   reflect.Value
}

// keys lists the leaves of c in the order of the struct.
func keys(c *Config) []*key {
	var out []*key
	walk(reflect.ValueOf(c).Elem(), "", &out)
	return out
}

func walk(v reflect.Value, prefix string, out *[]*key) {
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		path := tag.Get("key")
		if path == "-" {
			continue
		}
		if prefix != "" {
			path = prefix + "." + path
		}
		switch f.Interface().(type) {
		case string, int, bool, []string, Duration, Size, Memory, Secret:
		default:
			walk(f, path, out)
			continue
		}
		_, isList := f.Interface().([]string)
		_, isSecret := f.Interface().(Secret)
		*out = append(*out, &key{
			path: path, env: "SLUICE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "__")), alias: tag.Get("env"),
			deflt: tag.Get("default"), doc: tag.Get("doc"), dsn: tag.Get("literal") == "dsn", isList: isList, isPlace: isSecret, value: f,
		})
	}
}

// set reads a text into the key's field.
func (k *key) set(text string) error {
	var v any
	var err error
	switch k.value.Interface().(type) {
	case string:
		v = text
	case int:
		v, err = strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
	case bool:
		v, err = strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case []string:
		list := []string{}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		v = list
	case Duration:
		v, err = ParseDuration(text)
	case Size:
		v, err = ParseSize(text)
	case Memory:
		v, err = ParseMemory(text)
	case Secret:
		if text == "" {
			v = Secret{}
			break
		}
		v, err = parseSecretText(text, k.dsn)
	}
	if err != nil {
		return err
	}
	k.value.Set(reflect.ValueOf(v))
	return nil
}

// text shows the key's value; secrets as references.
func (k *key) text() string {
	switch v := k.value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case fmt.Stringer:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

// nearest gives the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, at := "", 1+max(2, len(name)/3)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours between two texts.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
