package stream

import (
	"time"

	"sluice/internal/sluice"
)

// What people and programs are told about plans.

// PlanRequest is what a caller asks for.
type PlanRequest struct {
	Kind          sluice.RunKind // backfill or copy
	SourceURI     string         // empty: the stream's own
	Version       *int64         // nil: the newest
	CoveredAnswer string
	Priority      int64
	Options       PlanOptions
	DryRun        bool
}

// PlanPreview is a plan of which nothing is stored.
type PlanPreview struct {
	StreamID    sluice.StreamID `json:"stream_id"`
	Org         sluice.Org      `json:"org"`
	Kind        sluice.RunKind  `json:"kind"`
	SourceURI   string          `json:"source_uri"`
	Version     int64           `json:"version"`
	Target      string          `json:"target"`
	Files       int64           `json:"files"`
	Bytes       int64           `json:"bytes"`
	Rows        *int64          `json:"rows"` // null: not known before the files are opened
	DeletedRows int64           `json:"deleted_rows"`
	Chunks      int64           `json:"chunks"`
	PlanHash    string          `json:"plan_hash"`
	Columns     []PlanColumn    `json:"columns"`
	Partition   []string        `json:"partition_columns"`
	Ending      []string        `json:"columns_that_end"` // of the live table
	Covered     []Covered       `json:"covered"`
	Unproven    []string        `json:"unproven"` // RUN:INDEX
	Behind      []string        `json:"behind"`
	Refused     []PlanRefusal   `json:"refused"`
	Warnings    []string        `json:"warnings"`
	Fallback    string          `json:"register_fallback,omitempty"`
	EtaSeconds  *float64        `json:"eta_s"` // at the org's last rate; null: there was none
	SQL         []string        `json:"sql"`   // of the steps
}

// PlanColumn is a column of the table to be.
type PlanColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// PlanRefusal is why a plan would not be made.
type PlanRefusal struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
}

// Part of a whole; Of is null if it is not known.
type Part struct {
	Done int64  `json:"done"`
	Of   *int64 `json:"of"`
}

// PlanStatus is how a stream and its plan stand.
type PlanStatus struct {
	StreamID  sluice.StreamID  `json:"stream"`
	Name      string           `json:"name"`
	Org       sluice.Org       `json:"org"`
	Kind      sluice.RunKind   `json:"kind,omitempty"`
	Lifecycle sluice.Lifecycle `json:"lifecycle"`
	Reason    string           `json:"lifecycle_reason,omitempty"`
	PlanID    string           `json:"plan_id,omitempty"`
	RunID     sluice.RunID     `json:"run_id,omitempty"`
	State     PlanState        `json:"state,omitempty"`
	Stalled   bool             `json:"stalled,omitempty"` // it runs, and nothing has moved for long
	Failing   bool             `json:"failing,omitempty"`
	// Generation of the plan: a new one is made by each replan.
	Generation  int64       `json:"generation,omitempty"`
	Version     *int64      `json:"version"`
	Chunks      Part        `json:"chunks"`
	Bytes       Part        `json:"bytes"`
	Rows        Part        `json:"rows"`
	Rate        *float64    `json:"rate_bytes_s"`
	EtaSeconds  *float64    `json:"eta_s"`
	EtaAtLeast  bool        `json:"eta_at_least,omitempty"` // it waits for a slot first
	Waiting     int64       `json:"waiting_batches"`
	Covered     int64       `json:"covered"`
	Slot        bool        `json:"slot"`
	WantedSince *time.Time  `json:"wanted_since,omitempty"` // since when it waits for one
	Failures    int64       `json:"failures"`
	ErrorCode   sluice.Code `json:"error_code,omitempty"`
	LastError   *string     `json:"last_error"`
	DeferReason string      `json:"deferred,omitempty"`
	NotBefore   *time.Time  `json:"not_before,omitempty"`
	Fallback    string      `json:"register_fallback,omitempty"`
	EndReason   string      `json:"end_reason,omitempty"`
	Next        *string     `json:"next"` // the command to type next
	Steps       []PlanStep  `json:"steps,omitempty"`
	Targets     []Target    `json:"targets,omitempty"`
	UpdatedAt   *time.Time  `json:"last_progress_at,omitempty"`
}

// PlanStep is one step of a plan's run.
type PlanStep struct {
	BatchIndex int64            `json:"batch_index"`
	Op         sluice.Op        `json:"op"`
	LoadState  sluice.LoadState `json:"load_state"`
	Bytes      *int64           `json:"bytes,omitempty"`
	Rows       *int64           `json:"rows,omitempty"`
	Seconds    *float64         `json:"seconds,omitempty"`
	Attempt    int64            `json:"attempt"`
	ErrorCode  sluice.Code      `json:"error_code,omitempty"`
	ErrorText  string           `json:"error_text,omitempty"`
}

// VerifyReport is what a look at a live table has shown.
type VerifyReport struct {
	StreamID    sluice.StreamID `json:"stream_id"`
	Table       string          `json:"table"`
	Rows        int64           `json:"rows"`
	Expected    *int64          `json:"expected_rows"` // of the source at its version; null: not compared
	Version     *int64          `json:"version,omitempty"`
	Differences []string        `json:"differences"`
	OK          bool            `json:"ok"`
}
