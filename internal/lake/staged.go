package lake

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/internal/sluice"
)

// enter is a transaction's first use of the lake: the fence. A chunk raises it and leaves its pair alone, because live runs
// that are older than a backfill follow its swap.
func (s *Session) enter(ctx context.Context, w Write) error {
	staged := w.Change.Staged
	if staged == nil {
		return s.moveFence(ctx, w)
	}
	if err := s.raiseFence(ctx, w); err != nil || staged.Swap == nil {
		return err
	}
	return s.enterSwap(ctx, w, staged.Swap)
}

// raiseFence moves the fence's value alone. A swap also says where the stream's rows are from now on.
func (s *Session) raiseFence(ctx context.Context, w Write) error {
	set := ""
	if swap := w.Change.Staged.Swap; swap != nil {
		id := swap.StagingID
		if swap.Rewrite {
			id = swap.LiveID
		}
		set = fmt.Sprintf(", target_schema = %s, target_table = %s, target_table_id = %d", Literal(w.Change.Target.Schema), Literal(w.Change.Target.Name), id)
	}
	tag, err := s.conn.Exec(ctx, fmt.Sprintf(`UPDATE %s SET seq = $1, op = $2, "at" = now()%s WHERE kind = 'fence' AND seq = $3`,
		ControlTable(w.StreamID).SQL(), set), w.Seq+1, string(w.Change.Op), w.Seq)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return Fail(PhaseData, NotOurs, sluice.E("SLUICE-LOAD-FENCE-LOST", fmt.Sprintf("apply step %d of run %s", w.BatchIndex, w.RunID),
			fmt.Sprintf("the fence of stream %s is no longer at %d", w.StreamID, w.Seq), "nothing to do: the other writer goes on", nil))
	}
	return nil
}

// enterSwap looks whether both tables are those that were verified, and marks what the new one holds already.
func (s *Session) enterSwap(ctx context.Context, w Write, swap *Swap) error {
	doing := fmt.Sprintf("swap the table of stream %s", w.StreamID)
	for _, t := range []struct {
		table Table
		want  int64
	}{{w.Change.Target, swap.LiveID}, {swap.Staging, swap.StagingID}} {
		_, id, err := s.tableID(ctx, t.table)
		if err != nil {
			return err
		}
		if id != t.want {
			return Fail(PhaseData, Permanent, TargetChanged(doing, t.table, t.want, id))
		}
	}
	for _, st := range coveredMarkers(w.StreamID, w.Seq+1, w.TableID, w.Change.Target, swap.Covered) {
		if _, err := s.conn.Exec(ctx, st.SQL); err != nil {
			return err
		}
	}
	return nil
}

// TargetChanged is the error of a table that is not the one that was planned with; id 0 means that there is none.
func TargetChanged(doing string, t Table, want, is int64) *sluice.Error {
	say := func(id int64) string {
		if id == 0 {
			return "no table"
		}
		return fmt.Sprintf("table id %d", id)
	}
	return sluice.E("SLUICE-BACKFILL-TARGET-CHANGED", doing, fmt.Sprintf("%s is %s, planned was %s", t, say(is), say(want)),
		"find out who made or dropped the table; `sluice backfill replan` plans with the one that is there", nil)
}

// afterStaged brings the table options to a staging table that was just made: the engine sets none in the transaction that
// makes it. A try that dies before is made good by Mend.
func (s *Session) afterStaged(ctx context.Context, w Write, doing string) error {
	if w.Change.Staged == nil || w.Change.Op != sluice.OpCreate {
		return nil
	}
	err := s.setOptions(context.WithoutCancel(ctx), w.Change.Target, nil, w.Change.Staged.Layout.Options, doing)
	if err != nil {
		f := AsFailure(err, PhaseCommit, doing)
		f.Outcome = sluice.Unknown // the table is committed, and its marker tells
		return f
	}
	return nil
}

// stagedKey gives a key of our own for the rows of a chunk, where a lost reply to COMMIT could take the engine's own files
// away. A partitioned table takes its rows from the engine, which alone knows how to lay them out.
func (s *Session) stagedKey(w Write, staged *Staged) string {
	if s.info.catalog != "postgres" || len(staged.Layout.Partition) > 0 || w.Change.Op == sluice.OpCreate {
		return ""
	}
	if staged.Swap != nil && !staged.Swap.Rewrite {
		return ""
	}
	for _, c := range staged.Layout.Columns {
		if !registrable(c.Type) {
			return ""
		}
	}
	key := s.newKey(w)
	if staged.Swap != nil {
		staged.Swap.WriteTo = key
	}
	return key
}

// writeInfo is the text of a write's commit: a swap also says what took the place of what, for consumers of change feeds.
func writeInfo(w Write) string {
	if w.Change.Staged == nil || w.Change.Staged.Swap == nil {
		return commitInfo(w.StreamID, w.BatchID, w.Seq+1)
	}
	swap := w.Change.Staged.Swap
	info, _ := json.Marshal(map[string]any{ // of texts and numbers: never fails
		"batch_id": w.BatchID, "stream_id": w.StreamID, "seq": w.Seq + 1, "run_id": w.RunID,
		"swap": map[string]int64{"old": swap.LiveID, "new": w.TableID},
	})
	return string(info)
}

// RowsOfRun sums up what the applied steps of a run have written.
func (s *Session) RowsOfRun(ctx context.Context, id sluice.StreamID, run sluice.RunID) (rows int64, err error) {
	err = s.read(ctx, PhaseControl, fmt.Sprintf("read the markers of run %s", run), func() error {
		return s.conn.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum("rows"), 0)::BIGINT FROM %s WHERE kind = 'marker' AND run_id = $1`,
			ControlTable(id).SQL()), string(run)).Scan(&rows)
	})
	return rows, err
}

// Since gives the snapshot from which a table has its present name.
func (s *Session) Since(ctx context.Context, t Table) (snapshot int64, err error) {
	err = s.read(ctx, PhaseResolve, "look for table "+t.String(), func() error {
		return s.conn.QueryRow(ctx, `SELECT coalesce(max(t.begin_snapshot), 0)::BIGINT FROM `+metadata+`.ducklake_table t `+
			`JOIN `+metadata+`.ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL `+
			`WHERE t.end_snapshot IS NULL AND lower(t.table_name) = lower($1) AND lower(s.schema_name) = lower($2)`, t.Name, t.Schema).Scan(&snapshot)
	})
	return snapshot, err
}
