package queue

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// head is what stream_lease keeps of a stream's first open batch (loader.md §4).
type head struct {
	batchID  sluice.BatchID // empty: no work
	runSeq   int64
	isChunk  bool
	readyAt  *time.Time // nil: not claimable now
	blocked  string     // the rule that blocks, empty if none
	oldestAt *time.Time
}

// equal compares with a stored head.
func (h head) equal(o head) bool {
	same := func(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }
	return h.batchID == o.batchID && h.runSeq == o.runSeq && h.isChunk == o.isChunk && h.blocked == o.blocked &&
		same(h.readyAt, o.readyAt) && same(h.oldestAt, o.oldestAt)
}

// streamFacts are what the rules E7 to E16 look at beside the first open batch.
type streamFacts struct {
	lifecycle sluice.Lifecycle
	planRun   sluice.RunID // run of the current plan
	haltCode  string
	chunkSeq  *int64 // lowest chunk run that is not terminal
}

// batchFacts are the first open batch of a stream and its run.
type batchFacts struct {
	batchID                   sluice.BatchID
	runID                     sluice.RunID
	runSeq, index, nextIndex  int64
	upstream                  sluice.UpstreamState
	state                     sluice.LoadState
	nextAttemptAt             *time.Time
	stateChangedAt, createdAt time.Time
	errorCode                 string
	kind                      sluice.RunKind
	runState                  sluice.RunState
	slotAt                    *time.Time
	replaceHead               bool // and nothing of the run was given up: a refresh with a gap is none
	sealedBy                  string
	lowerSeq, lowerChunkSeq   *int64 // lowest run before it that is not terminal: of any kind, of chunks
}

// decide applies E7 to E16. gap means that the head can never come: the run was given up by its producer with an index
// missing (E15), so it must be halted and the head be computed anew.
func decide(s streamFacts, b *batchFacts) (h head, gap bool) {
	if b == nil { // E7
		h.blocked = s.haltCode
		return h, false
	}
	h = head{batchID: b.batchID, runSeq: b.runSeq, isChunk: b.kind != sluice.RunLive, oldestAt: &b.createdAt}
	block := func(format string, args ...any) (head, bool) {
		h.blocked = fmt.Sprintf(format, args...)
		if len(h.blocked) > 400 {
			h.blocked = h.blocked[:400]
		}
		return h, false
	}
	ready := func(at time.Time) (head, bool) {
		h.readyAt = &at
		return h, false
	}
	if s.haltCode != "" {
		return block("halted %s", s.haltCode)
	}
	switch b.state {
	case sluice.Executing:
		// Its owner is at work or gone; if gone, the outcome must be found out whatever has changed meanwhile.
		return ready(b.stateChangedAt)
	case sluice.Quarantined:
		return block("E10 quarantined %s", b.errorCode)
	case sluice.Queued, sluice.RetryWait, sluice.Succeeded, sluice.Failed, sluice.Superseded:
	}
	if b.runState != sluice.RunOpen && b.runState != sluice.RunSealed {
		return block("E14 run is %s", b.runState)
	}
	if b.index > b.nextIndex && b.sealedBy == sealedByNewer {
		return h, true
	}
	if rule := lifecycleRule(s, b); rule != "" {
		return block("E8 %s", rule)
	}
	if b.upstream != sluice.UpstreamNone && b.upstream != sluice.UpstreamSucceeded {
		return block("E9 upstream %s", b.upstream)
	}
	if b.index != b.nextIndex {
		return block("E11 missing index %d", b.nextIndex)
	}
	lower := b.lowerSeq
	if h.isChunk {
		lower = b.lowerChunkSeq
	}
	if lower != nil {
		return block("E12 run %d is not complete", *lower)
	}
	if !h.isChunk && s.chunkSeq != nil {
		return block("E13 chunk run %d is not complete", *s.chunkSeq)
	}
	if b.state == sluice.RetryWait && b.nextAttemptAt != nil {
		return ready(*b.nextAttemptAt)
	}
	return ready(b.createdAt)
}

// lifecycleRule is E8: empty if the stream's lifecycle lets the batch through.
func lifecycleRule(s streamFacts, b *batchFacts) string {
	if b.kind == sluice.RunLive {
		if s.lifecycle == sluice.Primed || b.replaceHead {
			return ""
		}
		return string(s.lifecycle)
	}
	switch {
	case s.lifecycle != sluice.Backfilling:
		return "chunk while " + string(s.lifecycle)
	case s.planRun != b.runID:
		return "run is not the plan's"
	case b.slotAt == nil:
		return "no slot"
	}
	return ""
}

// compute reads the facts and decides. It is one look-up in the index of open batches, however many there are.
func (s *Store) compute(ctx context.Context, r statedb.Runner, id sluice.StreamID) (head, *batchFacts, bool, error) {
	facts, found, err := statedb.One(ctx, r, queries.Get("HeadStream"), statedb.Args{"stream_id": id},
		func(scan statedb.Scan) (f streamFacts, err error) {
			return f, scan(&f.lifecycle, statedb.Text(&f.planRun), statedb.Text(&f.haltCode), &f.chunkSeq)
		})
	if err != nil {
		return head{}, nil, false, err
	}
	if !found {
		return head{}, nil, false, noStream(id)
	}
	var b *batchFacts
	if facts.lifecycle == sluice.Backfilling && facts.chunkSeq != nil { // chunks come before live runs
		if b, err = firstOpen(ctx, r, id, *facts.chunkSeq); err != nil {
			return head{}, nil, false, err
		}
		if b != nil && b.kind == sluice.RunLive {
			b = nil
		}
	}
	if b == nil {
		if b, err = firstOpen(ctx, r, id, 0); err != nil {
			return head{}, nil, false, err
		}
	}
	h, gap := decide(facts, b)
	return h, b, gap, nil
}

func firstOpen(ctx context.Context, r statedb.Runner, id sluice.StreamID, fromSeq int64) (*batchFacts, error) {
	b, found, err := statedb.One(ctx, r, queries.Get("HeadBatch"), statedb.Args{"stream_id": id, "from_seq": fromSeq},
		func(scan statedb.Scan) (b batchFacts, err error) {
			return b, scan(&b.batchID, &b.runID, &b.runSeq, &b.index, &b.upstream, &b.state, statedb.TimePtr(&b.nextAttemptAt),
				statedb.Time(&b.stateChangedAt), statedb.Time(&b.createdAt), statedb.Text(&b.errorCode), &b.kind, &b.runState,
				&b.nextIndex, statedb.TimePtr(&b.slotAt), &b.replaceHead, statedb.Text(&b.sealedBy), &b.lowerSeq, &b.lowerChunkSeq)
		})
	if err != nil || !found {
		return nil, err
	}
	return &b, nil
}

// recompute stores the head of a stream, after halting a run whose gap has come to the front. The caller holds the
// stream's lease row.
func (s *Store) recompute(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error {
	h, b, gap, err := s.compute(ctx, tx, id)
	if err != nil {
		return err
	}
	if gap {
		if err := s.haltGap(ctx, tx, id, b); err != nil {
			return err
		}
		if h, _, gap, err = s.compute(ctx, tx, id); err != nil {
			return err
		}
		if gap {
			return fmt.Errorf("compute head of stream %s: the gap in run %d stays", id, b.runSeq)
		}
	}
	return storeHead(ctx, tx, id, h)
}

func storeHead(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, h head) error {
	var seq any
	if h.batchID != "" {
		seq = h.runSeq
	}
	return exec(ctx, tx, "HeadStore", statedb.Args{
		"stream_id": id, "head_batch_id": statedb.Null(h.batchID), "head_run_seq": seq, "head_is_chunk": h.isChunk,
		"ready_at": h.readyAt, "blocked_by": statedb.Null(h.blocked), "oldest_at": h.oldestAt,
	})
}

// haltGap halts a run that its producer has given up and that has an index missing (E15).
func (s *Store) haltGap(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, b *batchFacts) error {
	f := Failure{
		BatchID: b.batchID, Code: "SLUICE-LOAD-RUN-GAP",
		Text: fmt.Sprintf("run %s was given up by its producer and lacks index %d; a newer run has begun", b.runID, b.nextIndex),
		Hint: fmt.Sprintf("run a full refresh of the stream, or accept the loss: `sluice quarantine discard %s`", b.batchID),
	}
	ok, err := changed(ctx, tx, "BatchGap", statedb.Args{"batch_id": b.batchID, "code": f.Code, "text": f.Text})
	if err != nil || !ok {
		return err
	}
	return s.recordQuarantine(ctx, tx, id, b.runID, f, nil)
}
