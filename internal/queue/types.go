package queue

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// States that callers branch on.
var (
	// ErrNoWork means that the stream has nothing that may be applied now; BlockedError has the reason.
	ErrNoWork = errors.New("no work")
	// ErrLeaseLost means that somebody else owns the stream by now, or that the batch is not in the state that the write
	// needs. The caller stops working on the stream and writes nothing.
	ErrLeaseLost = errors.New("lease lost")
)

// BlockedError is the ErrNoWork of a stream that has open work.
type BlockedError struct {
	Rule    string    // as in `sluice status`: "E11 missing index 3"
	ReadyAt time.Time // when the head becomes ready by itself; zero: not by itself
}

func (e *BlockedError) Error() string { return "no work: " + e.Rule }

// Is makes errors.Is(err, ErrNoWork) hold.
func (e *BlockedError) Is(target error) bool { return target == ErrNoWork }

// PathPolicy says whether a batch of an org may be read from a path. A refusal is an error whose text says why; the
// queue wraps it as SLUICE-LOAD-PATH-REFUSED.
type PathPolicy func(ctx context.Context, org sluice.Org, path string) error

// Pinner looks a file up in its store and gives size and etag. known is false if the store cannot be reached now; then
// the loader pins at the first read. An error refuses the batch.
type Pinner func(ctx context.Context, org sluice.Org, path string) (pin Pin, known bool, err error)

// Pin is what a file was when it was enqueued, or when the first try read it: later tries must find the same.
type Pin struct {
	ETag     string
	ByteSize int64
}

// Config of a Store. The zero value is the default, except for Paths: without it every path is refused.
type Config struct {
	Paths       PathPolicy
	Pin         Pinner       // nil: pinned at the first read
	MaxAttempts int          // 0: 5
	Log         *slog.Logger // nil: discarded
}

// NewBatch is one row of an enqueue call: a data row, or a final marker (IsFinal without Path).
type NewBatch struct {
	BatchID       sluice.BatchID // empty: UUIDv5 of (stream, run, index)
	BatchIndex    int64
	Path          string
	ETag          string
	ByteSize      *int64
	RowCount      *int64
	IsFinal       bool
	IsResume      bool
	UpstreamState sluice.UpstreamState // empty: waiting if the stream has a Delta table, else none
	TotalBatches  *int64               // on a final row
	TotalRows     *int64
}

// EnqueueRequest is one call of a producer: batches of one run, at most 1,000, all or nothing.
type EnqueueRequest struct {
	StreamID    sluice.StreamID
	RunID       sluice.RunID
	TeamID      *sluice.TeamID  // if set, it must be the stream's
	SyncType    sluice.SyncType // if set, it must be the stream's
	IsFirstEver bool
	Options     sluice.Options // overrides for this run; taken from the call that creates the run
	Batches     []NewBatch
}

// EnqueueResult says what became of one row.
type EnqueueResult struct {
	BatchID    sluice.BatchID `json:"batch_id,omitempty"` // empty for a marker without a data row
	BatchIndex int64          `json:"batch_index"`
	Result     string         `json:"result"` // Accepted or Duplicate
}

// What became of a row.
const (
	Accepted  = "accepted"
	Duplicate = "duplicate"
	Refused   = "refused" // inbox rows only: a call that is refused is an error
)

// ClaimRequest asks for streams to work on.
type ClaimRequest struct {
	Owner     string            // process id, 64 hex digits
	Free      int               // free places of the process
	FreeChunk int               // how many of them may be chunk streams; 0: half of Free, rounded up; < 0: none
	InFlight  []sluice.StreamID // what the process works on already
	TTL       time.Duration     // 0: 60 s
}

// DefaultTTL of a lease.
const DefaultTTL = 60 * time.Second

// Work is what a leaseholder does next.
type Work struct {
	Batch sluice.Batch
	Run   sluice.Run
	Spec  json.RawMessage // long things of a chunk; nil for live batches
	// PrevExecuting means that a former owner (or a former life of this one) has begun the batch: read the lake for the
	// outcome first, then Succeed, Retry or Quarantine without Start.
	PrevExecuting bool
}

// Applied says how a batch got into its table.
type Applied struct {
	BatchID      sluice.BatchID
	Op           sluice.Op
	RowsRead     int64
	RowsWritten  int64
	Deduplicated int64 // rows that a newer row of the same key took the place of
	LeftOut      int   // columns and fields that the schema policy left out
	FenceSeq     int64
	LakeSnapshot int64            // 0: not known
	Origin       sluice.Origin    // empty: applied
	Reason       string           // load_reason, for example already_applied
	Target       *stream.Target   // of a swap: the lake table that has the rows from now on
	Note         string           // what people should know though it went well, such as columns that were left out
	Phases       map[string]int64 // milliseconds by phase
}

// Failure says why a batch was not applied. Text must hold no secrets; it is cut at 2,000 characters.
type Failure struct {
	BatchID sluice.BatchID
	Code    sluice.Code
	Text    string
	Hint    string
	Wait    time.Duration // Retry: how long the batch rests
	Counted bool          // Retry: the try uses up one of the attempts; else it is a deferral
	Pin     Pin           // Retry: what the file was when this try read it; empty: it did not
	Phases  map[string]int64
}

// StatusRow is how one stream stands, for `sluice status`.
type StatusRow struct {
	StreamID   sluice.StreamID  `json:"stream_id"`
	Org        sluice.Org       `json:"org"`
	TeamID     sluice.TeamID    `json:"team_id"`
	SourceType string           `json:"source_type"`
	Prefix     string           `json:"prefix,omitempty"`
	Name       string           `json:"name"`
	Target     string           `json:"target,omitempty"` // schema.table once bound
	Lifecycle  sluice.Lifecycle `json:"lifecycle"`
	Head       sluice.BatchID   `json:"head,omitempty"` // first open batch
	HeadRun    sluice.RunID     `json:"head_run,omitempty"`
	HeadIndex  *int64           `json:"head_index,omitempty"`
	HeadState  sluice.LoadState `json:"head_state,omitempty"`
	BlockedBy  string           `json:"blocked_by,omitempty"` // rule that blocks, E-number first
	ErrorCode  sluice.Code      `json:"error_code,omitempty"`
	ErrorText  string           `json:"error_text,omitempty"`
	Next       string           `json:"next,omitempty"` // the command to type next
	Open       int64            `json:"open_batches"`
	OldestAt   *time.Time       `json:"oldest_at,omitempty"`
	LastAt     *time.Time       `json:"last_applied_at,omitempty"`
	LastRun    sluice.RunID     `json:"last_run,omitempty"`
	LastIndex  *int64           `json:"last_index,omitempty"`
	Owner      string           `json:"owner,omitempty"`
	Lingering  bool             `json:"lingering,omitempty"`
}

// HistoryRow is one step in a batch's life.
type HistoryRow struct {
	LoadState    sluice.LoadState `json:"load_state"`
	Attempt      int              `json:"attempt"`
	Reason       string           `json:"reason,omitempty"`
	ErrorCode    sluice.Code      `json:"error_code,omitempty"`
	ErrorText    string           `json:"error_text,omitempty"`
	Note         string           `json:"note,omitempty"` // of a success
	Owner        string           `json:"owner,omitempty"`
	Epoch        int64            `json:"epoch,omitempty"`
	FenceSeq     *int64           `json:"fence_seq,omitempty"`
	LakeSnapshot *int64           `json:"lake_snapshot,omitempty"`
	RowsRead     *int64           `json:"rows_read,omitempty"`
	RowsWritten  *int64           `json:"rows_written,omitempty"`
	Phases       json.RawMessage  `json:"phases,omitempty"`
	CreatedAt    time.Time        `json:"created_at"`
}

// QuarantineRow is a batch that cannot be applied, with the reason.
type QuarantineRow struct {
	ID         int64           `json:"id"`
	BatchID    sluice.BatchID  `json:"batch_id"`
	StreamID   sluice.StreamID `json:"stream_id"`
	Org        sluice.Org      `json:"org"`
	RunID      sluice.RunID    `json:"run_id"`
	BatchIndex int64           `json:"batch_index"`
	Code       sluice.Code     `json:"code"`
	Message    string          `json:"message"`
	Hint       string          `json:"hint,omitempty"`
	Path       string          `json:"path,omitempty"`
	Attempts   int             `json:"attempts"`
	OpenedAt   time.Time       `json:"opened_at"`
	State      string          `json:"state"` // open, retried, discarded, superseded
	ClosedAt   *time.Time      `json:"closed_at,omitempty"`
	ClosedBy   string          `json:"closed_by,omitempty"`
	Note       string          `json:"note,omitempty"`
}

// Filter of a listing; empty fields do not filter. Limit 0 means 100, at most 1,000.
type Filter struct {
	Org      sluice.Org
	StreamID sluice.StreamID
	RunID    sluice.RunID
	State    string // run state, load state or quarantine state
	Limit    int
	Cursor   string // of the former page
}

// Operator says on whose behalf an operator's command runs, and whether it only shows what it would do.
type Operator struct {
	Who       string
	RequestID string
	Note      string
	DryRun    bool
}

// Change is what an operator's command did, or would do.
type Change struct {
	StreamID  sluice.StreamID  `json:"stream_id"`
	RunID     sluice.RunID     `json:"run_id"`
	Batches   []sluice.BatchID `json:"batches"`
	Lifecycle sluice.Lifecycle `json:"lifecycle"` // afterwards
	DryRun    bool             `json:"dry_run"`
}

// SweepReport counts what a sweep found.
type SweepReport struct {
	Ran              bool // false: another process swept
	HeadsRepaired    int  // 0 unless a head was wrong
	SupersedeRepairs int  // 0 unless a supersede was missed
	BatchesRemoved   int64
	RowsRemoved      int64 // of the smaller tables
}
