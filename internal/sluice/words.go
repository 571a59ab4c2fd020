package sluice

import "time"

// Org is the text id of a customer, `^[a-z0-9][a-z0-9-]{0,62}$`. An org owns one warehouse; its id is also the database
// name that clients connect to.
type Org string

// TeamID numbers a project inside an org. A team has one schema for its imports.
type TeamID int64

// StreamID is the UUID (lower-case, with dashes) of one source table that is kept in step.
type StreamID string

// RunID names one extraction run of a stream; it is the producer's, 1 to 200 characters, unique within the stream.
type RunID string

// BatchID is the UUID of one extract file to apply.
type BatchID string

// SyncType says how a source is extracted, and so how its batches are applied.
type SyncType string

// The sync types.
const (
	FullRefresh SyncType = "full_refresh" // each run is the whole table
	Incremental SyncType = "incremental"  // upserts on the primary key
	Append      SyncType = "append"       // rows are only ever added
	CDC         SyncType = "cdc"          // changes with operation and order columns
)

// Valid reports whether s is one of the sync types.
func (s SyncType) Valid() bool {
	switch s {
	case FullRefresh, Incremental, Append, CDC:
		return true
	}
	return false
}

// Op is what applying a batch does to the target table.
type Op string

// The ops.
const (
	OpReplace  Op = "replace"  // the table becomes the batch
	OpCreate   Op = "create"   // the table does not exist yet
	OpInsert   Op = "insert"   // rows are added
	OpMerge    Op = "merge"    // rows are upserted by key
	OpRegister Op = "register" // prepared Parquet becomes part of the table
	OpNothing  Op = "nothing"  // an empty refresh of a table that does not exist
)

// Lifecycle is where a stream stands between its history and its live batches.
type Lifecycle string

// The lifecycle states.
const (
	PendingBackfill Lifecycle = "pending_backfill"
	Backfilling     Lifecycle = "backfilling"
	Primed          Lifecycle = "primed"
	NeedsResync     Lifecycle = "needs_resync"
)

// RunKind says who made a run: a producer (live) or the planner (the others; their batches are chunks).
type RunKind string

// The run kinds.
const (
	RunLive     RunKind = "live"
	RunBackfill RunKind = "backfill"
	RunCopy     RunKind = "copy"
	RunRegister RunKind = "register"
)

// RunState is the state of a run.
type RunState string

// The run states. Succeeded, failed, superseded and cancelled are terminal.
const (
	RunPlanning   RunState = "planning"
	RunOpen       RunState = "open"
	RunSealed     RunState = "sealed"
	RunHalted     RunState = "halted"
	RunSucceeded  RunState = "succeeded"
	RunFailed     RunState = "failed"
	RunSuperseded RunState = "superseded"
	RunCancelled  RunState = "cancelled"
)

// Terminal reports whether nothing may overwrite s.
func (s RunState) Terminal() bool {
	switch s {
	case RunSucceeded, RunFailed, RunSuperseded, RunCancelled:
		return true
	case RunPlanning, RunOpen, RunSealed, RunHalted:
	}
	return false
}

// LoadState is the latest state of a batch.
type LoadState string

// The load states. Succeeded, failed and superseded are terminal, the others are open.
const (
	Queued      LoadState = "queued"
	Executing   LoadState = "executing"
	RetryWait   LoadState = "retry_wait"
	Quarantined LoadState = "quarantined"
	Succeeded   LoadState = "succeeded"
	Failed      LoadState = "failed"
	Superseded  LoadState = "superseded"
)

// Open reports whether the batch still has to be dealt with.
func (s LoadState) Open() bool {
	switch s {
	case Queued, Executing, RetryWait, Quarantined:
		return true
	case Succeeded, Failed, Superseded:
	}
	return false
}

// Reasons that go with a terminal load state (column load_reason).
const (
	ReasonCoveredBySnapshot   = "covered_by_snapshot"
	ReasonSupersededByReplace = "superseded_by_replace"
	ReasonReplanned           = "replanned"
	ReasonUpstreamFailed      = "upstream_failed"
	ReasonDiscarded           = "discarded"
	ReasonCancelled           = "cancelled"
	ReasonAlreadyApplied      = "already_applied"
)

// UpstreamState says whether the authoritative store (a Delta table) already holds a batch; none means that there is no
// such store.
type UpstreamState string

// The upstream states.
const (
	UpstreamNone      UpstreamState = "none"
	UpstreamWaiting   UpstreamState = "waiting"
	UpstreamSucceeded UpstreamState = "succeeded"
	UpstreamFailed    UpstreamState = "failed"
)

// Outcome of a write to another system. Unknown is resolved by reading back, never by guessing.
type Outcome string

// The outcomes. Damaged is what reading back can find on a PostgreSQL catalog: the snapshot is there, its files are not.
const (
	Done    Outcome = "done"
	NotDone Outcome = "not_done"
	Unknown Outcome = "unknown"
	Damaged Outcome = "damaged"
)

// Origin says how the proof of an applied batch came about (column batch_marker.origin).
type Origin string

// The origins.
const (
	OriginApplied   Origin = "applied"   // by the loader that wrote it
	OriginCovered   Origin = "covered"   // a loaded snapshot already held it
	OriginRecovered Origin = "recovered" // found in the lake by a later owner
)

// Purpose of a lease: loading, or maintenance of the stream's table.
type Purpose string

// The purposes.
const (
	PurposeLoad     Purpose = "load"
	PurposeMaintain Purpose = "maintain"
)

// NamingPolicy names the rule that turns a source's name into a table name (see package naming).
type NamingPolicy string

// The naming policies.
const (
	PolicyCopyV1        NamingPolicy = "copy_v1"
	PolicyLegacyBatchV1 NamingPolicy = "legacy_batch_v1"
)

// OrgState is the state of an org's warehouse.
type OrgState string

// The org states. Only a ready org is loaded.
const (
	OrgPending      OrgState = "pending"
	OrgProvisioning OrgState = "provisioning"
	OrgReady        OrgState = "ready"
	OrgPaused       OrgState = "paused"
	OrgDraining     OrgState = "draining"
	OrgFailed       OrgState = "failed"
	OrgDeleting     OrgState = "deleting"
)

// SchemaPolicy says what happens when a file's columns differ from the target's.
type SchemaPolicy string

// The schema policies.
const (
	SchemaEvolve     SchemaPolicy = "evolve"
	SchemaFreeze     SchemaPolicy = "freeze"
	SchemaQuarantine SchemaPolicy = "quarantine"
)

// NullKeys says what happens to rows with NULL in a key column.
type NullKeys string

// The choices for NULL keys.
const (
	NullKeysReject NullKeys = "reject"
	NullKeysMatch  NullKeys = "match"
)

// Options are the settings of a stream, and, where a run overrides them, of a run. The zero value is the default.
type Options struct {
	PrimaryKeys       []string     `json:"primary_keys,omitempty"`
	UniqueKeys        bool         `json:"unique_keys,omitempty"`  // the producer vouches for unique keys in a first-ever run
	DedupeOrder       []string     `json:"dedupe_order,omitempty"` // newest = greatest by these columns; ties by position
	NullKeys          NullKeys     `json:"null_keys,omitempty"`    // empty: reject
	SchemaPolicy      SchemaPolicy `json:"schema_policy,omitempty"`
	Lineage           bool         `json:"lineage,omitempty"`
	ReplaceMode       string       `json:"replace_mode,omitempty"` // empty: create_or_replace; rewrite: delete + insert
	UpdateOnlyChanged *bool        `json:"update_only_changed,omitempty"`
	CDC               *CDCOptions  `json:"cdc,omitempty"`
}

// CDCOptions say how a change row is read.
type CDCOptions struct {
	OpColumn     string            `json:"op_column,omitempty"` // empty: _op
	OrderColumns []string          `json:"order_columns,omitempty"`
	OpMap        map[string]string `json:"op_map,omitempty"`
	DeleteMode   string            `json:"delete_mode,omitempty"` // hard (default) | soft
	KeepOrder    bool              `json:"keep_order,omitempty"`
}

// Stream is one source table that is kept in step. TargetSchema and TargetTable are empty until the first bind and never
// change by themselves afterwards.
type Stream struct {
	StreamID       StreamID
	Org            Org
	TeamID         TeamID
	SourceType     string
	Prefix         string
	Name           string
	SyncType       SyncType
	DeltaURI       string
	Options        Options
	TargetSchema   string
	TargetTable    string
	Enabled        bool
	Lifecycle      Lifecycle
	BootstrappedAt *time.Time
	NextRunSeq     int64
	CreatedAt      time.Time
}

// Run is an ordered set of batches of one stream.
type Run struct {
	StreamID     StreamID
	RunID        RunID
	Seq          int64
	Kind         RunKind
	SyncType     SyncType
	IsFirstEver  bool
	State        RunState
	FinalIndex   *int64 // highest data index; known once the producer has sealed the run
	TotalBatches *int64
	TotalRows    *int64
	NextIndex    int64 // lowest index not yet applied; all below are applied
	Options      Options
	Reason       string
	FirstBatchAt *time.Time
	SealedAt     *time.Time
	EndedAt      *time.Time
}

// Batch is one Parquet extract file to apply. Path is empty only for a step without a file.
type Batch struct {
	BatchID        BatchID
	StreamID       StreamID
	RunID          RunID
	RunSeq         int64
	BatchIndex     int64
	Path           string
	ETag           string
	ByteSize       *int64
	RowCount       *int64
	IsFinal        bool
	IsResume       bool
	Op             Op
	UpstreamState  UpstreamState
	LoadState      LoadState
	LoadReason     string
	Attempt        int
	Deferrals      int
	NextAttemptAt  *time.Time
	StateChangedAt time.Time
	CreatedAt      time.Time
	ErrorCode      Code
	ErrorText      string
}

// Lease is the right of one process to work on a stream until ExpiresAt (the state DB's clock). Owner and Epoch are
// checked in every statement that writes under the lease.
type Lease struct {
	StreamID  StreamID
	Org       Org
	TeamID    TeamID
	Owner     string
	Epoch     int64
	Purpose   Purpose
	ExpiresAt time.Time
}
