package lake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"sluice/internal/sluice"
)

// Layout is everything of a table but its rows: what a table that takes another's place has to keep.
type Layout struct {
	Exists    bool
	TableID   int64
	Columns   Columns
	Partition []string // expressions, such as "day" or year("at")
	Sort      []string // such as "id" DESC NULLS LAST
	Comment   string
	Comments  map[string]string // of columns, by name
	Options   map[string]string // of the table itself
	Bytes     int64             // of its data files
}

// shape gives the statements that bring partition, sort order and comments to a new table.
func (l Layout) shape(t Table) []string {
	var out []string
	if len(l.Partition) > 0 {
		out = append(out, fmt.Sprintf("ALTER TABLE %s SET PARTITIONED BY (%s)", t.SQL(), strings.Join(l.Partition, ", ")))
	}
	if len(l.Sort) > 0 {
		out = append(out, fmt.Sprintf("ALTER TABLE %s SET SORTED BY (%s)", t.SQL(), strings.Join(l.Sort, ", ")))
	}
	if l.Comment != "" {
		out = append(out, fmt.Sprintf("COMMENT ON TABLE %s IS %s", t.SQL(), Literal(l.Comment)))
	}
	for _, c := range slices.Sorted(maps.Keys(l.Comments)) {
		if _, ok := l.Columns.Find(c); ok {
			out = append(out, fmt.Sprintf("COMMENT ON COLUMN %s.%s IS %s", t.SQL(), Ident(c), Literal(l.Comments[c])))
		}
	}
	return out
}

// mend gives the statements that make a table's shape like another's: columns that it lacks are not its business.
func (l Layout) mend(t Table, like Layout) []string {
	var out []string
	if !slices.Equal(l.Partition, like.Partition) {
		if len(like.Partition) == 0 {
			out = append(out, fmt.Sprintf("ALTER TABLE %s RESET PARTITIONED BY", t.SQL()))
		} else {
			out = append(out, fmt.Sprintf("ALTER TABLE %s SET PARTITIONED BY (%s)", t.SQL(), strings.Join(like.Partition, ", ")))
		}
	}
	if !slices.Equal(l.Sort, like.Sort) {
		if len(like.Sort) == 0 {
			out = append(out, fmt.Sprintf("ALTER TABLE %s RESET SORTED BY", t.SQL()))
		} else {
			out = append(out, fmt.Sprintf("ALTER TABLE %s SET SORTED BY (%s)", t.SQL(), strings.Join(like.Sort, ", ")))
		}
	}
	if l.Comment != like.Comment {
		out = append(out, fmt.Sprintf("COMMENT ON TABLE %s IS %s", t.SQL(), orNull(like.Comment)))
	}
	names := map[string]bool{}
	for c := range l.Comments {
		names[c] = true
	}
	for c := range like.Comments {
		names[c] = true
	}
	for _, c := range slices.Sorted(maps.Keys(names)) {
		if _, ok := l.Columns.Find(c); ok && l.Comments[c] != like.Comments[c] {
			out = append(out, fmt.Sprintf("COMMENT ON COLUMN %s.%s IS %s", t.SQL(), Ident(c), orNull(like.Comments[c])))
		}
	}
	return out
}

func orNull(s string) string {
	if s == "" {
		return "NULL"
	}
	return Literal(s)
}

// On gives the layout for a table with other columns: what depends on columns that are not there goes.
func (l Layout) On(columns Columns) Layout {
	out := Layout{Columns: columns, Comment: l.Comment, Comments: map[string]string{}, Options: l.Options}
	has := func(expr string) bool {
		for _, c := range l.Columns {
			if _, there := columns.Find(c.Name); !there && strings.Contains(expr, Ident(c.Name)) {
				return false
			}
		}
		return true
	}
	for _, p := range l.Partition {
		if has(p) {
			out.Partition = append(out.Partition, p)
		}
	}
	for _, s := range l.Sort {
		if has(s) {
			out.Sort = append(out.Sort, s)
		}
	}
	for c, text := range l.Comments {
		if there, ok := columns.Find(c); ok {
			out.Comments[there.Name] = text
		}
	}
	return out
}

// DescribeLayout looks at a table in full, past anything that the session has kept of it.
func (s *Session) DescribeLayout(ctx context.Context, t Table) (Layout, error) {
	l := Layout{Comments: map[string]string{}, Options: map[string]string{}}
	err := s.read(ctx, PhaseDescribe, "describe table "+t.String(), func() error {
		var err error
		if l.Exists, l.TableID, err = s.tableID(ctx, t); err != nil || !l.Exists {
			return err
		}
		if l.Columns, err = s.describe(ctx, t.SQL()); err != nil {
			return err
		}
		for _, q := range []struct {
			sql string
			row func(a, b string)
		}{
			{`SELECT c.column_name, p.transform FROM %[1]s.ducklake_partition_column p
				JOIN %[1]s.ducklake_partition_info i ON i.partition_id = p.partition_id AND i.end_snapshot IS NULL
				JOIN %[1]s.ducklake_column c ON c.table_id = p.table_id AND c.column_id = p.column_id AND c.end_snapshot IS NULL AND c.parent_column IS NULL
				WHERE p.table_id = $1 ORDER BY p.partition_key_index`, func(column, transform string) { l.Partition = append(l.Partition, transformed(column, transform)) }},
			{`SELECT e.expression, concat(e.sort_direction, ' ', replace(e.null_order, '_', ' ')) FROM %[1]s.ducklake_sort_expression e
				JOIN %[1]s.ducklake_sort_info i ON i.sort_id = e.sort_id AND i.end_snapshot IS NULL
				WHERE e.table_id = $1 ORDER BY e.sort_key_index`, func(expr, order string) { l.Sort = append(l.Sort, sorted(l.Columns, expr)+" "+order) }},
			{`SELECT value, '' FROM %[1]s.ducklake_tag WHERE object_id = $1 AND end_snapshot IS NULL AND key = 'comment'`, func(text, _ string) { l.Comment = text }},
			{`SELECT c.column_name, g.value FROM %[1]s.ducklake_column_tag g JOIN %[1]s.ducklake_column c
				ON c.table_id = g.table_id AND c.column_id = g.column_id AND c.end_snapshot IS NULL AND c.parent_column IS NULL
				WHERE g.table_id = $1 AND g.end_snapshot IS NULL AND g.key = 'comment'`, func(column, text string) { l.Comments[column] = text }},
			{`SELECT key, value FROM %[1]s.ducklake_metadata WHERE scope = 'table' AND scope_id = $1`, func(key, value string) { l.Options[key] = value }},
		} {
			rows, err := s.conn.Query(ctx, fmt.Sprintf(q.sql, metadata), l.TableID)
			if err != nil {
				return err
			}
			var a, b *string
			if _, err := pgx.ForEachRow(rows, []any{&a, &b}, func() error {
				if a != nil && b != nil {
					q.row(*a, *b)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return s.conn.QueryRow(ctx, "SELECT coalesce(sum(file_size_bytes), 0)::BIGINT FROM "+metadata+".ducklake_data_file "+
			"WHERE table_id = $1 AND end_snapshot IS NULL", l.TableID).Scan(&l.Bytes)
	})
	return l, err
}

// transformed is a partition expression: the catalog has "identity", "year", "bucket(8)", ….
func transformed(column, transform string) string {
	name, args, _ := strings.Cut(transform, "(")
	switch {
	case name == "identity":
		return Ident(column)
	case args != "":
		return name + "(" + strings.TrimSuffix(args, ")") + ", " + Ident(column) + ")"
	}
	return name + "(" + Ident(column) + ")"
}

// sorted is a sort expression; one that is a column's name is quoted as such.
func sorted(columns Columns, expr string) string {
	if c, ok := columns.Find(strings.Trim(expr, `"`)); ok {
		return Ident(c.Name)
	}
	return expr
}

// Mend makes a staging table's partition, sort order, comments and options like another's, in a transaction of its own: the
// table may have changed since the staging table was made, and options cannot be set in the transaction that makes a table.
func (s *Session) Mend(ctx context.Context, t Table, is, like Layout) error {
	doing := "bring the layout of the live table to " + t.String()
	if statements := is.mend(t, like); len(statements) > 0 {
		for _, q := range append(append([]string{begin(true)}, statements...), "COMMIT") {
			if _, err := s.conn.Exec(ctx, q); err != nil {
				s.rollback()
				return s.fail(err, PhaseDescribe, doing)
			}
		}
	}
	s.Forget(t)
	return s.setOptions(ctx, t, is.Options, like.Options, doing)
}

func (s *Session) setOptions(ctx context.Context, t Table, have, want map[string]string, doing string) error {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if have[key] == want[key] {
			continue
		}
		if _, err := s.conn.Exec(ctx, fmt.Sprintf("CALL %s.set_option(%s, %s, schema => %s, table_name => %s)", Catalog,
			Literal(key), Literal(want[key]), Literal(t.Schema), Literal(t.Name))); err != nil {
			return s.fail(err, PhaseDescribe, doing)
		}
	}
	return nil
}

// NeedsMending reports whether a staging table's layout differs from the live one's in what can be mended.
func (l Layout) NeedsMending(t Table, like Layout) bool {
	if len(l.mend(t, like)) > 0 {
		return true
	}
	for key, v := range like.Options {
		if l.Options[key] != v {
			return true
		}
	}
	return false
}

// keepOptions gives the table's options, which belong to its id, to the one that has taken its place. They cannot be set in
// the transaction that makes a table; whoever finds that commit afterwards sets them again.
func (s *Session) keepOptions(ctx context.Context, t Table, oldID int64, doing string) error {
	if oldID == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	options := map[int64]map[string]string{}
	err := s.read(ctx, PhaseResolve, doing, func() error {
		_, id, err := s.tableID(ctx, t)
		if err != nil {
			return err
		}
		options[0], options[oldID] = map[string]string{}, map[string]string{}
		rows, err := s.conn.Query(ctx, fmt.Sprintf("SELECT scope_id, key, value FROM %s.ducklake_metadata WHERE scope = 'table' AND scope_id IN ($1, $2)", metadata), oldID, id)
		if err != nil {
			return err
		}
		var of int64
		var key, value string
		_, err = pgx.ForEachRow(rows, []any{&of, &key, &value}, func() error {
			if of == id {
				of = 0
			}
			options[of][key] = value
			return nil
		})
		return err
	})
	if err == nil {
		err = s.setOptions(ctx, t, options[0], options[oldID], doing)
	}
	if err != nil { // the table is replaced: what is left is found by reading back
		f := AsFailure(err, PhaseCommit, doing)
		f.Outcome = sluice.Unknown
		return f
	}
	return nil
}
