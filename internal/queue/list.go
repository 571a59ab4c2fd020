package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

func (f Filter) limit() int {
	if f.Limit <= 0 {
		return defaultPage
	}
	return min(f.Limit, maxPage)
}

// args are the filter's parameters; a cursor of an offset listing is the number of rows before it.
func (f Filter) args() (statedb.Args, int, error) {
	offset := 0
	if f.Cursor != "" {
		n, err := strconv.Atoi(f.Cursor)
		if err != nil || n < 0 {
			return nil, 0, sluice.E("SLUICE-USAGE", "list", fmt.Sprintf("cursor %q is not one of ours", f.Cursor), "take it from the former page", nil)
		}
		offset = n
	}
	if f.StreamID != "" && !validUUID(string(f.StreamID)) {
		return nil, 0, noStream(f.StreamID)
	}
	return statedb.Args{
		"org": statedb.Null(f.Org), "stream_id": statedb.Null(f.StreamID), "run_id": statedb.Null(f.RunID),
		"state": statedb.Null(f.State), "limit": f.limit() + 1, "offset": offset,
	}, offset, nil
}

func page[T any](ctx context.Context, s *Store, f Filter, query string, scan func(statedb.Scan) (T, error)) ([]T, string, error) {
	args, offset, err := f.args()
	if err != nil {
		return nil, "", err
	}
	rows, err := statedb.All(ctx, s.db, queries.Get(query), args, scan)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > f.limit() {
		return rows[:f.limit()], strconv.Itoa(offset + f.limit()), nil
	}
	return rows, "", nil
}

// Runs lists runs, newest first; next is the cursor of the next page, empty at the end.
func (s *Store) Runs(ctx context.Context, f Filter) (runs []sluice.Run, next string, err error) {
	return page(ctx, s, f, "RunList", func(scan statedb.Scan) (sluice.Run, error) {
		r, err := scanRun(scan)
		return r.Run, err
	})
}

// Run gives one run, or SLUICE-LOAD-NO-RUN.
func (s *Store) Run(ctx context.Context, id sluice.StreamID, runID sluice.RunID) (sluice.Run, error) {
	if !validUUID(string(id)) {
		return sluice.Run{}, noStream(id)
	}
	r, err := mustRun(ctx, s.db, id, runID)
	return r.Run, err
}

// Batches lists batches in stream order.
func (s *Store) Batches(ctx context.Context, f Filter) (batches []sluice.Batch, next string, err error) {
	return page(ctx, s, f, "BatchList", scanBatch)
}

// Batch gives one batch with its history, or SLUICE-LOAD-NO-BATCH.
func (s *Store) Batch(ctx context.Context, id sluice.BatchID) (sluice.Batch, []HistoryRow, error) {
	b, err := getBatch(ctx, s.db, id)
	if err != nil {
		return b, nil, err
	}
	rows, err := statedb.All(ctx, s.db, queries.Get("HistoryList"), statedb.Args{"batch_id": id}, scanHistory)
	return b, rows, err
}

func scanHistory(scan statedb.Scan) (HistoryRow, error) {
	var h HistoryRow
	var failure, phases string
	var epoch *int64
	err := scan(&h.LoadState, &h.Attempt, statedb.Text(&h.Reason), statedb.Text(&failure), statedb.Text(&h.Owner), &epoch,
		&h.FenceSeq, &h.LakeSnapshot, &h.RowsRead, &h.RowsWritten, statedb.Text(&phases), statedb.Time(&h.CreatedAt))
	if err != nil {
		return h, err
	}
	if epoch != nil {
		h.Epoch = *epoch
	}
	if phases != "" {
		h.Phases = json.RawMessage(phases)
	}
	if failure != "" {
		var e stepError
		if err := json.Unmarshal([]byte(failure), &e); err != nil {
			return h, err
		}
		if h.ErrorCode, h.ErrorText = e.Code, e.Text; e.Code == "" {
			h.ErrorText, h.Note = "", e.Text
		}
	}
	return h, nil
}

// Quarantined lists quarantine rows, newest first.
func (s *Store) Quarantined(ctx context.Context, f Filter) (rows []QuarantineRow, next string, err error) {
	return page(ctx, s, f, "QuarantineList", func(scan statedb.Scan) (q QuarantineRow, err error) {
		return q, scan(&q.ID, &q.BatchID, &q.StreamID, &q.Org, &q.RunID, &q.BatchIndex, &q.Code, &q.Message, statedb.Text(&q.Hint),
			statedb.Text(&q.Path), &q.Attempts, statedb.Time(&q.OpenedAt), &q.State, statedb.TimePtr(&q.ClosedAt),
			statedb.Text(&q.ClosedBy), statedb.Text(&q.Note))
	})
}

// statusFacts are what a status row is made of beyond what it shows.
type statusFacts struct {
	enabled, paused  bool
	hasDelta         bool
	bootstrapped     *time.Time
	orgState         sluice.OrgState
	lifecycleReason  string
	haltCode         sluice.Code
	haltText         string
	readyAt          *time.Time
	isHeld, readyNow bool
}

// Status tells for every stream of the filter how it stands, which rule or error holds it, and what to type next. Streams
// are listed by id; the cursor is the last id of the former page.
func (s *Store) Status(ctx context.Context, f Filter) (rows []StatusRow, next string, err error) {
	after := sluice.StreamID(uuid.Nil.String())
	if f.Cursor != "" {
		after = sluice.StreamID(f.Cursor)
	}
	for _, id := range []sluice.StreamID{after, f.StreamID} {
		if id != "" && !validUUID(string(id)) {
			return nil, "", noStream(id)
		}
	}
	rows, err = statedb.All(ctx, s.db, queries.Get("StatusList"), statedb.Args{
		"org": statedb.Null(f.Org), "stream_id": statedb.Null(f.StreamID), "after": after, "limit": f.limit() + 1,
	}, scanStatus)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > f.limit() {
		rows = rows[:f.limit()]
		next = string(rows[len(rows)-1].StreamID)
	}
	return rows, next, nil
}

func scanStatus(scan statedb.Scan) (StatusRow, error) {
	var r StatusRow
	var x statusFacts
	var schema, table string
	var isHeld, readyNow, hasDelta int64
	err := scan(&r.StreamID, &r.Org, &r.TeamID, &r.SourceType, &r.Prefix, &r.Name, statedb.Text(&schema), statedb.Text(&table), &r.Lifecycle,
		statedb.Text(&x.lifecycleReason), &hasDelta, &x.enabled, &x.paused, statedb.TimePtr(&x.bootstrapped), &x.orgState, statedb.Text(&r.Head),
		statedb.Text(&r.HeadRun), &r.HeadIndex, statedb.Text(&r.HeadState), statedb.Text(&r.ErrorCode), statedb.Text(&r.ErrorText),
		statedb.Text(&x.haltCode), statedb.Text(&x.haltText), statedb.Text(&r.BlockedBy), statedb.TimePtr(&r.OldestAt),
		statedb.Text(&r.Owner), &r.Lingering, statedb.TimePtr(&x.readyAt), &isHeld, &readyNow, &r.Open, statedb.TimePtr(&r.LastAt),
		statedb.Text(&r.LastRun), &r.LastIndex)
	if err != nil {
		return r, err
	}
	x.isHeld, x.readyNow, x.hasDelta = isHeld == 1, readyNow == 1, hasDelta == 1
	if schema != "" {
		r.Target = schema + "." + table
	}
	if !x.isHeld {
		r.Owner, r.Lingering = "", false
	}
	explain(&r, x)
	return r, nil
}

// explain fills in the rule that holds a stream where the head alone does not say it, and the command to type next.
func explain(r *StatusRow, x statusFacts) {
	if x.haltCode != "" {
		r.ErrorCode, r.ErrorText = x.haltCode, x.haltText
		r.Next = fmt.Sprintf("sluice stream reset %s", r.StreamID) // it ends the halt
		return
	}
	switch {
	case r.BlockedBy != "" || r.Head == "":
	case !x.enabled:
		r.BlockedBy, r.Next = "E1 stream is disabled", fmt.Sprintf("sluice stream show %s", r.StreamID)
	case x.bootstrapped == nil:
		r.BlockedBy, r.Next = "E2 no planner has looked at the stream", "sluice status"
	case x.paused:
		r.BlockedBy, r.Next = "E6 stream is paused", fmt.Sprintf("sluice stream show %s", r.StreamID)
	case x.orgState != sluice.OrgReady:
		r.BlockedBy, r.Next = fmt.Sprintf("E6 warehouse is %s", x.orgState), fmt.Sprintf("sluice org show %s", r.Org)
	case r.HeadState == sluice.RetryWait && !x.readyNow && x.readyAt != nil:
		r.BlockedBy = "E10 tried again at " + x.readyAt.Format(time.RFC3339)
		r.Next = fmt.Sprintf("sluice batch retry %s", r.Head)
	}
	switch {
	case r.HeadState == sluice.Quarantined:
		r.Next = fmt.Sprintf("sluice quarantine show %s", r.Head)
	case r.Lifecycle == sluice.NeedsResync:
		r.Next = fmt.Sprintf("sluice enqueue --stream %s --first-ever FILE…", r.StreamID) // a full refresh
		if x.hasDelta {
			r.Next = fmt.Sprintf("sluice backfill start %s", r.StreamID)
		}
		if r.ErrorText == "" {
			r.ErrorText = x.lifecycleReason
		}
	case r.Lifecycle == sluice.PendingBackfill && r.Open > 0:
		r.Next = fmt.Sprintf("sluice backfill status %s", r.StreamID)
	}
}
