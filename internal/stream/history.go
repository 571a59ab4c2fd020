package stream

import (
	"context"
	"encoding/json"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Covered is a batch that a pinned version of the source holds already.
type Covered struct {
	RunID        sluice.RunID `json:"run_id"`
	BatchIndex   int64        `json:"batch_index"`
	DeltaVersion *int64       `json:"delta_version,omitempty"`
	Proof        string       `json:"proof"` // commit, order or operator
}

// How it is known that a version holds a batch.
const (
	ProofCommit   = "commit"   // a commit names it
	ProofOrder    = "order"    // its commit was visible before the version was read
	ProofOperator = "operator" // an operator says so
)

// AddCovered stores what a plan's version holds; batches that come later are recognised by it.
func AddCovered(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, planID string, rows []Covered) error {
	if len(rows) == 0 {
		return nil
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = step(ctx, tx, "PlanCovered", statedb.Args{"stream_id": id, "plan_id": planID, "rows": string(data)})
	return err
}

// CoveredBatch is a covered batch as the swap marks it. BatchID and RunSeq are empty for one that has not arrived.
type CoveredBatch struct {
	RunID      sluice.RunID
	BatchIndex int64
	BatchID    sluice.BatchID
	RunSeq     *int64
}

// CoveredBy lists the batches that the plan of a chunk run covers.
func CoveredBy(ctx context.Context, r statedb.Runner, id sluice.StreamID, run sluice.RunID) ([]CoveredBatch, error) {
	return statedb.All(ctx, r, queries.Get("CoveredOf"), statedb.Args{"stream_id": id, "run_id": run},
		func(scan statedb.Scan) (c CoveredBatch, err error) {
			return c, scan(&c.RunID, &c.BatchIndex, statedb.Text(&c.BatchID), &c.RunSeq)
		})
}

// RemoveCovered removes what was covered longer ago than age.
func RemoveCovered(ctx context.Context, tx *statedb.Tx, age time.Duration) (int64, error) {
	return statedb.Exec(ctx, tx, queries.Get("CoveredRemoveOld"), statedb.Args{"age": age})
}

// Target is a lake table that has been a stream's target. A new one means that change feeds start anew.
type Target struct {
	LakeTableID  int64          `json:"lake_table_id"`
	FromSnapshot int64          `json:"from_snapshot"`
	ToSnapshot   *int64         `json:"to_snapshot,omitempty"`
	Reason       string         `json:"reason"` // created, swap, replace or rewrite
	BatchID      sluice.BatchID `json:"batch_id,omitempty"`
	CreatedAt    time.Time      `json:"created_at"`
}

// TargetChanged notes that a stream's rows are in another lake table from a snapshot on.
func TargetChanged(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, t Target) error {
	if _, err := step(ctx, tx, "TargetClose", statedb.Args{"stream_id": id, "snapshot": t.FromSnapshot, "lake_table_id": t.LakeTableID}); err != nil {
		return err
	}
	_, err := step(ctx, tx, "TargetInsert", statedb.Args{
		"stream_id": id, "lake_table_id": t.LakeTableID, "snapshot": t.FromSnapshot, "reason": t.Reason, "batch_id": statedb.Null(t.BatchID),
	})
	return err
}

// Targets lists the lake tables that have been a stream's target, oldest first.
func (s *Store) Targets(ctx context.Context, id sluice.StreamID) ([]Target, error) {
	return statedb.All(ctx, s.db, queries.Get("TargetList"), statedb.Args{"stream_id": id}, func(scan statedb.Scan) (t Target, err error) {
		return t, scan(&t.LakeTableID, &t.FromSnapshot, &t.ToSnapshot, &t.Reason, statedb.Text(&t.BatchID), statedb.Time(&t.CreatedAt))
	})
}
