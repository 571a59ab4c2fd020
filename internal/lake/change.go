package lake

import (
	"fmt"
	"slices"
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
	// RefuseNulls makes a merge fail at a row with a NULL key (SLUICE-LOAD-NULL-KEY), instead of a look at the keys before.
	RefuseNulls bool
	// DedupeOrder are file columns; the newest row of a key is the greatest by them, NULL lowest, ties by position.
	DedupeOrder []string
	// OnlyChanged leaves rows alone whose compared columns are all equal.
	OnlyChanged bool
	// Keep is what a replace leaves as it was: partition, sort order, comments and options of the table before it.
	Keep Layout
	// Rewrite empties and fills the table instead of replacing it, so that its identity stays.
	Rewrite bool
	// WriteTo is a key of our own below the lake's data path: create, replace and insert write their rows there and register
	// the file in the transaction. Empty: the engine writes the rows itself.
	WriteTo string
	// Changes is set for a batch of change rows.
	Changes *Changes
	// Staged is set for a chunk: Target is its staging table, or for a swap the live one.
	Staged *Staged
	// WantRows is the number of rows that insert, create and replace must write; negative: not known.
	WantRows int64
}

// Assignment puts a file column into a target column, cast to the target's type where they differ.
type Assignment struct {
	To   Column
	From string
	Cast bool
	// File is the file column's type where parts of it have no type (NullType): the engine reads those as INTEGER, which
	// casts to few types.
	File *Type
	// Value is SQL that takes the place of a file column. It belongs to the load, not to the row: a row that differs in
	// nothing else is left alone.
	Value string
}

// expr is the assigned value, of a file f.
func (a Assignment) expr() string {
	if a.Value != "" {
		return a.Value
	}
	e := "f." + Ident(a.From)
	if a.File != nil {
		e = untyped(e, *a.File, 0)
	}
	if a.Cast {
		e = "CAST(" + e + " AS " + a.To.Type.String() + ")"
	}
	return e
}

// untyped gives NULL for all parts of a value that have no type. Whether a list is NULL or empty stays as it is.
func untyped(e string, t Type, depth int) string {
	if !t.HasNull() {
		return e
	}
	x := fmt.Sprintf("x%d", depth)
	switch t.Base {
	case NullType:
		return "NULL"
	case "LIST", "ARRAY":
		return fmt.Sprintf("list_transform(%s, lambda %s: %s)", e, x, untyped(x, *t.Elem, depth+1))
	case "MAP":
		return fmt.Sprintf("map_from_entries(list_transform(map_entries(%s), lambda %s: struct_pack(k := %s, v := %s)))", e, x,
			untyped(x+".key", *t.Key, depth+1), untyped(x+".value", *t.Elem, depth+1))
	}
	parts := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		parts[i] = Ident(f.Name) + " := " + untyped(e+"."+Ident(f.Name), f.Type, depth)
	}
	return fmt.Sprintf("CASE WHEN %s IS NOT NULL THEN struct_pack(%s) END", e, strings.Join(parts, ", "))
}

// Changes say how change rows are applied: the last change of a key counts, by Order and then by position.
type Changes struct {
	OpColumn string   // file column
	Deletes  []string // values of OpColumn, lower case, that mean delete; all others mean upsert
	Order    []string // file columns
	// Kept are the target columns that hold the order; a stored row changes only for an order that is not older.
	Kept []string
	// Soft marks deleted rows instead of removing them, in the columns DeletedColumn and DeletedAtColumn of the target.
	Soft bool
}

// Columns that a soft delete sets.
const (
	DeletedColumn   = "_sluice_deleted"
	DeletedAtColumn = "_sluice_deleted_at"
)

// Statement is one step of a transaction.
type Statement struct {
	SQL      string
	Data     bool  // moves rows: its command tag counts
	IfRows   bool  // left out if the data statements before it have moved no rows
	WantRows int64 // the number of rows that it must report; negative: any
}

// Statements builds the DDL and data statements of a change, in order. They run inside a fenced transaction.
func (c Change) Statements() []Statement {
	if c.Staged != nil {
		return c.Staged.statements(c.Target, c.Op, c.WriteTo)
	}
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
		if c.Changes != nil {
			return append(out, c.applyChanges()...)
		}
		out = append(out, c.insert()...)
	case sluice.OpReplace:
		switch {
		case c.Path == "":
			ddl("DELETE FROM %s", c.Target.SQL())
		case c.Rewrite:
			ddl("DELETE FROM %s", c.Target.SQL())
			out = append(out, c.insert()...)
		default:
			ddl("CREATE OR REPLACE TABLE %s (%s)", c.Target.SQL(), columnDefs(c.Columns))
			for _, q := range c.Keep.shape(c.Target) {
				ddl("%s", q)
			}
			out = append(out, c.insert()...)
		}
	case sluice.OpInsert:
		out = append(out, c.insert()...)
	case sluice.OpMerge:
		if c.Changes != nil {
			return append(out, c.applyChanges()...)
		}
		out = append(out, c.merge())
	case sluice.OpRegister, sluice.OpNothing:
	}
	return out
}

// remakes reports whether the change puts a new table in the place of the target.
func (c Change) remakes() bool {
	return c.Op == sluice.OpReplace && c.Path != "" && !c.Rewrite && c.Staged == nil
}

// alters reports whether the change makes another table of the target: what was known of it is void.
func (c Change) alters() bool {
	return c.Op == sluice.OpCreate || c.Op == sluice.OpReplace || len(c.Add) > 0 || len(c.Widen) > 0
}

func columnDefs(cs Columns) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = Ident(c.Name) + " " + c.Type.String()
	}
	return strings.Join(parts, ", ")
}

// insert adds the file's rows. With a key of our own the rows are written by COPY and registered: a COMMIT whose reply is
// lost then takes no data files with it, because the engine removes only files that it has written itself (spec/lake.md §5).
func (c Change) insert() []Statement {
	if c.WriteTo == "" {
		return []Statement{{
			SQL:  fmt.Sprintf("INSERT INTO %s (%s) %s", c.Target.SQL(), identList(c.targets()), c.source()),
			Data: true, WantRows: c.WantRows,
		}}
	}
	return []Statement{
		{SQL: fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet)", c.source(), Literal(c.WriteTo)), Data: true, WantRows: c.WantRows},
		register(c.Target, c.WriteTo),
	}
}

// register makes a file part of a table, if anything was written to it.
func register(t Table, file string) Statement {
	return Statement{
		SQL: fmt.Sprintf("CALL ducklake_add_data_files(%s, %s, %s, schema => %s, allow_missing => true)",
			Literal(Catalog), Literal(t.Name), Literal(file), Literal(t.Schema)),
		IfRows: true, WantRows: -1,
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
		expr := a.expr()
		from[a.To.Name] = expr
		items[i] = expr + " AS " + Ident(a.To.Name)
	}
	if c.Changes != nil {
		deletes := []string{"NULL"} // a list is never empty; nothing equals NULL
		for _, d := range c.Changes.Deletes {
			deletes = append(deletes, Literal(d))
		}
		items = append(items, fmt.Sprintf("coalesce(lower(f.%s::VARCHAR) IN (%s), false) AS %s",
			Ident(c.Changes.OpColumn), strings.Join(deletes, ", "), Ident(DeletedColumn)))
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
	var set, differs, values []string
	for _, a := range c.Assign {
		n := Ident(a.To.Name)
		values = append(values, "s."+n)
		if c.isKey(a.To.Name) {
			continue
		}
		set = append(set, n+" = s."+n)
		if a.Value == "" {
			differs = append(differs, differ(n, a.To.Type))
		}
	}
	q := fmt.Sprintf("MERGE INTO %s AS t USING (%s) AS s ON %s", c.Target.SQL(), c.source(), c.sameKey())
	if len(set) > 0 && (len(differs) > 0 || !c.OnlyChanged) {
		when := ""
		if c.OnlyChanged {
			when = " AND (" + strings.Join(differs, " OR ") + ")"
		}
		q += " WHEN MATCHED" + when + " THEN UPDATE SET " + strings.Join(set, ", ")
	}
	if c.RefuseNulls { // NULL equals nothing, so such a row is never matched
		keys := make([]string, len(c.Keys))
		for i, k := range c.Keys {
			keys[i] = "s." + Ident(k) + " IS NULL"
		}
		q += fmt.Sprintf(" WHEN NOT MATCHED AND (%s) THEN ERROR %s", strings.Join(keys, " OR "), Literal(nullKey))
	}
	q += fmt.Sprintf(" WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)", identList(c.targets()), strings.Join(values, ", "))
	return Statement{SQL: q, Data: true, WantRows: -1}
}

// nullKey is the engine's error at a NULL key, as this package words it and knows it again.
const nullKey = "sluice: a row has NULL in a key column"

// Differ is SQL that is true where a column of a table t and of a source s differ.
func Differ(column Column) string { return differ(Ident(column.Name), column.Type) }

// differ compares a column of table and source so that no difference is missed: some values are equal to the engine and
// yet not the same, 30 days and one month, or 0.0 and -0.0; and it refuses to compare variants (docs/adr/0060).
func differ(column string, t Type) string {
	of := func(bases ...string) bool {
		return t.has(func(p Type) bool { return slices.Contains(bases, p.Base) })
	}
	d := fmt.Sprintf("t.%[1]s IS DISTINCT FROM s.%[1]s", column)
	switch {
	case of("VARIANT"):
		return "true"
	case t.Base == "DOUBLE", t.Base == "FLOAT":
		return d + fmt.Sprintf(" OR signbit(t.%[1]s) <> signbit(s.%[1]s)", column)
	case of("INTERVAL", "DOUBLE", "FLOAT"):
		return d + fmt.Sprintf(" OR t.%[1]s::VARCHAR <> s.%[1]s::VARCHAR", column)
	}
	return d
}

func (c Change) sameKey() string {
	on := make([]string, len(c.Keys))
	for i, k := range c.Keys {
		eq := "="
		if c.NullsMatch {
			eq = "IS NOT DISTINCT FROM"
		}
		on[i] = fmt.Sprintf("t.%s %s s.%s", Ident(k), eq, Ident(k))
	}
	return strings.Join(on, " AND ")
}

// applyChanges builds what change rows do. The engine takes one UPDATE-or-DELETE action per MERGE, so hard deletes come
// first, in the same transaction; soft deletes are updates.
func (c Change) applyChanges() []Statement {
	newer := ""
	if len(c.Changes.Kept) > 0 {
		newer = fmt.Sprintf("(%s) >= (%s)", prefixed("s", c.Changes.Kept), prefixed("t", c.Changes.Kept))
	}
	deleted := "s." + Ident(DeletedColumn)
	var set, columns, values []string
	for _, a := range c.Assign {
		n := Ident(a.To.Name)
		columns, values = append(columns, n), append(values, "s."+n)
		if c.isKey(a.To.Name) {
			continue
		}
		if c.Changes.Soft { // a delete changes only what its row carries
			set = append(set, fmt.Sprintf("%[1]s = CASE WHEN %[2]s THEN coalesce(s.%[1]s, t.%[1]s) ELSE s.%[1]s END", n, deleted))
			continue
		}
		set = append(set, n+" = s."+n)
	}
	if c.Changes.Soft {
		at := "CASE WHEN " + deleted + " THEN now() END"
		columns = append(columns, Ident(DeletedColumn), Ident(DeletedAtColumn))
		values = append(values, deleted, at)
		set = append(set, Ident(DeletedColumn)+" = "+deleted, Ident(DeletedAtColumn)+" = "+at)
	}
	var out []Statement
	source := c.source()
	if !c.Changes.Soft {
		where := c.sameKey() + " AND " + deleted
		if newer != "" {
			where += " AND " + newer
		}
		out = append(out, Statement{SQL: fmt.Sprintf("DELETE FROM %s AS t USING (%s) AS s WHERE %s", c.Target.SQL(), source, where), Data: true, WantRows: -1})
		source = fmt.Sprintf("SELECT * FROM (%s) WHERE NOT %s", source, Ident(DeletedColumn))
	}
	q := fmt.Sprintf("MERGE INTO %s AS t USING (%s) AS s ON %s", c.Target.SQL(), source, c.sameKey())
	if len(set) > 0 {
		when := ""
		if newer != "" {
			when = " AND " + newer
		}
		q += " WHEN MATCHED" + when + " THEN UPDATE SET " + strings.Join(set, ", ")
	}
	q += fmt.Sprintf(" WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)", strings.Join(columns, ", "), strings.Join(values, ", "))
	return append(out, Statement{SQL: q, Data: true, WantRows: -1})
}

func (c Change) isKey(name string) bool {
	for _, k := range c.Keys {
		if k == name {
			return true
		}
	}
	return false
}

func prefixed(table string, names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = table + "." + Ident(n)
	}
	return strings.Join(out, ", ")
}
