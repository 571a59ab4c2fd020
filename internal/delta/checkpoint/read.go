package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"sluice/internal/delta/action"
	"sluice/internal/delta/footer"
)

// maxRowsPerByte bounds how many rows a file of a size can have: each names a file or something else that is unique, and
// no codec makes nothing of that.
const maxRowsPerByte = 8

// Read gives the actions of a checkpoint file, row by row. Kinds of actions that the sink does not take are not decoded.
// An error of the sink ends it and is returned as it is; any other error means that the file cannot be decoded.
func Read(r io.ReaderAt, size int64, sink action.Sink) (err error) {
	defer func() { // the codecs are not ours
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("its pages cannot be decoded: %v", trouble)
		}
	}()
	f, groups, err := open(r, size)
	if err != nil {
		return err
	}
	cs := &columns{leaves: footer.Leaves(f.Columns)}
	rows := readersOf(cs, f.Columns, sink)
	if len(cs.read) == 0 {
		return nil
	}
	for _, g := range groups {
		if g.Rows < 0 || g.Rows > size*maxRowsPerByte {
			return fmt.Errorf("a row group cannot have %d rows", g.Rows)
		}
		err := cs.open(r, size, g)
		if err == nil {
			err = readRows(g.Rows, rows)
		}
		if err == nil {
			err = cs.drained()
		}
		cs.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// open reads a file's footer.
func open(r io.ReaderAt, size int64) (*footer.Footer, []footer.RowGroup, error) {
	if size < footer.Tail {
		return nil, nil, footer.ErrNotParquet
	}
	tail := make([]byte, footer.Tail)
	if _, err := r.ReadAt(tail, size-footer.Tail); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	n, err := footer.Size(tail)
	if err != nil {
		return nil, nil, err
	}
	if int64(n) > size-footer.Tail {
		return nil, nil, footer.ErrNotParquet
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-footer.Tail-int64(n)); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	f, err := footer.Parse(b)
	if err != nil {
		return nil, nil, err
	}
	groups, err := footer.Groups(b)
	return f, groups, err
}

func readRows(n int64, rows []func() error) error {
	for range n {
		for _, read := range rows {
			if err := read(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readersOf makes what reads the next row of each kind of action that the sink takes and the file has.
func readersOf(cs *columns, root []footer.Node, sink action.Sink) []func() error {
	var rows []func() error
	if at := group(root, "protocol"); at != nil && sink.Protocol != nil {
		rows = append(rows, protocolReader(cs, at, sink.Protocol))
	}
	if at := group(root, "metaData"); at != nil && sink.Metadata != nil {
		rows = append(rows, metadataReader(cs, at, sink.Metadata))
	}
	if at := group(root, "checkpointMetadata"); at != nil && sink.V2 != nil {
		version := cs.leaf(at, "version")
		rows = append(rows, func() error {
			_, ok, err := version.int()
			if ok && err == nil {
				err = sink.V2()
			}
			return err
		})
	}
	if at := group(root, "sidecar"); at != nil && sink.Sidecar != nil {
		rows = append(rows, sidecarReader(cs, at, sink.Sidecar))
	}
	if at := group(root, "add"); at != nil && sink.Add != nil {
		rows = append(rows, addReader(cs, at, sink.Add))
	}
	return rows
}

func sidecarReader(cs *columns, at []footer.Node, sink func(action.Sidecar) error) func() error {
	path, size := cs.leaf(at, "path"), cs.leaf(at, "sizeInBytes")
	return func() error {
		s := action.Sidecar{Size: action.Unknown}
		var ok bool
		var err1, err2 error
		s.Path, ok, err1 = path.text()
		if n, has, err := size.int(); has || err != nil {
			s.Size, err2 = n, err
		}
		if err := errors.Join(err1, err2); err != nil || !ok {
			return err
		}
		return sink(s)
	}
}

func protocolReader(cs *columns, at []footer.Node, sink func(action.Protocol) error) func() error {
	reader, writer, features := cs.leaf(at, "minReaderVersion"), cs.leaf(at, "minWriterVersion"), cs.list(at, "readerFeatures")
	return func() error {
		var p action.Protocol
		var has bool
		var errs [3]error
		p.MinReader, has, errs[0] = reader.int()
		p.MinWriter, _, errs[1] = writer.int()
		p.ReaderFeatures, p.HasReaderFeatures, errs[2] = features.texts()
		if err := errors.Join(errs[:]...); err != nil || !has {
			return err
		}
		return sink(p)
	}
}

func metadataReader(cs *columns, at []footer.Node, sink func(action.Metadata) error) func() error {
	id, schema := cs.leaf(at, "id"), cs.leaf(at, "schemaString")
	provider := cs.leaf(group(at, "format"), "provider")
	partition, configuration := cs.list(at, "partitionColumns"), cs.pairs(at, "configuration")
	return func() error {
		m := action.Metadata{Configuration: map[string]string{}}
		var has [3]bool
		var errs [5]error
		m.ID, has[0], errs[0] = id.text()
		m.Schema, has[1], errs[1] = schema.text()
		m.Provider, has[2], errs[2] = provider.text()
		m.PartitionColumns, _, errs[3] = partition.texts()
		var settings []action.PartitionValue
		settings, errs[4] = configuration.entries()
		if err := errors.Join(errs[:]...); err != nil || has == [3]bool{} {
			return err
		}
		for _, s := range settings {
			if !s.Null {
				m.Configuration[s.Key] = s.Value
			}
		}
		return sink(m)
	}
}

// group gives the members of a member of a struct that is a struct itself; nil if there is none.
func group(nodes []footer.Node, name string) []footer.Node {
	at := member(nodes, name)
	if at == nil || at.Physical != footer.Group || at.Repetition == footer.Repeated {
		return nil
	}
	return at.Children
}

func member(nodes []footer.Node, name string) *footer.Node {
	for i := range nodes {
		if nodes[i].Name == name {
			return &nodes[i]
		}
	}
	return nil
}
