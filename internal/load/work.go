package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

const (
	// recordTimeout bounds writes to the state DB that record finished work; they are not cancelled with the work.
	recordTimeout = 30 * time.Second
	// resolveTimeout is how long an unknown outcome is looked into before the stream is left standing (spec/lake.md §5).
	resolveTimeout = 5 * time.Minute
	// A stream is offered back after this much work, so that others get their turn (spec/loader.md §4).
	turnBatches = 50
	turnTime    = time.Minute
)

var errLate = errors.New("it took too long")

// worker does what Step says, for one stream under one lease.
type worker struct {
	loader  *Loader
	hold    *hold
	lease   sluice.Lease
	log     *slog.Logger
	session Session
	opened  time.Time   // of the session
	fence   *lake.Fence // where the session left it; nil: not known
	stream  sluice.Stream
	batch   sluice.Batch
	begun   time.Time            // of the batch
	looked  map[string]lake.File // files of batches to come, as they were a moment ago
	turn    time.Time
	applied int
}

func (w *worker) run(ctx context.Context) Stop {
	s, err := w.loader.deps.Streams.Get(ctx, w.lease.StreamID)
	if err != nil {
		return Stop{Why: err, Rest: true}
	}
	w.stream, w.turn = s, w.loader.clock.Now()
	state, event := Begin(w.loader.cfg.Limits, s), Event(Claimed{Warm: w.session != nil, Fence: w.fence})
	for {
		var action Action
		state, action = Step(state, event)
		if stop, ok := action.(Stop); ok {
			return stop
		}
		w.log.Debug("step", "action", fmt.Sprintf("%T", action), "batch_id", w.batch.BatchID)
		event = w.do(ctx, action)
	}
}

func (w *worker) close(reason string) {
	if w.session == nil {
		return
	}
	_ = w.session.Close()
	w.session = nil
	w.loader.mu.Lock()
	defer w.loader.mu.Unlock()
	w.loader.status.closed(reason)
}

// do carries one action out and says what came of it.
func (w *worker) do(ctx context.Context, a Action) Event {
	switch a := a.(type) {
	case FetchNext:
		return w.fetchNext(ctx)
	case Open:
		if err := w.loader.clock.Pause(ctx, w.loader.clock.Spread(a.Wait)); err != nil {
			return Lost{err}
		}
		return w.open(ctx)
	case Bind:
		return w.bind(ctx)
	case ReadControl:
		return w.readControl(ctx, a)
	case Start:
		attempt, err := w.loader.deps.Queue.Start(ctx, w.lease, a.BatchID)
		if err != nil {
			return Lost{err}
		}
		return Started{attempt}
	case Describe:
		return w.describe(ctx, a)
	case Look:
		return w.look(ctx, a)
	case Prepare:
		return w.prepare(ctx, a)
	case Mend:
		return orFailed(w.session.Mend(ctx, a.Staging, a.Is, a.Like), lake.PhaseDescribe, Mended{})
	case DescribeKeys:
		keys, err := w.session.DescribeKeys(ctx, a.Path, a.Ask)
		return orFailed(err, lake.PhaseDescribe, KeysDescribed{keys})
	case FindMisfit:
		value, _, err := w.session.FirstMisfit(ctx, a.Path, a.Misfit.Column, a.Misfit.To)
		if err != nil {
			w.log.Debug("no value found for the message of a type conflict", "err", err)
		}
		return MisfitFound{value}
	case CreateSchema:
		return orFailed(w.session.CreateSchema(ctx, a.Schema), lake.PhaseDescribe, SchemaCreated{})
	case Apply:
		return w.apply(ctx, a)
	case Resolve:
		return w.resolve(ctx, a)
	case Verify:
		missing, err := w.session.MissingFiles(ctx, w.lease.StreamID, a.Marker.BatchID, a.Marker.Seq)
		v := Verified{Missing: missing}
		if err == nil && a.Swap.Name != "" {
			v.Snapshot, err = w.session.Since(ctx, a.Swap)
		}
		return orFailed(err, lake.PhaseResolve, v)
	case Repair:
		w.log.Warn("data files of a committed batch are gone; the table is taken back and the batch applied again",
			"batch_id", a.Marker.BatchID, "table", a.Table.String())
		control, err := w.session.Repair(ctx, w.lease.StreamID, a.Table, a.Marker)
		return orFailed(err, lake.PhaseResolve, Repaired{control})
	case RecordSuccess:
		return w.recordSuccess(ctx, a)
	case RecordRetry:
		a.Failure.Wait = w.loader.clock.Spread(a.Failure.Wait)
		return w.recordFailure(ctx, "batch came to nothing; it is tried again", a.Failure, w.loader.deps.Queue.Retry)
	case RecordDefer:
		a.Failure.Wait = w.loader.clock.Spread(a.Failure.Wait)
		return w.recordFailure(ctx, "batch could not be begun; it waits", a.Failure,
			func(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
				return sluice.RetryWait, w.loader.deps.Queue.Defer(ctx, l, f)
			})
	case RecordQuarantine:
		return w.recordFailure(ctx, "batch quarantined", a.Failure, w.loader.deps.Queue.Quarantine)
	}
	return Lost{fmt.Errorf("work on stream %s: unknown action %T", w.lease.StreamID, a)}
}

func orFailed(err error, phase lake.Phase, ok Event) Event {
	if err != nil {
		return Failed{lake.AsFailure(err, phase, "")}
	}
	return ok
}

func (w *worker) fetchNext(ctx context.Context) Event {
	l := w.loader
	now := l.clock.Now()
	l.mu.Lock()
	draining, busy, renewed := l.draining, l.inFlight(now), w.hold.renewed
	l.mu.Unlock()
	if draining {
		return Idle{}
	}
	if w.applied >= turnBatches || w.applied > 0 && now.Sub(w.turn) >= turnTime {
		contended, err := l.deps.Queue.Contended(ctx, busy)
		if err != nil {
			return Lost{err}
		}
		if contended {
			return Idle{Offer: true}
		}
		w.applied, w.turn = 0, now
	}
	if now.Sub(renewed) >= l.cfg.LeaseTTL/2 {
		l.renewNow(ctx, w.hold)
	}
	if ctx.Err() != nil {
		return Lost{context.Cause(ctx)}
	}
	work, err := l.deps.Queue.Next(ctx, w.lease)
	switch {
	case errors.Is(err, queue.ErrNoWork):
		return Idle{}
	case err != nil:
		return Lost{err}
	}
	w.batch, w.begun = work.Batch, now
	next := Next{Work: work}
	if w.session != nil && l.stale(warm{session: w.session, opened: w.opened}, now) {
		w.close(closedAge)
		next.Cold = true
	}
	return next
}

func (w *worker) open(ctx context.Context) Event {
	w.close(closedError)
	s, err := w.loader.deps.Sessions.Open(ctx, w.lease.Org)
	if err != nil {
		return Failed{lake.AsFailure(err, lake.PhaseConnect, "open a session")}
	}
	w.session, w.opened = s, w.loader.clock.Now()
	return Opened{}
}

// bind gives the stream its table's name at its first batch. A table that is there already and belongs to no stream is
// found by asking the lake.
func (w *worker) bind(ctx context.Context) Event {
	var lakeErr error
	_, err := w.loader.deps.Streams.Bind(ctx, w.lease.StreamID, stream.BindOptions{
		Exists: func(ctx context.Context, schema, table string) (bool, error) {
			ok, err := w.session.TableExists(ctx, lake.Table{Schema: schema, Name: table})
			lakeErr = err
			return ok, err
		},
	}, stream.By{Who: "loader"})
	switch {
	case lakeErr != nil:
		return Failed{lake.AsFailure(lakeErr, lake.PhaseDescribe, "look for the stream's table")}
	case sluice.CodeOf(err) == "SLUICE-NAME-AMBIGUOUS":
		var e *sluice.Error
		errors.As(err, &e)
		return Failed{lake.Fail(lake.PhasePlan, lake.Permanent, e)}
	case err != nil:
		return Lost{err}
	}
	if w.stream, err = w.loader.deps.Streams.Get(ctx, w.lease.StreamID); err != nil {
		return Lost{err}
	}
	return Bound{w.stream}
}

func (w *worker) readControl(ctx context.Context, a ReadControl) Event {
	id := a.BatchID
	c, err := w.session.ReadControl(ctx, w.lease.StreamID, id)
	if errors.Is(err, lake.ErrNoControl) {
		if err = w.session.EnsureControl(ctx, w.lease.StreamID); err == nil {
			c, err = w.session.ReadControl(ctx, w.lease.StreamID, id)
		}
	}
	e := ControlRead{Control: c}
	if err == nil && a.Previous != "" { // markers of a run stay: the two need not be of one snapshot
		c, err = w.session.ReadControl(ctx, w.lease.StreamID, a.Previous)
		e.Previous = c.Marker
	}
	return orFailed(err, lake.PhaseControl, e)
}

func (w *worker) describe(ctx context.Context, a Describe) Event {
	var d Described
	var err error
	if a.Path != "" {
		if d.File, err = w.lookAt(ctx, a.Path); err != nil {
			return Failed{lake.AsFailure(err, lake.PhaseDescribe, "describe the file")}
		}
	}
	d.Target, err = w.session.DescribeTarget(ctx, a.Target)
	return orFailed(err, lake.PhaseDescribe, d)
}

// lookAhead is how many files are looked at together.
const lookAhead = 8

// lookAt describes a batch's file. With a backlog it looks at the files of the batches that follow as well, in one statement.
// A batch that was tried before, or whose loader died, is looked at alone: whatever is wrong is then its own.
func (w *worker) lookAt(ctx context.Context, path string) (lake.File, error) {
	alone := w.batch.Attempt > 1 || w.batch.ErrorCode != ""
	if f, ok := w.looked[path]; ok && !alone {
		delete(w.looked, path)
		return f, nil
	}
	w.looked = nil
	paths := []string{path}
	if w.applied > 0 && !alone {
		next, err := w.loader.deps.Queue.Upcoming(ctx, w.lease, lookAhead)
		if err != nil {
			w.log.Debug("no look ahead", "err", err)
		}
		for _, p := range next {
			if !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	files, err := w.session.DescribeFiles(ctx, paths)
	if err != nil && len(paths) > 1 { // one of them, maybe not this one
		files, err = w.session.DescribeFiles(ctx, paths[:1])
	}
	if err != nil {
		return lake.File{}, err
	}
	f := files[path]
	delete(files, path)
	w.looked = files
	return f, nil
}

func (w *worker) apply(ctx context.Context, a Apply) Event {
	timeout := w.loader.cfg.BatchTimeout
	if a.Write.Change.Staged != nil {
		timeout = w.loader.cfg.ChunkTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	applied, err := w.session.Apply(ctx, a.Write)
	return orFailed(err, lake.PhaseData, Applied{applied})
}

// resolve reads back what became of a COMMIT without an answer, on a session of its own, for at most resolveTimeout.
func (w *worker) resolve(ctx context.Context, a Resolve) Event {
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout, errLate)
	defer cancel()
	begun := w.loader.clock.Now()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		ev := w.open(ctx)
		if _, ok := ev.(Opened); ok {
			outcome, control, err := w.session.Resolve(ctx, a.Write)
			var f *lake.Failure
			if err == nil {
				w.log.Info("unknown outcome resolved", "batch_id", w.batch.BatchID, "outcome", outcome)
				return Resolved{outcome, control}
			}
			if f = lake.AsFailure(err, lake.PhaseResolve, "read back"); f.Class == lake.NotOurs || f.Class == lake.Permanent {
				return Failed{f}
			}
		}
		err := w.loader.clock.Pause(ctx, wait)
		if w.loader.clock.Now().Sub(begun) >= resolveTimeout {
			err = errLate
		}
		if err != nil {
			return Failed{lake.Fail(lake.PhaseResolve, lake.Deferred, sluice.E("SLUICE-LAKE-UNRESOLVED", doing(w.batch),
				"the lake did not say in time whether the last commit is stored", "it is looked into again by itself; see `sluice doctor`", err))}
		}
	}
}

func (w *worker) recordSuccess(ctx context.Context, a RecordSuccess) Event {
	goOn := a.GoOn && w.mayGoOn(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var next *queue.Work
	var err error
	if goOn {
		next, err = w.loader.deps.Queue.Advance(ctx, w.lease, a.Applied)
	} else {
		err = w.loader.deps.Queue.Succeed(ctx, w.lease, a.Applied)
	}
	if err != nil {
		return Lost{err} // the lake has it: the next owner finds the marker
	}
	now := w.loader.clock.Now()
	w.applied++
	w.log.Info("batch applied", "run_id", w.batch.RunID, "batch_id", a.Applied.BatchID, "batch_index", w.batch.BatchIndex, "op", a.Applied.Op,
		"rows", a.Applied.RowsWritten, "origin", a.Applied.Origin, "reason", a.Applied.Reason, "duration_ms", now.Sub(w.begun).Milliseconds())
	w.loader.count(1, 0)
	if next != nil {
		w.batch, w.begun = next.Batch, now
	}
	return Recorded{next}
}

// mayGoOn reports whether the next batch may be begun without looking around first: at the end of a turn, of the session, of
// the loader or near that of the lease, it may not.
func (w *worker) mayGoOn(ctx context.Context) bool {
	l := w.loader
	now := l.clock.Now()
	l.mu.Lock()
	draining, renewed := l.draining, w.hold.renewed
	l.mu.Unlock()
	return !draining && ctx.Err() == nil && w.applied+1 < turnBatches && now.Sub(w.turn) < turnTime && now.Sub(renewed) < l.cfg.LeaseTTL/2 &&
		!l.stale(warm{session: w.session, opened: w.opened}, now)
}

func (w *worker) recordFailure(ctx context.Context, msg string, f queue.Failure,
	record func(context.Context, sluice.Lease, queue.Failure) (sluice.LoadState, error),
) Event {
	if errors.Is(context.Cause(ctx), queue.ErrLeaseLost) {
		return Lost{queue.ErrLeaseLost} // a writer that has lost its lease writes neither success nor error
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	state, err := record(ctx, w.lease, f)
	if err != nil {
		return Lost{err}
	}
	w.log.Warn(msg, "run_id", w.batch.RunID, "batch_id", f.BatchID, "batch_index", w.batch.BatchIndex, "code", f.Code,
		"what", f.Text, "wait", f.Wait, "load_state", state)
	w.loader.count(0, 1)
	return Recorded{}
}

func (l *Loader) count(batches, failures int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Batches += batches
	l.status.Failures += failures
}
