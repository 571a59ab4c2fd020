package lake

import (
	"fmt"
	"strings"

	"sluice/internal/sluice"
)

// Change is what one batch does to its target table. The caller decides it; this package turns it into SQL. All names in
// it are the target's spelling, except Assignment.From, which is the file's.
type Change struct {
	Op      sluice.Op
	Target  Table
	Path    string       // the Parquet file; empty for an emptying replace
	Columns Columns      // create, replace: the table's whole schema
	Assign  []Assignment // which file column goes into which target column
	Add     Columns      // new columns of an existing target
	Widen   Columns      // columns of an existing target that take a wider type
	Keys    []string     // merge, or a de-duplicated create or replace: key columns, target spelling
	// NullsMatch makes NULL equal NULL in keys.
	NullsMatch bool
	// DedupeOrder are file columns; the newest row of a key is the greatest by them, NULL lowest, ties by position.
	DedupeOrder []string
	// OnlyChanged leaves rows alone whose compared columns are all equal.
	OnlyChanged bool
	// Rewrite empties and fills the table instead of replacing it, so that its identity stays.
	Rewrite bool
	// WantRows is the number of rows that insert, create and replace must write; negative: not known.
	WantRows int64
}

// Assignment puts a file column into a target column, cast to the target's type where they differ.
type Assignment struct {
	To   Column
	From string
	Cast bool
}

// Statement is one step of a transaction.
type Statement struct {
	SQL      string
	Data     bool  // moves rows: its command tag counts
	WantRows int64 // the number of rows that it must report; negative: any
}

// Statements builds the DDL and data statements of a change, in order. They run inside a fenced transaction.
func (c Change) Statements() []Statement {
	var out []Statement
	ddl := func(format string, a ...any) {
		out = append(out, Statement{SQL: fmt.Sprintf(format, a...), WantRows: -1})
	}
	for _, col := range c.Add {
		ddl("ALTER TABLE %s ADD COLUMN %s %s", c.Target.SQL(), Ident(col.Name), col.Type)
	}
	for _, col := range c.Widen {
		ddl("ALTER TABLE %s ALTER COLUMN %s SET DATA TYPE %s", c.Target.SQL(), Ident(col.Name), col.Type)
	}
	switch c.Op {
	case sluice.OpCreate:
		ddl("CREATE TABLE %s (%s)", c.Target.SQL(), columnDefs(c.Columns))
		out = append(out, c.insert(c.source()))
	case sluice.OpReplace:
		switch {
		case c.Path == "":
			ddl("DELETE FROM %s", c.Target.SQL())
		case c.Rewrite:
			ddl("DELETE FROM %s", c.Target.SQL())
			out = append(out, c.insert(c.source()))
		default:
			ddl("CREATE OR REPLACE TABLE %s (%s)", c.Target.SQL(), columnDefs(c.Columns))
			out = append(out, c.insert(c.source()))
		}
	case sluice.OpInsert:
		out = append(out, c.insert(c.source()))
	case sluice.OpMerge:
		out = append(out, c.merge())
	case sluice.OpRegister, sluice.OpNothing:
	}
	return out
}

func columnDefs(cs Columns) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = Ident(c.Name) + " " + c.Type.String()
	}
	return strings.Join(parts, ", ")
}

func (c Change) insert(source string) Statement {
	want := c.WantRows
	if len(c.Keys) > 0 {
		want = -1 // de-duplicated: the count is the source's own
	}
	return Statement{
		SQL:      fmt.Sprintf("INSERT INTO %s (%s) %s", c.Target.SQL(), identList(c.targets()), source),
		Data:     true,
		WantRows: want,
	}
}

func (c Change) targets() []string {
	out := make([]string, len(c.Assign))
	for i, a := range c.Assign {
		out[i] = a.To.Name
	}
	return out
}

// source is a SELECT over the file that gives the assigned columns under their target names, one row per key where keys
// are declared.
func (c Change) source() string {
	items := make([]string, len(c.Assign))
	from := map[string]string{}
	for i, a := range c.Assign {
		expr := "f." + Ident(a.From)
		if a.Cast {
			expr = "CAST(" + expr + " AS " + a.To.Type.String() + ")"
		}
		from[a.To.Name] = expr
		items[i] = expr + " AS " + Ident(a.To.Name)
	}
	q := fmt.Sprintf("SELECT %s FROM %s AS f", strings.Join(items, ", "), readParquet(c.Path, len(c.Keys) > 0))
	if len(c.Keys) == 0 {
		return q
	}
	keys := make([]string, len(c.Keys))
	for i, k := range c.Keys {
		keys[i] = from[k]
	}
	var order []string
	for _, o := range c.DedupeOrder {
		order = append(order, "f."+Ident(o)+" DESC NULLS LAST")
	}
	order = append(order, "f.file_row_number DESC")
	return q + fmt.Sprintf(" QUALIFY row_number() OVER (PARTITION BY %s ORDER BY %s) = 1",
		strings.Join(keys, ", "), strings.Join(order, ", "))
}

func readParquet(path string, position bool) string {
	if position {
		return "read_parquet(" + PathLiteral(path) + ", file_row_number = true)"
	}
	return "read_parquet(" + PathLiteral(path) + ")"
}

// merge builds the upsert. Its source is unique by key, because the engine takes an arbitrary row of duplicates and
// inserts both of a new key (spec/lake.md rule 5).
func (c Change) merge() Statement {
	isKey := map[string]bool{}
	on := make([]string, len(c.Keys))
	for i, k := range c.Keys {
		isKey[k] = true
		eq := "="
		if c.NullsMatch {
			eq = "IS NOT DISTINCT FROM"
		}
		on[i] = fmt.Sprintf("t.%s %s s.%s", Ident(k), eq, Ident(k))
	}
	var set, differs, values []string
	for _, a := range c.Assign {
		n := Ident(a.To.Name)
		values = append(values, "s."+n)
		if isKey[a.To.Name] {
			continue
		}
		set = append(set, n+" = s."+n)
		differs = append(differs, fmt.Sprintf("t.%s IS DISTINCT FROM s.%s", n, n))
	}
	q := fmt.Sprintf("MERGE INTO %s AS t USING (%s) AS s ON %s", c.Target.SQL(), c.source(), strings.Join(on, " AND "))
	if len(set) > 0 {
		when := ""
		if c.OnlyChanged {
			when = " AND (" + strings.Join(differs, " OR ") + ")"
		}
		q += " WHEN MATCHED" + when + " THEN UPDATE SET " + strings.Join(set, ", ")
	}
	q += fmt.Sprintf(" WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)", identList(c.targets()), strings.Join(values, ", "))
	return Statement{SQL: q, Data: true, WantRows: -1}
}
