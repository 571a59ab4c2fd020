package delta

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/schema"
	"sluice/internal/sluice"
)

// resolved is how the columns of a table are read from a file.
type resolved struct {
	expressions []string // one for each column of the table
	schema      string
	signature   string // equal for files that one statement can read together
}

// virtual are the columns that read_parquet adds, unless a file has columns of these names.
var virtual = []string{"file_index", "file_row_number"}

// resolve finds the columns of a table in a file. keyed and deleted say whether the statement needs to know which file, and
// which row, each row is from.
func resolve(columns *schema.Schema, f *footer.Footer, keyed, deleted bool) (*resolved, error) {
	if columns.Mapping == schema.ByID && len(f.Columns) > 0 && !hasIDs(f.Columns) {
		return nil, misfit("the file has no field ids, though columns are mapped by id")
	}
	b := builder{mapping: columns.Mapping}
	r := &resolved{}
	var needed []*footer.Node // of each column of the table; nil for those that are not in the file
	for i, field := range columns.Fields {
		var node *footer.Node
		if !slices.Contains(columns.Partition, i) { // if the file has it too, the log's value counts
			var err error
			if node, err = b.find(f.Columns, field); err != nil {
				return nil, err
			}
		}
		needed = append(needed, node)
	}
	names, err := r.hideVirtual(f.Columns, needed, keyed, deleted)
	if err != nil {
		return nil, err
	}
	var sign strings.Builder
	fmt.Fprintf(&sign, "%t %t %s", keyed, deleted, r.schema)
	for i, field := range columns.Fields {
		expression := "NULL::" + field.Type.SQL()
		if at := slices.Index(columns.Partition, i); at >= 0 {
			expression = fmt.Sprintf("f.%s::%s", quote(sideColumn(at)), field.Type.SQL())
		} else if node := needed[i]; node != nil {
			b.path = append(b.path[:0], field.Name)
			e, err := b.expression("d."+quote(names[i]), field.Type, node)
			if err != nil {
				return nil, err
			}
			expression = e.text
			writeSignature(&sign, node)
		}
		sign.WriteByte('\n')
		r.expressions = append(r.expressions, expression)
	}
	r.signature = sign.String()
	return r, nil
}

func misfit(format string, args ...any) error {
	return sluice.E(CodeSchema, "", fmt.Sprintf(format, args...),
		"have the table's writer rewrite the file, or leave the table out", nil)
}

func hasIDs(nodes []footer.Node) bool {
	return slices.ContainsFunc(nodes, func(n footer.Node) bool { return n.HasID || hasIDs(n.Children) })
}

// hideVirtual gives the name by which each needed column is read. Where a column of the file would hide a virtual one that
// the statement needs, all are renamed, by their field ids.
func (r *resolved) hideVirtual(all []footer.Node, needed []*footer.Node, keyed, deleted bool) ([]string, error) {
	names := make([]string, len(needed))
	for i, node := range needed {
		if node != nil {
			names[i] = node.Name
		}
	}
	hidden := slices.IndexFunc(all, func(n footer.Node) bool {
		at := slices.Index(virtual, strings.ToLower(n.Name))
		return at == 0 && (keyed || deleted) || at == 1 && deleted
	})
	if hidden < 0 {
		return names, nil
	}
	var parts []string
	for i, node := range needed {
		if node == nil {
			continue
		}
		if !node.HasID || node.Physical == footer.Group {
			return nil, sluice.E(CodeReserved, "", fmt.Sprintf("the file has a column %s, which hides what tells its rows apart, "+
				"and column %s cannot be read by a field id", all[hidden].Name, node.Name),
				"have the table's writer rename the column, or purge the deletion vectors", nil)
		}
		leaf, err := leafType(node)
		if err != nil {
			return nil, err
		}
		names[i] = fmt.Sprintf("c%d", i)
		parts = append(parts, fmt.Sprintf("%d: {name: %s, type: %s, default_value: NULL}", node.ID, text(names[i]), text(leaf.sql)))
	}
	if len(parts) == 0 {
		return nil, sluice.E(CodeReserved, "", "the file has a column "+all[hidden].Name+", which hides what tells its rows apart",
			"have the table's writer rename the column, or purge the deletion vectors", nil)
	}
	r.schema = "MAP {" + strings.Join(parts, ", ") + "}"
	return names, nil
}

func writeSignature(b *strings.Builder, n *footer.Node) {
	fmt.Fprintf(b, "%q %d %d %d %d %d %d %d %t %d %t", n.Name, n.Repetition, n.Physical, n.Length, n.Logical, n.Precision,
		n.Scale, n.Bits, n.Signed, n.Unit, n.UTC)
	if n.HasID {
		fmt.Fprintf(b, " %d", n.ID)
	}
	b.WriteByte('(')
	for i := range n.Children {
		writeSignature(b, &n.Children[i])
	}
	b.WriteByte(')')
}

// sideColumn is the name of a partition column in the side file.
func sideColumn(at int) string { return fmt.Sprintf("p%d", at) }
