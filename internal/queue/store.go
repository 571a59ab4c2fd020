package queue

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

//go:embed *.sql
var files embed.FS

var queries = statedb.MustLoad(files, "*.sql")

// Wake-up channels of the state DB.
const (
	wakeQueue = "queue"
	wakeInbox = "inbox" // also sent by a trigger of batch_inbox on PostgreSQL
)

const (
	defaultMaxAttempts = 5
	maxErrorText       = 2000 // characters of error_text
	maxRowsPerCall     = 1000
)

// Store is the queue in a state DB. It holds nothing but the DB's handle; any number of processes may use one DB. It is
// safe for use by many goroutines.
type Store struct {
	db  *statedb.DB
	cfg Config
}

// New makes a Store. It starts nothing.
func New(db *statedb.DB, cfg Config) *Store {
	if cfg.Paths == nil {
		cfg.Paths = func(context.Context, sluice.Org, string) error {
			return errors.New("no extract prefixes are configured")
		}
	}
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = defaultMaxAttempts
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "queue")
	return &Store{db: db, cfg: cfg}
}

// Lock takes the stream's lease row for the transaction: whoever changes a stream's queue does so first, so that two
// changes cannot compute the head from each other's past. SLUICE-LOAD-NO-STREAM if there is none.
func (s *Store) Lock(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error {
	_, found, err := statedb.One(ctx, tx, queries.Get("LeaseLock"), statedb.Args{"stream_id": id}, statedb.Value[int64])
	if err == nil && !found {
		err = noStream(id)
	}
	return err
}

// Created makes the lease row of a new stream.
func (s *Store) Created(ctx context.Context, tx *statedb.Tx, st sluice.Stream) error {
	return exec(ctx, tx, "LeaseInsert", statedb.Args{"stream_id": st.StreamID, "org": st.Org, "team_id": st.TeamID})
}

// Changed recomputes the head of a stream after a change of its lifecycle, slot or state, and wakes the loaders. The
// caller has called Lock.
func (s *Store) Changed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error {
	if err := s.recompute(ctx, tx, id); err != nil {
		return err
	}
	return s.db.Notify(ctx, tx, wakeQueue)
}

// Removed ends the open runs of a deleted stream and removes its lease row, so that a loader at work on it is refused.
func (s *Store) Removed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error {
	ids, err := ids(ctx, tx, "BatchCancelStream", statedb.Args{"stream_id": id})
	if err != nil {
		return err
	}
	if err := history(ctx, tx, ids); err != nil {
		return err
	}
	if err := closeQuarantine(ctx, tx, ids, "discarded", "", "stream removed"); err != nil {
		return err
	}
	if err := exec(ctx, tx, "RunCancelAll", statedb.Args{"stream_id": id, "reason": "stream removed"}); err != nil {
		return err
	}
	return exec(ctx, tx, "LeaseRemove", statedb.Args{"stream_id": id})
}

// Wake receives a value after new work may have become claimable, until ctx is over. It may miss some (another process
// on SQLite, a broken connection): callers poll as well.
func (s *Store) Wake(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	heard := s.db.Listen(ctx)
	go func() {
		defer close(out)
		for name := range heard {
			if name == wakeQueue || name == wakeInbox || name == "" {
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out
}

func noStream(id sluice.StreamID) error {
	return sluice.E("SLUICE-LOAD-NO-STREAM", fmt.Sprintf("find stream %s", id), "there is no such stream", "see `sluice stream list`", nil)
}

func noBatch(id sluice.BatchID) error {
	return sluice.E("SLUICE-LOAD-NO-BATCH", fmt.Sprintf("find batch %s", id), "there is no such batch", "see `sluice batch list`", nil)
}

func exec(ctx context.Context, r statedb.Runner, query string, args statedb.Args) error {
	_, err := statedb.Exec(ctx, r, queries.Get(query), args)
	return err
}

// changed runs a guarded statement and tells whether the guard held.
func changed(ctx context.Context, r statedb.Runner, query string, args statedb.Args) (bool, error) {
	n, err := statedb.Exec(ctx, r, queries.Get(query), args)
	return n > 0, err
}

// ids runs a query that gives batch ids.
func ids(ctx context.Context, r statedb.Runner, query string, args statedb.Args) ([]sluice.BatchID, error) {
	return statedb.All(ctx, r, queries.Get(query), args, statedb.Value[sluice.BatchID])
}

// history adds a row for the present state of each batch.
func history(ctx context.Context, tx *statedb.Tx, batches []sluice.BatchID) error {
	if len(batches) == 0 {
		return nil
	}
	return exec(ctx, tx, "HistoryMany", statedb.Args{"ids": batches})
}

func closeQuarantine(ctx context.Context, tx *statedb.Tx, batches []sluice.BatchID, state, who, note string) error {
	if len(batches) == 0 {
		return nil
	}
	return exec(ctx, tx, "QuarantineClose", statedb.Args{
		"ids": batches, "state": state, "who": statedb.Null(who), "note": statedb.Null(note),
	})
}

// cut shortens a text to what error columns hold.
func cut(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	if utf8.RuneCountInString(text) <= maxErrorText {
		return text
	}
	return string([]rune(text)[:maxErrorText-1]) + "…"
}

func toJSON(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return string(data), nil
}

// by turns an operator into the audit log's.
func (o Operator) by() control.By { return control.By{Who: o.Who, RequestID: o.RequestID} }

// run is a run with the columns that only this package uses.
type run struct {
	sluice.Run
	markerIndex  *int64
	replaceHead  bool
	failIndex    *int64
	discarded    bool
	supersededBy *int64
	sealedBy     string
	slotAt       *time.Time
}

func (r *run) args() statedb.Args { return statedb.Args{"stream_id": r.StreamID, "run_id": r.RunID} }

// live tells whether a producer made the run; the others are chunk runs.
func (r *run) live() bool { return r.Kind == sluice.RunLive }

func scanRun(scan statedb.Scan) (run, error) {
	var r run
	var options string
	err := scan(&r.StreamID, &r.RunID, &r.Seq, &r.Kind, &r.SyncType, &r.IsFirstEver, &r.State, &r.FinalIndex, &r.TotalBatches,
		&r.TotalRows, &r.NextIndex, &options, statedb.Text(&r.Reason), statedb.TimePtr(&r.FirstBatchAt), statedb.TimePtr(&r.SealedAt),
		statedb.TimePtr(&r.EndedAt), &r.markerIndex, &r.replaceHead, &r.failIndex, &r.discarded, &r.supersededBy,
		statedb.Text(&r.sealedBy), statedb.TimePtr(&r.slotAt))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(options), &r.Options)
}

func getRun(ctx context.Context, r statedb.Runner, id sluice.StreamID, runID sluice.RunID) (run, bool, error) {
	return statedb.One(ctx, r, queries.Get("RunGet"), statedb.Args{"stream_id": id, "run_id": runID}, scanRun)
}

func mustRun(ctx context.Context, r statedb.Runner, id sluice.StreamID, runID sluice.RunID) (run, error) {
	found, ok, err := getRun(ctx, r, id, runID)
	if err == nil && !ok {
		err = sluice.E("SLUICE-LOAD-NO-RUN", fmt.Sprintf("find run %s of stream %s", runID, id), "there is no such run", "see `sluice run list`", nil)
	}
	return found, err
}

func scanBatch(scan statedb.Scan) (sluice.Batch, error) {
	var b sluice.Batch
	err := scan(&b.BatchID, &b.StreamID, &b.RunID, &b.RunSeq, &b.BatchIndex, statedb.Text(&b.Path), statedb.Text(&b.ETag), &b.ByteSize,
		&b.RowCount, &b.IsFinal, &b.IsResume, statedb.Text(&b.Op), &b.UpstreamState, &b.LoadState, statedb.Text(&b.LoadReason),
		&b.Attempt, &b.Deferrals, statedb.TimePtr(&b.NextAttemptAt), statedb.Time(&b.StateChangedAt), statedb.Time(&b.CreatedAt),
		statedb.Text(&b.ErrorCode), statedb.Text(&b.ErrorText))
	return b, err
}

func getBatch(ctx context.Context, r statedb.Runner, id sluice.BatchID) (sluice.Batch, error) {
	if !validUUID(string(id)) {
		return sluice.Batch{}, noBatch(id)
	}
	b, found, err := statedb.One(ctx, r, queries.Get("BatchGet"), statedb.Args{"batch_id": id}, scanBatch)
	if err == nil && !found {
		err = noBatch(id)
	}
	return b, err
}
