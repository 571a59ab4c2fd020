package checkpoint

import (
	"errors"
	"io"

	"sluice/internal/delta/action"
	"sluice/internal/delta/footer"
	"sluice/internal/delta/page"
)

// pagesAtHand is how many bytes the pages of all columns may hold at once.
const pagesAtHand = 192 << 20

// columns are those that are read, out of the leaves of a file.
type columns struct {
	leaves []footer.Leaf
	read   []*column
	budget page.Budget
}

// column is one that is read. A nil column is one that the file does not have: all its values are null.
type column struct {
	place  int // in the leaves
	listed int // of a list: definition level from which on the list itself is not null
	pages  *page.Reader
	value  page.Value // the next one, if ahead
	ahead  bool
}

// add takes a leaf that is repeated so often; nil if the node is none.
func (cs *columns) add(n *footer.Node, repeated int) *column {
	for i := range cs.leaves {
		if cs.leaves[i].Node == n && cs.leaves[i].MaxRep == repeated {
			c := &column{place: i}
			cs.read = append(cs.read, c)
			return c
		}
	}
	return nil
}

// leaf gives a plain member of a struct.
func (cs *columns) leaf(nodes []footer.Node, name string) *column {
	n := member(nodes, name)
	if n == nil || n.Repetition == footer.Repeated {
		return nil
	}
	return cs.add(n, 0)
}

// list gives a member of a struct that is a list of texts.
func (cs *columns) list(nodes []footer.Node, name string) *column {
	n := member(nodes, name)
	if n == nil || n.Physical != footer.Group {
		return nil
	}
	for n.Physical == footer.Group {
		if len(n.Children) != 1 {
			return nil
		}
		n = &n.Children[0]
	}
	c := cs.add(n, 1)
	if c == nil {
		return nil
	}
	c.listed = 1 // its struct is there
	if member(nodes, name).Repetition == footer.Optional {
		c.listed++
	}
	return c
}

// pairs is a map of texts.
type pairs struct{ key, value *column }

func (cs *columns) pairs(nodes []footer.Node, name string) pairs {
	entries := group(nodes, name)
	if len(entries) != 1 || entries[0].Repetition != footer.Repeated || len(entries[0].Children) != 2 {
		return pairs{}
	}
	for _, part := range entries[0].Children {
		if part.Physical == footer.Group || part.Repetition == footer.Repeated {
			return pairs{}
		}
	}
	return pairs{cs.add(&entries[0].Children[0], 1), cs.add(&entries[0].Children[1], 1)}
}

// open begins a row group.
func (cs *columns) open(r io.ReaderAt, size int64, g footer.RowGroup) error {
	if len(g.Chunks) != len(cs.leaves) {
		return errors.New("a row group has not as many columns as the schema")
	}
	cs.budget = page.Budget{Left: pagesAtHand}
	for _, c := range cs.read {
		var err error
		if c.pages, err = page.New(r, size, cs.leaves[c.place], g.Chunks[c.place], &cs.budget); err != nil {
			return err
		}
		c.ahead = false
	}
	return nil
}

func (cs *columns) close() {
	for _, c := range cs.read {
		if c.pages != nil {
			c.pages.Close()
			c.pages = nil
		}
	}
}

// drained checks that no column has values left: all have as many rows as the row group.
func (cs *columns) drained() error {
	for _, c := range cs.read {
		switch _, err := c.peek(); {
		case err == nil:
			return errors.New("a column has more rows than its row group")
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	return nil
}

// peek gives the next value and leaves it there; io.EOF after the last one.
func (c *column) peek() (*page.Value, error) {
	if c.ahead {
		return &c.value, nil
	}
	var err error
	c.value, err = c.pages.Next()
	c.ahead = err == nil
	return &c.value, err
}

// take gives the next value of a column that has one for each row; nil for null.
func (c *column) take() (*page.Value, error) {
	if c == nil {
		return nil, nil
	}
	v, err := c.peek()
	if err != nil {
		return nil, early(err)
	}
	c.ahead = false
	if v.Null {
		return nil, nil
	}
	return v, nil
}

// early says that a column ends before its row group does.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

var errType = errors.New("a column has the wrong type")

func (c *column) int() (int64, bool, error) {
	v, err := c.take()
	if v == nil || err != nil {
		return 0, false, err
	}
	if v.Text != nil {
		return 0, false, errType
	}
	return v.Int, true, nil
}

func (c *column) text() (string, bool, error) {
	v, err := c.take()
	if v == nil || err != nil {
		return "", false, err
	}
	if v.Text == nil {
		return "", false, errType
	}
	return string(v.Text), true, nil
}

// records reads the number of rows of a file's statistics.
func (c *column) records() (int64, error) {
	v, err := c.take()
	if v == nil || err != nil {
		return action.Unknown, err
	}
	return action.NumRecords(v.Text), nil
}

// row calls visit for the values of one row of a column inside a list or map.
func (c *column) row(visit func(*page.Value) error) error {
	v, err := c.peek()
	if err != nil {
		return early(err)
	}
	if v.Rep != 0 {
		return errors.New("a row begins in the middle of a list")
	}
	for {
		if !v.Null && v.Text == nil {
			return errType
		}
		if err := visit(v); err != nil {
			return err
		}
		c.ahead = false
		v, err = c.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || v.Rep == 0 {
			return err
		}
	}
}

// texts reads a list, and whether it is there at all.
func (c *column) texts() (list []string, has bool, err error) {
	if c == nil {
		return nil, false, nil
	}
	err = c.row(func(v *page.Value) error {
		if v.Def >= c.listed && !has {
			has, list = true, []string{}
		}
		if !v.Null {
			list = append(list, string(v.Text))
		}
		return nil
	})
	return list, has, err
}

// entries reads a map.
func (p pairs) entries() ([]action.PartitionValue, error) {
	if p.key == nil || p.value == nil {
		return nil, nil
	}
	var list []action.PartitionValue
	err := p.key.row(func(v *page.Value) error {
		if !v.Null {
			list = append(list, action.PartitionValue{Key: string(v.Text), Null: true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	i := 0
	err = p.value.row(func(v *page.Value) error {
		if !v.Null {
			if i >= len(list) {
				return errors.New("a map has more values than keys")
			}
			list[i].Value, list[i].Null = string(v.Text), false
		}
		i++
		return nil
	})
	if err == nil && len(list) > 0 && i != len(list) {
		err = errors.New("a map has more keys than values")
	}
	return list, err
}
