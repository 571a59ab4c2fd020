package load

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Limits are the numbers of spec/loader.md §8. The zero value takes the defaults.
type Limits struct {
	MaxAttempts int           // counted tries of a batch; 5
	RetryBase   time.Duration // wait before the second counted try, doubled after each; 5 s
	RetryCap    time.Duration // 5 min
	DeferBase   time.Duration // wait after the first uncounted try, doubled after each; 2 s
	DeferCap    time.Duration // 60 s
	SecondLook  time.Duration // before a missing file is looked for again; 10 s
	MaxRedo     int           // redos of a conflicting transaction in place; 5
}

// WithDefaults fills what is not set.
func (l Limits) WithDefaults() Limits {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if l.MaxAttempts == 0 {
		l.MaxAttempts = 5
	}
	if l.MaxRedo == 0 {
		l.MaxRedo = 5
	}
	def(&l.RetryBase, 5*time.Second)
	def(&l.RetryCap, 5*time.Minute)
	def(&l.DeferBase, 2*time.Second)
	def(&l.DeferCap, time.Minute)
	def(&l.SecondLook, 10*time.Second)
	return l
}

// State is where the work on a stream stands. It is made by Begin and changed only by Step.
type State struct {
	limits  Limits
	stream  sluice.Stream
	work    queue.Work
	begun   bool // the batch is executing under our lease
	attempt int
	opened  bool // a session is open
	read    bool // the control table was read for this batch
	current bool // control is known from our own last COMMIT in this session
	control lake.Control
	facts   Facts
	choice  Choice
	write   lake.Write
	redo    int  // redos of the transaction in place
	reread  bool // the file was looked at a second time
	failed  *lake.Failure
	chunk   chunk // of a chunk run
}

// Begin is the state of a stream that has just been claimed.
func Begin(limits Limits, s sluice.Stream) State {
	return State{limits: limits.WithDefaults(), stream: s}
}

// Event is what an action came to.
type Event interface{ event() }

// The events.
type (
	// Claimed starts the machine.
	Claimed struct {
		Warm  bool        // a session is open from before
		Fence *lake.Fence // where it has left the fence; nil: not known
	}
	// Next: the head of the stream.
	Next struct {
		Work queue.Work
		Cold bool // the session was at its end and is closed
	}
	// Idle: nothing that may be applied now, or nothing by us.
	Idle struct{ Offer bool } // other streams wait, and this one has had its turn
	// Lost: the lease, or the batch's state, is not ours any more; or the state DB does not answer.
	Lost struct{ Why error }
	// Opened: a session is open.
	Opened struct{}
	// Bound: the stream has its table's name.
	Bound struct{ Stream sluice.Stream }
	// SchemaCreated: the target's schema exists.
	SchemaCreated struct{}
	// ControlRead: fence, and the batch's marker if it has one.
	ControlRead struct {
		Control  lake.Control
		Previous *lake.Marker // of the step before, where it was asked for
	}
	// Started: the batch is executing, with its attempt counted.
	Started struct{ Attempt int }
	// Described: the file (zero for a step without one) and the target.
	Described struct {
		File   lake.File
		Target lake.Target
	}
	// KeysDescribed: what the file's key columns hold.
	KeysDescribed struct{ Keys lake.KeyFacts }
	// MisfitFound: a value for the message of a type conflict; empty if there is none.
	MisfitFound struct{ Value string }
	// Applied: the transaction is committed.
	Applied struct{ Applied lake.Applied }
	// Resolved: what reading back has shown.
	Resolved struct {
		Outcome sluice.Outcome
		Control lake.Control
	}
	// Verified: which data files of a committed batch are missing.
	Verified struct {
		Missing  []string
		Snapshot int64 // since which the stream's table is there; 0: not asked
	}
	// Repaired: the table is as it was before the batch.
	Repaired struct{ Control lake.Control }
	// Recorded: the state DB has the outcome. Next is the batch that was begun in the same breath, its attempt counted.
	Recorded struct{ Next *queue.Work }
	// Failed: an action of the lake or the warehouse came to nothing.
	Failed struct{ Failure *lake.Failure }
)

func (Claimed) event()       {}
func (Next) event()          {}
func (Idle) event()          {}
func (Lost) event()          {}
func (Opened) event()        {}
func (Bound) event()         {}
func (SchemaCreated) event() {}
func (ControlRead) event()   {}
func (Started) event()       {}
func (Described) event()     {}
func (KeysDescribed) event() {}
func (MisfitFound) event()   {}
func (Applied) event()       {}
func (Resolved) event()      {}
func (Verified) event()      {}
func (Repaired) event()      {}
func (Recorded) event()      {}
func (Failed) event()        {}

// Action is what is to be done next. Each has exactly one event as its answer, but for Stop, which ends the work.
type Action interface{ action() }

// The actions.
type (
	// FetchNext asks the queue for the head of the stream.
	FetchNext struct{}
	// Open opens a new session after a wait; a session that was open is closed first.
	Open struct{ Wait time.Duration }
	// Bind gives the stream its table's name, once and for ever.
	Bind struct{}
	// CreateSchema makes the target's schema, in a transaction of its own.
	CreateSchema struct{ Schema string }
	// ReadControl reads fence and marker; a stream without a control table gets one.
	ReadControl struct {
		BatchID  sluice.BatchID
		Previous sluice.BatchID // of a chunk run: the step before; empty: not asked
	}
	// Start marks the batch executing and counts the attempt, before anything is applied.
	Start struct{ BatchID sluice.BatchID }
	// Describe looks at the file and the target.
	Describe struct {
		Path   string
		Target lake.Table
	}
	// DescribeKeys counts NULL and duplicate keys, and change rows that cannot be applied.
	DescribeKeys struct {
		Path string
		Ask  lake.KeyQuery
	}
	// FindMisfit looks for a value that does not fit.
	FindMisfit struct {
		Path   string
		Misfit Misfit
	}
	// Apply runs the one lake transaction of a batch.
	Apply struct{ Write lake.Write }
	// Resolve reads back, on a session of its own, what became of a COMMIT without an answer.
	Resolve struct{ Write lake.Write }
	// Verify looks whether the data files of a committed batch are there.
	Verify struct {
		Marker lake.Marker
		Swap   lake.Table // the table that was swapped in; zero: it was no swap
	}
	// Repair undoes a committed batch whose data files are gone.
	Repair struct {
		Table  lake.Table
		Marker lake.Marker
	}
	// RecordSuccess stores that the batch is applied. With GoOn the next batch may be begun in the same breath: where the
	// fence stands is known.
	RecordSuccess struct {
		Applied queue.Applied
		GoOn    bool
	}
	// RecordRetry stores a failure after which the batch is tried again.
	RecordRetry struct{ Failure queue.Failure }
	// RecordDefer stores that a batch could not be begun, for a cause outside of it.
	RecordDefer struct{ Failure queue.Failure }
	// RecordQuarantine stores a failure that a person has to mend.
	RecordQuarantine struct{ Failure queue.Failure }
	// Stop ends the work. The session is closed and the lease given back (giving back a lost lease does nothing); without
	// Why and Rest both may linger, in case that new work comes.
	Stop struct {
		Why  error // nil: nothing left to do
		Rest bool  // nothing was recorded, or others wait: leave the stream alone for a moment before it is claimed again
		// Fence is where the open session has left it, for the next claim of a stream that lingers; nil: not known.
		Fence *lake.Fence
	}
)

func (FetchNext) action()        {}
func (Open) action()             {}
func (Bind) action()             {}
func (CreateSchema) action()     {}
func (ReadControl) action()      {}
func (Start) action()            {}
func (Describe) action()         {}
func (DescribeKeys) action()     {}
func (FindMisfit) action()       {}
func (Apply) action()            {}
func (Resolve) action()          {}
func (Verify) action()           {}
func (Repair) action()           {}
func (RecordSuccess) action()    {}
func (RecordRetry) action()      {}
func (RecordDefer) action()      {}
func (RecordQuarantine) action() {}
func (Stop) action()             {}

// Step decides what follows from an event. It is the whole order of working on a stream (spec/loader.md §6): fetch the
// head, read the lake before deciding anything, count the attempt before applying, apply in one fenced transaction,
// resolve what is unknown by reading, record, and go on to the next batch.
func Step(s State, e Event) (State, Action) {
	switch e := e.(type) {
	case Claimed:
		s.opened = e.Warm
		if e.Fence != nil {
			s.control, s.current = lake.Control{Fence: *e.Fence}, e.Warm
		}
		return s, FetchNext{}
	case Idle:
		if s.current && s.opened {
			return s, Stop{Rest: e.Offer, Fence: &s.control.Fence}
		}
		return s, Stop{Rest: e.Offer}
	case Lost:
		return s, Stop{Why: e.Why, Rest: !errors.Is(e.Why, queue.ErrLeaseLost)}
	case Next:
		s.opened = s.opened && !e.Cold
		s.current = s.current && s.opened
		return s.next(e.Work)
	case Opened:
		s.opened = true
		return s.inSession()
	case Bound:
		s.stream, s.facts.Stream = e.Stream, e.Stream
		return s.inSession()
	case SchemaCreated:
		return s, Apply{s.write}
	case ControlRead:
		s.chunk.previous = e.Previous
		return s.controlRead(e.Control)
	case Started:
		s.begun, s.attempt = true, e.Attempt
		return s.started()
	case Described:
		s.facts.File, s.facts.Target = e.File, e.Target
		return s.described()
	case Looked:
		return s.looked(e)
	case Prepared:
		return s.prepared(e)
	case Mended:
		s.chunk.mended = true
		return s.swap()
	case KeysDescribed:
		return s.choose(e.Keys)
	case MisfitFound:
		return s.misfit(e.Value)
	case Applied:
		// The fence is where our own COMMIT put it, as long as this session sees no error.
		s.control, s.current = lake.Control{Fence: lake.Fence{Seq: e.Applied.FenceSeq, RunSeq: s.write.RunSeq, BatchIndex: s.write.BatchIndex}}, !s.chunk.is
		return s, RecordSuccess{Applied: s.success(sluice.OriginApplied, "", e.Applied), GoOn: !s.chunk.is}
	case Resolved:
		return s.resolved(e)
	case Verified:
		return s.verified(e.Missing, e.Snapshot)
	case Repaired:
		s.control = e.Control
		return s, s.describe()
	case Recorded:
		switch {
		case s.failed != nil:
			return s, Stop{Why: s.failed}
		case e.Next != nil:
			s = s.take(*e.Next)
			s.begun, s.read, s.attempt = true, true, e.Next.Batch.Attempt
			return s.started()
		}
		return s, FetchNext{}
	case Failed:
		return s.fail(e.Failure)
	}
	return s, Stop{Why: fmt.Errorf("work on stream %s: unknown event %T", s.stream.StreamID, e)}
}

// take makes a batch the one that is worked on.
func (s State) take(w queue.Work) State {
	s.work, s.begun, s.attempt = w, w.PrevExecuting, w.Batch.Attempt
	s.facts = Facts{Stream: s.stream, Run: w.Run, Batch: w.Batch, Options: Merged(s.stream.Options, w.Run.Options)}
	s.choice, s.write, s.redo, s.reread, s.failed = Choice{}, lake.Write{}, 0, false, nil
	s.read, s.chunk = false, chunkOf(w.Run, w.Spec)
	return s
}

func (s State) next(w queue.Work) (State, Action) {
	s = s.take(w)
	if !s.opened || s.chunk.is { // a chunk may take as long as a credential lives: it begins with a new one
		return s, Open{}
	}
	return s.inSession()
}

func (s State) inSession() (State, Action) {
	if s.stream.TargetTable == "" {
		return s, Bind{}
	}
	if s.current && !s.begun && !s.chunk.is && after(s.work.Batch, s.control.Fence) {
		// Nothing moved the fence since our last COMMIT, or the next compare-and-set fails; and a batch after the fence's
		// pair can have no marker.
		s.read = true
		return s, Start{s.work.Batch.BatchID}
	}
	return s, s.readControl()
}

// controlRead compares the lake with the queue before a batch is begun.
func (s State) controlRead(c lake.Control) (State, Action) {
	again, seq := s.read, s.control.Fence.Seq
	s.control, s.read = c, true
	switch {
	case !s.begun:
		return s, Start{s.work.Batch.BatchID}
	case c.Marker != nil:
		return s, s.verify()
	case !again:
		// A former owner counted this attempt and did not live to say how it ended. The lake says: not stored.
		return s.fail(&lake.Failure{Phase: lake.PhaseData, Class: lake.Counted, Outcome: sluice.NotDone, Err: sluice.E(
			"SLUICE-LOAD-INTERRUPTED", doing(s.work.Batch), fmt.Sprintf("the loader died in attempt %d", s.attempt),
			"it is tried again by itself", nil)})
	case c.Fence.Seq != seq:
		return s, Stop{Why: sluice.E("SLUICE-LOAD-FENCE-LOST", doing(s.work.Batch),
			fmt.Sprintf("the fence moved from %d to %d meanwhile", seq, c.Fence.Seq), "nothing to do: the other writer goes on", nil)}
	}
	return s, s.describe() // our own attempt, once more
}

// after reports whether a batch comes after the last one that the fence has seen.
func after(b sluice.Batch, f lake.Fence) bool {
	return b.RunSeq > f.RunSeq || b.RunSeq == f.RunSeq && b.BatchIndex > f.BatchIndex
}

// started goes on with a batch that is executing under our lease: its attempt is counted, nothing is applied yet.
func (s State) started() (State, Action) {
	b, fence := s.work.Batch, s.control.Fence
	switch {
	case s.control.Marker != nil:
		return s, s.verify()
	case s.chunk.is && s.chunk.refusal(b) != nil:
		return s.quarantine(s.chunk.refusal(b))
	case !s.chunk.is && !after(b, fence):
		return s.quarantine(lake.Fail(lake.PhaseControl, lake.Permanent, sluice.E("SLUICE-LOAD-FENCE-AHEAD", doing(b),
			fmt.Sprintf("the lake has run %d batch %d already, this is run %d batch %d", fence.RunSeq, fence.BatchIndex, b.RunSeq, b.BatchIndex),
			"was the state DB restored from a backup, or do two installations load this lake? see docs/errors.md", nil)))
	case s.attempt > s.limits.MaxAttempts:
		return s.quarantine(lake.Fail(lake.PhaseControl, lake.Permanent, sluice.E(orCode(b.ErrorCode, "SLUICE-LOAD-INTERRUPTED"), doing(b),
			fmt.Sprintf("%d attempts are used up; the last error: %s", s.limits.MaxAttempts, orText(b.ErrorText, "the loader died")),
			"mend the cause and run `sluice quarantine retry`", nil)))
	}
	return s, s.describe()
}

// verified goes on with a batch that has its marker. Data files that are gone are repaired: the table goes back to what it
// was before the batch, and the batch is applied again.
func (s State) verified(missing []string, snapshot int64) (State, Action) {
	m := s.control.Marker
	if len(missing) > 0 && s.chunk.is {
		return s.quarantine(lake.Fail(lake.PhaseResolve, lake.Permanent, sluice.E("SLUICE-LAKE-DAMAGED", doing(s.work.Batch),
			"data of the staging table is gone: "+missing[0], "make a new plan with `sluice backfill replan`", nil)))
	}
	if len(missing) > 0 {
		return s, Repair{Table: s.target(), Marker: *m}
	}
	reason := ""
	if !s.work.PrevExecuting && s.write.BatchID == "" {
		reason = sluice.ReasonAlreadyApplied // nobody had begun it, as far as the state DB knows
	}
	a := s.success(sluice.OriginRecovered, reason, lake.Applied{FenceSeq: m.Seq, RowsWritten: m.Rows, Snapshot: snapshot})
	a.Op = m.Op
	return s, RecordSuccess{Applied: a}
}

func (s State) target() lake.Table {
	return lake.Table{Schema: s.stream.TargetSchema, Name: s.stream.TargetTable}
}

func (s State) describe() Action {
	if s.chunk.is {
		return s.chunkAction()
	}
	return Describe{Path: s.work.Batch.Path, Target: s.target()}
}

func (s State) described() (State, Action) {
	ask, fail := AskKeys(s.facts)
	if fail != nil {
		return s.fail(fail)
	}
	if len(ask.Keys) > 0 {
		return s, DescribeKeys{Path: s.work.Batch.Path, Ask: ask}
	}
	return s.choose(lake.KeyFacts{})
}

func (s State) choose(keys lake.KeyFacts) (State, Action) {
	choice, fail := Choose(s.facts, keys)
	s.choice = choice
	if fail != nil {
		if choice.Misfit != nil {
			s.failed = fail
			return s, FindMisfit{Path: s.work.Batch.Path, Misfit: *choice.Misfit}
		}
		return s.fail(fail)
	}
	b := s.work.Batch
	s.write = lake.Write{
		StreamID: s.stream.StreamID, Seq: s.control.Fence.Seq, RunSeq: b.RunSeq, BatchIndex: b.BatchIndex, RunID: b.RunID,
		BatchID: b.BatchID, TableID: s.facts.Target.TableID, RowsRead: s.facts.File.Rows, Change: choice.Change,
	}
	if choice.Change.Op == sluice.OpCreate && !s.facts.Target.SchemaExists {
		return s, CreateSchema{s.stream.TargetSchema}
	}
	return s, Apply{s.write}
}

func (s State) misfit(value string) (State, Action) {
	m := s.choice.Misfit
	file, _ := s.facts.File.Columns.Find(m.Column)
	target, _ := s.facts.Target.Columns.Find(m.Column)
	return s.quarantine(TypeConflict(s.work.Batch, file, target, value))
}

func (s State) resolved(e Resolved) (State, Action) {
	s.control, s.read, s.opened = e.Control, true, true // the new session takes the place of the broken one
	if e.Outcome == sluice.Done {
		return s, s.verify()
	}
	// Nothing is stored, and a late COMMIT would fail: the redo takes the same fence value.
	return s.again()
}

// again redoes the whole transaction in place, with the fence read anew, a few times; then the batch waits.
func (s State) again() (State, Action) {
	if s.redo++; s.redo <= s.limits.MaxRedo {
		if !s.opened {
			return s, Open{Wait: backoff(50*time.Millisecond, 2*time.Second, s.redo)}
		}
		return s, s.describe()
	}
	f := lake.Fail(lake.PhaseData, lake.Deferred, sluice.E("SLUICE-LAKE-CONFLICT", doing(s.work.Batch),
		fmt.Sprintf("other transactions were in the way %d times in a row", s.redo), "it is tried again by itself", nil))
	if s.unresolved() {
		return s, Stop{Why: f, Rest: true}
	}
	return s.deferred(f)
}

// fail decides what follows from a failure. Whatever it is, the session that saw it is closed.
func (s State) fail(f *lake.Failure) (State, Action) {
	if s.chunk.is {
		f = ofChunk(s.work.Batch, f)
	}
	if f.Outcome == sluice.Damaged && !s.chunk.is && s.write.BatchID != "" && s.redo < s.limits.MaxRedo {
		// Committed, but not as it should be: taken back, and applied again.
		s.redo++
		w := s.write
		return s, Repair{Table: s.target(), Marker: lake.Marker{
			Seq: w.Seq + 1, RunSeq: w.RunSeq, BatchIndex: w.BatchIndex, RunID: w.RunID, BatchID: w.BatchID, Op: w.Change.Op,
		}}
	}
	s.opened, s.current = false, false
	if f.Outcome == sluice.Unknown {
		return s, Resolve{s.write}
	}
	switch {
	case f.Class == lake.NotOurs:
		return s, Stop{Why: f}
	case !s.begun:
		return s.deferred(f) // whatever it is, it is not the batch's: nothing of it was looked at
	case s.unresolved() && f.Class != lake.Conflict:
		return s, Stop{Why: f, Rest: true} // still executing: the next owner resolves it
	}
	switch f.Class {
	case lake.NotOurs:
		return s, Stop{Why: f}
	case lake.Conflict:
		return s.again()
	case lake.Deferred:
		if f.Phase == lake.PhaseResolve {
			return s, Stop{Why: f, Rest: true} // still executing: the next owner resolves it
		}
		return s.deferred(f)
	case lake.Reread:
		if !s.reread {
			s.reread = true
			return s, Open{}
		}
		return s.quarantine(f)
	case lake.SecondLook:
		if s.work.Batch.ErrorCode == f.Err.Code {
			return s.quarantine(f)
		}
		return s.retry(f, s.limits.SecondLook)
	case lake.Counted:
		if s.control.Marker != nil {
			return s.deferred(f) // it is applied: what failed is the look at its files
		}
		if s.attempt >= s.limits.MaxAttempts {
			return s.quarantine(f)
		}
		return s.retry(f, backoff(s.limits.RetryBase, s.limits.RetryCap, s.rest(f)))
	case lake.Permanent:
		if f.Err.Code == "SLUICE-LOAD-NULL-KEY" && f.Phase == lake.PhaseData && !s.facts.LookAtKeys {
			s.facts.LookAtKeys = true // the merge came to a row without a key: the look says how many there are
			return s, Open{}
		}
	}
	return s.quarantine(f)
}

// unresolved reports whether a former owner's attempt has not been read back yet: until then nothing may be said of the
// batch.
func (s State) unresolved() bool { return s.work.PrevExecuting && !s.read }

// rest is the number of counted waits so far. The first interruption waits for nothing: a process that was restarted is
// not the batch's fault.
func (s State) rest(f *lake.Failure) int {
	if f.Err.Code == "SLUICE-LOAD-INTERRUPTED" {
		return s.attempt - 1
	}
	return s.attempt
}

// backoff is base · 2^(n−1), at most limit; nothing for n = 0.
func backoff(base, limit time.Duration, n int) time.Duration {
	if n <= 0 {
		return 0
	}
	for ; n > 1 && base < limit; n-- {
		base *= 2
	}
	return min(base, limit)
}

func (s State) retry(f *lake.Failure, wait time.Duration) (State, Action) {
	s.failed = f
	return s, RecordRetry{s.failure(f, wait, true)}
}

func (s State) deferred(f *lake.Failure) (State, Action) {
	s.failed = f
	if !s.begun {
		return s, RecordDefer{s.failure(f, backoff(s.limits.DeferBase, s.limits.DeferCap, s.work.Batch.Deferrals+1), false)}
	}
	return s, RecordRetry{s.failure(f, backoff(s.limits.DeferBase, s.limits.DeferCap, s.work.Batch.Deferrals+1), false)}
}

func (s State) quarantine(f *lake.Failure) (State, Action) {
	s.failed = f
	return s, RecordQuarantine{s.failure(f, 0, true)}
}

func (s State) failure(f *lake.Failure, wait time.Duration, counted bool) queue.Failure {
	return queue.Failure{
		BatchID: s.work.Batch.BatchID, Code: f.Err.Code, Text: f.Err.What, Hint: f.Err.Hint, Wait: wait, Counted: counted,
	}
}
