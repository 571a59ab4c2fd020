// Package queuetest is the conformance suite of the queue: what loader.md promises about runs, batches, claims and
// leases, run against a state DB of any kind. It is a test helper and never reaches the binary.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// Open gives another handle of the test's private, migrated and otherwise empty database: a process of its own.
type Open func(t testing.TB) *statedb.DB

// Env is one process with its stores.
type Env struct {
	t       testing.TB
	DB      *statedb.DB
	Queue   *queue.Store
	Streams *stream.Store
	Control *control.Store
	now     *time.Time
}

// start of the test clock.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// NewEnv opens a process. Its clock stands still at a fixed time until Advance.
func NewEnv(t testing.TB, open Open) *Env {
	t.Helper()
	db := open(t)
	q := queue.New(db, queue.Config{Paths: func(_ context.Context, _ sluice.Org, path string) error {
		if strings.HasPrefix(path, "s3://x/") {
			return nil
		}
		return errors.New("path is not under s3://x/")
	}})
	e := &Env{t: t, DB: db, Queue: q, Streams: stream.New(db, q), Control: control.New(db)}
	e.SetNow(start)
	return e
}

// SetNow sets the clock.
func (e *Env) SetNow(at time.Time) {
	e.now = &at
	e.DB.SetNow(&at)
}

// Advance moves the clock.
func (e *Env) Advance(d time.Duration) { e.SetNow(e.now.Add(d)) }

func (e *Env) ctx() context.Context { return e.t.Context() }

func (e *Env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

var teamNumber atomic.Int64

// AddOrg makes a ready org with one team; maxStreams below 0 means no limit.
func (e *Env) AddOrg(name string, maxStreams int64) (sluice.Org, sluice.TeamID) {
	e.t.Helper()
	limits := control.DefaultLimits()
	limits.MaxStreams = &maxStreams
	if maxStreams < 0 {
		limits.MaxStreams = nil
	}
	_, err := e.Control.CreateOrg(e.ctx(), control.NewOrg{Org: sluice.Org(name), State: sluice.OrgReady, Limits: &limits}, control.By{Who: "test"})
	e.must(err)
	team := sluice.TeamID(teamNumber.Add(1))
	_, err = e.Control.CreateTeam(e.ctx(), control.NewTeam{Org: sluice.Org(name), TeamID: team}, control.By{Who: "test"})
	e.must(err)
	return sluice.Org(name), team
}

// AddStream makes a stream of a team.
func (e *Env) AddStream(org sluice.Org, team sluice.TeamID, sync sluice.SyncType, delta string) sluice.StreamID {
	e.t.Helper()
	n := stream.NewStream{Org: org, TeamID: team, SourceType: "pg", Name: "table", SyncType: sync, DeltaURI: delta}
	n.Options.PrimaryKeys = []string{"id"}
	if sync == sluice.CDC {
		n.Options.CDC = &sluice.CDCOptions{OrderColumns: []string{"lsn"}}
	}
	st, err := e.Streams.Add(e.ctx(), n, stream.By{Who: "test"})
	e.must(err)
	return st.StreamID
}

// One makes an org with a team and one stream.
func (e *Env) One(sync sluice.SyncType) sluice.StreamID {
	e.t.Helper()
	org, team := e.AddOrg("acme", 4)
	return e.AddStream(org, team, sync, "")
}

// B is a data row of a stream without an authoritative store.
func B(index int64, mods ...func(*queue.NewBatch)) queue.NewBatch {
	b := queue.NewBatch{BatchIndex: index, Path: fmt.Sprintf("s3://x/%d.parquet", index), UpstreamState: sluice.UpstreamNone}
	for _, m := range mods {
		m(&b)
	}
	return b
}

// Modifiers of a row.
func Final(b *queue.NewBatch)   { b.IsFinal = true }
func Resume(b *queue.NewBatch)  { b.IsResume = true }
func Waiting(b *queue.NewBatch) { b.UpstreamState = sluice.UpstreamWaiting }

// Total sets total_batches.
func Total(n int64) func(*queue.NewBatch) { return func(b *queue.NewBatch) { b.TotalBatches = &n } }

// Path sets the path; empty makes a marker.
func Path(p string) func(*queue.NewBatch) { return func(b *queue.NewBatch) { b.Path = p } }

// Marker is a final row without data.
func Marker(index int64, mods ...func(*queue.NewBatch)) queue.NewBatch {
	return B(index, append([]func(*queue.NewBatch){Final, Path("")}, mods...)...)
}

// Enqueue stores rows of a run and fails the test on an error.
func (e *Env) Enqueue(id sluice.StreamID, run string, rows ...queue.NewBatch) []queue.EnqueueResult {
	e.t.Helper()
	res, err := e.TryEnqueue(id, run, rows...)
	e.must(err)
	return res
}

// TryEnqueue is Enqueue with its error.
func (e *Env) TryEnqueue(id sluice.StreamID, run string, rows ...queue.NewBatch) ([]queue.EnqueueResult, error) {
	return e.Queue.Enqueue(e.ctx(), queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run), Batches: rows})
}

// FirstEver stores rows of a stream's first run.
func (e *Env) FirstEver(id sluice.StreamID, run string, rows ...queue.NewBatch) {
	e.t.Helper()
	_, err := e.Queue.Enqueue(e.ctx(), queue.EnqueueRequest{StreamID: id, RunID: sluice.RunID(run), IsFirstEver: true, Batches: rows})
	e.must(err)
}

// Refused checks that an error has a code.
func (e *Env) Refused(err error, code sluice.Code) {
	e.t.Helper()
	if sluice.CodeOf(err) != code {
		e.t.Fatalf("got %v, want %s", err, code)
	}
}

// Claim takes leases for an owner.
func (e *Env) Claim(owner string, free int) []sluice.Lease {
	e.t.Helper()
	leases, err := e.Queue.Claim(e.ctx(), queue.ClaimRequest{Owner: owner, Free: free})
	e.must(err)
	return leases
}

// ClaimOne takes the one lease that there must be.
func (e *Env) ClaimOne(owner string) sluice.Lease {
	e.t.Helper()
	leases := e.Claim(owner, 8)
	if len(leases) != 1 {
		e.t.Fatalf("claimed %d streams instead of one: %s", len(leases), e.blocked())
	}
	return leases[0]
}

// NoClaim checks that nothing is claimable.
func (e *Env) NoClaim() {
	e.t.Helper()
	if leases := e.Claim("nobody", 8); len(leases) != 0 {
		e.t.Fatalf("claimed %v", leases)
	}
}

func (e *Env) blocked() string {
	rows, _, err := e.Queue.Status(e.ctx(), queue.Filter{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, r := range rows {
		index := int64(-1)
		if r.HeadIndex != nil {
			index = *r.HeadIndex
		}
		fmt.Fprintf(&b, "%s head=%s/%d %s blocked=%q lifecycle=%s owner=%q; ", r.StreamID, r.HeadRun, index, r.HeadState, r.BlockedBy, r.Lifecycle, r.Owner)
	}
	return b.String()
}

// Start begins the head and gives its work.
func (e *Env) Start(l sluice.Lease) queue.Work {
	e.t.Helper()
	w, err := e.Queue.Next(e.ctx(), l)
	e.must(err)
	if !w.PrevExecuting {
		_, err = e.Queue.Start(e.ctx(), l, w.Batch.BatchID)
		e.must(err)
	}
	return w
}

var fence atomic.Int64

// Apply starts and finishes the head.
func (e *Env) Apply(l sluice.Lease) queue.Work {
	e.t.Helper()
	w := e.Start(l)
	e.must(e.Queue.Succeed(e.ctx(), l, e.applied(w)))
	return w
}

func (e *Env) applied(w queue.Work) queue.Applied {
	return queue.Applied{
		BatchID: w.Batch.BatchID, Op: sluice.OpInsert, RowsRead: 5, RowsWritten: 5, FenceSeq: fence.Add(1), LakeSnapshot: 7,
		Phases: map[string]int64{"data": 3},
	}
}

// Drain applies everything of a leased stream, going on as a loader does, and gives "run/index" of each batch in order.
func (e *Env) Drain(l sluice.Lease) []string {
	e.t.Helper()
	var done []string
	for {
		if _, err := e.Queue.Next(e.ctx(), l); errors.Is(err, queue.ErrNoWork) {
			return done
		}
		w := e.Start(l)
		for next := &w; next != nil; {
			w = *next
			done = append(done, fmt.Sprintf("%s/%d", w.Batch.RunID, w.Batch.BatchIndex))
			var err error
			next, err = e.Queue.Advance(e.ctx(), l, e.applied(w))
			e.must(err)
		}
	}
}

// Fails records a failure of a started batch.
func Fails(id sluice.BatchID, counted bool, wait time.Duration) queue.Failure {
	return queue.Failure{BatchID: id, Code: "SLUICE-LOAD-CONNECT", Text: "no answer", Counted: counted, Wait: wait}
}

// RunState checks the state of a run.
func (e *Env) RunState(id sluice.StreamID, run string, want sluice.RunState) {
	e.t.Helper()
	r, err := e.Queue.Run(e.ctx(), id, sluice.RunID(run))
	e.must(err)
	if r.State != want {
		e.t.Fatalf("run %s is %s (%s), want %s: %s", run, r.State, r.Reason, want, e.blocked())
	}
}

// States gives the load states of a run's batches by index, as "state" or "state/reason".
func (e *Env) States(id sluice.StreamID, run string) string {
	e.t.Helper()
	all, _, err := e.Queue.Batches(e.ctx(), queue.Filter{StreamID: id, RunID: sluice.RunID(run), Limit: 1000})
	e.must(err)
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b.LoadState)
		if b.LoadReason != "" {
			out[i] += "/" + b.LoadReason
		}
	}
	return strings.Join(out, " ")
}

// WantStates checks States.
func (e *Env) WantStates(id sluice.StreamID, run, want string) {
	e.t.Helper()
	if got := e.States(id, run); got != want {
		e.t.Fatalf("run %s: %s, want %s", run, got, want)
	}
}

// BlockedBy checks the rule that holds a stream.
func (e *Env) BlockedBy(id sluice.StreamID, rule string) queue.StatusRow {
	e.t.Helper()
	rows, _, err := e.Queue.Status(e.ctx(), queue.Filter{StreamID: id})
	e.must(err)
	if len(rows) != 1 || !strings.HasPrefix(rows[0].BlockedBy, rule) {
		e.t.Fatalf("blocked by %q, want %q", rows[0].BlockedBy, rule)
	}
	return rows[0]
}

// Lifecycle checks a stream's lifecycle.
func (e *Env) Lifecycle(id sluice.StreamID, want sluice.Lifecycle) {
	e.t.Helper()
	st, err := e.Streams.Get(e.ctx(), id)
	e.must(err)
	if st.Lifecycle != want {
		e.t.Fatalf("lifecycle is %s, want %s", st.Lifecycle, want)
	}
}

// HeadsRight checks that every stored head is what a new computation gives.
func (e *Env) HeadsRight() {
	e.t.Helper()
	wrong, err := e.Queue.HeadsRight(e.ctx())
	e.must(err)
	if len(wrong) > 0 {
		e.t.Fatalf("wrong heads: %v: %s", wrong, e.blocked())
	}
}
