package action

import (
	"errors"
	"math"

	"sluice/internal/delta/jsonscan"
)

// required checks that a field that every reader needs was there.
func required(ok bool, name string) error {
	if ok {
		return nil
	}
	return &jsonscan.FieldError{Name: name, What: "is missing"}
}

func (d *decoder) text(s *jsonscan.Scanner) (string, error) {
	raw, escaped, err := s.Raw()
	if err != nil {
		return "", err
	}
	if !escaped {
		return string(raw), nil
	}
	var ok bool
	if d.scratch, ok = jsonscan.Unescape(d.scratch[:0], raw); !ok {
		return "", &jsonscan.SyntaxError{Offset: s.Pos, What: "half a surrogate pair in a string"}
	}
	return string(d.scratch), nil
}

var addFields = []string{"path", "partitionValues", "size", "stats", "deletionVector", "baseRowId"}

func (d *decoder) readAdd(s *jsonscan.Scanner) error {
	d.add = Add{Size: Unknown, NumRecords: Unknown, PartitionValues: d.add.PartitionValues[:0]}
	a := &d.add
	hasPath := false
	err := jsonscan.Members(s, addFields, func(i int) (err error) {
		switch i {
		case 0:
			hasPath = true
			a.Path, err = d.text(s)
		case 1:
			a.PartitionValues, err = d.readPartitionValues(s, a.PartitionValues)
		case 2:
			if a.Size, err = s.Int(); err == nil && a.Size < 0 {
				err = &jsonscan.FieldError{Name: "size", What: "is negative"}
			}
		case 3:
			a.NumRecords, err = d.readStats(s)
		case 4:
			a.DV, err = d.readDV(s)
		case 5:
			var id int64
			id, err = s.Int()
			a.BaseRowID = &id
		}
		return err
	})
	if err == nil {
		err = errors.Join(required(hasPath, "path"), required(a.Size != Unknown, "size"))
	}
	return err
}

func (d *decoder) readRemove(s *jsonscan.Scanner) error {
	d.remove = Remove{}
	hasPath := false
	err := jsonscan.Members(s, removeFields, func(i int) (err error) {
		switch i {
		case 0:
			hasPath = true
			d.remove.Path, err = d.text(s)
		case 1:
			d.remove.DV, err = d.readDV(s)
		}
		return err
	})
	if err == nil {
		err = required(hasPath, "path")
	}
	return err
}

var removeFields = []string{"path", "deletionVector"}

func (d *decoder) readPartitionValues(s *jsonscan.Scanner, values []PartitionValue) ([]PartitionValue, error) {
	if err := s.Open('{'); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if !more || err != nil {
			return values, err
		}
		v := PartitionValue{Key: d.intern(key)}
		for _, other := range values {
			if other.Key == v.Key {
				return nil, &jsonscan.FieldError{Name: v.Key, What: "is there twice"}
			}
		}
		if v.Null, err = s.Null(); err == nil && !v.Null {
			var text []byte
			text, err = s.Text(d.scratch)
			v.Value = d.intern(text)
		}
		if err != nil {
			return nil, jsonscan.Within(v.Key, err)
		}
		values = append(values, v)
	}
}

// interned is how many short texts are kept at most.
const interned = 4096

// intern gives a text that many actions share.
func (d *decoder) intern(text []byte) string {
	if known, ok := d.shared[string(text)]; ok {
		return known
	}
	if d.shared == nil || len(d.shared) == interned {
		d.shared = map[string]string{}
	}
	own := string(text)
	if len(own) <= 64 {
		d.shared[own] = own
	}
	return own
}

var dvFields = []string{"storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"}

func (d *decoder) readDV(s *jsonscan.Scanner) (*DeletionVector, error) {
	dv := &DeletionVector{Size: Unknown, Cardinality: Unknown}
	err := jsonscan.Members(s, dvFields, func(i int) (err error) {
		switch i {
		case 0:
			dv.Storage, err = d.text(s)
		case 1:
			dv.Path, err = d.text(s)
		case 2:
			var offset int64
			offset, err = s.Int()
			dv.Offset = &offset
		case 3:
			dv.Size, err = s.Int()
		case 4:
			dv.Cardinality, err = s.Int()
		}
		return err
	})
	if err == nil {
		err = errors.Join(required(dv.Storage != "", "storageType"), required(dv.Path != "", "pathOrInlineDv"))
	}
	return dv, err
}

// readStats gives numRecords of the statistics, a JSON text within the text. Statistics are optional and may be
// malformed: whatever is wrong with them, the count is unknown, never an error.
func (d *decoder) readStats(s *jsonscan.Scanner) (int64, error) {
	c := s.Space()
	if c && s.Buf[s.Pos] != '"' {
		return Unknown, s.Skip()
	}
	raw, escaped, err := s.Raw()
	if err != nil {
		return Unknown, err
	}
	if escaped {
		d.stats, _ = jsonscan.Unescape(d.stats[:0], raw)
		raw = d.stats
	}
	return NumRecords(raw), nil
}

// NumRecords reads numRecords from the JSON of a file's statistics; Unknown if it cannot be had.
func NumRecords(stats []byte) int64 {
	n := int64(Unknown)
	s := jsonscan.Scanner{Buf: stats}
	err := jsonscan.Members(&s, statsFields, func(int) (err error) {
		n, err = s.Int()
		return err
	})
	if err != nil || s.Done() != nil || n < 0 {
		return Unknown
	}
	return n
}

var statsFields = []string{"numRecords"}

var protocolFields = []string{"minReaderVersion", "minWriterVersion", "readerFeatures"}

func (d *decoder) readProtocol(s *jsonscan.Scanner) error {
	d.protocol = Protocol{}
	p := &d.protocol
	hasReader := false
	err := jsonscan.Members(s, protocolFields, func(i int) (err error) {
		switch i {
		case 0:
			hasReader = true
			p.MinReader, err = s.Int()
		case 1:
			p.MinWriter, err = s.Int()
		case 2:
			p.HasReaderFeatures = true
			p.ReaderFeatures, err = d.texts(s)
		}
		return err
	})
	if err == nil {
		err = required(hasReader, "minReaderVersion")
	}
	return err
}

func (d *decoder) texts(s *jsonscan.Scanner) ([]string, error) {
	if err := s.Open('['); err != nil {
		return nil, err
	}
	list := []string{}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if !more || err != nil {
			return list, err
		}
		text, err := d.text(s)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
}

var (
	metadataFields = []string{"id", "format", "schemaString", "partitionColumns", "configuration"}
	formatFields   = []string{"provider"}
)

func (d *decoder) readMetadata(s *jsonscan.Scanner) error {
	d.metadata = Metadata{Configuration: map[string]string{}}
	m := &d.metadata
	return jsonscan.Members(s, metadataFields, func(i int) (err error) {
		switch i {
		case 0:
			m.ID, err = d.text(s)
		case 1:
			err = jsonscan.Members(s, formatFields, func(int) (err error) {
				m.Provider, err = d.text(s)
				return err
			})
		case 2:
			m.Schema, err = d.text(s)
		case 3:
			m.PartitionColumns, err = d.texts(s)
		case 4:
			err = d.readConfiguration(s, m.Configuration)
		}
		return err
	})
}

// readConfiguration keeps the settings that are texts.
func (d *decoder) readConfiguration(s *jsonscan.Scanner, into map[string]string) error {
	if err := s.Open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if !more || err != nil {
			return err
		}
		name := string(key)
		if s.Space() && s.Buf[s.Pos] != '"' {
			err = s.Skip()
		} else if into[name], err = d.text(s); err != nil {
			err = jsonscan.Within(name, err)
		}
		if err != nil {
			return err
		}
	}
}

var sidecarFields = []string{"path", "sizeInBytes"}

func (d *decoder) readSidecar(s *jsonscan.Scanner) error {
	d.sidecar = Sidecar{Size: Unknown}
	err := jsonscan.Members(s, sidecarFields, func(i int) (err error) {
		switch i {
		case 0:
			d.sidecar.Path, err = d.text(s)
		case 1:
			d.sidecar.Size, err = s.Int()
		}
		return err
	})
	if err == nil {
		err = required(d.sidecar.Path != "", "path")
	}
	return err
}

// Checksum is what N.crc says about version N.
type Checksum struct{ NumFiles, Size int64 }

var checksumFields = []string{"numFiles", "tableSizeBytes"}

// ReadChecksum reads a checksum file. It reports false for one that is empty, malformed or says nothing usable: it is a
// hint for checking, and nothing depends on it.
func ReadChecksum(text []byte) (Checksum, bool) {
	c := Checksum{Unknown, Unknown}
	s := jsonscan.Scanner{Buf: text}
	err := jsonscan.Members(&s, checksumFields, func(i int) (err error) {
		if i == 0 {
			c.NumFiles, err = s.Int()
		} else {
			c.Size, err = s.Int()
		}
		return err
	})
	return c, err == nil && s.Done() == nil && c.NumFiles >= 0 && c.Size >= 0 && c.Size < math.MaxInt64
}
