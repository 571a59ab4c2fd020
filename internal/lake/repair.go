package lake

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sluice/internal/sluice"
)

// RepairLimit is the size of a table, in bytes, up to which a lost data file is repaired without asking.
const RepairLimit = 1 << 30

// Repair undoes a committed batch whose data files are gone (spec/lake.md §5): in one fenced transaction the table becomes
// what it was one snapshot before, the batch's marker goes, and the fence's pair goes back to the batch before it. The
// batch can then be applied again. The rows are written to a key of our own, so that a lost reply to this COMMIT cannot
// damage the table anew.
func (s *Session) Repair(ctx context.Context, id sluice.StreamID, t Table, m Marker) (Control, error) {
	doing := fmt.Sprintf("repair table %s after batch %s", t, m.BatchID)
	w, statements, err := s.planRepair(ctx, id, t, m, doing)
	if err != nil {
		return Control{}, err
	}
	err = func() error {
		if _, err := s.conn.Exec(ctx, begin(true)); err != nil {
			return err
		}
		if err := s.moveFence(ctx, w); err != nil {
			return err
		}
		var rows int64
		for _, st := range statements {
			if st.IfRows && rows == 0 {
				continue
			}
			tag, err := s.conn.Exec(ctx, st.SQL)
			if err != nil {
				return err
			}
			if st.Data {
				rows += tag.RowsAffected()
			}
		}
		if err := s.sign(ctx, w, "repair"); err != nil {
			return err
		}
		return s.readBack(ctx, w)
	}()
	if err != nil {
		s.rollback()
		return Control{}, s.fail(err, PhaseData, doing)
	}
	if err := s.commit(ctx, doing); err != nil {
		s.broken = true
		return Control{}, err
	}
	s.Forget(t)
	if err := s.keepOptions(ctx, t, w.TableID, doing); err != nil {
		return Control{}, err
	}
	return s.ReadControl(ctx, id, m.BatchID)
}

// planRepair reads what the repair needs and writes its statements.
func (s *Session) planRepair(ctx context.Context, id sluice.StreamID, t Table, m Marker, doing string) (Write, []Statement, error) {
	w := Write{StreamID: id, Seq: m.Seq, RunSeq: -1, BatchIndex: -1, BatchID: m.BatchID, RunID: m.RunID, Change: Change{Op: m.Op, Target: t}}
	var snapshot, bytes int64
	var columns Columns
	refuse := func(what string) error {
		return Fail(PhaseResolve, Permanent, sluice.E("SLUICE-LAKE-DAMAGED", doing, what,
			"rebuild the table with a new full refresh of the stream", nil))
	}
	err := s.read(ctx, PhaseResolve, doing, func() error {
		var err error
		if snapshot, err = s.snapshotOf(ctx, id, m.BatchID, m.Seq); err != nil && m.Op != sluice.OpCreate && m.Op != sluice.OpReplace {
			if errors.Is(err, pgx.ErrNoRows) {
				return refuse("the snapshot of the batch is not to be found any more")
			}
			return err
		}
		err = s.conn.QueryRow(ctx, fmt.Sprintf("SELECT coalesce(max(run_seq), -1)::BIGINT, coalesce(arg_max(batch_index, seq), -1)::BIGINT "+
			"FROM (SELECT * FROM %s WHERE kind = 'marker' AND seq < $1 ORDER BY seq DESC LIMIT 1)", ControlTable(id).SQL()), m.Seq).
			Scan(&w.RunSeq, &w.BatchIndex)
		if err != nil || m.Op == sluice.OpCreate || m.Op == sluice.OpReplace {
			return err
		}
		_, tableID, err := s.tableID(ctx, t)
		if err != nil {
			return err
		}
		w.TableID = tableID
		if err := s.conn.QueryRow(ctx, "SELECT coalesce(sum(file_size_bytes), 0)::BIGINT FROM "+metadata+".ducklake_data_file "+
			"WHERE table_id = $1 AND end_snapshot IS NULL", tableID).Scan(&bytes); err != nil {
			return err
		}
		if bytes > RepairLimit {
			return refuse(fmt.Sprintf("the table has %d bytes, too many to be rewritten without asking", bytes))
		}
		columns, err = s.describe(ctx, fmt.Sprintf("SELECT * FROM %s AT (VERSION => %d)", t.SQL(), snapshot-1))
		return err
	})
	if err != nil {
		return w, nil, err
	}
	forget := Statement{SQL: fmt.Sprintf("DELETE FROM %s WHERE kind = 'marker' AND batch_id = %s", ControlTable(id).SQL(), Literal(string(m.BatchID))), WantRows: -1}
	if m.Op == sluice.OpCreate || m.Op == sluice.OpReplace { // the batch makes the whole table anew
		return w, []Statement{{SQL: "DROP TABLE IF EXISTS " + t.SQL(), WantRows: -1}, forget}, nil
	}
	layout, err := s.DescribeLayout(ctx, t)
	if err != nil {
		return w, nil, err
	}
	layout = layout.On(columns)
	key := s.newKey(w)
	// The rows are copied first: once the table is replaced, its past is out of sight.
	out := []Statement{
		{SQL: fmt.Sprintf("COPY (SELECT * FROM %s AT (VERSION => %d)) TO %s (FORMAT parquet)", t.SQL(), snapshot-1, Literal(key)), Data: true, WantRows: -1},
		{SQL: fmt.Sprintf("CREATE OR REPLACE TABLE %s (%s)", t.SQL(), columnDefs(columns)), WantRows: -1},
	}
	for _, q := range layout.shape(t) {
		out = append(out, Statement{SQL: q, WantRows: -1})
	}
	fill := register(t, key)
	if len(layout.Partition) > 0 {
		fill = Statement{SQL: fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", t.SQL(), readParquet(key, false)), IfRows: true, WantRows: -1}
	}
	return w, append(out, fill, forget), nil
}
