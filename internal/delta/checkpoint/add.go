package checkpoint

import (
	"fmt"

	"sluice/internal/delta/action"
	"sluice/internal/delta/footer"
)

// addColumns are the columns of an add that are read; nil those that the file does not have.
type addColumns struct {
	path, size, rowID, stats, records *column
	partition                         pairs
	storage, text, offset             *column // of the deletion vector
	bytes, cardinality                *column
}

func addReader(cs *columns, at []footer.Node, sink func(action.Add) error) func() error {
	vector := group(at, "deletionVector")
	c := &addColumns{
		path: cs.leaf(at, "path"), size: cs.leaf(at, "size"), rowID: cs.leaf(at, "baseRowId"),
		stats: cs.leaf(at, "stats"), records: cs.leaf(group(at, "stats_parsed"), "numRecords"),
		partition: cs.pairs(at, "partitionValues"),
		storage:   cs.leaf(vector, "storageType"), text: cs.leaf(vector, "pathOrInlineDv"), offset: cs.leaf(vector, "offset"),
		bytes: cs.leaf(vector, "sizeInBytes"), cardinality: cs.leaf(vector, "cardinality"),
	}
	return func() error {
		a, ok, err := c.next()
		if err != nil || !ok {
			return err
		}
		return sink(a)
	}
}

// next reads the add of the next row, if it has one: a null struct and a struct of nulls are both none.
func (c *addColumns) next() (a action.Add, ok bool, err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	a.Path, ok, e = c.path.text()
	keep(e)
	size, hasSize, e := c.size.int()
	keep(e)
	rowID, hasRowID, e := c.rowID.int()
	keep(e)
	a.NumRecords, e = c.stats.records()
	keep(e)
	records, hasRecords, e := c.records.int()
	keep(e)
	a.PartitionValues, e = c.partition.entries()
	keep(e)
	a.DV, e = c.vector()
	keep(e)
	if err != nil || !ok {
		return a, false, err
	}
	if !hasSize || size < 0 {
		return a, false, fmt.Errorf("the add of %s has no size", a.Path)
	}
	a.Size = size
	if a.NumRecords == action.Unknown && hasRecords && records >= 0 {
		a.NumRecords = records
	}
	if hasRowID {
		a.BaseRowID = &rowID
	}
	return a, true, nil
}

func (c *addColumns) vector() (*action.DeletionVector, error) {
	storage, has, err := c.storage.text()
	text, _, err2 := c.text.text()
	offset, hasOffset, err3 := c.offset.int()
	bytes, hasBytes, err4 := c.bytes.int()
	cardinality, hasCardinality, err5 := c.cardinality.int()
	for _, e := range []error{err, err2, err3, err4, err5} {
		if e != nil {
			return nil, e
		}
	}
	if !has {
		return nil, nil
	}
	dv := &action.DeletionVector{Storage: storage, Path: text, Size: action.Unknown, Cardinality: action.Unknown}
	if hasOffset {
		dv.Offset = &offset
	}
	if hasBytes {
		dv.Size = bytes
	}
	if hasCardinality {
		dv.Cardinality = cardinality
	}
	return dv, nil
}
