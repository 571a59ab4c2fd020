package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Phase says whether a destination's table is complete up to its cursor.
type Phase string

// The phases.
const (
	PhaseSeeding   Phase = "seeding"
	PhaseFollowing Phase = "following"
)

// Control is what a destination's control table says: the fence and the cursor.
type Control struct {
	Seq        int64
	Token      string // of the transaction that wrote it last
	TableID    int64  // of the target
	Generation int64  // of the seed
	Rows       int64  // that the seed has put into its staging table
	At         time.Time

	Source   SourceTableID
	Lake     sluice.Org
	Cursor   int64 // every change up to and with this snapshot is in the table
	Phase    Phase
	Snapshot int64 // that is seeded from
	Chunk    int   // the next one
	Chunks   int
	Route    string
}

const controlColumns = `kind VARCHAR, seq BIGINT, run_seq BIGINT, batch_index BIGINT, run_id VARCHAR, batch_id VARCHAR, op VARCHAR, ` +
	`target_schema VARCHAR, target_table VARCHAR, target_table_id BIGINT, "rows" BIGINT, "at" TIMESTAMPTZ, source_lake VARCHAR, ` +
	`source_table_id BIGINT, source_table_uuid VARCHAR, cursor_snapshot BIGINT, phase VARCHAR, seed_snapshot BIGINT, seed_chunk INTEGER, ` +
	`seed_chunks INTEGER, route_value VARCHAR`

// makeControl makes a destination's control table, in a transaction of its own. Of two processes that do it at once only one
// commits, so there is one fence and one cursor.
func makeControl(ctx context.Context, s *lake.Session, d Destination, from sluice.Org) error {
	t := ControlTable(d.ID).SQL()
	return alone(ctx, s, "make the control table of "+d.text(), fmt.Sprintf("CREATE TABLE %s (%s)", t, controlColumns),
		fmt.Sprintf(`INSERT INTO %s VALUES ('fence', 0, 0, -1, '', '', '', %s, %s, 0, 0, now(), '', 0, '', 0, '', 0, 0, 0, ''), `+
			`('cursor', 0, 0, -1, '', '', '', %s, %s, 0, 0, now(), %s, 0, '', 0, 'seeding', 0, 0, 0, %s)`, t, lake.Literal(d.Target.Schema),
			lake.Literal(d.Target.Name), lake.Literal(d.Target.Schema), lake.Literal(d.Target.Name), lake.Literal(string(from)), lake.Literal(d.Route)))
}

// alone runs statements in one transaction that writes alone (docs/adr/0009).
func alone(ctx context.Context, s *lake.Session, doing string, statements ...string) error {
	tx, err := s.Begin(ctx, true, doing)
	if err != nil {
		return err
	}
	for _, q := range statements {
		if _, err := tx.Exec(ctx, q); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (d Destination) text() string { return fmt.Sprintf("destination %s/%d", d.Org, d.Team) }

// readControl reads fence and cursor in one snapshot. lake.ErrNoControl: there is no control table.
func readControl(ctx context.Context, s *lake.Session, d Destination) (Control, error) {
	t := ControlTable(d.ID)
	ok, err := s.TableExists(ctx, t)
	if err != nil {
		return Control{}, err
	}
	if !ok {
		return Control{}, lake.ErrNoControl
	}
	var c Control
	fences, cursors := 0, 0
	err = s.Read(ctx, "read the cursor of "+d.text(), `SELECT kind, seq, run_seq, batch_id, target_table_id, "rows", "at", source_lake, source_table_id, `+
		`source_table_uuid, cursor_snapshot, phase, seed_snapshot, seed_chunk, seed_chunks, route_value FROM `+t.SQL(), func(rows pgx.Rows) error {
		var kind string
		var r Control
		var lakeOf string
		var generation int64
		if err := rows.Scan(&kind, &r.Seq, &generation, &r.Token, &r.TableID, &r.Rows, &r.At, &lakeOf, &r.Source.ID, &r.Source.UUID, &r.Cursor, &r.Phase,
			&r.Snapshot, &r.Chunk, &r.Chunks, &r.Route); err != nil {
			return err
		}
		if kind == "fence" {
			fences++
			c.Seq, c.Token, c.Generation, c.TableID, c.Rows, c.At = r.Seq, r.Token, generation, r.TableID, r.Rows, r.At
			return nil
		}
		cursors++
		c.Lake, c.Source, c.Cursor, c.Phase, c.Snapshot, c.Chunk, c.Chunks, c.Route = sluice.Org(lakeOf), r.Source, r.Cursor, r.Phase, r.Snapshot, r.Chunk, r.Chunks, r.Route
		return nil
	})
	if err == nil && (fences != 1 || cursors != 1) {
		err = sluice.E("SLUICE-FANOUT-CONTROL", "read the cursor of "+d.text(), fmt.Sprintf("%s has %d fences and %d cursors, not one of each", t, fences, cursors),
			"write nothing by hand to control tables; restore the lake's catalog", nil)
	}
	if err == nil && c.Route != d.Route {
		err = sluice.E("SLUICE-FANOUT-CONTROL", "read the cursor of "+d.text(), fmt.Sprintf("its rows are those of %s, not of %s", c.Route, d.Route),
			"write nothing by hand to control tables; restore the lake's catalog", nil)
	}
	return c, err
}

// step is one fenced transaction of a destination: from one control to the next, with what happens in between.
type step struct {
	d      Destination
	owner  string
	is, to Control
	alters bool // it makes or changes tables, so it writes alone
	info   string
	// do are the statements between fence and COMMIT; it gives the number of rows they moved.
	do func(ctx context.Context, tx *lake.Txn) error
}

// commit runs a step. An error is a lake.Failure: of class NotOurs if another process has written meanwhile.
func (st *step) commit(ctx context.Context, s *lake.Session) (Control, error) {
	doing := "write " + st.d.text()
	to := st.to
	to.Seq, to.Token = st.is.Seq+1, uuid.NewString()
	tx, err := s.Begin(ctx, st.alters, doing)
	if err != nil {
		return st.is, err
	}
	n, err := tx.Exec(ctx, st.moveSQL(to)) // the transaction's first use of the lake: its snapshot starts here
	if err != nil {
		return st.is, err
	}
	if n != 2 {
		tx.Rollback()
		return st.is, fenced(st.d, st.is.Seq)
	}
	if st.do != nil {
		if err := st.do(ctx, tx); err != nil {
			return st.is, err
		}
	}
	if err := tx.Sign(ctx, "fanout", signature(st.d, to, st.is.Cursor, st.info)); err != nil {
		return st.is, err
	}
	var seq int64 // COMMIT of an aborted transaction would answer OK: reading in it fails (spec/lake.md rule 10)
	if err := tx.QueryRow(ctx, "SELECT seq FROM "+ControlTable(st.d.ID).SQL()+" WHERE kind = 'fence'", &seq); err != nil {
		return st.is, err
	}
	if seq != to.Seq {
		tx.Rollback()
		return st.is, sluice.E("SLUICE-FANOUT-CONTROL", doing, fmt.Sprintf("the fence reads %d inside its own transaction, not %d", seq, to.Seq), "this is a bug: please report it", nil)
	}
	if err := tx.Commit(ctx); err != nil {
		return to, err // with the token by which the outcome is found out
	}
	to.At = time.Now()
	return to, nil
}

func signature(d Destination, to Control, from int64, what string) string {
	return fmt.Sprintf(`{"destination_id":"%s","team_id":%d,"seq":%d,"from":%d,"to":%d,"step":"%s","token":"%s"}`, d.ID, d.Team, to.Seq, from, to.Cursor, what, to.Token)
}

func fenced(d Destination, seq int64) error {
	return lake.Fail(lake.PhaseData, lake.NotOurs, sluice.E("SLUICE-FANOUT-FENCED", "write "+d.text(), fmt.Sprintf("its fence or cursor is no longer as of %d", seq),
		"nothing to do: the other process goes on", nil))
}

// moveSQL is the compare-and-set of fence and cursor. Exactly two rows change, or somebody else has written.
func (st *step) moveSQL(to Control) string {
	at := func(kind, column, value string) string {
		return fmt.Sprintf("%s = CASE WHEN kind = '%s' THEN %s ELSE %[1]s END", column, kind, value)
	}
	num := func(n int64) string { return fmt.Sprint(n) }
	return "UPDATE " + ControlTable(st.d.ID).SQL() + " SET " +
		at("fence", "seq", num(to.Seq)) + ", " + at("fence", "run_seq", num(to.Generation)) + ", " + at("fence", "batch_id", lake.Literal(to.Token)) + ", " +
		at("fence", "run_id", lake.Literal(st.owner)) + ", " + at("fence", "target_table_id", num(to.TableID)) + ", " +
		at("fence", `"rows"`, num(to.Rows)) + `, "at" = now(), target_schema = ` + lake.Literal(st.d.Target.Schema) + ", target_table = " + lake.Literal(st.d.Target.Name) + ", " +
		at("cursor", "source_lake", lake.Literal(string(to.Lake))) + ", " + at("cursor", "source_table_id", num(to.Source.ID)) + ", " +
		at("cursor", "source_table_uuid", lake.Literal(to.Source.UUID)) + ", " + at("cursor", "cursor_snapshot", num(to.Cursor)) + ", " +
		at("cursor", "phase", lake.Literal(string(to.Phase))) + ", " + at("cursor", "seed_snapshot", num(to.Snapshot)) + ", " +
		at("cursor", "seed_chunk", num(int64(to.Chunk))) + ", " + at("cursor", "seed_chunks", num(int64(to.Chunks))) +
		fmt.Sprintf(" WHERE kind = 'fence' AND seq = %d OR kind = 'cursor' AND cursor_snapshot = %d AND source_table_uuid = %s",
			st.is.Seq, st.is.Cursor, lake.Literal(st.is.Source.UUID))
}

// outcome says from a control that was read afterwards what became of a step whose COMMIT was not answered.
func outcome(is, to, read Control) (sluice.Outcome, error) {
	switch {
	case read.Token == to.Token && read.Seq == to.Seq:
		return sluice.Done, nil
	case read.Seq == is.Seq:
		return sluice.NotDone, nil
	}
	return sluice.NotDone, errFenced
}

var errFenced = errors.New("another process has written to the destination")

// isFenced reports whether another process has written.
func isFenced(err error) bool {
	var f *lake.Failure
	return errors.Is(err, errFenced) || errors.As(err, &f) && f.Class == lake.NotOurs
}
