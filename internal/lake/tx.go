package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/sluice"
)

// Write is one fenced transaction: the batch's change together with its proof.
type Write struct {
	StreamID sluice.StreamID
	// Seq is the fence's value that the caller has read; the transaction sets Seq+1.
	Seq        int64
	RunSeq     int64
	BatchIndex int64
	RunID      sluice.RunID
	BatchID    sluice.BatchID
	TableID    int64 // of the target as described; 0: absent
	RowsRead   int64
	Change     Change
}

// Applied is what a finished write reports.
type Applied struct {
	FenceSeq    int64
	Snapshot    int64 // of a commit that made or altered the table; 0: not asked for, or not known
	RowsWritten int64
	Phases      map[string]int64 // milliseconds: fence, data, marker, commit
}

// Apply runs the transaction of a write (spec/lake.md §4): BEGIN; the fence; commit message; DDL; data; marker; COMMIT. An error
// is a Failure whose Outcome says what is stored: NotDone for everything before COMMIT, Unknown for COMMIT itself. After an error the session is Broken.
func (s *Session) Apply(ctx context.Context, w Write) (Applied, error) {
	doing := fmt.Sprintf("apply batch %d of run %s", w.BatchIndex, w.RunID)
	phases := map[string]int64{}
	var rows int64
	if w.Change.remakes() {
		was, err := s.DescribeLayout(ctx, w.Change.Target)
		if err != nil {
			return Applied{}, err
		}
		w.Change.Keep = was.On(w.Change.Columns)
	}
	w.Change.WriteTo = s.writeTo(w)
	err := func() error {
		done := stopwatch(phases, "fence")
		if err := s.open(ctx, w); err != nil {
			return err
		}
		done()
		done = stopwatch(phases, "data")
		var err error
		if rows, err = s.change(ctx, w); err != nil {
			return err
		}
		done()
		done = stopwatch(phases, "marker")
		defer done()
		return s.prove(ctx, w, rows)
	}()
	if err != nil {
		s.rollback()
		f := AsFailure(err, PhaseData, doing)
		if f.Err.Code == "SLUICE-LAKE-DAMAGED" && w.Change.Path != "" && strings.Contains(f.Err.What, w.Change.Path) {
			// The file that cannot be opened is not the lake's: the extract went away between a look and the load.
			f.Class, f.Err = SecondLook, sluice.E("SLUICE-LOAD-FILE-GONE", doing, "the file does not exist",
				"put the file back and run `sluice quarantine retry`, or discard the batch", f.Err)
		}
		s.broken = true
		return Applied{}, f
	}
	done := stopwatch(phases, "commit")
	if err := s.commit(ctx, doing); err != nil {
		s.broken = true
		return Applied{}, err
	}
	done()
	out := Applied{FenceSeq: w.Seq + 1, RowsWritten: rows, Phases: phases}
	if w.Change.alters() {
		s.Forget(w.Change.Target)
		if err := s.afterStaged(ctx, w, doing); err != nil {
			return Applied{}, err
		}
		if err := s.isInPlace(ctx, w, doing); err != nil {
			return Applied{}, err
		}
		out.Snapshot = s.lastSnapshot(ctx)
		if w.Change.remakes() {
			if err := s.keepOptions(ctx, w.Change.Target, w.TableID, doing); err != nil {
				return Applied{}, err
			}
		}
	}
	return out, nil
}

// isInPlace looks, after COMMIT, whether a table that the transaction made is where it belongs: the engine has put tables
// into other schemas (docs/adr/0009). A table that is not there is a Failure of outcome Damaged; the session can go on.
func (s *Session) isInPlace(ctx context.Context, w Write, doing string) error {
	if w.Change.Op == sluice.OpNothing {
		return nil
	}
	ok, err := s.TableExists(context.WithoutCancel(ctx), w.Change.Target)
	if err != nil {
		f := AsFailure(err, PhaseCommit, doing)
		f.Outcome = sluice.Unknown // the transaction is committed; whether its table is in place is read back
		return f
	}
	if ok {
		return nil
	}
	f := Fail(PhaseCommit, Permanent, sluice.E("SLUICE-LAKE-DAMAGED", doing, fmt.Sprintf("table %s is not there after its COMMIT", w.Change.Target),
		"the batch is applied again by itself", nil))
	f.Outcome = sluice.Damaged
	return f
}

// open begins the transaction of a write. The fence is its first use of the lake: its snapshot starts there. Where nothing
// else belongs to it, the statements go in one message: an error of one keeps the next from running.
func (s *Session) open(ctx context.Context, w Write) error {
	if w.Change.Staged != nil {
		if _, err := s.conn.Exec(ctx, begin(w.Change.alters())); err != nil {
			return err
		}
		if err := s.enter(ctx, w); err != nil {
			return err
		}
		return s.sign(ctx, w, string(w.Change.Op))
	}
	var b pgx.Batch
	b.Queue(begin(w.Change.alters()))
	update, args := fenceUpdate(w)
	b.Queue(update, args...)
	b.Queue(signature(w, string(w.Change.Op)))
	results := s.conn.SendBatch(ctx, &b)
	_, err := results.Exec()
	var fence pgconn.CommandTag
	if err == nil {
		fence, err = results.Exec()
	}
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return fenceMoved(w, fence)
}

// begin gives the statement that begins a writing transaction. One that changes tables asks to be alone: the engine does not
// bear others that write beside it (docs/adr/0009).
func begin(changesTables bool) string {
	if changesTables {
		return "BEGIN ISOLATION LEVEL SERIALIZABLE"
	}
	return "BEGIN"
}

// moveFence is the compare-and-set that keeps two writers of one stream apart.
func (s *Session) moveFence(ctx context.Context, w Write) error {
	q, args := fenceUpdate(w)
	tag, err := s.conn.Exec(ctx, q, args...)
	if err != nil {
		return err
	}
	return fenceMoved(w, tag)
}

// fenceUpdate is the statement of moveFence. Its condition is one expression on purpose: of a plain comparison the engine
// makes a filter of files, and asks the catalog thrice which of the control table's files may match, which costs more than
// the rest of the statement (docs/adr/0080).
func fenceUpdate(w Write) (string, []any) {
	const set = `seq = $1, run_seq = $2, batch_index = $3, run_id = $4, batch_id = $5, op = $6, target_schema = $7, target_table = $8, ` +
		`target_table_id = $9, "at" = now()`
	args := []any{
		w.Seq + 1, w.RunSeq, w.BatchIndex, string(w.RunID), string(w.BatchID), string(w.Change.Op),
		w.Change.Target.Schema, w.Change.Target.Name, w.TableID, fmt.Sprintf("fence%d", w.Seq),
	}
	return fmt.Sprintf(`UPDATE %s SET %s WHERE concat(kind, seq) = $10`, ControlTable(w.StreamID).SQL(), set), args
}

func fenceMoved(w Write, tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 1 {
		return nil
	}
	return Fail(PhaseData, NotOurs, sluice.E("SLUICE-LOAD-FENCE-LOST", fmt.Sprintf("apply batch %d of run %s", w.BatchIndex, w.RunID),
		fmt.Sprintf("the fence of stream %s is no longer at %d", w.StreamID, w.Seq), "nothing to do: the other writer goes on", nil))
}

func (s *Session) change(ctx context.Context, w Write) (int64, error) {
	var rows int64
	for _, st := range w.Change.Statements() {
		if st.IfRows && rows == 0 {
			continue
		}
		tag, err := s.conn.Exec(ctx, st.SQL)
		if err != nil {
			return 0, err
		}
		if !st.Data {
			continue
		}
		n := tag.RowsAffected()
		rows += n
		if st.WantRows >= 0 && n != st.WantRows {
			return 0, Fail(PhaseData, Permanent, sluice.E("SLUICE-LOAD-ROW-COUNT", fmt.Sprintf("apply batch %d of run %s", w.BatchIndex, w.RunID),
				fmt.Sprintf("%d rows were read, %d written", st.WantRows, n), "the batch was rolled back; this is a bug: please report it", nil))
		}
	}
	return rows, nil
}

// prove writes, as the last statement before COMMIT, the marker. That the marker's row was taken
// shows that the transaction is alive: COMMIT of an aborted one would answer OK and store nothing, but an INSERT in it fails
// (spec/lake.md rule 10; docs/adr/0007).
func (s *Session) prove(ctx context.Context, w Write, rows int64) error {
	tag, err := s.conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s VALUES ('marker', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now())`,
		ControlTable(w.StreamID).SQL()),
		w.Seq+1, w.RunSeq, w.BatchIndex, string(w.RunID), string(w.BatchID), string(w.Change.Op),
		w.Change.Target.Schema, w.Change.Target.Name, w.TableID, rows)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return internalFailure(PhaseData, "the marker of batch %s of stream %s was written %d times", w.BatchID, w.StreamID, tag.RowsAffected())
	}
	return nil
}

// sign writes the commit message by which the snapshot is found again.
func (s *Session) sign(ctx context.Context, w Write, what string) error {
	_, err := s.conn.Exec(ctx, signature(w, what))
	return err
}

func signature(w Write, what string) string {
	return fmt.Sprintf("CALL %s.set_commit_message('sluice', %s, extra_info => %s)", Catalog, Literal(what), Literal(writeInfo(w)))
}

// readBack reads the fence inside its own transaction.
func (s *Session) readBack(ctx context.Context, w Write) error {
	var seq int64
	if err := s.conn.QueryRow(ctx, fmt.Sprintf("SELECT seq FROM %s WHERE kind = 'fence'", ControlTable(w.StreamID).SQL())).Scan(&seq); err != nil {
		return err
	}
	if seq != w.Seq+1 {
		return internalFailure(PhaseData, "the fence of stream %s reads %d inside its own transaction, not %d", w.StreamID, seq, w.Seq+1)
	}
	return nil
}

// commit sends COMMIT. It is never cancelled: whatever happens to ctx, the answer is waited for.
func (s *Session) commit(ctx context.Context, doing string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	tag, err := s.conn.Exec(ctx, "COMMIT")
	if err != nil {
		f := classify(err, PhaseCommit, doing)
		return f
	}
	if tag.String() != "COMMIT" {
		return Fail(PhaseData, Counted, sluice.E("SLUICE-LOAD-UNCLASSIFIED", doing,
			"the warehouse rolled the transaction back: "+tagText(tag), "it is tried again by itself", nil))
	}
	return nil
}

// lastSnapshot asks which snapshot the session's last commit made. It is for display; an error leaves it unknown.
// Only commits that make tables ask: for others the snapshot is found by its commit message when somebody wants it.
func (s *Session) lastSnapshot(ctx context.Context) int64 {
	var id int64
	if err := s.conn.QueryRow(ctx, "SELECT id::BIGINT FROM "+Catalog+".last_committed_snapshot()").Scan(&id); err != nil {
		s.broken = s.broken || sqlState(err) == ""
		return 0
	}
	return id
}

// OutcomeOf says what a control table that was read afterwards tells of a write (spec/lake.md §5): Done if it has the
// batch's marker, NotDone if the fence still stands at w.Seq. The late COMMIT of a writer that is still alive cannot do
// harm after NotDone: a redo takes the same fence value, so one of the two fails. Anything else is a Failure of class
// NotOurs; err is passed on as Unknown.
func OutcomeOf(w Write, c Control, err error) (sluice.Outcome, Control, error) {
	switch {
	case err != nil:
		return sluice.Unknown, c, err
	case c.Marker != nil:
		return sluice.Done, c, nil
	case c.Fence.Seq == w.Seq:
		return sluice.NotDone, c, nil
	}
	return sluice.NotDone, c, Fail(PhaseResolve, NotOurs, sluice.E("SLUICE-LOAD-FENCE-LOST",
		fmt.Sprintf("resolve batch %d of run %s", w.BatchIndex, w.RunID),
		fmt.Sprintf("the fence of stream %s stands at %d without the batch's marker", w.StreamID, c.Fence.Seq),
		"nothing to do: the other writer goes on", nil))
}

// commitInfo is the text by which a snapshot says whose it is.
func commitInfo(id sluice.StreamID, batch sluice.BatchID, seq int64) string {
	info, _ := json.Marshal(map[string]any{"batch_id": batch, "stream_id": id, "seq": seq}) // of texts and a number: never fails
	return string(info)
}

func stopwatch(into map[string]int64, name string) func() {
	start := time.Now()
	return func() { into[name] = time.Since(start).Milliseconds() }
}

func tagText(t pgconn.CommandTag) string { return "its answer was " + t.String() }
