package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/delta/action"
)

// Read gives the actions of a checkpoint file, row by row. Kinds of actions that the sink does not take are not decoded.
// An error of the sink ends it and is returned as it is; any other error means that the file cannot be decoded.
func Read(r io.ReaderAt, size int64, sink action.Sink) (err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("the Parquet file cannot be decoded: %v", trouble)
		}
	}()
	if err := guardFooter(r, size); err != nil {
		return err
	}
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return err
	}
	var cs columns
	rows := readersOf(&cs, f.Root(), sink)
	for _, group := range f.RowGroups() {
		if err := cs.open(r, f, group); err != nil {
			return err
		}
		err := readRows(group.NumRows(), rows)
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
func readersOf(cs *columns, root *parquet.Column, sink action.Sink) []func() error {
	var rows []func() error
	if node := group(root, "protocol"); node != nil && sink.Protocol != nil {
		rows = append(rows, protocolReader(cs, node, sink.Protocol))
	}
	if node := group(root, "metaData"); node != nil && sink.Metadata != nil {
		rows = append(rows, metadataReader(cs, node, sink.Metadata))
	}
	if node := group(root, "checkpointMetadata"); node != nil && sink.V2 != nil {
		version := cs.leaf(node, "version")
		rows = append(rows, func() error {
			_, ok, err := version.int()
			if ok && err == nil {
				err = sink.V2()
			}
			return err
		})
	}
	if node := group(root, "sidecar"); node != nil && sink.Sidecar != nil {
		path, size := cs.leaf(node, "path"), cs.leaf(node, "sizeInBytes")
		rows = append(rows, func() error {
			var s action.Sidecar
			name, ok, err := path.text()
			n, hasSize, err2 := size.int()
			if err = errors.Join(err, err2); err != nil || !ok {
				return err
			}
			s.Path, s.Size = name, action.Unknown
			if hasSize {
				s.Size = n
			}
			return sink.Sidecar(s)
		})
	}
	if node := group(root, "add"); node != nil && sink.Add != nil {
		rows = append(rows, addReader(cs, node, sink.Add))
	}
	return rows
}

func protocolReader(cs *columns, node *parquet.Column, sink func(action.Protocol) error) func() error {
	reader, writer, features := cs.leaf(node, "minReaderVersion"), cs.leaf(node, "minWriterVersion"), cs.list(node, "readerFeatures")
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

func metadataReader(cs *columns, node *parquet.Column, sink func(action.Metadata) error) func() error {
	id, schema := cs.leaf(node, "id"), cs.leaf(node, "schemaString")
	provider := cs.leaf(group(node, "format"), "provider")
	partition, configuration := cs.list(node, "partitionColumns"), cs.mapping(node, "configuration")
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

func addReader(cs *columns, node *parquet.Column, sink func(action.Add) error) func() error {
	path, size, rowID := cs.leaf(node, "path"), cs.leaf(node, "size"), cs.leaf(node, "baseRowId")
	stats, parsed := cs.leaf(node, "stats"), cs.leaf(group(node, "stats_parsed"), "numRecords")
	values := cs.mapping(node, "partitionValues")
	vector := group(node, "deletionVector")
	storage, text, offset := cs.leaf(vector, "storageType"), cs.leaf(vector, "pathOrInlineDv"), cs.leaf(vector, "offset")
	bytes, cardinality := cs.leaf(vector, "sizeInBytes"), cs.leaf(vector, "cardinality")
	return func() error {
		a := action.Add{NumRecords: action.Unknown}
		var dv action.DeletionVector
		var has, hasSize, hasRow, hasDV, hasOffset, hasBytes, hasCount bool
		var records, rowNumber, offsetNumber int64
		var hasRecords bool
		var errs [11]error
		a.Path, has, errs[0] = path.text()
		a.Size, hasSize, errs[1] = size.int()
		rowNumber, hasRow, errs[2] = rowID.int()
		a.NumRecords, errs[3] = stats.records()
		records, hasRecords, errs[4] = parsed.int()
		a.PartitionValues, errs[5] = values.entries()
		dv.Storage, hasDV, errs[6] = storage.text()
		dv.Path, _, errs[7] = text.text()
		offsetNumber, hasOffset, errs[8] = offset.int()
		dv.Size, hasBytes, errs[9] = bytes.int()
		dv.Cardinality, hasCount, errs[10] = cardinality.int()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		if !has {
			return nil
		}
		if !hasSize || a.Size < 0 {
			return fmt.Errorf("add of %s has no size", a.Path)
		}
		if a.NumRecords == action.Unknown && hasRecords && records >= 0 {
			a.NumRecords = records
		}
		if hasRow {
			a.BaseRowID = &rowNumber
		}
		if hasDV {
			if hasOffset {
				dv.Offset = &offsetNumber
			}
			if !hasBytes {
				dv.Size = action.Unknown
			}
			if !hasCount {
				dv.Cardinality = action.Unknown
			}
			a.DV = &dv
		}
		return sink(a)
	}
}

// group gives a part of a struct that is a struct itself; nil if there is none.
func group(node *parquet.Column, name string) *parquet.Column {
	if node == nil {
		return nil
	}
	part := node.Column(name)
	if part == nil || part.Leaf() || part.Repeated() {
		return nil
	}
	return part
}
