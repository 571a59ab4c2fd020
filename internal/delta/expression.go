package delta

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/schema"
)

// builder writes the expressions that make columns of the table of columns of a file.
type builder struct {
	mapping schema.Mapping
	path    []string // of the column, for messages
	lambdas int
}

// expression is SQL for a value. A plain one is a cast that the engine can do inside nested values too.
type expression struct {
	text  string
	plain bool
}

func (b *builder) misfit(format string, args ...any) error {
	return misfit("column %s: %s", strings.Join(b.path, "."), fmt.Sprintf(format, args...))
}

// find gives the part of a file that a field is; nil if the file does not have it.
func (b *builder) find(nodes []footer.Node, field schema.Field) (*footer.Node, error) {
	var at int
	if b.mapping == schema.ByID {
		at = slices.IndexFunc(nodes, func(n footer.Node) bool { return n.HasID && int64(n.ID) == field.ID })
	} else if at = slices.IndexFunc(nodes, func(n footer.Node) bool { return n.Name == field.Physical }); at < 0 {
		at = slices.IndexFunc(nodes, func(n footer.Node) bool { return strings.EqualFold(n.Name, field.Physical) })
	}
	if at < 0 {
		return nil, nil
	}
	for i := range nodes {
		if i != at && strings.EqualFold(nodes[i].Name, nodes[at].Name) {
			return nil, misfit("column %s: the file has two columns of this name", field.Name)
		}
	}
	return &nodes[at], nil
}

// expression makes a value of type t of the value ref of a file.
func (b *builder) expression(ref string, t schema.Type, n *footer.Node) (expression, error) {
	if n.Repetition == footer.Repeated && t.Kind != schema.Array {
		return expression{}, b.misfit("it is repeated in the file, and a %s in the table", t)
	}
	switch t.Kind {
	case schema.Struct:
		return b.structure(ref, t, n)
	case schema.Array:
		return b.list(ref, t, n)
	case schema.Map:
		return b.mapOf(ref, t, n)
	default: // a primitive
	}
	if n.Physical == footer.Group {
		return expression{}, b.misfit("it has parts in the file, and is a %s in the table", t)
	}
	return b.leaf(ref, t, n)
}

func (b *builder) within(name string, f func() (expression, error)) (expression, error) {
	b.path = append(b.path, name)
	defer func() { b.path = b.path[:len(b.path)-1] }()
	return f()
}

func (b *builder) structure(ref string, t schema.Type, n *footer.Node) (expression, error) {
	if n.Physical != footer.Group || n.Logical != footer.Plain {
		return expression{}, b.misfit("it is no struct in the file")
	}
	return b.pack(ref, t, n.Children, func(child *footer.Node) string {
		return fmt.Sprintf("struct_extract(%s, %s)", ref, text(child.Name))
	})
}

// pack makes a struct. If the file's has the same members in the same order, and each is a plain cast away, one cast does.
func (b *builder) pack(ref string, t schema.Type, children []footer.Node, extract func(*footer.Node) string) (expression, error) {
	same := len(children) == len(t.Fields)
	parts := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		child, err := b.find(children, f)
		if err != nil {
			return expression{}, err
		}
		e := expression{text: "NULL::" + f.Type.SQL()}
		if child != nil {
			e, err = b.within(f.Name, func() (expression, error) { return b.expression(extract(child), f.Type, child) })
			if err != nil {
				return expression{}, err
			}
		}
		same = same && e.plain && children[i].Name == f.Name
		parts[i] = quote(f.Name) + " := " + e.text
	}
	if same {
		return expression{ref + "::" + t.SQL(), true}, nil
	}
	return expression{text: fmt.Sprintf("CASE WHEN %s IS NULL THEN NULL ELSE struct_pack(%s) END", ref, strings.Join(parts, ", "))}, nil
}

// list makes a list. Writers have wrapped elements in several ways; what counts is how the engine unwraps them.
func (b *builder) list(ref string, t schema.Type, n *footer.Node) (expression, error) {
	element, unwrapped, err := b.element(n)
	if err != nil {
		return expression{}, err
	}
	b.lambdas++
	name := fmt.Sprintf("x%d", b.lambdas)
	e, err := b.within("element", func() (expression, error) {
		if unwrapped != nil && t.Element.Kind == schema.Struct {
			// The engine takes a repeated struct with one member for that member.
			e, err := b.pack(name, *t.Element, []footer.Node{*unwrapped}, func(*footer.Node) string { return name })
			e.plain = false
			return e, err
		}
		return b.expression(name, *t.Element, element)
	})
	switch {
	case err != nil:
		return expression{}, err
	case e.plain:
		return expression{ref + "::" + t.SQL(), true}, nil
	}
	return expression{text: fmt.Sprintf("list_transform(%s, lambda %s: %s)", ref, name, e.text)}, nil
}

// element gives what a list's values are. unwrapped is the only member of what is a struct by the rules of the format, and
// is not to the engine.
func (b *builder) element(n *footer.Node) (element, unwrapped *footer.Node, err error) {
	if n.Repetition == footer.Repeated { // a repeated column without a list around it
		single := *n
		single.Repetition = footer.Required
		return &single, nil, nil
	}
	if n.Physical != footer.Group || n.Logical == footer.Map || len(n.Children) != 1 || n.Children[0].Repetition != footer.Repeated {
		return nil, nil, b.misfit("it is no list in the file")
	}
	repeated := n.Children[0]
	repeated.Repetition = footer.Required
	if repeated.Physical != footer.Group || len(repeated.Children) != 1 {
		return &repeated, nil, nil
	}
	child := &repeated.Children[0]
	if repeated.Name == "array" || repeated.Name == n.Name+"_tuple" {
		return child, child, nil
	}
	return child, nil, nil
}

func (b *builder) mapOf(ref string, t schema.Type, n *footer.Node) (expression, error) {
	if n.Physical != footer.Group || n.Logical != footer.Map || len(n.Children) != 1 || len(n.Children[0].Children) != 2 {
		return expression{}, b.misfit("it is no map in the file")
	}
	pair := n.Children[0].Children
	b.lambdas++
	name := fmt.Sprintf("x%d", b.lambdas)
	key, err := b.within("key", func() (expression, error) {
		return b.expression(fmt.Sprintf("struct_extract(%s, 'key')", name), *t.Key, &pair[0])
	})
	if err != nil {
		return expression{}, err
	}
	value, err := b.within("value", func() (expression, error) {
		return b.expression(fmt.Sprintf("struct_extract(%s, 'value')", name), *t.Element, &pair[1])
	})
	switch {
	case err != nil:
		return expression{}, err
	case key.plain && value.plain:
		return expression{ref + "::" + t.SQL(), true}, nil
	}
	return expression{text: fmt.Sprintf(
		"CASE WHEN %[1]s IS NULL THEN NULL ELSE map_from_entries(list_transform(map_entries(%[1]s), lambda %[2]s: struct_pack(k := %[3]s, v := %[4]s))) END",
		ref, name, key.text, value.text)}, nil
}
