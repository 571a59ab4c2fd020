package queue

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// batchNamespace is the UUIDv5 namespace of batch ids that the producer has not chosen.
var batchNamespace = uuid.MustParse("6a1f0c1e-0f0b-5d0a-9c55-5a7b1c1d9e42")

// BatchID is the id of a batch whose producer gives none: the same for each retry.
func BatchID(id sluice.StreamID, runID sluice.RunID, index int64) sluice.BatchID {
	key := fmt.Sprintf("%s/%s/%d", id, runID, index)
	return sluice.BatchID(uuid.NewSHA1(batchNamespace, []byte(key)).String())
}

func validUUID(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}

// Enqueue stores batches of one run (loader.md §2), all or nothing. A repeated call gives the same answer with result
// duplicate. Everything that follows happens in the same transaction: sealing of older runs, supersede, the head.
func (s *Store) Enqueue(ctx context.Context, r EnqueueRequest) ([]EnqueueResult, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := s.admit(ctx, &r, s.cfg.Pin); err != nil {
		return nil, err
	}
	var results []EnqueueResult
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		var err error
		results, err = s.enqueue(ctx, tx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (r *EnqueueRequest) doing() string {
	return fmt.Sprintf("enqueue batches of run %s of stream %s", r.RunID, r.StreamID)
}

// check looks at the request alone, and normalises ids.
func (r *EnqueueRequest) check() error {
	id, err := stream.ParseID(r.StreamID)
	if err != nil {
		return err
	}
	r.StreamID = id
	usage := func(format string, args ...any) error {
		return sluice.E("SLUICE-USAGE", r.doing(), fmt.Sprintf(format, args...), "see docs on the producer contract", nil)
	}
	switch n := len(r.Batches); {
	case n == 0:
		return usage("there are no batches")
	case n > maxRowsPerCall:
		return usage("%d batches in one call, %d are allowed", n, maxRowsPerCall)
	case r.RunID == "" || len(r.RunID) > 200 || !plain(string(r.RunID)):
		return usage("run_id must have 1 to 200 characters, in UTF-8, without NUL")
	}
	for i := range r.Batches {
		b := &r.Batches[i]
		switch b.UpstreamState {
		case "", sluice.UpstreamNone, sluice.UpstreamWaiting, sluice.UpstreamSucceeded, sluice.UpstreamFailed:
		default:
			return usage("batch %d: upstream_state %q is unknown", b.BatchIndex, b.UpstreamState)
		}
		negative := func(p *int64) bool { return p != nil && *p < 0 }
		switch {
		case b.BatchIndex < 0:
			return usage("batch_index %d is negative", b.BatchIndex)
		case negative(b.ByteSize) || negative(b.RowCount) || negative(b.TotalBatches) || negative(b.TotalRows):
			return usage("batch %d: a count is negative", b.BatchIndex)
		case b.Path == "" && !b.IsFinal:
			return usage("batch %d has no path", b.BatchIndex)
		case !plain(b.Path) || !plain(b.ETag):
			return usage("batch %d: path and etag must be UTF-8 without NUL", b.BatchIndex)
		case len(b.Path) > 2000 || len(b.ETag) > 200:
			return usage("batch %d: path is longer than 2,000 bytes or etag than 200", b.BatchIndex)
		}
		if b.BatchID != "" {
			u, err := uuid.Parse(string(b.BatchID))
			if err != nil {
				return usage("batch %d: batch_id %q is not a UUID", b.BatchIndex, b.BatchID)
			}
			b.BatchID = sluice.BatchID(u.String())
		}
	}
	return nil
}

// plain tells whether a text can be stored in both databases.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// admit asks the path policy and pins size and etag where the store answers. A pinner reads from a store, so it is not
// used inside a transaction (nil): then the loader pins at the first read.
func (s *Store) admit(ctx context.Context, r *EnqueueRequest, pinner Pinner) error {
	org, found, err := statedb.One(ctx, s.db, queries.Get("StreamOrg"), statedb.Args{"stream_id": r.StreamID}, statedb.Value[sluice.Org])
	if err != nil {
		return err
	}
	if !found {
		return noStream(r.StreamID)
	}
	for i := range r.Batches {
		b := &r.Batches[i]
		if b.Path == "" {
			continue
		}
		if err := s.cfg.Paths(ctx, org, b.Path); err != nil {
			return sluice.E("SLUICE-LOAD-PATH-REFUSED", r.doing(), fmt.Sprintf("batch %d: %v", b.BatchIndex, err),
				"write extracts under a prefix of the org, or add the prefix to the org's extract_prefixes", err)
		}
		if pinner == nil || b.ETag != "" && b.ByteSize != nil {
			continue
		}
		pin, known, err := pinner(ctx, org, b.Path)
		if err != nil {
			return fmt.Errorf("%s: pin file of batch %d: %w", r.doing(), b.BatchIndex, err)
		}
		if known {
			if b.ETag == "" {
				b.ETag = pin.ETag
			}
			if b.ByteSize == nil {
				b.ByteSize = &pin.ByteSize
			}
		}
	}
	return nil
}

// enqueue is the transaction of Enqueue; the inbox uses it, too. The request is checked and admitted.
func (s *Store) enqueue(ctx context.Context, tx *statedb.Tx, r EnqueueRequest) ([]EnqueueResult, error) {
	if err := s.Lock(ctx, tx, r.StreamID); err != nil {
		return nil, err
	}
	st, err := stream.Lock(ctx, tx, r.StreamID)
	if err != nil {
		return nil, err
	}
	if r.TeamID != nil && *r.TeamID != st.TeamID {
		return nil, sluice.E("SLUICE-LOAD-NO-STREAM", r.doing(), fmt.Sprintf("team %d has no such stream", *r.TeamID), "see `sluice stream list`", nil)
	}
	if r.SyncType != "" && r.SyncType != st.SyncType {
		return nil, sluice.E("SLUICE-LOAD-SYNC-TYPE", r.doing(), fmt.Sprintf("the stream is %s, the batches are %s", st.SyncType, r.SyncType),
			"a stream keeps its sync type; add another stream for another one", nil)
	}
	e := &enqueuer{store: s, tx: tx, req: r, stream: st.Stream}
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	results := make([]EnqueueResult, len(r.Batches))
	for i, b := range r.Batches {
		if results[i], err = e.row(ctx, b); err != nil {
			return nil, err
		}
	}
	if !e.dirty {
		return results, nil
	}
	return results, e.finish(ctx)
}

// finish stores what the rows have changed about the run, and everything that follows.
func (e *enqueuer) finish(ctx context.Context) error {
	s, tx, r := e.store, e.tx, &e.run
	args := with(r.args(), statedb.Args{
		"old_state": e.oldState, "state": r.State, "final_index": r.FinalIndex, "marker_index": r.markerIndex,
		"total_batches": r.TotalBatches, "total_rows": r.TotalRows, "replace_head": r.replaceHead, "fail_index": r.failIndex,
		"sealed_by": statedb.Null(r.sealedBy), "ended": r.State.Terminal(),
	})
	if ok, err := changed(ctx, tx, "RunStore", args); err != nil || !ok {
		return fmt.Errorf("%s: store run (changed: %t): %w", e.req.doing(), ok, err)
	}
	if err := history(ctx, tx, e.added); err != nil {
		return err
	}
	if r.failIndex != nil {
		if err := s.failUpstream(ctx, tx, r, *r.failIndex); err != nil {
			return err
		}
	}
	if r.replaceHead {
		if _, err := s.supersedeIfDue(ctx, tx, e.stream.StreamID); err != nil {
			return err
		}
	}
	for _, id := range append(e.sealed, r.RunID) {
		other, err := mustRun(ctx, tx, e.stream.StreamID, id)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, tx, &other); err != nil {
			return err
		}
	}
	return s.Changed(ctx, tx, e.stream.StreamID)
}

// failUpstream ends the batches from an index on, because the authoritative store refused one; those below are in that
// store, so they are still applied before the run ends (loader.md §3).
func (s *Store) failUpstream(ctx context.Context, tx *statedb.Tx, r *run, index int64) error {
	failed, err := ids(ctx, tx, "BatchFailUpstream", with(r.args(), statedb.Args{"index": index}))
	if err != nil {
		return err
	}
	return history(ctx, tx, failed)
}
