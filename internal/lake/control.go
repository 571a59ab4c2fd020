package lake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/sluice"
)

// Fence is the one row per stream that every writing transaction compares and sets (spec/lake.md §4). RunSeq and
// BatchIndex are the last applied pair, -1 before the first batch.
type Fence struct {
	Seq           int64
	RunSeq        int64
	BatchIndex    int64
	RunID         sluice.RunID
	BatchID       sluice.BatchID
	Op            sluice.Op
	Target        Table
	TargetTableID int64
	At            time.Time
}

// Marker is the record, committed with the data, that a batch is applied.
type Marker struct {
	Seq        int64
	RunSeq     int64
	BatchIndex int64
	RunID      sluice.RunID
	BatchID    sluice.BatchID
	Op         sluice.Op
	Rows       int64
	At         time.Time
	TableID    int64 // of the table that it went to
}

// Control is what the control table of a stream says, read in one snapshot.
type Control struct {
	Fence  Fence
	Marker *Marker // of the batch that was asked for; nil: not applied
}

// EnsureControl makes the control table of a stream with its fence row, in a transaction of its own. It may be repeated,
// also by two processes at once: of two CREATEs of one name only one commits, together with its one fence row.
func (s *Session) EnsureControl(ctx context.Context, id sluice.StreamID) error {
	t := ControlTable(id)
	doing := fmt.Sprintf("make the control table of stream %s", id)
	create := fmt.Sprintf(`CREATE TABLE %s (kind VARCHAR, seq BIGINT, run_seq BIGINT, batch_index BIGINT, run_id VARCHAR, `+
		`batch_id VARCHAR, op VARCHAR, target_schema VARCHAR, target_table VARCHAR, target_table_id BIGINT, "rows" BIGINT, `+
		`"at" TIMESTAMPTZ)`, t.SQL())
	fence := fmt.Sprintf(`INSERT INTO %s VALUES ('fence', 0, -1, -1, '', '', '', '', '', 0, 0, now())`, t.SQL())
	for _, q := range []string{begin(true), create, fence, "COMMIT"} {
		if _, err := s.conn.Exec(ctx, q); err != nil {
			s.rollback()
			return s.fail(err, PhaseControl, doing)
		}
	}
	return nil
}

// ErrNoControl means that the stream has no control table yet.
var ErrNoControl = errors.New("the stream has no control table yet")

// ReadControl reads the fence and the marker of one batch. ErrNoControl: the catalog answered and has no such table.
func (s *Session) ReadControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (Control, error) {
	var c Control
	doing := fmt.Sprintf("read the control table of stream %s", id)
	absent := false
	err := s.read(ctx, PhaseControl, doing, func() error {
		ok, _, err := s.tableID(ctx, ControlTable(id))
		if err != nil {
			return err
		}
		if absent = !ok; absent {
			return nil
		}
		c, err = s.queryControl(ctx, id, batch)
		return err
	})
	if err == nil && absent {
		err = ErrNoControl
	}
	return c, err
}

func (s *Session) queryControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (Control, error) {
	var c Control
	rows, err := s.conn.Query(ctx, fmt.Sprintf(`SELECT kind, seq, run_seq, batch_index, run_id, batch_id, op, target_schema, `+
		`target_table, target_table_id, "rows", "at" FROM %s WHERE kind = 'fence' OR (kind = 'marker' AND batch_id = $1)`,
		ControlTable(id).SQL()), string(batch))
	if err != nil {
		return c, err
	}
	defer rows.Close()
	fences := 0
	for rows.Next() {
		var kind, schema, table string
		var m Marker
		var tableID int64
		if err := rows.Scan(&kind, &m.Seq, &m.RunSeq, &m.BatchIndex, &m.RunID, &m.BatchID, &m.Op, &schema, &table, &tableID, &m.Rows, &m.At); err != nil {
			return c, err
		}
		if kind == "fence" {
			fences++
			c.Fence = Fence{m.Seq, m.RunSeq, m.BatchIndex, m.RunID, m.BatchID, m.Op, Table{schema, table}, tableID, m.At}
			continue
		}
		if c.Marker != nil {
			return c, internalFailure(PhaseControl, "stream %s has two markers of batch %s", id, batch)
		}
		m.TableID = tableID
		c.Marker = &m
	}
	if err := rows.Err(); err != nil {
		return c, err
	}
	if fences != 1 {
		return c, internalFailure(PhaseControl, "stream %s has %d fence rows, not one", id, fences)
	}
	return c, nil
}

// tableID looks a table up in the catalog itself. ok is false only if the catalog answered and has no such table.
func (s *Session) tableID(ctx context.Context, t Table) (ok bool, id int64, err error) {
	err = s.conn.QueryRow(ctx, `SELECT t.table_id FROM `+metadata+`.ducklake_table t `+
		`JOIN `+metadata+`.ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL `+
		`WHERE t.end_snapshot IS NULL AND lower(t.table_name) = lower($1) AND lower(s.schema_name) = lower($2)`,
		t.Name, t.Schema).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, 0, nil
	}
	return err == nil, id, err
}

func (s *Session) schemaExists(ctx context.Context, schema string) (ok bool, err error) {
	err = s.conn.QueryRow(ctx, `SELECT count(*) > 0 FROM `+metadata+`.ducklake_schema `+
		`WHERE end_snapshot IS NULL AND lower(schema_name) = lower($1)`, schema).Scan(&ok)
	return ok, err
}

// TableExists asks the catalog for a table.
func (s *Session) TableExists(ctx context.Context, t Table) (ok bool, err error) {
	err = s.read(ctx, PhaseDescribe, "look for table "+t.String(), func() error {
		ok, _, err = s.tableID(ctx, t)
		return err
	})
	return ok, err
}
