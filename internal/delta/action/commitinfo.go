package action

import (
	"strconv"

	"sluice/internal/delta/jsonscan"
)

// maxName bounds the texts that are taken for a batch's name.
const maxName = 1 << 10

// readCommitInfo is lenient: commitInfo may be of any shape. What cannot be used is skipped, and counted if it looks like
// the name of a batch.
func (d *decoder) readCommitInfo(s *jsonscan.Scanner) error {
	d.info = CommitInfo{InCommitTimestamp: Unknown}
	if !s.Space() || s.Buf[s.Pos] != '{' {
		return s.Skip()
	}
	var flat, nested name
	err := d.eachField(s, func(key string) error {
		switch key {
		case "inCommitTimestamp":
			at, ok, err := integer(s)
			if ok && at >= 0 {
				d.info.InCommitTimestamp = at
			}
			return err
		case d.keys.RunID, d.keys.BatchIndex:
			return d.readName(s, key, &flat)
		case "userMetadata":
			return d.readUserMetadata(s, &nested)
		}
		return s.Skip()
	})
	if err != nil {
		return err
	}
	if flat.any() { // flat keys win over those inside userMetadata
		nested = flat
	}
	d.take(nested)
	return nil
}

// eachField calls read for every member of an object; the last of equal keys wins with whoever keeps them.
func (d *decoder) eachField(s *jsonscan.Scanner, read func(key string) error) error {
	if err := s.Open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if !more || err != nil {
			return err
		}
		if err := read(string(key)); err != nil {
			return err
		}
	}
}

// name is what was found of a batch's name.
type name struct {
	run, index       string
	hasRun, hasIndex bool
}

func (n name) any() bool { return n.hasRun || n.hasIndex }

// take notes a batch, or counts a name that is no use.
func (d *decoder) take(n name) {
	if !n.any() {
		return
	}
	index, err := strconv.ParseInt(n.index, 10, 64)
	if n.run == "" || !n.hasIndex || err != nil || index < 0 {
		d.info.Ignored++
		return
	}
	d.info.Batches = append(d.info.Batches, Batch{n.run, index})
}

// readName reads one of the two keys: a text or a number. null is as if it were not there.
func (d *decoder) readName(s *jsonscan.Scanner, key string, n *name) error {
	if null, err := s.Null(); null || err != nil {
		return err
	}
	value, has := "", true
	switch c := s.Buf[s.Pos]; {
	case c == '"':
		raw, escaped, err := s.Raw()
		if err != nil {
			return err
		}
		if escaped {
			raw, has = jsonscan.Unescape(nil, raw)
		}
		if len(raw) <= maxName && has {
			value = string(raw)
		}
	case c == '-' || c >= '0' && c <= '9':
		at := s.Pos
		if err := s.Skip(); err != nil {
			return err
		}
		if s.Pos-at <= maxName {
			value = string(s.Buf[at:s.Pos])
		}
	default:
		if err := s.Skip(); err != nil {
			return err
		}
	}
	if key == d.keys.RunID {
		n.run, n.hasRun = value, true
	} else {
		n.index, n.hasIndex = value, true
	}
	return nil
}

// readUserMetadata looks for a name in the JSON object that userMetadata may hold, as a text or as it is.
func (d *decoder) readUserMetadata(s *jsonscan.Scanner, n *name) error {
	if !s.Space() {
		return jsonscan.ErrShort
	}
	start := s.Pos
	var text []byte
	if s.Buf[s.Pos] == '"' {
		raw, _, err := s.Raw()
		if err != nil {
			return err
		}
		text, _ = jsonscan.Unescape(nil, raw)
	} else {
		if err := s.Skip(); err != nil {
			return err
		}
		text = s.Buf[start:s.Pos]
	}
	inner := jsonscan.Scanner{Buf: text}
	if !inner.Space() || inner.Buf[inner.Pos] != '{' {
		return nil
	}
	found, batches, ignored := name{}, []Batch(nil), 0
	err := d.eachField(&inner, func(key string) error {
		switch key {
		case d.keys.RunID, d.keys.BatchIndex:
			return d.readName(&inner, key, &found)
		case "batches":
			var err error
			batches, ignored, err = d.readBatches(&inner)
			return err
		}
		return inner.Skip()
	})
	if err != nil || inner.Done() != nil {
		return nil // free text: it names nothing
	}
	*n = found
	d.info.Batches = append(d.info.Batches, batches...)
	d.info.Ignored += ignored
	return nil
}

// readBatches reads the names of a commit that holds several.
func (d *decoder) readBatches(s *jsonscan.Scanner) (batches []Batch, ignored int, err error) {
	if !s.Space() || s.Buf[s.Pos] != '[' {
		return nil, 1, s.Skip()
	}
	if err := s.Open('['); err != nil {
		return nil, 0, err
	}
	inner := decoder{keys: d.keys}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if !more || err != nil {
			return inner.info.Batches, inner.info.Ignored, err
		}
		if !s.Space() || s.Buf[s.Pos] != '{' {
			inner.info.Ignored++
			if err := s.Skip(); err != nil {
				return nil, 0, err
			}
			continue
		}
		one := name{hasRun: true}
		err = inner.eachField(s, func(key string) error {
			if key == d.keys.RunID || key == d.keys.BatchIndex {
				return inner.readName(s, key, &one)
			}
			return s.Skip()
		})
		if err != nil {
			return nil, 0, err
		}
		inner.take(one)
	}
}

// integer reads a number if it is a 64-bit integer, and moves over any other value.
func integer(s *jsonscan.Scanner) (int64, bool, error) {
	at := *s
	if n, err := s.Int(); err == nil {
		return n, true, nil
	}
	*s = at
	return 0, false, s.Skip()
}
