package delta

import (
	"crypto/md5" //nolint:gosec // the protocol's choice; it guards against accidents
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/delta/jsonscan"
)

// parseHint reads the version of a _last_checkpoint; 0 if it says nothing usable, or is not what its checksum says.
func parseHint(text []byte) int64 {
	version, checksum := int64(0), ""
	s := jsonscan.Scanner{Buf: text}
	err := jsonscan.Members(&s, hintFields, func(i int) (err error) {
		if i == 0 {
			version, err = s.Int()
			return err
		}
		b, err := s.Text(nil)
		checksum = string(b)
		return err
	})
	if err != nil || s.Done() != nil || version < 0 {
		return 0
	}
	if sum, ok := hintChecksum(text); checksum != "" && (!ok || sum != checksum) {
		return 0
	}
	return version
}

var hintFields = []string{"version", "checksum"}

// hintChecksum makes the checksum of a _last_checkpoint: MD5 of its values in a form that does not depend on how the JSON
// is written ("JSON checksum" in the protocol).
func hintChecksum(text []byte) (string, bool) {
	s := jsonscan.Scanner{Buf: text}
	c := canonical{s: &s}
	if err := c.value(""); err != nil || s.Done() != nil {
		return "", false
	}
	slices.Sort(c.pairs)
	sum := md5.Sum([]byte(strings.Join(c.pairs, ","))) //nolint:gosec // see above
	return hex.EncodeToString(sum[:]), true
}

// canonical lists the values of a JSON text as path=value.
type canonical struct {
	s     *jsonscan.Scanner
	pairs []string
}

func (c *canonical) value(path string) error {
	if !c.s.Space() {
		return jsonscan.ErrShort
	}
	start := c.s.Pos
	switch c.s.Buf[start] {
	case '{':
		return c.object(path)
	case '[':
		return c.array(path)
	case '"':
		b, err := c.s.Text(nil)
		c.pairs = append(c.pairs, path+"="+quoted(b))
		return err
	}
	err := c.s.Skip()
	c.pairs = append(c.pairs, path+"="+string(c.s.Buf[start:c.s.Pos]))
	return err
}

func (c *canonical) object(path string) error {
	if err := c.s.Open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := c.s.Key(first)
		if !more || err != nil {
			return err
		}
		if path == "" && string(key) == "checksum" {
			err = c.s.Skip()
		} else {
			err = c.value(under(path, quoted(key)))
		}
		if err != nil {
			return err
		}
	}
}

func (c *canonical) array(path string) error {
	if err := c.s.Open('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := c.s.Element(i == 0)
		if !more || err != nil {
			return err
		}
		if err := c.value(under(path, strconv.Itoa(i))); err != nil {
			return err
		}
	}
}

func under(path, part string) string {
	if path == "" {
		return part
	}
	return path + "+" + part
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// quoted percent-encodes a text and puts it in quotes.
func quoted(text []byte) string {
	out := []byte{'"'}
	for _, c := range text {
		if strings.IndexByte(unreserved, c) >= 0 {
			out = append(out, c)
			continue
		}
		out = append(out, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return string(append(out, '"'))
}
