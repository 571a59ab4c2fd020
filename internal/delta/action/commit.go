package action

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"sluice/internal/delta/jsonscan"
	"sluice/internal/sluice"
)

// MaxSize is the largest action that is read.
const MaxSize = 64 << 20

// CodeLogCorrupt is the code of a log that is not as the protocol says.
const (
	CodeLogCorrupt sluice.Code = "SLUICE-DELTA-LOG-CORRUPT"
	CodeLimit      sluice.Code = "SLUICE-DELTA-LIMIT"
)

const corruptHint = "restore the file of the log from a copy, or read a version before it"

// Corrupt makes the error of a log that is not as the protocol says.
func Corrupt(cause error, format string, args ...any) error {
	return sluice.E(CodeLogCorrupt, "", fmt.Sprintf(format, args...), corruptHint, cause)
}

// Keys name what producers write into commitInfo to name the batch that a commit holds.
type Keys struct {
	RunID      string
	BatchIndex string
}

// DefaultKeys are run_id and batch_index.
var DefaultKeys = Keys{"run_id", "batch_index"}

// Read gives the actions of a commit, or of a checkpoint in JSON, in the order of the text.
func Read(r io.Reader, keys Keys, sink Sink) error {
	d := decoder{keys: keys, sink: sink}
	var skip func([]byte) bool
	if sink.Add == nil && sink.Remove == nil {
		skip = d.isFile
	}
	err := jsonscan.Values(r, MaxSize, skip, d.decode, d.emit)
	var (
		limit  *jsonscan.LimitError
		syntax *jsonscan.SyntaxError
		field  *jsonscan.FieldError
	)
	switch {
	case err == nil:
		if d.actions == 0 {
			return Corrupt(nil, "the file holds no action")
		}
		return nil
	case errors.As(err, &limit):
		return sluice.E(CodeLimit, "", fmt.Sprintf("action %d is larger than %d MiB", d.actions+1, limit.Limit>>20),
			"have the table's writer split what it writes", err)
	case errors.Is(err, jsonscan.ErrShort):
		return Corrupt(err, "the file ends inside action %d", d.actions+1)
	case errors.As(err, &field):
		return Corrupt(err, "action %d: %s", d.actions+1, field.Error())
	case errors.Is(err, jsonscan.ErrUTF8):
		return Corrupt(err, "action %d is not valid UTF-8", d.actions+1)
	case errors.As(err, &syntax):
		return Corrupt(err, "action %d is not valid JSON: %s", d.actions+1, syntax.What)
	}
	return err
}

var (
	lineOfAdd    = []byte(`{"add":{`)
	lineOfRemove = []byte(`{"remove":{`)
	lineEnd      = []byte("}}")
)

// isFile reports whether a line is an add or a remove, as nearly all writers write them. Who does not want files passes
// over most of a log so. If such a line is not a whole action after all, what follows it is not one either: the error is
// found here, or by who reads the files.
func (d *decoder) isFile(line []byte) bool {
	if (bytes.HasPrefix(line, lineOfAdd) || bytes.HasPrefix(line, lineOfRemove)) && bytes.HasSuffix(line, lineEnd) {
		d.actions++
		return true
	}
	return false
}

// decoder reads one action after the other.
type decoder struct {
	keys    Keys
	sink    Sink
	actions int
	scratch []byte
	stats   []byte
	shared  map[string]string // texts that many actions have

	add      Add
	remove   Remove
	protocol Protocol
	metadata Metadata
	info     CommitInfo
	sidecar  Sidecar
	has      struct{ add, remove, protocol, metadata, info, sidecar, v2 bool }
}

var kinds = []string{"add", "remove", "protocol", "metaData", "commitInfo", "sidecar", "checkpointMetadata"}

func (d *decoder) decode(s *jsonscan.Scanner) error {
	d.has = struct{ add, remove, protocol, metadata, info, sidecar, v2 bool }{}
	return jsonscan.Members(s, kinds, func(kind int) error {
		switch {
		case kind == 0 && d.sink.Add != nil:
			d.has.add = true
			return d.readAdd(s)
		case kind == 1 && d.sink.Remove != nil:
			d.has.remove = true
			return d.readRemove(s)
		case kind == 2 && d.sink.Protocol != nil:
			d.has.protocol = true
			return d.readProtocol(s)
		case kind == 3 && d.sink.Metadata != nil:
			d.has.metadata = true
			return d.readMetadata(s)
		case kind == 4 && d.sink.CommitInfo != nil:
			d.has.info = true
			return d.readCommitInfo(s)
		case kind == 5 && d.sink.Sidecar != nil:
			d.has.sidecar = true
			return d.readSidecar(s)
		case kind == 6:
			d.has.v2 = d.sink.V2 != nil
		}
		return s.Skip()
	})
}

func (d *decoder) emit() error {
	d.actions++
	var err error
	if d.has.protocol && err == nil {
		err = d.sink.Protocol(d.protocol)
	}
	if d.has.metadata && err == nil {
		err = d.sink.Metadata(d.metadata)
	}
	if d.has.info && err == nil {
		err = d.sink.CommitInfo(d.info)
	}
	if d.has.sidecar && err == nil {
		err = d.sink.Sidecar(d.sidecar)
	}
	if d.has.v2 && err == nil {
		err = d.sink.V2()
	}
	if d.has.remove && err == nil {
		err = d.sink.Remove(d.remove)
	}
	if d.has.add && err == nil {
		err = d.sink.Add(d.add)
	}
	return err
}
