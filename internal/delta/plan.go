package delta

import (
	"fmt"
	"strings"

	"sluice/internal/delta/footer"
	"sluice/internal/delta/schema"
	"sluice/internal/sluice"
)

// Spec is what a plan needs to know of a version of a table. It can be stored as JSON.
type Spec struct {
	URI              string         `json:"uri"`
	Version          int64          `json:"version"`
	TableID          string         `json:"table_id"`
	Schema           string         `json:"schema"` // schemaString of the metadata
	PartitionColumns []string       `json:"partition_columns"`
	Mapping          schema.Mapping `json:"mapping"`
}

// Columns are the table's columns.
func (s Spec) Columns() (*schema.Schema, error) {
	return schema.Parse(s.Schema, s.PartitionColumns, s.Mapping)
}

// The most that one group holds; more files or positions make another one.
const (
	MaxGroupFiles     = 512
	MaxGroupPositions = 20_000_000
)

// Plan says how files are read: in groups, each by one statement.
type Plan struct {
	Columns *schema.Schema
	Files   []File // as given
	Groups  []Group
}

// Group is files whose columns lie in them in the same way.
type Group struct {
	Files   []int // places in the plan's files; the engine's file_index is the place in this list
	First   int   // of its files in the side files, which number the files of all groups one after the other
	Rows    int64 // live rows: what the statement must give
	Deleted int64 // positions in the side file

	uris   []string
	values []string // an expression for each column of the table
	schema string   // schema parameter of read_parquet; empty if it is not needed
	keyed  bool     // there are partition columns
}

// Rows is the number of live rows of all groups.
func (p *Plan) Rows() int64 {
	n := int64(0)
	for i := range p.Groups {
		n += p.Groups[i].Rows
	}
	return n
}

// NewPlan groups files by how their columns lie in them. footers are those of the files, in their order.
func NewPlan(spec Spec, files []File, footers []*footer.Footer) (*Plan, error) {
	columns, err := spec.Columns()
	if err != nil {
		return nil, err
	}
	if len(columns.Fields) == 0 {
		return nil, sluice.E(CodeSchema, "", "the table has no columns", "wait until its writer has given it a schema", nil)
	}
	p := &Plan{Columns: columns, Files: files}
	open := map[string]int{} // the last group of each signature
	for i, f := range footers {
		if len(files[i].Partition) != len(columns.Partition) {
			return nil, sluice.E("SLUICE-INTERNAL", "", "file "+files[i].Path+" was planned for another schema", "plan anew", nil)
		}
		r, err := resolve(columns, f, len(columns.Partition) > 0, files[i].DV != nil)
		if err != nil {
			return nil, during(err, "plan the reading of %s", files[i].Path)
		}
		g, ok := open[r.signature]
		if !ok || len(p.Groups[g].Files) == MaxGroupFiles || p.Groups[g].Deleted+files[i].Deleted() > MaxGroupPositions {
			g = len(p.Groups)
			open[r.signature] = g
			p.Groups = append(p.Groups, Group{values: r.expressions, schema: r.schema, keyed: len(columns.Partition) > 0})
		}
		at := &p.Groups[g]
		at.Files = append(at.Files, i)
		at.uris = append(at.uris, files[i].URI)
		at.Rows += f.Rows - files[i].Deleted()
		at.Deleted += files[i].Deleted()
	}
	first := 0
	for i := range p.Groups {
		p.Groups[i].First = first
		first += len(p.Groups[i].Files)
	}
	return p, nil
}

// Sides are where the side files of a plan are, as the engine opens them. One that is not needed may be empty.
type Sides struct {
	Files   string            // see Plan.WriteFiles; needed if the table is partitioned
	Deleted string            // see Plan.WriteDeleted; needed by groups with deleted rows
	Moved   map[string]string // data files to be read from elsewhere: URI → URI
}

// Select writes the statement that gives exactly the live rows of the group, under the table's names and types. It gives
// the same whatever the session's time zone is.
func (g *Group) Select(columns *schema.Schema, s Sides) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, f := range columns.Fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(g.values[i])
		b.WriteString(" AS ")
		b.WriteString(quote(f.Name))
	}
	b.WriteString("\nFROM read_parquet([")
	for i, uri := range g.uris {
		if i > 0 {
			b.WriteString(", ")
		}
		if moved, ok := s.Moved[uri]; ok {
			uri = moved
		}
		b.WriteString(glob(uri))
	}
	b.WriteString("], hive_partitioning = false, union_by_name = false")
	if g.schema != "" {
		b.WriteString(", schema = ")
		b.WriteString(g.schema)
	}
	b.WriteString(") d")
	index := "d.file_index"
	if g.First > 0 {
		index = fmt.Sprintf("d.file_index + %d::UBIGINT", g.First)
	}
	if g.keyed {
		fmt.Fprintf(&b, "\nJOIN read_parquet(%s) f ON f.file_index = %s", glob(s.Files), index)
	}
	if g.Deleted > 0 {
		fmt.Fprintf(&b, "\nANTI JOIN read_parquet(%s) v ON v.file_index = %s AND v.pos = d.file_row_number", glob(s.Deleted), index)
	}
	return b.String()
}

// Partitioned reports whether the plan needs the side file of partition values.
func (p *Plan) Partitioned() bool { return len(p.Columns.Partition) > 0 }

// Deleted is the number of positions in the side file of deleted rows; at 0 there is no need for one.
func (p *Plan) Deleted() int64 {
	n := int64(0)
	for i := range p.Groups {
		n += p.Groups[i].Deleted
	}
	return n
}
