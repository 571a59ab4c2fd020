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

// The quarantine only grows: a message that is settled gets a second row of its identity, without its bytes and with the state
// that it has now. Nothing is updated, so nothing is lost with the reply to a COMMIT (docs/adr/0134).

// Selection says which messages of the quarantine are meant; the zero value means all that are open.
type Selection struct {
	Reason    string
	Partition *int32
	From, To  int64 // offsets, both inclusive; To 0: no bounds
}

// Poisoned is one message of the quarantine.
type Poisoned struct {
	Epoch     int32      `json:"topic_epoch"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Timestamp *time.Time `json:"timestamp"`
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"`
	At        time.Time  `json:"at"`
	State     string     `json:"state"`
	Bytes     int64      `json:"bytes"`
	Key       []byte     `json:"key,omitempty"`
	Value     []byte     `json:"value,omitempty"`
}

// States of a message in quarantine.
const (
	stateReplayed  = "replayed"
	stateDiscarded = "discarded"
)

// reasonGap marks rows of the quarantine that stand for messages that are lost.
const reasonGap = "gap"

func (s Selection) where(c *Changelog, slot int) string {
	parts := []string{"q.state = 'open'", fmt.Sprintf("NOT EXISTS (SELECT 1 FROM %s AS s WHERE s.state <> 'open' AND s.topic_epoch = q.topic_epoch AND "+
		"s.kafka_partition = q.kafka_partition AND s.kafka_offset = q.kafka_offset)", QuarantineTable(c.ID).SQL())}
	if slot >= 0 {
		parts = append(parts, fmt.Sprintf("q.kafka_partition %% %d = %d", c.Slots, slot))
	}
	if s.Reason != "" {
		parts = append(parts, "q.reason = "+lake.Literal(s.Reason))
	}
	if s.Partition != nil {
		parts = append(parts, fmt.Sprintf("q.kafka_partition = %d", *s.Partition))
	}
	if s.To > 0 {
		parts = append(parts, fmt.Sprintf("q.kafka_offset BETWEEN %d AND %d", s.From, s.To))
	}
	return strings.Join(parts, " AND ")
}

// One transaction of a replay.
const (
	replayRows  = 100_000
	replayBytes = 64 << 20
)

// Replayed counts what a replay has done.
type Replayed struct {
	Rows  int64            `json:"rows"`
	Still map[string]int64 `json:"still_poison"`
}

// replay decodes the messages of one slot again with today's definition. Those that are rows now are inserted with their old
// identity and settled, in one transaction under the slot's fence; the others stay.
func (k *sink) replay(ctx context.Context, sel Selection, out *Replayed) error {
	after := identity{-1, -1, -1}
	for {
		n, last, err := k.replaySome(ctx, sel, after, out)
		if err != nil || n == 0 {
			return err
		}
		after = last
	}
}

type identity struct {
	epoch, partition int32
	offset           int64
}

// replaySome replays up to replayRows messages of one epoch behind a given one.
func (k *sink) replaySome(ctx context.Context, sel Selection, after identity, out *Replayed) (n int, last identity, err error) {
	doing := fmt.Sprintf("replay slot %d of changelog %s", k.slot, k.c.Name)
	s, err := k.session(ctx)
	if err != nil {
		return 0, last, err
	}
	b := NewBuffer(Limits{k.c.Def.MaxMessageBytes}, nil)
	err = s.Read(ctx, doing, fmt.Sprintf("SELECT topic_epoch, kafka_partition, kafka_offset, coalesce(epoch_ms(ts), -1), key, value, CAST(headers AS VARCHAR) FROM %s AS q WHERE %s AND q.reason <> '%s' "+
		"AND (topic_epoch, kafka_partition, kafka_offset) > (%d, %d, %d) ORDER BY 1, 2, 3 LIMIT %d",
		QuarantineTable(k.c.ID).SQL(), sel.where(k.c, k.slot), reasonGap, after.epoch, after.partition, after.offset, replayRows),
		func(rows pgx.Rows) error {
			var id identity
			var m Message
			var headers *string
			if err := rows.Scan(&id.epoch, &id.partition, &id.offset, &m.Timestamp, &m.Key, &m.Value, &headers); err != nil {
				return err
			}
			if n > 0 && (id.epoch != last.epoch || b.Raw() > replayBytes) {
				return nil // the next round
			}
			m.Partition, m.Offset, m.LeaderEpoch = id.partition, id.offset, -1
			if b.ranges[m.Partition] == nil {
				b.ranges[m.Partition] = &Range{Partition: m.Partition, Expected: m.Offset, Next: m.Offset, Timestamp: -1}
			}
			b.Add(&m, time.Now())
			if headers != nil {
				b.setHeaders([]byte(*headers))
			}
			last = id
			n++
			return nil
		})
	if err != nil || n == 0 {
		return 0, last, err
	}
	k.epoch = last.epoch
	f := &flushing{b: b, replayed: true}
	if err := k.prepare(ctx, f); err != nil {
		return 0, last, err
	}
	defer k.drop(ctx, f.raw)
	for try := 1; ; try++ {
		done, err := k.settle(ctx, f, doing, stateReplayed)
		if err != nil {
			fail := lake.AsFailure(err, lake.PhaseData, doing)
			if try < redoMost && (fail.Class == lake.Conflict || fail.Class == lake.NotOurs || fail.Outcome == sluice.Unknown) {
				// The fence is the owner's, and moves with its flushes. What is settled is seen in the next try.
				k.close()
				k.columns, f.rows = nil, ""
				if err := pause(ctx, try); err != nil {
					return 0, last, err
				}
				if open, err := k.stillOpen(ctx, f); err != nil || !open {
					return n, last, err
				}
				continue
			}
			return 0, last, err
		}
		out.Rows += done
		for r, c := range f.survey.Poison {
			if out.Still == nil {
				out.Still = map[string]int64{}
			}
			out.Still[r] += c
		}
		return n, last, nil
	}
}

// stillOpen reports whether what would be settled still is open: it is not if the COMMIT whose reply was lost has landed.
func (k *sink) stillOpen(ctx context.Context, f *flushing) (bool, error) {
	s, err := k.session(ctx)
	if err != nil {
		return false, err
	}
	var open int64
	err = s.Read(ctx, "look at the quarantine", k.openSQL(f), func(r pgx.Rows) error { return r.Scan(&open) })
	return open > 0, err
}

// openSQL counts the open messages among those of a file of raw messages that are no poison now.
func (k *sink) openSQL(f *flushing) string {
	return f.src.messages() + fmt.Sprintf(" SELECT count(*) FROM %s AS q WHERE q.topic_epoch = %d AND (q.kafka_partition, q.kafka_offset) IN (SELECT (p, o) FROM m WHERE reason IS NULL) AND %s",
		QuarantineTable(k.c.ID).SQL(), k.epoch, Selection{}.where(k.c, k.slot))
}

// settle inserts the rows and closes their rows of the quarantine.
func (k *sink) settle(ctx context.Context, f *flushing, doing, state string) (int64, error) {
	s, err := k.session(ctx)
	if err != nil {
		return 0, err
	}
	if err := k.decide(ctx, s, f); err != nil {
		return 0, err
	}
	if err := k.decode(ctx, s, f); err != nil {
		return 0, err
	}
	path := k.key(s, "settled.parquet")
	settled, err := k.copy(ctx, s, doing, f.src.settledSQL(f.plan, f.stamp, state), path)
	if err != nil || settled == 0 {
		return 0, err
	}
	st, err := ReadSlot(ctx, s, k.c.ID, k.slot)
	if err != nil {
		return 0, err
	}
	tx, err := s.Begin(ctx, f.plan.Changes(), doing)
	if err != nil {
		return 0, err
	}
	if err := moveFence(ctx, tx, k.c, k.slot, st.Seq, st.Owner); err != nil { // the slot's owner stays its owner
		return 0, err
	}
	var open int64
	if err := tx.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s AS q WHERE %s AND (q.topic_epoch, q.kafka_partition, q.kafka_offset) IN (SELECT (topic_epoch, kafka_partition, kafka_offset) FROM read_parquet(%s))",
		QuarantineTable(k.c.ID).SQL(), Selection{}.where(k.c, k.slot), lake.PathLiteral(path)), &open); err != nil {
		return 0, err
	}
	if open != settled {
		tx.Rollback()
		return 0, lake.Fail(lake.PhaseData, lake.Permanent, sluice.E("SLUICE-CHANGELOG-STATE", doing, fmt.Sprintf("%d of %d messages have been settled meanwhile", settled-open, settled),
			"nothing was written: another replay is at work; run it again when that is through", nil))
	}
	if err := k.alter(ctx, tx, f.plan); err != nil {
		return 0, err
	}
	if f.nRows > 0 {
		if err := tx.Register(ctx, k.c.Table, k.c.Def.Partition == PartitionMonth, f.rows); err != nil {
			return 0, err
		}
	}
	if err := tx.Register(ctx, QuarantineTable(k.c.ID), false, path); err != nil {
		return 0, err
	}
	if err := tx.Sign(ctx, "changelog replay", commitInfo{ChangelogID: k.c.ID, Slot: k.slot, Seq: st.Seq + 1}.text()); err != nil {
		return 0, err
	}
	if err := isAlive(ctx, tx, k.c, k.slot, st.Seq+1); err != nil {
		return 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	k.columns = nil
	return f.nRows, nil
}

// discard closes messages of one slot without making rows of them.
func (k *sink) discard(ctx context.Context, sel Selection) (int64, error) {
	doing := fmt.Sprintf("discard messages of slot %d of changelog %s", k.slot, k.c.Name)
	for try := 1; ; try++ {
		n, err := k.tryDiscard(ctx, sel, doing)
		if err == nil {
			return n, nil
		}
		fail := lake.AsFailure(err, lake.PhaseData, doing)
		if try >= redoMost || fail.Class != lake.Conflict && fail.Class != lake.NotOurs && fail.Outcome != sluice.Unknown {
			return 0, err
		}
		k.close()
		if err := pause(ctx, try); err != nil {
			return 0, err
		}
	}
}

func (k *sink) tryDiscard(ctx context.Context, sel Selection, doing string) (int64, error) {
	s, err := k.session(ctx)
	if err != nil {
		return 0, err
	}
	st, err := ReadSlot(ctx, s, k.c.ID, k.slot)
	if err != nil {
		return 0, err
	}
	k.seq = st.Seq
	tx, err := s.Begin(ctx, false, doing)
	if err != nil {
		return 0, err
	}
	if err := moveFence(ctx, tx, k.c, k.slot, st.Seq, st.Owner); err != nil {
		return 0, err
	}
	path := k.key(s, "settled.parquet")
	if err := k.files.Folder(ctx, path); err != nil {
		tx.Rollback()
		return 0, err
	}
	n, err := tx.Exec(ctx, fmt.Sprintf("COPY (SELECT topic_epoch, kafka_partition, kafka_offset, ts, CAST(NULL AS BLOB) AS key, CAST(NULL AS BLOB) AS value, CAST(NULL AS JSON) AS headers, "+
		"reason, detail, \"at\", '%s' AS state, now() AS state_at FROM %s AS q WHERE %s) TO %s (FORMAT parquet)", stateDiscarded, QuarantineTable(k.c.ID).SQL(), sel.where(k.c, k.slot), lake.Literal(path)))
	if err != nil {
		return 0, err
	}
	if n > 0 {
		if err := tx.Register(ctx, QuarantineTable(k.c.ID), false, path); err != nil {
			return 0, err
		}
	}
	if err := isAlive(ctx, tx, k.c, k.slot, st.Seq+1); err != nil {
		return 0, err
	}
	return n, tx.Commit(ctx)
}

// settledSQL gives the closing rows of the quarantine for the messages that are no poison now.
func (s Source) settledSQL(p Plan, st stamp, state string) string {
	where := "reason IS NULL"
	from := s.messages() + ", d AS (SELECT * FROM m)"
	if c := p.conflict(); c != "" && s.Def.OnConflict == ConflictQuarantine {
		from = s.decoded(p)
		where += " AND NOT (keep AND coalesce(" + c + ", false))"
	}
	return fmt.Sprintf("%s SELECT CAST(%d AS INTEGER) AS topic_epoch, p AS kafka_partition, o AS kafka_offset, CASE WHEN t >= 0 THEN make_timestamptz(t * 1000) END AS ts, "+
		"CAST(NULL AS BLOB) AS key, CAST(NULL AS BLOB) AS value, CAST(NULL AS JSON) AS headers, CAST(NULL AS VARCHAR) AS reason, CAST(NULL AS VARCHAR) AS detail, %[3]s AS \"at\", %[4]s AS state, %[3]s AS state_at "+
		"FROM d WHERE %[5]s", from, s.Epoch, st.sql(), lake.Literal(state), where)
}
