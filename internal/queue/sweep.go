package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Retention (loader.md §12) and the bounds of one sweep.
const (
	keepBatches    = 7 * 24 * time.Hour // after the whole run has ended
	keepQuarantine = 30 * 24 * time.Hour
	keepMarkers    = 30 * 24 * time.Hour
	keepRuns       = 400 * 24 * time.Hour
	keepInbox      = 7 * 24 * time.Hour
	sweepTTL       = 60 * time.Second
	sliceRows      = 1000
	slicesPerSweep = 50
	sweepTimeout   = 30 * time.Second // of each part
	headsPerPage   = 500
)

// Sweep repairs heads and supersedes, both of which must find nothing, and removes what is past its retention, in small
// slices. One process at a time sweeps; for the others it does nothing. It frees no leases: an expired lease is taken by
// a claim, and nowhere else.
func (s *Store) Sweep(ctx context.Context, owner string) (SweepReport, error) {
	var report SweepReport
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		var err error
		report.Ran, err = changed(ctx, tx, "SweepTake", statedb.Args{"owner": owner, "ttl": sweepTTL})
		return err
	})
	if err != nil || !report.Ran {
		return report, err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, *SweepReport) error
	}{
		{"supersedes", s.sweepSupersede}, {"heads", s.sweepHeads}, {"idle sessions", s.sweepIdle}, {"batches", s.sweepBatches}, {"old rows", s.sweepOld},
	} {
		if err := timed(ctx, part.run, &report); err != nil {
			return report, fmt.Errorf("sweep %s: %w", part.name, err)
		}
	}
	return report, nil
}

func timed(ctx context.Context, run func(context.Context, *SweepReport) error, report *SweepReport) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return run(ctx, report)
}

// sweepIdle asks for lingering leases whose own streams have had work for a while: their owners do not see to them.
func (s *Store) sweepIdle(ctx context.Context, _ *SweepReport) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		asked, err := changed(ctx, tx, "SweepAsk", statedb.Args{"grace": lingerGrace})
		if err != nil || !asked {
			return err
		}
		return s.db.Notify(ctx, tx, wakeQueue)
	})
}

// sweepOld removes what is past its retention in the smaller tables.
func (s *Store) sweepOld(ctx context.Context, report *SweepReport) error {
	for _, old := range []struct {
		query string
		age   time.Duration
		limit bool
	}{
		{"QuarantineRemoveOld", keepQuarantine, false},
		{"MarkerRemoveOld", keepMarkers, true},
		{"InboxRemoveOld", keepInbox, false},
		{"RunRemoveOld", keepRuns, false},
	} {
		args := statedb.Args{"age": old.age}
		if old.limit {
			args["limit"] = sliceRows
		}
		n, err := statedb.Exec(ctx, s.db, queries.Get(old.query), args)
		if err != nil {
			return err
		}
		report.RowsRemoved += n
	}
	return nil
}

// sweepHeads compares each stored head with what it should be. The look is without locks; only a difference takes them.
func (s *Store) sweepHeads(ctx context.Context, report *SweepReport) error {
	type look struct {
		id    sluice.StreamID
		needs int64 // 0: nothing to compare
	}
	after := sluice.StreamID(uuid.Nil.String())
	for {
		page, err := statedb.All(ctx, s.db, queries.Get("LeaseLooks"), statedb.Args{"after": after, "limit": headsPerPage}, func(scan statedb.Scan) (l look, err error) {
			return l, scan(&l.id, &l.needs)
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, l := range page {
			if l.needs == 0 {
				continue
			}
			id := l.id
			right, err := s.headIsRight(ctx, s.db, id)
			if sluice.CodeOf(err) == "SLUICE-LOAD-NO-STREAM" { // removed meanwhile
				continue
			}
			if err != nil {
				return err
			}
			if !right {
				if err := s.repairHead(ctx, id, report); err != nil {
					return err
				}
			}
		}
		after = page[len(page)-1].id
	}
}

func (s *Store) headIsRight(ctx context.Context, r statedb.Runner, id sluice.StreamID) (bool, error) {
	stored, found, err := statedb.One(ctx, r, queries.Get("HeadStored"), statedb.Args{"stream_id": id}, func(scan statedb.Scan) (h head, err error) {
		var seq *int64
		err = scan(statedb.Text(&h.batchID), &seq, &h.isChunk, statedb.TimePtr(&h.readyAt), statedb.Text(&h.blocked), statedb.TimePtr(&h.oldestAt))
		if seq != nil {
			h.runSeq = *seq
		}
		return h, err
	})
	if err != nil {
		return false, err
	}
	if !found {
		return false, noStream(id)
	}
	want, _, gap, err := s.compute(ctx, r, id)
	return err == nil && !gap && stored.equal(want), err
}

func (s *Store) repairHead(ctx context.Context, id sluice.StreamID, report *SweepReport) error {
	repaired := false
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		repaired = false
		if err := s.Lock(ctx, tx, id); err != nil {
			return err
		}
		right, err := s.headIsRight(ctx, tx, id)
		if err != nil || right {
			return err
		}
		repaired = true
		return s.Changed(ctx, tx, id)
	})
	if sluice.CodeOf(err) == "SLUICE-LOAD-NO-STREAM" {
		return nil
	}
	if err == nil && repaired {
		report.HeadsRepaired++
		s.cfg.Log.Error("head of a stream was wrong and is repaired", "stream_id", id)
	}
	return err
}

// HeadsRight compares every stored head with a new computation and names the streams that differ, for tests and doctor.
func (s *Store) HeadsRight(ctx context.Context) (wrong []sluice.StreamID, err error) {
	all, err := statedb.All(ctx, s.db, queries.Get("LeaseStreams"),
		statedb.Args{"after": sluice.StreamID(uuid.Nil.String()), "limit": 1_000_000}, statedb.Value[sluice.StreamID])
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		right, err := s.headIsRight(ctx, s.db, id)
		if err != nil {
			return nil, err
		}
		if !right {
			wrong = append(wrong, id)
		}
	}
	return wrong, nil
}

// sweepSupersede repeats the rule of supersede for streams that have a replace run.
func (s *Store) sweepSupersede(ctx context.Context, report *SweepReport) error {
	streams, err := statedb.All(ctx, s.db, queries.Get("RunReplaceStreams"), nil, statedb.Value[sluice.StreamID])
	if err != nil {
		return err
	}
	for _, id := range streams {
		_, due, err := statedb.One(ctx, s.db, queries.Get("RunReplaceDue"), statedb.Args{"stream_id": id}, statedb.Value[int64])
		if err != nil {
			return err
		}
		if !due {
			continue
		}
		did := false
		err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
			if err := s.Lock(ctx, tx, id); err != nil {
				return err
			}
			if did, err = s.supersedeIfDue(ctx, tx, id); err != nil || !did {
				return err
			}
			return s.Changed(ctx, tx, id)
		})
		if err != nil && sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
			return err
		}
		if did {
			report.SupersedeRepairs++
			s.cfg.Log.Error("a supersede was missed and is repaired", "stream_id", id)
		}
	}
	return nil
}

// sweepBatches removes the batches of runs that ended long ago, with their history and specs. The run's row stays: a
// batch that is sent again is refused by it, never applied twice.
func (s *Store) sweepBatches(ctx context.Context, report *SweepReport) error {
	slices := 0
	for slices < slicesPerSweep {
		type key struct {
			stream sluice.StreamID
			run    sluice.RunID
		}
		runs, err := statedb.All(ctx, s.db, queries.Get("RunPurgeable"), statedb.Args{"age": keepBatches, "limit": 100},
			func(scan statedb.Scan) (k key, err error) { return k, scan(&k.stream, &k.run) })
		if err != nil || len(runs) == 0 {
			return err
		}
		for _, k := range runs {
			args := func() statedb.Args { return statedb.Args{"stream_id": k.stream, "run_id": k.run} }
			for n := int64(sliceRows); n == sliceRows; slices++ {
				if slices >= slicesPerSweep {
					return nil
				}
				n, err = statedb.Exec(ctx, s.db, queries.Get("BatchRemove"), with(args(), statedb.Args{"limit": sliceRows}))
				if err != nil {
					return err
				}
				report.BatchesRemoved += n
			}
			if err := exec(ctx, s.db, "RunPurged", args()); err != nil {
				return err
			}
		}
	}
	return nil
}
