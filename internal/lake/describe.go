package lake

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// File is what the engine says about a Parquet file.
type File struct {
	Columns   Columns
	Rows      int64
	SizeBytes int64
	// Tag stands for the file's content: a hash of its footer, with the sizes, places and statistics of all its parts. A
	// copy of a file has the same one, another file under the same path has another.
	Tag string
}

// Target is what the lake says about a table.
type Target struct {
	Exists       bool
	SchemaExists bool
	TableID      int64
	Columns      Columns
	Layout       []string // columns by which the table's files are partitioned or sorted; they keep their type
}

// DescribeTarget looks at a table. The answer is kept with the session until an error or Forget: nobody else changes a
// target while its stream's fence stands still.
func (s *Session) DescribeTarget(ctx context.Context, t Table) (Target, error) {
	if known, ok := s.known[t]; ok {
		return known, nil
	}
	var d Target
	err := s.read(ctx, PhaseDescribe, "describe table "+t.String(), func() error {
		var err error
		if d.Exists, d.TableID, err = s.tableID(ctx, t); err != nil {
			return err
		}
		if !d.Exists {
			d.SchemaExists, err = s.schemaExists(ctx, t.Schema)
			return err
		}
		d.SchemaExists = true
		if d.Columns, err = s.describe(ctx, t.SQL()); err != nil {
			return err
		}
		d.Layout, err = s.layout(ctx, d.TableID)
		return err
	})
	if err == nil && d.Exists {
		s.known[t] = d
	}
	return d, err
}

// layout lists the columns that partition or sort a table.
func (s *Session) layout(ctx context.Context, tableID int64) ([]string, error) {
	rows, err := s.conn.Query(ctx, fmt.Sprintf(`SELECT DISTINCT c.column_name FROM %[1]s.ducklake_column c
		WHERE c.table_id = $1 AND c.end_snapshot IS NULL AND c.parent_column IS NULL AND (
			c.column_id IN (SELECT p.column_id FROM %[1]s.ducklake_partition_column p JOIN %[1]s.ducklake_partition_info i
				ON i.partition_id = p.partition_id WHERE i.table_id = $1 AND i.end_snapshot IS NULL)
			OR c.column_name IN (SELECT trim(e.expression, '"') FROM %[1]s.ducklake_sort_expression e JOIN %[1]s.ducklake_sort_info i
				ON i.sort_id = e.sort_id WHERE i.table_id = $1 AND i.end_snapshot IS NULL))`, metadata), tableID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Forget drops what the session knows about a table.
func (s *Session) Forget(t Table) { delete(s.known, t) }

func (s *Session) describe(ctx context.Context, what string) (Columns, error) {
	rows, err := s.conn.Query(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+what+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out Columns
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			return nil, err
		}
		t, err := ParseType(typ)
		if err != nil {
			return nil, err
		}
		out = append(out, Column{name, t})
	}
	return out, rows.Err()
}

// KeyQuery asks about the key columns of a file and, for change rows, about their operation and order columns. The names
// are the file's.
type KeyQuery struct {
	Keys     []string
	OpColumn string   // empty: no change rows
	Ops      []string // known operations, lower case
	Order    []string
}

// KeyFacts counts what matters about key columns: rows with a NULL key, rows that are not the only one of their key, and
// change rows without a known operation or without an order.
type KeyFacts struct {
	NullRows      int64
	DuplicateRows int64
	BadOps        int64
	BadOp         string // one of them
	NullOrders    int64
}

// DescribeKeys counts NULL and duplicate keys in a file, and change rows that cannot be applied.
func (s *Session) DescribeKeys(ctx context.Context, path string, ask KeyQuery) (KeyFacts, error) {
	var k KeyFacts
	badOp, nullOrder := "false", "false"
	if ask.OpColumn != "" {
		known := make([]string, len(ask.Ops))
		for i, o := range ask.Ops {
			known[i] = Literal(o)
		}
		badOp = fmt.Sprintf("%[1]s IS NULL OR lower(%[1]s::VARCHAR) NOT IN (%[2]s)", Ident(ask.OpColumn), strings.Join(known, ", "))
		nullOrder = anyNull(ask.Order)
	}
	op := "NULL"
	if ask.OpColumn != "" {
		op = Ident(ask.OpColumn) + "::VARCHAR"
	}
	q := fmt.Sprintf("SELECT count(*) FILTER (WHERE %s)::BIGINT, (count(*) - count(DISTINCT row(%s)))::BIGINT, "+
		"count(*) FILTER (WHERE %s)::BIGINT, coalesce(any_value(%s) FILTER (WHERE %s), 'NULL')::VARCHAR, count(*) FILTER (WHERE %s)::BIGINT FROM %s",
		anyNull(ask.Keys), identList(ask.Keys), badOp, op, badOp, nullOrder, readParquet(path, false))
	if err := s.conn.QueryRow(ctx, q).Scan(&k.NullRows, &k.DuplicateRows, &k.BadOps, &k.BadOp, &k.NullOrders); err != nil {
		return k, s.fail(err, PhaseDescribe, "look at the keys in file "+path)
	}
	return k, nil
}

func anyNull(columns []string) string {
	parts := make([]string, len(columns))
	for i, n := range columns {
		parts[i] = Ident(n) + " IS NULL"
	}
	return strings.Join(parts, " OR ")
}

// FirstMisfit finds the first value of a file's column that cannot be cast to a type, for the message of a type conflict.
// ok is false if every value can.
func (s *Session) FirstMisfit(ctx context.Context, path, column string, to Type) (value string, ok bool, err error) {
	q := fmt.Sprintf("SELECT %[1]s::VARCHAR FROM %[2]s WHERE %[1]s IS NOT NULL AND TRY_CAST(%[1]s AS %[3]s) IS NULL LIMIT 1",
		Ident(column), readParquet(path, false), to)
	err = s.read(ctx, PhaseDescribe, "look for a value that does not fit in file "+path, func() error {
		rows, err := s.conn.Query(ctx, q)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			ok = true
			if err := rows.Scan(&value); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return value, ok, err
}

// CreateSchema makes a schema in a transaction of its own, so that it never joins a rename or a batch.
func (s *Session) CreateSchema(ctx context.Context, schema string) error {
	doing := "make schema " + schema
	if _, err := s.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+Catalog+"."+Ident(schema)); err != nil {
		return s.fail(err, PhaseDescribe, doing)
	}
	return nil
}

func splitAddr(addr string) (string, uint16, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("split warehouse address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("split warehouse address %q: %w", addr, err)
	}
	return host, uint16(n), nil
}
