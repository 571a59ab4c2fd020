package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// PlanState is the state of a plan (backfill.md §1).
type PlanState string

// The plan states. Done, stale, superseded and cancelled are terminal.
const (
	PlanWanted     PlanState = "wanted"     // waits for a slot, or to be planned
	PlanPlanning   PlanState = "planning"   // a planner process is at it, under a lease
	PlanRunning    PlanState = "running"    // its run is complete and being applied
	PlanPaused     PlanState = "paused"     // by an operator
	PlanHalted     PlanState = "halted"     // a chunk is quarantined
	PlanDone       PlanState = "done"       // swapped
	PlanStale      PlanState = "stale"      // a newer folder was announced
	PlanSuperseded PlanState = "superseded" // a full refresh took its place
	PlanCancelled  PlanState = "cancelled"
)

// Active reports whether a plan in this state still has something to do.
func (s PlanState) Active() bool {
	switch s {
	case PlanWanted, PlanPlanning, PlanRunning, PlanPaused, PlanHalted:
		return true
	case PlanDone, PlanStale, PlanSuperseded, PlanCancelled:
	}
	return false
}

// Plan is the intention to fill a stream's table from its history: at most one per stream is active.
type Plan struct {
	PlanID          string
	StreamID        sluice.StreamID
	Org             sluice.Org
	Kind            sluice.RunKind // backfill, copy or register
	Generation      int64          // of the stream when the plan was made: what every later write checks
	State           PlanState
	ReturnTo        sluice.Lifecycle // where a cancelled plan leaves the stream
	ExpectedTableID *int64           // of the live table when it was planned; nil: there was none
	SourceURI       string
	DeltaVersion    *int64
	DeltaTableID    string
	FolderToken     string
	RunID           sluice.RunID
	PlanHash        string
	ChunkCount      *int64 // chunks with data, without the steps before and after them
	Files, Bytes    *int64
	Rows            *int64 // nil: not known before they are read
	ChunksApplied   int64  // steps that are applied, of ChunkCount + 2
	BytesApplied    int64
	RowsApplied     int64
	LastProgressAt  *time.Time
	SlotAt          *time.Time
	Priority        int64
	Owner           string
	LeaseExpiresAt  *time.Time
	Failures        int64
	FirstFailedAt   *time.Time
	LastError       string
	ErrorCode       sluice.Code
	NotBefore       *time.Time
	Replans         int64 // by itself, since ReplanWindowAt
	ReplanWindowAt  *time.Time
	CreatedAt       time.Time
	EndedAt         *time.Time
	AskedVersion    *int64
	CoveredAnswer   string
	Options         PlanOptions
	Pin             json.RawMessage
	Covered         int64
	Deferrals       int64
	DeferReason     string
	Fallback        string
	Resumed         bool
	WantedAt        *time.Time
	EndReason       string
}

// PlanOptions are what the caller of a plan may choose.
type PlanOptions struct {
	KeepExtraColumns bool    `json:"keep_extra_columns,omitempty"` // columns that only the live table has stay, as NULL
	Checks           []Check `json:"checks,omitempty"`             // beside those that every plan has
	Mode             string  `json:"mode,omitempty"`               // insert or register; empty: by rule
	Strict           bool    `json:"strict,omitempty"`             // refuse where files cannot be registered as they are
	AllowEmpty       bool    `json:"allow_empty,omitempty"`        // a folder without files is meant so
	Manifest         string  `json:"manifest,omitempty"`           // names the files of the folder
}

// Check is a user's own check of the table that is about to go live: SQL with one number as its result.
type Check struct {
	Name      string  `json:"name" yaml:"name"`
	SQL       string  `json:"sql" yaml:"sql"` // {table} stands for the table
	Expected  float64 `json:"expected" yaml:"expected"`
	Tolerance float64 `json:"tolerance,omitempty" yaml:"tolerance"` // passes if |observed − expected| ≤ tolerance
}

// NewPlan is what a caller says about a plan.
type NewPlan struct {
	Kind          sluice.RunKind
	SourceURI     string
	AskedVersion  *int64 // nil: the newest
	CoveredAnswer string
	FolderToken   string
	Priority      int64
	Options       PlanOptions
	Reason        string // why the stream waits, for status
}

// ReplansToday is how often the plan was made anew by itself within a day.
func (p Plan) ReplansToday() int64 {
	if p.ReplanWindowAt == nil || p.CreatedAt.Sub(*p.ReplanWindowAt) >= replanWindow {
		return 0
	}
	return p.Replans
}

func planRefused(doing, what, hint string) error {
	return sluice.E("SLUICE-BACKFILL-STATE", doing, what, hint, nil)
}

// The functions of this file are steps of transactions. The caller holds the stream's lease row (Heads.Lock) and recomputes
// its head afterwards (Heads.Changed), where they take a stream. Those that return a bool tell whether their guard held.

func scanPlan(scan statedb.Scan) (Plan, error) {
	var p Plan
	var options, pin string
	err := scan(&p.PlanID, &p.StreamID, &p.Org, &p.Kind, &p.Generation, &p.State, &p.ReturnTo, &p.ExpectedTableID, statedb.Text(&p.SourceURI),
		&p.DeltaVersion, statedb.Text(&p.DeltaTableID), statedb.Text(&p.FolderToken), statedb.Text(&p.RunID), statedb.Text(&p.PlanHash), &p.ChunkCount,
		&p.Files, &p.Bytes, &p.Rows, &p.ChunksApplied, &p.BytesApplied, &p.RowsApplied, statedb.TimePtr(&p.LastProgressAt), statedb.TimePtr(&p.SlotAt),
		&p.Priority, statedb.Text(&p.Owner), statedb.TimePtr(&p.LeaseExpiresAt), &p.Failures, statedb.TimePtr(&p.FirstFailedAt), statedb.Text(&p.LastError),
		statedb.TimePtr(&p.NotBefore), &p.Replans, statedb.Time(&p.CreatedAt), statedb.TimePtr(&p.EndedAt), &p.AskedVersion, statedb.Text(&p.CoveredAnswer),
		statedb.Text(&options), statedb.Text(&pin), &p.Covered, statedb.Text(&p.ErrorCode), &p.Deferrals, statedb.Text(&p.DeferReason),
		statedb.Text(&p.Fallback), &p.Resumed, statedb.TimePtr(&p.WantedAt), statedb.Text(&p.EndReason), statedb.TimePtr(&p.ReplanWindowAt))
	if err != nil {
		return p, err
	}
	if pin != "" {
		p.Pin = json.RawMessage(pin)
	}
	if options != "" {
		err = json.Unmarshal([]byte(options), &p.Options)
	}
	return p, err
}

// PlanOf gives the active plan of a stream.
func PlanOf(ctx context.Context, r statedb.Runner, id sluice.StreamID) (Plan, bool, error) {
	return statedb.One(ctx, r, queries.Get("PlanOf"), statedb.Args{"stream_id": id}, scanPlan)
}

// LastPlan gives the newest plan of a stream, active or not.
func LastPlan(ctx context.Context, r statedb.Runner, id sluice.StreamID) (Plan, bool, error) {
	return statedb.One(ctx, r, queries.Get("PlanLast"), statedb.Args{"stream_id": id}, scanPlan)
}

// PlanOfRun gives the plan that a chunk run belongs to.
func PlanOfRun(ctx context.Context, r statedb.Runner, id sluice.StreamID, run sluice.RunID) (Plan, bool, error) {
	return statedb.One(ctx, r, queries.Get("PlanOfRun"), statedb.Args{"stream_id": id, "run_id": run}, scanPlan)
}

// GetPlan gives a plan by its id.
func GetPlan(ctx context.Context, r statedb.Runner, planID string) (Plan, bool, error) {
	return statedb.One(ctx, r, queries.Get("PlanGet"), statedb.Args{"plan_id": planID}, scanPlan)
}

// OpenPlans lists the active plans, oldest first; an empty org means all.
func OpenPlans(ctx context.Context, r statedb.Runner, org sluice.Org) ([]Plan, error) {
	return statedb.All(ctx, r, queries.Get("PlansOpen"), statedb.Args{"org": statedb.Null(org)}, scanPlan)
}

// CreatePlan makes a plan and moves its stream to pending_backfill: from now on live batches wait, readers do not. A plan of
// the stream that is active already is SLUICE-BACKFILL-STATE.
func CreatePlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, n NewPlan) (Plan, error) {
	doing := fmt.Sprintf("plan a %s of stream %s", n.Kind, id)
	before, err := Lock(ctx, tx, id)
	if err != nil {
		return Plan{}, err
	}
	if old, active, err := PlanOf(ctx, tx, id); err != nil || active {
		if active {
			err = planRefused(doing, fmt.Sprintf("a %s of it is %s", old.Kind, old.State), "see `sluice backfill status`; `sluice backfill replan` makes a new plan")
		}
		return Plan{}, err
	}
	returnTo := before.Lifecycle
	if returnTo == sluice.Backfilling {
		return Plan{}, planRefused(doing, "the stream is backfilling without an active plan", "this is a bug: please report it")
	}
	return insertPlan(ctx, tx, id, n, returnTo, replans{})
}

// ReplacePlan ends the stream's active plan and makes the next one in its place: generation + 1, and the stream is pending.
// byItself counts against the replans of a day.
func ReplacePlan(ctx context.Context, tx *statedb.Tx, old Plan, n NewPlan, reason string, byItself bool) (Plan, error) {
	ok, err := EndPlan(ctx, tx, old.PlanID, PlanCancelled, reason)
	if err != nil {
		return Plan{}, err
	}
	if !ok {
		return Plan{}, planRefused(fmt.Sprintf("plan stream %s anew", old.StreamID), "its plan has ended meanwhile", "see `sluice backfill status`")
	}
	return insertPlan(ctx, tx, old.StreamID, n, old.ReturnTo, replans{old.Replans, old.ReplanWindowAt, byItself})
}

// replans are those that the plan before has counted.
type replans struct {
	n      int64
	since  *time.Time
	oneNow bool
}

// replanWindow is the time in which replans by itself are counted.
const replanWindow = 24 * time.Hour

func insertPlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, n NewPlan, returnTo sluice.Lifecycle, r replans) (Plan, error) {
	options, err := json.Marshal(n.Options)
	if err != nil {
		return Plan{}, fmt.Errorf("encode the options of a plan: %w", err)
	}
	if _, err := step(ctx, tx, "PlanToStream", statedb.Args{"id": id}); err != nil {
		return Plan{}, err
	}
	planID := uuid.NewString()
	_, err = step(ctx, tx, "PlanInsert", statedb.Args{
		"plan_id": planID, "stream_id": id, "kind": n.Kind, "return_to": returnTo, "source_uri": statedb.Null(n.SourceURI),
		"folder_token": statedb.Null(n.FolderToken), "priority": n.Priority, "replans": r.n, "one_now": r.oneNow,
		"window": replanWindow, "asked_version": n.AskedVersion,
		"covered_answer": statedb.Null(n.CoveredAnswer), "options": string(options), "replan_window_at": r.since,
	})
	if err != nil {
		return Plan{}, err
	}
	reason := n.Reason
	if reason == "" {
		reason = fmt.Sprintf("waits for its %s", n.Kind)
	}
	if ok, err := step(ctx, tx, "LifecyclePending", statedb.Args{"id": id, "plan_id": planID, "reason": reason}); err != nil || !ok {
		return Plan{}, fmt.Errorf("move stream %s to pending_backfill (changed: %t): %w", id, ok, err)
	}
	p, _, err := GetPlan(ctx, tx, planID)
	return p, err
}

// EndPlan ends a plan that is active.
func EndPlan(ctx context.Context, tx *statedb.Tx, planID string, state PlanState, reason string) (bool, error) {
	return step(ctx, tx, "PlanEnded", statedb.Args{"plan_id": planID, "state": state, "reason": statedb.Null(reason)})
}

// ReturnLifecycle puts a stream whose plan has ended before its swap back to where it was: nothing was applied meanwhile, so
// nothing is missing.
func ReturnLifecycle(ctx context.Context, tx *statedb.Tx, p Plan) (bool, error) {
	return step(ctx, tx, "LifecycleReturn", statedb.Args{"id": p.StreamID, "plan_id": p.PlanID, "return_to": p.ReturnTo})
}

// TakePlans takes the planning leases of plans that have a slot and are due.
func TakePlans(ctx context.Context, tx *statedb.Tx, owner string, ttl time.Duration, limit int) ([]string, error) {
	return statedb.All(ctx, tx, queries.Get("PlanTake"), statedb.Args{"owner": owner, "ttl": ttl, "limit": limit}, statedb.Value[string])
}

// RenewPlan keeps a planning lease.
func RenewPlan(ctx context.Context, tx *statedb.Tx, planID, owner string, ttl time.Duration) (bool, error) {
	return step(ctx, tx, "PlanRenew", statedb.Args{"plan_id": planID, "owner": owner, "ttl": ttl})
}

// PlanHeld tells whether a planning lease is still the owner's.
func PlanHeld(ctx context.Context, r statedb.Runner, planID, owner string) (bool, error) {
	_, held, err := statedb.One(ctx, r, queries.Get("PlanHeld"), statedb.Args{"plan_id": planID, "owner": owner}, statedb.Value[int64])
	return held, err
}

// PinPlan stores what a plan is about to load, under its planning lease.
func PinPlan(ctx context.Context, tx *statedb.Tx, p Plan) (bool, error) {
	return step(ctx, tx, "PlanPin", statedb.Args{
		"plan_id": p.PlanID, "owner": p.Owner, "run_id": p.RunID, "source_uri": statedb.Null(p.SourceURI), "delta_version": p.DeltaVersion,
		"delta_table_id": statedb.Null(p.DeltaTableID), "expected_table_id": p.ExpectedTableID, "plan_hash": p.PlanHash,
		"chunk_count": p.ChunkCount, "files": p.Files, "bytes": p.Bytes, "rows": p.Rows, "pin": p.Pin, "fallback": statedb.Null(p.Fallback),
	})
}

// StartPlan ends planning: planning → running and pending_backfill → backfilling, if planning lease, slot and generation are
// still the owner's. The run is sealed in the same transaction.
func StartPlan(ctx context.Context, tx *statedb.Tx, p Plan, covered int64) (bool, error) {
	ok, err := step(ctx, tx, "PlanRunning", statedb.Args{"plan_id": p.PlanID, "owner": p.Owner, "covered": covered})
	if err != nil || !ok {
		return false, err
	}
	return step(ctx, tx, "LifecycleBackfilling", statedb.Args{"id": p.StreamID, "plan_id": p.PlanID, "generation": p.Generation})
}

// DeferPlan gives slot and lease back for a cause that is nobody's fault; failures stay as they are.
func DeferPlan(ctx context.Context, tx *statedb.Tx, planID, owner string, wait time.Duration, reason string) (bool, error) {
	return step(ctx, tx, "PlanDeferred", statedb.Args{"plan_id": planID, "owner": owner, "wait": wait, "reason": reason})
}

// FailPlan notes that planning came to nothing; it is tried again after wait. Planning never gives up.
func FailPlan(ctx context.Context, tx *statedb.Tx, planID, owner string, wait time.Duration, code sluice.Code, text string) (bool, error) {
	return step(ctx, tx, "PlanFailed", statedb.Args{"plan_id": planID, "owner": owner, "wait": wait, "code": code, "text": clip(text)})
}

func clip(text string) string {
	if r := []rune(text); len(r) > 1990 {
		return string(r[:1990]) + "…"
	}
	return text
}

// PausePlan takes a plan's slot until UnpausePlan; a chunk that is being applied ends first.
func PausePlan(ctx context.Context, tx *statedb.Tx, planID string) (bool, error) {
	return step(ctx, tx, "PlanPaused", statedb.Args{"plan_id": planID})
}

// UnpausePlan lets a paused plan wait for a slot again, before new ones.
func UnpausePlan(ctx context.Context, tx *statedb.Tx, planID string, priority int64) (bool, error) {
	return step(ctx, tx, "PlanUnpaused", statedb.Args{"plan_id": planID, "priority": priority})
}

// PurgePlans ends plans of deleted streams.
func PurgePlans(ctx context.Context, tx *statedb.Tx) (int64, error) {
	return statedb.Exec(ctx, tx, queries.Get("PlanPurge"), statedb.Args{})
}

// BootstrapPrimed says that a stream has no history to load.
func BootstrapPrimed(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, reason string) (bool, error) {
	return step(ctx, tx, "BootstrapPrimed", statedb.Args{"id": id, "reason": statedb.Null(reason)})
}

// Unexamined lists streams that no planner pass has looked at.
func (s *Store) Unexamined(ctx context.Context, after sluice.StreamID, limit int) ([]sluice.Stream, error) {
	if after == "" {
		after = sluice.StreamID(uuid.Nil.String())
	}
	return statedb.All(ctx, s.db, queries.Get("StreamsUnexamined"), statedb.Args{"after": after, "limit": limit}, scanStream)
}

// ToResync lists parked streams that are to be rebuilt by themselves.
func (s *Store) ToResync(ctx context.Context, after time.Duration, limit int) ([]sluice.Stream, error) {
	return statedb.All(ctx, s.db, queries.Get("StreamsToResync"), statedb.Args{"after": after, "limit": limit}, scanStream)
}
