package statedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sluice/internal/sluice"
)

// Runner runs queries: a DB (reads only on SQLite; each in a transaction of its own) or a Tx.
type Runner interface {
	exec(ctx context.Context, q *Query, args Args) (sql.Result, error)
	query(ctx context.Context, q *Query, args Args) (*sql.Rows, error)
	handle() *DB
}

// Scan reads the columns of a row, as (*sql.Rows).Scan; times go through Time and TimePtr, text that may be NULL through
// Text.
type Scan func(dest ...any) error

// Exec runs a statement and tells how many rows it changed.
func Exec(ctx context.Context, r Runner, q *Query, args Args) (int64, error) {
	defer r.handle().took(q, time.Now())
	res, err := r.exec(ctx, q, args)
	if err != nil {
		return 0, failed(q, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", q.name, err)
	}
	return n, nil
}

// All runs a query and scans each row.
func All[T any](ctx context.Context, r Runner, q *Query, args Args, scan func(Scan) (T, error)) ([]T, error) {
	defer r.handle().took(q, time.Now())
	rows, err := r.query(ctx, q, args)
	if err != nil {
		return nil, failed(q, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		t, err := scan(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("read a row of %s: %w", q.name, err)
		}
		all = append(all, t)
	}
	if err := rows.Err(); err != nil {
		return nil, failed(q, err)
	}
	return all, nil
}

// failed names the query, and says SLUICE-STATE-AWAY if the database went away under it.
func failed(q *Query, err error) error {
	if connectionLost(err) {
		return sluice.E("SLUICE-STATE-AWAY", "use the state DB", err.Error(), "check that the server runs", fmt.Errorf("run %s: %w", q.name, err))
	}
	return fmt.Errorf("run %s: %w", q.name, err)
}

// One runs a query that gives at most one row; found is false if it gives none.
func One[T any](ctx context.Context, r Runner, q *Query, args Args, scan func(Scan) (T, error)) (t T, found bool, err error) {
	all, err := All(ctx, r, q, args, scan)
	switch {
	case err != nil:
		return t, false, err
	case len(all) == 0:
		return t, false, nil
	case len(all) > 1:
		return t, false, fmt.Errorf("run %s: %d rows instead of one", q.name, len(all))
	}
	return all[0], true, nil
}

// Value scans one column.
func Value[T any](s Scan) (t T, err error) { return t, s(&t) }

func (db *DB) handle() *DB { return db }
func (tx *Tx) handle() *DB { return tx.db }

func (db *DB) took(q *Query, begin time.Time) {
	if observe := db.observe.Load(); observe != nil {
		(*observe)(q.name, time.Since(begin))
	}
}

func (db *DB) exec(ctx context.Context, q *Query, args Args) (sql.Result, error) {
	text, values, err := q.bind(db.dialect, db.now.Load(), args)
	if err != nil {
		return nil, err
	}
	return db.write.ExecContext(ctx, text, values...)
}

func (db *DB) query(ctx context.Context, q *Query, args Args) (*sql.Rows, error) {
	text, values, err := q.bind(db.dialect, db.now.Load(), args)
	if err != nil {
		return nil, err
	}
	return db.read.QueryContext(ctx, text, values...)
}

func (tx *Tx) exec(ctx context.Context, q *Query, args Args) (sql.Result, error) {
	if fault := tx.db.fault.Load(); fault != nil {
		if err := (*fault)(q.name); err != nil {
			return nil, err
		}
	}
	text, values, err := q.bind(tx.db.dialect, tx.db.now.Load(), args)
	if err != nil {
		return nil, err
	}
	return tx.tx.ExecContext(ctx, text, values...)
}

func (tx *Tx) query(ctx context.Context, q *Query, args Args) (*sql.Rows, error) {
	if fault := tx.db.fault.Load(); fault != nil {
		if err := (*fault)(q.name); err != nil {
			return nil, err
		}
	}
	text, values, err := q.bind(tx.db.dialect, tx.db.now.Load(), args)
	if err != nil {
		return nil, err
	}
	return tx.tx.QueryContext(ctx, text, values...)
}

// Time scans a time that is not NULL.
func Time(t *time.Time) sql.Scanner {
	return timeScanner{set: func(v *time.Time) error {
		if v == nil {
			return errors.New("the time is NULL")
		}
		*t = *v
		return nil
	}}
}

// TimePtr scans a time that may be NULL.
func TimePtr(t **time.Time) sql.Scanner {
	return timeScanner{set: func(v *time.Time) error {
		*t = v
		return nil
	}}
}

type timeScanner struct{ set func(*time.Time) error }

// Scan implements sql.Scanner.
func (s timeScanner) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return s.set(nil)
	case time.Time:
		v = v.UTC()
		return s.set(&v)
	case int64:
		t := time.UnixMicro(v).UTC()
		return s.set(&t)
	}
	return fmt.Errorf("%T is not a time", src)
}

// Text scans text that may be NULL; NULL becomes empty.
func Text[S ~string](s *S) sql.Scanner { return textScanner(func(v string) { *s = S(v) }) }

type textScanner func(string)

// Scan implements sql.Scanner.
func (f textScanner) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		f("")
	case string:
		f(v)
	case []byte:
		f(string(v))
	default:
		return fmt.Errorf("%T is not text", src)
	}
	return nil
}
