package lake

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Txn is a writing transaction of a caller that brings its own statements: changelogs move offsets with their rows, where
// batches move a marker. The fence must be its first statement (spec/lake.md §4). It ends with Commit or Rollback.
type Txn struct {
	s     *Session
	doing string
}

// Begin begins a writing transaction. One that changes tables says so, and is alone (docs/adr/0009).
func (s *Session) Begin(ctx context.Context, changesTables bool, doing string) (*Txn, error) {
	if _, err := s.conn.Exec(ctx, begin(changesTables)); err != nil {
		return nil, s.fail(err, PhaseData, doing)
	}
	return &Txn{s, doing}, nil
}

// Exec runs one statement and gives the number of rows it changed. An error is a Failure of outcome NotDone; the transaction
// is rolled back.
func (t *Txn) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.s.conn.Exec(ctx, sql, args...)
	if err != nil {
		t.Rollback()
		return 0, t.s.fail(err, PhaseData, t.doing)
	}
	return tag.RowsAffected(), nil
}

// QueryRow reads one row inside the transaction.
func (t *Txn) QueryRow(ctx context.Context, sql string, dest ...any) error {
	if err := t.s.conn.QueryRow(ctx, sql).Scan(dest...); err != nil {
		t.Rollback()
		return t.s.fail(err, PhaseData, t.doing)
	}
	return nil
}

// Sign writes the commit message by which the snapshot is found again.
func (t *Txn) Sign(ctx context.Context, what, info string) error {
	_, err := t.Exec(ctx, fmt.Sprintf("CALL %s.set_commit_message('sluice', %s, extra_info => %s)", Catalog, Literal(what), Literal(info)))
	return err
}

// Register makes Parquet files part of a table. Columns that a file lacks are NULL.
func (t *Txn) Register(ctx context.Context, table Table, hive bool, files ...string) error {
	quoted := make([]string, len(files))
	for i, f := range files {
		quoted[i] = Literal(f)
	}
	_, err := t.Exec(ctx, fmt.Sprintf("CALL ducklake_add_data_files(%s, %s, [%s], schema => %s, allow_missing => true, hive_partitioning => %t)",
		Literal(Catalog), Literal(table.Name), strings.Join(quoted, ", "), Literal(table.Schema), hive))
	return err
}

// Commit ends the transaction. An error is a Failure: of outcome NotDone if the warehouse says that it rolled back, else Unknown.
func (t *Txn) Commit(ctx context.Context) error {
	if err := t.s.commit(ctx, t.doing); err != nil {
		t.s.broken = true
		return err
	}
	return nil
}

// Rollback gives the transaction up; the session is Broken.
func (t *Txn) Rollback() {
	t.s.broken = true
	t.s.rollback()
}

// Statement runs one statement outside of any transaction: looking at files and writing them touch no lake.
func (s *Session) Statement(ctx context.Context, doing, sql string, args ...any) (int64, error) {
	tag, err := s.conn.Exec(ctx, sql, args...)
	if err != nil {
		return 0, s.fail(err, PhaseDescribe, doing)
	}
	return tag.RowsAffected(), nil
}

// Look runs a query outside of any transaction and hands each row to scan.
func (s *Session) Look(ctx context.Context, doing, sql string, scan func(pgx.Rows) error, args ...any) error {
	return s.each(ctx, doing, sql, scan, args)
}

// Read runs a query of the lake in a transaction of its own, so that no decision is made on an old snapshot.
func (s *Session) Read(ctx context.Context, doing, sql string, scan func(pgx.Rows) error, args ...any) error {
	return s.read(ctx, PhaseControl, doing, func() error { return s.each(ctx, doing, sql, scan, args) })
}

func (s *Session) each(ctx context.Context, doing, sql string, scan func(pgx.Rows) error, args []any) error {
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return s.fail(err, PhaseDescribe, doing)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.fail(err, PhaseDescribe, doing)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fail(err, PhaseDescribe, doing)
	}
	return nil
}

// DataPath is where the lake keeps its files; it ends in a slash.
func (s *Session) DataPath() string { return s.info.dataPath }

// OnPostgres reports whether the lake's catalog is on PostgreSQL, where the reply to a COMMIT can be lost between engine and
// catalog.
func (s *Session) OnPostgres() bool { return s.info.catalog == "postgres" }

// SetOption sets an option of one table, in a transaction of its own.
func (s *Session) SetOption(ctx context.Context, doing, option string, value int64, table Table) error {
	_, err := s.Statement(ctx, doing, fmt.Sprintf("CALL %s.set_option(%s, %d, schema => %s, table_name => %s)",
		Catalog, Literal(option), value, Literal(table.Schema), Literal(table.Name)))
	return err
}
