package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/delta/action"
)

// columns are the leaves that are read.
type columns []*leaf

// leaf reads the values of one leaf column. A nil leaf is a column that the file does not have: all its values are null.
type leaf struct {
	index   int
	defined byte // definition level of a value that is not null
	listed  byte // of a list: definition level from which on the list itself is not null
	pages   parquet.Pages
	page    parquet.Page
	values  parquet.ValueReader
	buffer  []parquet.Value
	next    int
}

// batch is how many values are decoded at a time.
const batch = 512

func (cs *columns) add(node *parquet.Column) *leaf {
	l := &leaf{index: node.Index(), defined: byte(node.MaxDefinitionLevel()), buffer: make([]parquet.Value, 0, batch)}
	*cs = append(*cs, l)
	return l
}

// leaf gives a plain member of a struct.
func (cs *columns) leaf(node *parquet.Column, name string) *leaf {
	if node == nil {
		return nil
	}
	part := node.Column(name)
	if part == nil || !part.Leaf() || part.Repeated() {
		return nil
	}
	return cs.add(part)
}

// list gives a member of a struct that is a list of texts.
func (cs *columns) list(node *parquet.Column, name string) *leaf {
	part := group(node, name)
	if part == nil {
		return nil
	}
	at := part
	for !at.Leaf() {
		parts := at.Columns()
		if len(parts) != 1 {
			return nil
		}
		at = parts[0]
	}
	if at.MaxRepetitionLevel() != 1 {
		return nil
	}
	l := cs.add(at)
	l.listed = byte(part.MaxDefinitionLevel())
	return l
}

// pairs reads a map of texts.
type pairs struct{ key, value *leaf }

func (cs *columns) mapping(node *parquet.Column, name string) pairs {
	part := group(node, name)
	if part == nil {
		return pairs{}
	}
	entries := part.Columns()
	if len(entries) != 1 || entries[0].Leaf() || !entries[0].Repeated() {
		return pairs{}
	}
	parts := entries[0].Columns()
	if len(parts) != 2 || !parts[0].Leaf() || !parts[1].Leaf() {
		return pairs{}
	}
	// Columns come sorted by name here and there; key and value are told apart by theirs.
	if parts[0].Name() == "value" {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return pairs{cs.add(parts[0]), cs.add(parts[1])}
}

// open begins a row group.
func (cs columns) open(r io.ReaderAt, f *parquet.File, group parquet.RowGroup) error {
	chunks := group.ColumnChunks()
	for _, l := range cs {
		if l.index >= len(chunks) {
			return errors.New("a row group has fewer columns than the schema")
		}
		chunk, ok := chunks[l.index].(*parquet.FileColumnChunk)
		if !ok {
			return errors.New("a column has no data")
		}
		if err := guardPages(r, f, group, l.index); err != nil {
			return err
		}
		l.pages, l.values, l.buffer, l.next = chunk.Pages(), nil, l.buffer[:0], 0
	}
	return nil
}

func (cs columns) close() {
	for _, l := range cs {
		parquet.Release(l.page)
		l.page = nil
		if l.pages != nil {
			l.pages.Close()
			l.pages = nil
		}
	}
}

// drained checks that no column has values left: all have as many rows as the row group.
func (cs columns) drained() error {
	for _, l := range cs {
		if _, err := l.peek(); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("a column has more rows than its row group")
			}
			return err
		}
	}
	return nil
}

// peek gives the next value; io.EOF after the last one.
func (l *leaf) peek() (*parquet.Value, error) {
	for l.next == len(l.buffer) {
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
	return &l.buffer[l.next], nil
}

func (l *leaf) fill() error {
	if l.values == nil {
		parquet.Release(l.page)
		l.page = nil
		page, err := l.pages.ReadPage()
		if err != nil {
			return err
		}
		l.page, l.values = page, page.Values()
	}
	n, err := l.values.ReadValues(l.buffer[:batch])
	l.buffer, l.next = l.buffer[:n], 0
	switch {
	case errors.Is(err, io.EOF):
		l.values = nil
		return nil
	case err == nil && n == 0:
		return io.ErrNoProgress
	}
	return err
}

// take gives the next value of a column that has one for each row.
func (l *leaf) take() (*parquet.Value, error) {
	v, err := l.peek()
	if err != nil {
		return nil, early(err)
	}
	l.next++
	return v, nil
}

// early says that a column ends before its row group does.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (l *leaf) null(v *parquet.Value) bool {
	return v.IsNull() || byte(v.DefinitionLevel()) < l.defined
}

func (l *leaf) int() (int64, bool, error) {
	if l == nil {
		return 0, false, nil
	}
	v, err := l.take()
	if err != nil || l.null(v) {
		return 0, false, err
	}
	switch v.Kind() {
	case parquet.Int32:
		return int64(v.Int32()), true, nil
	case parquet.Int64:
		return v.Int64(), true, nil
	}
	return 0, false, fmt.Errorf("column %d holds no integers", l.index)
}

func (l *leaf) text() (string, bool, error) {
	b, err := l.bytes()
	return string(b), b != nil, err
}

// bytes gives the next value where it lies; nil for null.
func (l *leaf) bytes() ([]byte, error) {
	if l == nil {
		return nil, nil
	}
	v, err := l.take()
	if err != nil || l.null(v) {
		return nil, err
	}
	return l.textOf(v)
}

func (l *leaf) textOf(v *parquet.Value) ([]byte, error) {
	if v.Kind() != parquet.ByteArray {
		return nil, fmt.Errorf("column %d holds no texts", l.index)
	}
	if b := v.ByteArray(); b != nil {
		return b, nil
	}
	return []byte{}, nil
}

// records reads the number of rows of a file's statistics.
func (l *leaf) records() (int64, error) {
	b, err := l.bytes()
	if b == nil || err != nil {
		return action.Unknown, err
	}
	return action.NumRecords(b), nil
}

// row calls visit for the values of one row of a column inside a list or map.
func (l *leaf) row(visit func(*parquet.Value) error) error {
	v, err := l.peek()
	if err != nil {
		return early(err)
	}
	if v.RepetitionLevel() != 0 {
		return errors.New("a row begins in the middle of a list")
	}
	for {
		if err := visit(v); err != nil {
			return err
		}
		l.next++
		v, err = l.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || v.RepetitionLevel() == 0 {
			return err
		}
	}
}

// texts reads a list, and whether it is there at all.
func (l *leaf) texts() (list []string, has bool, err error) {
	if l == nil {
		return nil, false, nil
	}
	err = l.row(func(v *parquet.Value) error {
		if byte(v.DefinitionLevel()) >= l.listed && !has {
			has, list = true, []string{}
		}
		if l.null(v) {
			return nil
		}
		b, err := l.textOf(v)
		list = append(list, string(b))
		return err
	})
	return list, has, err
}

// entries reads a map.
func (p pairs) entries() ([]action.PartitionValue, error) {
	if p.key == nil {
		return nil, nil
	}
	var list []action.PartitionValue
	err := p.key.row(func(v *parquet.Value) error {
		if p.key.null(v) {
			return nil
		}
		b, err := p.key.textOf(v)
		list = append(list, action.PartitionValue{Key: string(b), Null: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	i := 0
	err = p.value.row(func(v *parquet.Value) error {
		if !p.value.null(v) {
			if i >= len(list) {
				return errors.New("a map has more values than keys")
			}
			b, err := p.value.textOf(v)
			if err != nil {
				return err
			}
			list[i].Value, list[i].Null = string(b), false
		}
		i++
		return nil
	})
	if err == nil && len(list) > 0 && i != len(list) {
		err = errors.New("a map has more keys than values")
	}
	return list, err
}
