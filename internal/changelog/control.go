package changelog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Cursor is one offset row of a slot's control table: where a partition of one epoch of the topic goes on.
type Cursor struct {
	Epoch       int32
	TopicID     string
	Partition   int32
	Next        int64
	LeaderEpoch int32
	Timestamp   int64 // of the last message taken, ms; -1: none
}

// SlotState is what the control table of a slot says, read in one snapshot.
type SlotState struct {
	Seq     int64
	Owner   string
	At      time.Time
	Cursors []Cursor // of the topic's newest epoch
}

// Epoch is the topic's newest epoch, and the topic id that belongs to it.
func (s SlotState) Epoch() (epoch int32, topicID string) {
	for _, c := range s.Cursors {
		epoch, topicID = c.Epoch, c.TopicID
	}
	return epoch, topicID
}

// Next gives the next offset of each partition.
func (s SlotState) Next() map[int32]int64 {
	next := map[int32]int64{}
	for _, c := range s.Cursors {
		next[c.Partition] = c.Next
	}
	return next
}

// ControlTable is the control table of one slot: fence and offsets. Each slot has its own, because two UPDATEs of one table
// conflict whatever the row.
func ControlTable(id string, slot int) lake.Table {
	return lake.Table{Schema: lake.ControlSchema, Name: fmt.Sprintf("ctl_%s_%d", hexID(id), slot)}
}

// QuarantineTable is the table of messages that could not be rows.
func QuarantineTable(id string) lake.Table {
	return lake.Table{Schema: lake.ControlSchema, Name: "quarantine_" + hexID(id)}
}

func hexID(id string) string { return strings.ReplaceAll(id, "-", "") }

const controlColumns = `kind VARCHAR, seq BIGINT, run_seq BIGINT, batch_index BIGINT, run_id VARCHAR, batch_id VARCHAR, op VARCHAR, ` +
	`target_schema VARCHAR, target_table VARCHAR, target_table_id BIGINT, "rows" BIGINT, "at" TIMESTAMPTZ, topic_epoch INTEGER, ` +
	`topic_id VARCHAR, kafka_partition INTEGER, next_offset BIGINT, leader_epoch INTEGER, last_timestamp TIMESTAMPTZ`

// controlInlined keeps the rows of a control table in the catalog: a file that the engine writes itself can be lost with the
// reply to a COMMIT.
const controlInlined = 100_000

// Provision makes what a changelog needs in its lake: the table, the quarantine, and each slot's control table with its fence
// and offsets. It may be repeated; what is there stays.
func Provision(ctx context.Context, s *lake.Session, c *Changelog, cursors []Cursor) error {
	doing := fmt.Sprintf("make the tables of changelog %s", c.Name)
	var columns []string
	for _, col := range c.Def.TableColumns() {
		columns = append(columns, lake.Ident(col.Name)+" "+col.Type.String())
	}
	statements := []string{
		"CREATE SCHEMA IF NOT EXISTS " + lake.Catalog + "." + lake.Ident(c.Table.Schema),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", c.Table.SQL(), strings.Join(columns, ", ")),
	}
	if c.Def.Partition == PartitionMonth {
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s SET PARTITIONED BY (_inserted_month)", c.Table.SQL()))
	}
	var quarantine []string
	for _, q := range quarantineColumns {
		quarantine = append(quarantine, lake.Ident(q[0])+" "+q[1])
	}
	statements = append(statements, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", QuarantineTable(c.ID).SQL(), strings.Join(quarantine, ", ")))
	if err := alone(ctx, s, doing, statements...); err != nil {
		return err
	}
	for slot := range c.Slots {
		table := ControlTable(c.ID, slot)
		if ok, err := s.TableExists(ctx, table); err != nil || ok {
			if err != nil {
				return err
			}
			continue
		}
		values := []string{fenceRow()}
		for _, cur := range cursors {
			if int(cur.Partition)%c.Slots == slot {
				values = append(values, cur.row())
			}
		}
		if err := alone(ctx, s, doing, fmt.Sprintf("CREATE TABLE %s (%s)", table.SQL(), controlColumns)); err != nil {
			return err
		}
		if err := s.SetOption(ctx, doing, "data_inlining_row_limit", controlInlined, table); err != nil {
			return err
		}
		if err := alone(ctx, s, doing, fmt.Sprintf("INSERT INTO %s VALUES %s", table.SQL(), strings.Join(values, ", "))); err != nil {
			return err
		}
	}
	if err := s.SetOption(ctx, doing, "data_inlining_row_limit", 0, QuarantineTable(c.ID)); err != nil {
		return err
	}
	return s.SetOption(ctx, doing, "data_inlining_row_limit", 0, c.Table)
}

func fenceRow() string {
	return "('fence', 0, -1, -1, '', '', '', '', '', 0, 0, now(), 0, '', -1, -1, -1, NULL)"
}

func (c Cursor) row() string {
	return fmt.Sprintf("('offset', 0, -1, -1, '', '', '', '', '', 0, 0, now(), %d, %s, %d, %d, %d, %s)",
		c.Epoch, lake.Literal(c.TopicID), c.Partition, c.Next, c.LeaderEpoch, timestampSQL(c.Timestamp))
}

func timestampSQL(ms int64) string {
	if ms < 0 {
		return "CAST(NULL AS TIMESTAMPTZ)"
	}
	return fmt.Sprintf("make_timestamptz(CAST(%d AS BIGINT) * 1000)", ms)
}

// alone runs statements in one transaction that writes alone.
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

// ReadSlot reads the control table of a slot.
func ReadSlot(ctx context.Context, s *lake.Session, id string, slot int) (SlotState, error) {
	var st SlotState
	doing := fmt.Sprintf("read the offsets of slot %d", slot)
	fences := 0
	table := ControlTable(id, slot)
	err := s.Read(ctx, doing, fmt.Sprintf(`SELECT kind, seq, run_id, "at", topic_epoch, topic_id, kafka_partition, next_offset, leader_epoch, `+
		`coalesce(epoch_ms(last_timestamp), -1) FROM %[1]s WHERE kind = 'fence' OR topic_epoch = (SELECT max(topic_epoch) FROM %[1]s WHERE kind = 'offset') `+
		`ORDER BY kind, kafka_partition`, table.SQL()), func(rows pgx.Rows) error {
		var kind, owner string
		var seq int64
		var at time.Time
		var c Cursor
		if err := rows.Scan(&kind, &seq, &owner, &at, &c.Epoch, &c.TopicID, &c.Partition, &c.Next, &c.LeaderEpoch, &c.Timestamp); err != nil {
			return err
		}
		if kind == "fence" {
			fences++
			st.Seq, st.Owner, st.At = seq, owner, at
			return nil
		}
		st.Cursors = append(st.Cursors, c)
		return nil
	})
	if err == nil && fences != 1 {
		err = lake.Fail(lake.PhaseControl, lake.Permanent, sluice.E("SLUICE-CHANGELOG-CONTROL", doing,
			fmt.Sprintf("%s has %d fence rows, not one", table, fences), "write nothing by hand; restore the lake's catalog", nil))
	}
	return st, err
}

// moveFence is the first statement of a transaction under a slot's fence. It fails with FENCED if the fence is elsewhere.
func moveFence(ctx context.Context, tx *lake.Txn, c *Changelog, slot int, seq int64, owner string) error {
	n, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE %s SET seq = $1, run_id = $2, "at" = now() WHERE kind = 'fence' AND seq = $3`,
		ControlTable(c.ID, slot).SQL()), seq+1, owner, seq)
	if err != nil {
		return err
	}
	if n != 1 {
		tx.Rollback()
		return fenced(c, slot, seq)
	}
	return nil
}

func fenced(c *Changelog, slot int, seq int64) error {
	return lake.Fail(lake.PhaseData, lake.NotOurs, sluice.E("SLUICE-CHANGELOG-FENCED", fmt.Sprintf("write slot %d of changelog %s", slot, c.Name),
		fmt.Sprintf("its fence is no longer at %d", seq), "nothing to do: the slot's new owner goes on", nil))
}

// isAlive reads the fence back as the last thing before COMMIT: in an aborted transaction that fails, where COMMIT would answer
// OK and store nothing (spec/lake.md rule 10).
func isAlive(ctx context.Context, tx *lake.Txn, c *Changelog, slot int, want int64) error {
	var seq int64
	if err := tx.QueryRow(ctx, "SELECT seq FROM "+ControlTable(c.ID, slot).SQL()+" WHERE kind = 'fence'", &seq); err != nil {
		return err
	}
	if seq != want {
		tx.Rollback()
		return lake.Fail(lake.PhaseData, lake.Permanent, sluice.E("SLUICE-CHANGELOG-CONTROL", fmt.Sprintf("write slot %d of changelog %s", slot, c.Name),
			fmt.Sprintf("the fence reads %d inside its own transaction, not %d", seq, want), "this is a bug: please report it", nil))
	}
	return nil
}

// offsetsSQL moves the fence and the offsets of a flush in one UPDATE: each row only if it stands where it is expected.
func offsetsSQL(c *Changelog, slot int, seq int64, owner string, epoch int32, ranges []Range) (sql string, rows int64) {
	values := []string{"('fence', -1, CAST(-1 AS BIGINT), CAST(-1 AS BIGINT), -1, CAST(NULL AS TIMESTAMPTZ))"}
	for _, r := range ranges {
		values = append(values, fmt.Sprintf("('offset', %d, %d, %d, %d, %s)", r.Partition, r.Expected, r.Next, r.LeaderEpoch, timestampSQL(r.Timestamp)))
	}
	return fmt.Sprintf(`UPDATE %s AS c SET seq = CASE WHEN c.kind = 'fence' THEN %d ELSE c.seq END, `+
		`run_id = CASE WHEN c.kind = 'fence' THEN %s ELSE c.run_id END, "at" = now(), `+
		`next_offset = CASE WHEN c.kind = 'offset' THEN v.next ELSE c.next_offset END, `+
		`leader_epoch = CASE WHEN c.kind = 'offset' THEN v.leader ELSE c.leader_epoch END, `+
		`last_timestamp = CASE WHEN c.kind = 'offset' THEN coalesce(v.ts, c.last_timestamp) ELSE c.last_timestamp END `+
		`FROM (VALUES %s) AS v(kind, p, expected, next, leader, ts) WHERE c.kind = v.kind AND (c.kind = 'fence' AND c.seq = %d `+
		`OR c.kind = 'offset' AND c.topic_epoch = %d AND c.kafka_partition = v.p AND c.next_offset = v.expected)`,
		ControlTable(c.ID, slot).SQL(), seq+1, lake.Literal(owner), strings.Join(values, ", "), seq, epoch), int64(len(ranges)) + 1
}
