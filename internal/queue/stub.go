package queue

import (
	"context"
	"errors"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Store is the queue in a state DB. It holds nothing but the DB's handle; any number of processes may use one DB.
type Store struct{ db *statedb.DB }

// New makes a Store. It starts nothing.
func New(db *statedb.DB, cfg Config) *Store { return &Store{db: db} }

var errStub = errors.ErrUnsupported

// Enqueue stores batches of one run (loader.md §2, rules 1–9), in one transaction.
func (s *Store) Enqueue(ctx context.Context, r EnqueueRequest) ([]EnqueueResult, error) {
	return nil, errStub
}

// Upstream reports whether the authoritative store holds a batch. succeeded and failed are final.
func (s *Store) Upstream(ctx context.Context, id sluice.BatchID, state sluice.UpstreamState) error {
	return errStub
}

// DrainInbox handles rows of batch_inbox, in their order, and says how many.
func (s *Store) DrainInbox(ctx context.Context, limit int) (int, error) { return 0, errStub }

// Claim takes leases of claimable streams, fairly between orgs and never beyond an org's budget.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) ([]sluice.Lease, error) {
	return nil, errStub
}

// Acquire takes the lease of one stream if it is free, for maintenance or an operator; ErrLeaseLost if it is not.
func (s *Store) Acquire(ctx context.Context, id sluice.StreamID, owner string, p sluice.Purpose, ttl time.Duration) (sluice.Lease, error) {
	return sluice.Lease{}, errStub
}

// Heartbeat renews leases of an owner in one statement and gives the streams whose lease is lost.
func (s *Store) Heartbeat(ctx context.Context, owner string, leases []sluice.Lease, ttl time.Duration) (lost []sluice.StreamID, err error) {
	return nil, errStub
}

// Release gives a lease back. Releasing a lost lease is no error.
func (s *Store) Release(ctx context.Context, l sluice.Lease) error { return errStub }

// Linger keeps a lease only for its warm session; others may take it over when the org is at its budget.
func (s *Store) Linger(ctx context.Context, l sluice.Lease) error { return errStub }

// Next returns what to do on a leased stream: ErrNoWork (with a BlockedError if there is open work), ErrLeaseLost, or
// the head. It changes nothing.
func (s *Store) Next(ctx context.Context, l sluice.Lease) (Work, error) { return Work{}, errStub }

// Start marks a batch executing and counts the attempt, before the apply.
func (s *Store) Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (attempt int, err error) {
	return 0, errStub
}

// Pin stores size and etag of a batch's file at its first read; it changes nothing that is pinned already.
func (s *Store) Pin(ctx context.Context, l sluice.Lease, id sluice.BatchID, p Pin) error {
	return errStub
}

// Succeed records that an executing batch is in its table, with everything that follows from it.
func (s *Store) Succeed(ctx context.Context, l sluice.Lease, a Applied) error { return errStub }

// Retry records a transient failure. The state that the batch ends in is retry_wait, quarantined (attempts used up) or
// superseded (a replace run waits behind it).
func (s *Store) Retry(ctx context.Context, l sluice.Lease, f Failure) (sluice.LoadState, error) {
	return "", errStub
}

// Quarantine records a permanent failure: the batch is kept with its reason, its run halts.
func (s *Store) Quarantine(ctx context.Context, l sluice.Lease, f Failure) (sluice.LoadState, error) {
	return "", errStub
}

// Halt stops a stream for a reason that is not one batch's (a lake that is ahead or damaged). Resume undoes it.
func (s *Store) Halt(ctx context.Context, l sluice.Lease, code sluice.Code, text string) error {
	return errStub
}

// Resume ends a Halt.
func (s *Store) Resume(ctx context.Context, id sluice.StreamID, op Operator) (Change, error) {
	return Change{}, errStub
}

// QuarantineRetry queues a quarantined batch again with all its attempts and lets its run go on.
func (s *Store) QuarantineRetry(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return Change{}, errStub
}

// QuarantineDiscard accepts the loss of a quarantined batch and parks its stream as needs_resync.
func (s *Store) QuarantineDiscard(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return Change{}, errStub
}

// CancelRun ends a run; open batches become failed/cancelled. A live run with unapplied batches parks its stream.
func (s *Store) CancelRun(ctx context.Context, id sluice.StreamID, run sluice.RunID, op Operator) (Change, error) {
	return Change{}, errStub
}

// BatchRetry makes a batch in retry_wait (or quarantined) claimable at once, with all its attempts.
func (s *Store) BatchRetry(ctx context.Context, id sluice.BatchID, op Operator) (Change, error) {
	return Change{}, errStub
}

// Runs lists runs, newest first; next is the cursor of the next page, empty at the end.
func (s *Store) Runs(ctx context.Context, f Filter) (runs []sluice.Run, next string, err error) {
	return nil, "", errStub
}

// Run gives one run, or SLUICE-LOAD-NO-RUN.
func (s *Store) Run(ctx context.Context, id sluice.StreamID, run sluice.RunID) (sluice.Run, error) {
	return sluice.Run{}, errStub
}

// Batches lists batches in stream order.
func (s *Store) Batches(ctx context.Context, f Filter) (batches []sluice.Batch, next string, err error) {
	return nil, "", errStub
}

// Batch gives one batch with its history, or SLUICE-LOAD-NO-BATCH.
func (s *Store) Batch(ctx context.Context, id sluice.BatchID) (sluice.Batch, []HistoryRow, error) {
	return sluice.Batch{}, nil, errStub
}

// Quarantined lists quarantine rows, newest first.
func (s *Store) Quarantined(ctx context.Context, f Filter) (rows []QuarantineRow, next string, err error) {
	return nil, "", errStub
}

// Status tells for every stream of the filter how it stands and what blocks it.
func (s *Store) Status(ctx context.Context, f Filter) (rows []StatusRow, next string, err error) {
	return nil, "", errStub
}

// Wake receives a value after new work may have become claimable. It may miss some: callers poll as well.
func (s *Store) Wake(ctx context.Context) <-chan struct{} { return nil }

// Sweep repairs heads and supersedes (both must find nothing) and removes what is past its retention. One process at a
// time sweeps.
func (s *Store) Sweep(ctx context.Context, owner string) (SweepReport, error) {
	return SweepReport{}, errStub
}
