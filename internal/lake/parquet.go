package lake

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// misread is true for nodes of a Parquet schema that the engine reads as something else without a word: columns without a
// type as INTEGER, decimals of more than 38 digits as wrong DOUBLEs (docs/adr/0061).
const misread = "(logical_type LIKE 'NullType%' OR precision > 38)"

// node is one node of a Parquet schema, depth first.
type node struct {
	name             string
	children         int
	untyped          bool
	precision, scale int
}

// correct puts the file's own names and types into columns where the engine tells others: it also renames columns that
// differ only in case.
func (s *Session) correct(ctx context.Context, path string, columns Columns) error {
	rows, err := s.conn.Query(ctx, "SELECT name, coalesce(num_children, 0)::INTEGER, coalesce(logical_type LIKE 'NullType%', false), "+
		"coalesce(precision, 0)::INTEGER, coalesce(scale, 0)::INTEGER FROM parquet_schema("+PathLiteral(path)+")")
	if err != nil {
		return err
	}
	nodes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n node, err error) {
		return n, row.Scan(&n.name, &n.children, &n.untyped, &n.precision, &n.scale)
	})
	if err != nil {
		return err
	}
	if len(nodes) == 0 || nodes[0].children != len(columns) {
		return nil
	}
	t := tree{nodes: nodes, next: 1}
	for i := range columns {
		t.correct(&columns[i])
	}
	return nil
}

// tree walks over the nodes in step with the types that the engine has made of them.
type tree struct {
	nodes []node
	next  int
}

func (t *tree) take() node {
	if t.next >= len(t.nodes) {
		return node{}
	}
	t.next++
	return t.nodes[t.next-1]
}

// skip passes over the children of a node.
func (t *tree) skip(n node) {
	for range n.children {
		t.skip(t.take())
	}
}

// correct takes the subtree of a column or field.
func (t *tree) correct(c *Column) {
	if t.next < len(t.nodes) {
		c.Name = t.nodes[t.next].name
	}
	t.typ(&c.Type)
}

// typ takes the subtree of a type. Where the two are not of one shape the type stays as it is.
func (t *tree) typ(typ *Type) {
	n := t.take()
	switch {
	case n.untyped:
		*typ = Type{Base: NullType}
	case n.precision > 38:
		*typ = Type{Base: "DECIMAL", Width: n.precision, Scale: n.scale}
	case typ.Base == "STRUCT" && n.children == len(typ.Fields):
		for i := range typ.Fields {
			t.correct(&typ.Fields[i])
		}
		return
	case typ.Base == "LIST" && n.children == 1:
		// A list is a group with a repeated group with the element; old writers leave the middle one out.
		if middle := t.nodes[min(t.next, len(t.nodes)-1)]; middle.children == 1 && (typ.Elem.Base != "STRUCT" || middle.name == "list" || middle.name == "bag") {
			t.take()
		}
		t.typ(typ.Elem)
		return
	case typ.Base == "MAP" && n.children == 1:
		if pair := t.take(); pair.children == 2 {
			t.typ(typ.Key)
			t.typ(typ.Elem)
		} else {
			t.skip(pair)
		}
		return
	}
	t.skip(n)
}
