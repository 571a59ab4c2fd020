package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// Store has the transactions of planning. Each moves a stream, its plan and its runs together, or nothing.
type Store struct {
	db      *statedb.DB
	queue   *queue.Store
	streams *stream.Store
}

// NewStore makes a Store.
func NewStore(db *statedb.DB, q *queue.Store, s *stream.Store) *Store { return &Store{db, q, s} }

// errPlanLost means that the planning lease ran out, or that the plan was replaced or ended: nothing of it may be written.
var errPlanLost = errors.New("the plan is not ours any more")

// deferral is why a plan has to wait without fault.
type deferral struct {
	reason string
	wait   time.Duration
}

func (d *deferral) Error() string { return d.reason }

// Reasons of deferrals.
const (
	deferReplace   = "replace_run"
	deferExecuting = "batch_executing"
	deferWaiting   = "upstream_waiting"
	deferEmpty     = "source_empty"
)

// within runs a transaction on a stream: its lease row first, its head at the end.
func (s *Store) within(ctx context.Context, id sluice.StreamID, fn func(tx *statedb.Tx) error) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if err := s.queue.Lock(ctx, tx, id); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		return s.queue.Changed(ctx, tx, id)
	})
}

// errDryRun rolls back what was only there to be looked at.
var errDryRun = errors.New("dry run")

// audited is within, with a row in the audit log.
func (s *Store) audited(ctx context.Context, id sluice.StreamID, action string, by control.By, dryRun bool, fn func(tx *statedb.Tx) (stream.Plan, error)) (stream.Plan, error) {
	var p stream.Plan
	err := s.within(ctx, id, func(tx *statedb.Tx) error {
		before, err := stream.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if p, err = fn(tx); err != nil {
			return err
		}
		if err := control.Audit(ctx, tx, by, control.Entry{
			Action: action, Org: before.Org, Object: "stream " + string(id), Before: map[string]any{"lifecycle": before.Lifecycle},
			After: map[string]any{"plan_id": p.PlanID, "kind": p.Kind, "state": p.State, "generation": p.Generation},
		}); err != nil {
			return err
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return p, err
}

// Start makes a plan for a stream, or lets a paused one go on.
func (s *Store) Start(ctx context.Context, id sluice.StreamID, n stream.NewPlan, by control.By, dryRun bool) (stream.Plan, error) {
	return s.audited(ctx, id, string(n.Kind)+".start", by, dryRun, func(tx *statedb.Tx) (stream.Plan, error) {
		old, active, err := stream.PlanOf(ctx, tx, id)
		if err != nil {
			return old, err
		}
		if active && old.State == stream.PlanPaused {
			if _, err := stream.UnpausePlan(ctx, tx, old.PlanID, n.Priority); err != nil {
				return old, err
			}
			p, _, err := stream.GetPlan(ctx, tx, old.PlanID)
			return p, err
		}
		p, err := stream.CreatePlan(ctx, tx, id, n)
		if err != nil {
			return p, err
		}
		return p, stream.ForgetLooks(ctx, tx, id)
	})
}

// Pause takes the slot of a stream's plan; a chunk that is being applied ends first.
func (s *Store) Pause(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.Plan, error) {
	return s.audited(ctx, id, "backfill.pause", by, dryRun, func(tx *statedb.Tx) (stream.Plan, error) {
		p, err := activePlan(ctx, tx, id, "pause")
		if err != nil {
			return p, err
		}
		ok, err := stream.PausePlan(ctx, tx, p.PlanID)
		if err != nil {
			return p, err
		}
		if !ok {
			return p, refused("pause the plan of stream "+string(id), fmt.Sprintf("it is %s", p.State), "see `sluice backfill status`")
		}
		if p.State == stream.PlanPlanning {
			err = s.endLeft(ctx, tx, id, p.RunID)
		} else if p.RunID != "" {
			err = s.queue.SetSlot(ctx, tx, id, p.RunID, false)
		}
		if err != nil {
			return p, err
		}
		p, _, err = stream.GetPlan(ctx, tx, p.PlanID)
		return p, err
	})
}

// endLeft ends a run that was being planned.
func (s *Store) endLeft(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, run sluice.RunID) error {
	if run == "" {
		return nil
	}
	err := s.queue.EndChunks(ctx, tx, id, run, sluice.ReasonCancelled)
	if sluice.CodeOf(err) == "SLUICE-LOAD-NO-RUN" { // the planner has not begun it
		err = nil
	}
	return err
}

// Cancel ends a stream's plan before its swap: the stream goes back to where it was, and nothing is missing.
func (s *Store) Cancel(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.Plan, error) {
	return s.audited(ctx, id, "backfill.cancel", by, dryRun, func(tx *statedb.Tx) (stream.Plan, error) {
		p, err := activePlan(ctx, tx, id, "cancel")
		if err != nil {
			return p, err
		}
		if err := s.endPlan(ctx, tx, p, stream.PlanCancelled, "cancelled by "+by.Who); err != nil {
			return p, err
		}
		if _, err := stream.ReturnLifecycle(ctx, tx, p); err != nil {
			return p, err
		}
		p, _, err = stream.GetPlan(ctx, tx, p.PlanID)
		return p, err
	})
}

// endPlan ends a plan with its run. A step that is being applied must end first: SLUICE-BACKFILL-BUSY.
func (s *Store) endPlan(ctx context.Context, tx *statedb.Tx, p stream.Plan, state stream.PlanState, reason string) error {
	if err := s.endRun(ctx, tx, p); err != nil {
		return err
	}
	ok, err := stream.EndPlan(ctx, tx, p.PlanID, state, reason)
	if err == nil && !ok {
		err = refused("end the plan of stream "+string(p.StreamID), "it has ended meanwhile", "see `sluice backfill status`")
	}
	return err
}

func (s *Store) endRun(ctx context.Context, tx *statedb.Tx, p stream.Plan) error {
	if p.RunID == "" {
		return nil
	}
	c, err := s.queue.ChunkCounts(ctx, tx, p.StreamID, p.RunID)
	if err != nil {
		return err
	}
	doing := "end run " + string(p.RunID)
	switch {
	case c.SwapDone:
		return refused(doing, "its swap is done", "see `sluice backfill status`")
	case c.Executing > 0:
		return busy(doing)
	}
	reason := sluice.ReasonReplanned
	if c.Steps == 0 {
		return nil
	}
	return s.queue.EndChunks(ctx, tx, p.StreamID, p.RunID, reason)
}

func busy(doing string) error {
	return sluice.E("SLUICE-BACKFILL-BUSY", doing, "a step of it is being applied", "try again in a moment", nil)
}

func refused(doing, what, hint string) error {
	return sluice.E("SLUICE-BACKFILL-STATE", doing, what, hint, nil)
}

func activePlan(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, what string) (stream.Plan, error) {
	p, active, err := stream.PlanOf(ctx, tx, id)
	if err == nil && !active {
		err = sluice.E("SLUICE-BACKFILL-NO-PLAN", fmt.Sprintf("%s the plan of stream %s", what, id), "it has no active plan", "`sluice backfill start` makes one", nil)
	}
	return p, err
}

// Replan makes a new plan in the place of a stream's active one: generation + 1, a new run with a new staging table.
func (s *Store) Replan(ctx context.Context, id sluice.StreamID, change func(*stream.NewPlan), by control.By, dryRun bool) (stream.Plan, error) {
	return s.audited(ctx, id, "backfill.replan", by, dryRun, func(tx *statedb.Tx) (stream.Plan, error) {
		p, err := activePlan(ctx, tx, id, "replan")
		if err != nil {
			return p, err
		}
		return s.replan(ctx, tx, p, change, "replanned by "+by.Who, false)
	})
}

func (s *Store) replan(ctx context.Context, tx *statedb.Tx, p stream.Plan, change func(*stream.NewPlan), reason string, byItself bool) (stream.Plan, error) {
	if err := s.endRun(ctx, tx, p); err != nil {
		return p, err
	}
	n := stream.NewPlan{
		Kind: p.Kind, SourceURI: p.SourceURI, AskedVersion: p.AskedVersion, CoveredAnswer: p.CoveredAnswer, FolderToken: p.FolderToken,
		Priority: p.Priority, Options: p.Options, Reason: reason,
	}
	if change != nil {
		change(&n)
	}
	return stream.ReplacePlan(ctx, tx, p, n, reason, byItself)
}

// ReplanGone makes a new plan because the pinned version can no longer be read. Too many in a day halt the plan instead.
func (s *Store) ReplanGone(ctx context.Context, p stream.Plan) (replanned bool, err error) {
	err = s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		now, active, err := stream.PlanOf(ctx, tx, p.StreamID)
		if err != nil || !active || now.PlanID != p.PlanID || now.State != stream.PlanRunning {
			return err
		}
		if now.ReplansToday() >= MaxReplans {
			return stream.HaltPlan(ctx, tx, p.StreamID, p.RunID, fmt.Sprintf("files of the planned version were removed %d times within a day: "+
				"the source keeps its old files for a shorter time than a load takes; lengthen its vacuum retention, then run `sluice backfill replan`", MaxReplans+1))
		}
		replanned = true
		_, err = s.replan(ctx, tx, now, func(n *stream.NewPlan) { n.AskedVersion = nil }, "a file of the planned version was removed", true)
		return err
	})
	return replanned, err
}

// Grant gives slots to waiting plans, and says how many.
func (s *Store) Grant(ctx context.Context, caps Caps) (granted int, err error) {
	var chosen []stream.SlotCandidate
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		used, waiting, err := stream.Slots(ctx, tx, 1000)
		if err != nil {
			return err
		}
		chosen, granted = Grant(caps, used, waiting), 0
		for _, c := range chosen {
			ok, err := stream.GrantSlot(ctx, tx, c.PlanID)
			if err != nil {
				return err
			}
			if ok {
				granted++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	// Runs follow in transactions of their own: lease rows come before plans in all of them. What is left undone by a crash
	// is done by the next pass.
	for _, c := range chosen {
		if c.RunID != "" {
			if err := s.slotOfRun(ctx, c.StreamID); err != nil {
				return granted, err
			}
		}
	}
	return granted, nil
}

// slotOfRun brings a run's slot in line with its plan's.
func (s *Store) slotOfRun(ctx context.Context, id sluice.StreamID) error {
	err := s.within(ctx, id, func(tx *statedb.Tx) error {
		p, active, err := stream.PlanOf(ctx, tx, id)
		if err != nil || !active || p.State != stream.PlanRunning || p.RunID == "" {
			return err
		}
		return s.queue.SetSlot(ctx, tx, id, p.RunID, p.SlotAt != nil)
	})
	if sluice.CodeOf(err) == "SLUICE-LOAD-NO-STREAM" { // deleted meanwhile
		err = nil
	}
	return err
}

// Take takes planning leases.
func (s *Store) Take(ctx context.Context, owner string, ttl time.Duration, limit int) (taken []stream.Plan, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		taken = nil
		ids, err := stream.TakePlans(ctx, tx, owner, ttl, limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			p, _, err := stream.GetPlan(ctx, tx, id)
			if err != nil {
				return err
			}
			taken = append(taken, p)
		}
		return nil
	})
	return taken, err
}

// Renew keeps a planning lease.
func (s *Store) Renew(ctx context.Context, p stream.Plan, ttl time.Duration) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		ok, err := stream.RenewPlan(ctx, tx, p.PlanID, p.Owner, ttl)
		if err == nil && !ok {
			err = errPlanLost
		}
		return err
	})
}

// Begin pins the plan and makes its run, of which nothing can be claimed yet.
func (s *Store) Begin(ctx context.Context, p stream.Plan) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		ok, err := stream.PinPlan(ctx, tx, p)
		if err != nil {
			return err
		}
		if !ok {
			return errPlanLost
		}
		_, err = s.queue.BeginChunks(ctx, tx, queue.ChunkRun{StreamID: p.StreamID, RunID: p.RunID, Kind: p.Kind})
		return err
	})
}

// Add stores a slice of the run's steps.
func (s *Store) Add(ctx context.Context, p stream.Plan, steps []queue.Chunk) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		held, err := stream.PlanHeld(ctx, tx, p.PlanID, p.Owner)
		if err != nil {
			return err
		}
		if !held {
			return errPlanLost
		}
		return s.queue.AddChunks(ctx, tx, p.StreamID, p.RunID, steps)
	})
}

// Seal is the last transaction of planning: the run is complete, the plan runs, the stream is backfilling. A replace run
// that has come meanwhile is a deferral.
func (s *Store) Seal(ctx context.Context, p stream.Plan, covered []stream.Covered, final int64) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		if err := s.mayPlan(ctx, tx, p.StreamID); err != nil {
			return err
		}
		if err := stream.AddCovered(ctx, tx, p.StreamID, p.PlanID, covered); err != nil {
			return err
		}
		if err := s.queue.SealChunks(ctx, tx, p.StreamID, p.RunID, final); err != nil {
			return err
		}
		if err := s.queue.SetSlot(ctx, tx, p.StreamID, p.RunID, true); err != nil {
			return err
		}
		ok, err := stream.StartPlan(ctx, tx, p, int64(len(covered)))
		if err == nil && !ok {
			err = errPlanLost
		}
		return err
	})
}

// mayPlan is nil unless the stream's queue says that planning has to wait.
func (s *Store) mayPlan(ctx context.Context, r statedb.Runner, id sluice.StreamID) error {
	run, inFlight, err := s.queue.ReplaceInFlight(ctx, r, id)
	if err != nil {
		return err
	}
	if inFlight {
		return fmt.Errorf("run %s replaces the table: %w", run, &deferral{deferReplace, time.Minute})
	}
	executing, err := s.queue.LiveExecuting(ctx, r, id)
	if err == nil && executing {
		err = &deferral{deferExecuting, 5 * time.Second}
	}
	return err
}

// GiveUp ends a try at planning: deferred, or failed with a rest. Its half-made run goes.
func (s *Store) GiveUp(ctx context.Context, p stream.Plan, cause error, spread float64) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		if err := s.endLeft(ctx, tx, p.StreamID, p.RunID); err != nil {
			return err
		}
		var d *deferral
		if errors.As(cause, &d) {
			_, err := stream.DeferPlan(ctx, tx, p.PlanID, p.Owner, d.wait, d.reason)
			return err
		}
		code := sluice.CodeOf(cause)
		if code == "" {
			code = "SLUICE-INTERNAL"
		}
		_, err := stream.FailPlan(ctx, tx, p.PlanID, p.Owner, Backoff(p.Failures+1, spread), code, cause.Error())
		return err
	})
}

// Purge ends plans of deleted streams and runs that nobody plans any more, and says how many.
func (s *Store) Purge(ctx context.Context) (n int64, err error) {
	if err := s.db.Tx(ctx, func(tx *statedb.Tx) (err error) {
		n, err = stream.PurgePlans(ctx, tx)
		return err
	}); err != nil {
		return n, err
	}
	left, err := s.queue.LeftRuns(ctx, 100)
	if err != nil {
		return n, err
	}
	for _, r := range left {
		err := s.within(ctx, r.StreamID, func(tx *statedb.Tx) error {
			// Looked at again under the stream's lock: its planner may have sealed it.
			if p, ok, err := stream.PlanOfRun(ctx, tx, r.StreamID, r.RunID); err != nil || ok && p.State != stream.PlanPlanning && p.State.Active() {
				return err
			}
			return s.endLeft(ctx, tx, r.StreamID, r.RunID)
		})
		if err != nil && sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
			return n, err
		}
		n++
	}
	return n, nil
}

// prime is the priming transaction for a swap that the lake has (auto-prime).
func (s *Store) prime(ctx context.Context, p stream.Plan) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		now, active, err := stream.PlanOf(ctx, tx, p.StreamID)
		if err != nil || !active || now.PlanID != p.PlanID {
			return err
		}
		return s.queue.Prime(ctx, tx, p.StreamID, p.RunID)
	})
}

// primed says that a stream has no history to load.
func (s *Store) primed(ctx context.Context, id sluice.StreamID, reason string) error {
	return s.within(ctx, id, func(tx *statedb.Tx) error {
		if _, err := stream.BootstrapPrimed(ctx, tx, id, reason); err != nil {
			return err
		}
		return stream.ForgetLooks(ctx, tx, id)
	})
}

// looked stores what was seen of a source.
func (s *Store) looked(ctx context.Context, id sluice.StreamID, empty bool, cause error, wait time.Duration) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		code, text := sluice.Code(""), ""
		if cause != nil {
			if code, text = sluice.CodeOf(cause), cause.Error(); code == "" {
				code = "SLUICE-INTERNAL"
			}
		}
		return stream.Looked(ctx, tx, id, empty, code, text, wait)
	})
}

// passEnded notes that a whole pass was made.
func (s *Store) passEnded(ctx context.Context, instance string) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error { return stream.PassEnded(ctx, tx, instance) })
}

// Pin is what a plan remembers of what it saw, for status and for a rebuild of lost steps.
type Pin struct {
	Partition   []string        `json:"partition,omitempty"`
	Ending      []string        `json:"ending,omitempty"` // columns of the live table that the history lacks
	Warnings    []string        `json:"warnings,omitempty"`
	DeletedRows int64           `json:"deleted_rows,omitempty"`
	Spec        json.RawMessage `json:"spec,omitempty"`
}

// restore stores steps of a running plan that were lost.
func (s *Store) restore(ctx context.Context, p stream.Plan, steps []queue.Chunk) error {
	return s.within(ctx, p.StreamID, func(tx *statedb.Tx) error {
		now, active, err := stream.PlanOf(ctx, tx, p.StreamID)
		if err != nil || !active || now.PlanID != p.PlanID || now.State != stream.PlanRunning {
			return err
		}
		return s.queue.RestoreChunks(ctx, tx, p.StreamID, p.RunID, steps)
	})
}
