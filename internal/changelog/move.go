package changelog

import (
	"context"
	"fmt"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Offsets that move without messages: new partitions, gaps, a new epoch. Each is a transaction under the slot's fence.

// move runs statements under the slot's fence. effect tells, if the reply to COMMIT is lost, whether they are stored.
func (k *sink) move(ctx context.Context, what string, run func(context.Context, *lake.Txn) error, effect func(SlotState) (bool, error)) error {
	doing := fmt.Sprintf("%s of slot %d of changelog %s", what, k.slot, k.c.Name)
	for try := 1; ; try++ {
		err := k.tryMove(ctx, doing, run)
		if err == nil {
			k.seq++
			return nil
		}
		f := lake.AsFailure(err, lake.PhaseData, doing)
		switch {
		case f.Outcome == sluice.Unknown || f.Class == lake.NotOurs:
			if done, rerr := k.resolve(ctx, err, effect); done || rerr != nil {
				return rerr
			}
		case f.Class != lake.Conflict:
			return err
		}
		if try >= redoMost {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

func (k *sink) tryMove(ctx context.Context, doing string, run func(ctx context.Context, tx *lake.Txn) error) error {
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	tx, err := s.Begin(ctx, false, doing)
	if err != nil {
		return err
	}
	if err := moveFence(ctx, tx, k.c, k.slot, k.seq, k.owner); err != nil {
		return err
	}
	if err := run(ctx, tx); err != nil {
		return err
	}
	if err := tx.Sign(ctx, "changelog", commitInfo{ChangelogID: k.c.ID, Slot: k.slot, Seq: k.seq + 1}.text()); err != nil {
		return err
	}
	if err := isAlive(ctx, tx, k.c, k.slot, k.seq+1); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// addPartitions makes offset rows for partitions that the topic did not have before. They begin at 0: messages were there
// before they were noticed.
func (k *sink) addPartitions(ctx context.Context, st SlotState, partitions []int32) error {
	epoch, id := st.Epoch()
	cursors := make([]Cursor, len(partitions))
	for i, p := range partitions {
		cursors[i] = Cursor{Epoch: epoch, TopicID: id, Partition: p, LeaderEpoch: -1, Timestamp: -1}
	}
	return k.addCursors(ctx, "take new partitions", cursors)
}

func (k *sink) addCursors(ctx context.Context, what string, cursors []Cursor) error {
	return k.move(ctx, what, func(ctx context.Context, tx *lake.Txn) error {
		for _, c := range cursors {
			if _, err := tx.Exec(ctx, "INSERT INTO "+ControlTable(k.c.ID, k.slot).SQL()+" VALUES "+c.row()); err != nil {
				return err
			}
		}
		return nil
	}, func(st SlotState) (bool, error) {
		epoch, _ := st.Epoch()
		have := 0
		for _, c := range cursors {
			if _, ok := st.Next()[c.Partition]; ok && epoch == c.Epoch {
				have++
			}
		}
		return have == len(cursors), nil
	})
}

// skipGaps goes on behind messages that the topic has no longer; each gap is noted in quarantine.
func (k *sink) skipGaps(ctx context.Context, st SlotState, gaps []Gap) error {
	epoch, _ := st.Epoch()
	s, err := k.session(ctx)
	if err != nil {
		return err
	}
	path, err := k.writeGaps(ctx, s, epoch, gaps)
	if err != nil {
		return err
	}
	return k.move(ctx, "skip gaps", func(ctx context.Context, tx *lake.Txn) error {
		for _, g := range gaps {
			n, err := tx.Exec(ctx, fmt.Sprintf("UPDATE %s SET next_offset = %d WHERE kind = 'offset' AND topic_epoch = %d AND kafka_partition = %d AND next_offset = %d",
				ControlTable(k.c.ID, k.slot).SQL(), g.Available, epoch, g.Partition, g.Wanted))
			if err != nil {
				return err
			}
			if n != 1 {
				tx.Rollback()
				return sluice.E("SLUICE-CHANGELOG-CONTROL", fmt.Sprintf("skip a gap of changelog %s", k.c.Name), fmt.Sprintf("partition %d is not at %d", g.Partition, g.Wanted), "try again", nil)
			}
		}
		return tx.Register(ctx, QuarantineTable(k.c.ID), false, path)
	}, func(st SlotState) (bool, error) { return st.Next()[gaps[0].Partition] >= gaps[0].Available, nil })
}

func (k *sink) writeGaps(ctx context.Context, s *lake.Session, epoch int32, gaps []Gap) (string, error) {
	path := k.key(s, "gap.parquet")
	query := ""
	for i, g := range gaps {
		if i > 0 {
			query += " UNION ALL "
		}
		detail := fmt.Sprintf("offsets %d to %d are lost", g.Wanted, g.Available-1)
		query += fmt.Sprintf("SELECT CAST(%d AS INTEGER) AS topic_epoch, CAST(%d AS INTEGER) AS kafka_partition, CAST(%d AS BIGINT) AS kafka_offset, CAST(NULL AS TIMESTAMPTZ) AS ts, "+
			"CAST(NULL AS BLOB) AS key, CAST(NULL AS BLOB) AS value, CAST(NULL AS JSON) AS headers, 'gap' AS reason, %s AS detail, now() AS at, 'open' AS state, now() AS state_at",
			epoch, g.Partition, g.Wanted, lake.Literal(detail))
	}
	_, err := k.copy(ctx, s, "note gaps", query, path)
	return path, err
}
