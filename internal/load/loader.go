package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Batches is what the loader needs of the queue. Every write is guarded by owner, epoch and expiry of the lease in the
// statement itself; queue.ErrLeaseLost means that nothing was written and that the stream is to be dropped.
type Batches interface {
	Claim(ctx context.Context, r queue.ClaimRequest) ([]sluice.Lease, error)
	Heartbeat(ctx context.Context, owner string, leases []sluice.Lease, ttl time.Duration) (lost []sluice.StreamID, err error)
	Release(ctx context.Context, l sluice.Lease) error
	Next(ctx context.Context, l sluice.Lease) (queue.Work, error)
	Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (attempt int, err error)
	Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error
	// Advance is Succeed, and Start of the next batch if that may be begun at once; nil if not.
	Advance(ctx context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error)
	// Upcoming gives the files of batches that follow.
	Upcoming(ctx context.Context, l sluice.Lease, limit int) ([]string, error)
	Defer(ctx context.Context, l sluice.Lease, f queue.Failure) error
	Retry(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error)
	Quarantine(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error)
	// Covered lists the batches that the plan of a chunk run covers.
	Covered(ctx context.Context, id sluice.StreamID, run sluice.RunID) ([]stream.CoveredBatch, error)
	// Linger keeps a lease only for its warm session; Start ends that.
	Linger(ctx context.Context, l sluice.Lease) error
	// Lingering lists the lingering leases of an owner; one that is not among them is lost.
	Lingering(ctx context.Context, owner string) ([]queue.Lingerer, error)
	// Contended tells whether a stream is claimable that is not among those in flight.
	Contended(ctx context.Context, inFlight []sluice.StreamID) (bool, error)
	Wake(ctx context.Context) <-chan struct{}
}

// Streams is what the loader needs of the registry.
type Streams interface {
	Get(ctx context.Context, id sluice.StreamID) (sluice.Stream, error)
	Bind(ctx context.Context, id sluice.StreamID, o stream.BindOptions, by stream.By) (stream.Binding, error)
}

// Session is what the loader needs of a session to a warehouse. After an error it is only closed.
type Session interface {
	EnsureControl(ctx context.Context, id sluice.StreamID) error
	ReadControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (lake.Control, error)
	// DescribeFiles looks at several files at once. A failure of more than one that is not the session's own breaks nothing.
	DescribeFiles(ctx context.Context, paths []string) (map[string]lake.File, error)
	DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error)
	DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error)
	FirstMisfit(ctx context.Context, path, column string, to lake.Type) (string, bool, error)
	TableExists(ctx context.Context, t lake.Table) (bool, error)
	CreateSchema(ctx context.Context, schema string) error
	Apply(ctx context.Context, w lake.Write) (lake.Applied, error)
	Resolve(ctx context.Context, w lake.Write) (sluice.Outcome, lake.Control, error)
	MissingFiles(ctx context.Context, id sluice.StreamID, batch sluice.BatchID, seq int64) ([]string, error)
	Repair(ctx context.Context, id sluice.StreamID, t lake.Table, m lake.Marker) (lake.Control, error)
	// What chunks need.
	DescribeLayout(ctx context.Context, t lake.Table) (lake.Layout, error)
	RowsOfRun(ctx context.Context, id sluice.StreamID, run sluice.RunID) (int64, error)
	VerifyTable(ctx context.Context, t lake.Table, v *lake.Verify) (lake.Verified, error)
	Mend(ctx context.Context, t lake.Table, is, like lake.Layout) error
	Since(ctx context.Context, t lake.Table) (snapshot int64, err error)
	Broken() bool
	// Expires is when the session's credential ends; zero: never.
	Expires() time.Time
	Close() error
}

// Sessions opens sessions to the warehouse of an org.
type Sessions interface {
	Open(ctx context.Context, org sluice.Org) (Session, error)
}

// Dial makes Sessions of a lake.Dialer.
func Dial(d *lake.Dialer) Sessions { return dialed{d} }

type dialed struct{ d *lake.Dialer }

func (d dialed) Open(ctx context.Context, org sluice.Org) (Session, error) {
	s, err := d.d.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	return session{s}, nil
}

type session struct{ *lake.Session }

func (s session) Expires() time.Time { return s.Session.Expires }

// Config of a Loader. The zero value is the default, but for Owner.
type Config struct {
	Owner        string        // id of this process, unique for its life
	Concurrency  int           // streams at once; 16
	Poll         time.Duration // between claims when there is no work; 2 s
	BatchTimeout time.Duration // of one batch's transaction; 30 min
	ChunkTimeout time.Duration // the same of a chunk; 2 h
	LeaseTTL     time.Duration // 60 s
	Heartbeat    time.Duration // 15 s
	DrainTimeout time.Duration // for what is under way at the end; 30 s
	Linger       time.Duration // how long a session is kept without work; 90 s, below zero: not at all
	SessionAge   time.Duration // after which a session is replaced; 10 min
	Limits
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	def(&c.Poll, 2*time.Second)
	def(&c.BatchTimeout, 30*time.Minute)
	def(&c.ChunkTimeout, 2*time.Hour)
	def(&c.LeaseTTL, queue.DefaultTTL)
	def(&c.Heartbeat, c.LeaseTTL/4)
	def(&c.DrainTimeout, 30*time.Second)
	def(&c.Linger, 90*time.Second)
	def(&c.SessionAge, 10*time.Minute)
	c.Limits = c.Limits.WithDefaults()
	return c
}

// Deps are the parts that a Loader works with.
type Deps struct {
	Queue    Batches
	Streams  Streams
	Sessions Sessions
	Sources  Sources // nil: chunks cannot be loaded
	Log      *slog.Logger
}

// Loader claims streams and works on them.
type Loader struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	clock clock

	closing sync.WaitGroup // sessions whose lease was lost

	mu       sync.Mutex
	held     map[sluice.StreamID]*hold
	resting  map[sluice.StreamID]time.Time // streams that are not claimed again before
	draining bool                          // no new batch is begun
	failures int                           // claims in a row that came to nothing
	status   Status
}

// Status is what a loader is doing.
type Status struct {
	Streams   int       `json:"streams"`   // worked on now
	Lingering int       `json:"lingering"` // kept for their warm sessions
	Batches   int64     `json:"batches"`   // applied since the start
	Failures  int64     `json:"failures"`  // attempts that came to nothing
	LastClaim time.Time `json:"last_claim"`
	LastError string    `json:"last_error,omitempty"`
	Stuck     string    `json:"stuck,omitempty"` // why the process should be restarted; empty: it should not

	Sessions map[sluice.Org]Sessioned `json:"sessions,omitempty"` // open now
	Closed   map[string]int64         `json:"closed,omitempty"`   // sessions closed since the start, by reason
}

// Sessioned counts the sessions to an org's warehouse.
type Sessioned struct {
	Busy int `json:"busy"`
	Idle int `json:"idle"`
}

func (s *Status) closed(reason string) {
	if s.Closed == nil {
		s.Closed = map[string]int64{}
	}
	s.Closed[reason]++
}

// When a loader counts as stuck.
const (
	stuckClaims = 10               // claims in a row that came to nothing
	stuckWork   = 10 * time.Minute // work on a stream that has not ended since it was told to
)

// New makes a Loader. It starts nothing.
func New(cfg Config, deps Deps) *Loader {
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Loader{
		cfg: cfg.withDefaults(), deps: deps, log: log.With("component", "load"), clock: realClock{},
		held: map[sluice.StreamID]*hold{}, resting: map[sluice.StreamID]time.Time{},
	}
}

// Status tells what the loader is doing.
func (l *Loader) Status() Status {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Closed, s.Sessions = maps.Clone(s.Closed), map[sluice.Org]Sessioned{}
	if l.failures >= stuckClaims {
		s.Stuck = fmt.Sprintf("%d claims in a row came to nothing: %s", l.failures, s.LastError)
	}
	for _, h := range l.held {
		n := s.Sessions[h.lease.Org]
		if h.warm != nil {
			n.Idle++
			s.Sessions[h.lease.Org] = n
			s.Lingering++
			continue
		}
		n.Busy++
		s.Sessions[h.lease.Org] = n
		s.Streams++
		if since := now.Sub(h.cancelled); !h.cancelled.IsZero() && since >= stuckWork {
			s.Stuck = fmt.Sprintf("work on stream %s was told to end %s ago and has not", h.lease.StreamID, since.Round(time.Second))
		}
	}
	return s
}

var errDrained = errors.New("the loader is stopping")

// Run claims and works until ctx is over. What is under way then may be finished within DrainTimeout; no batch is begun
// any more. It returns nil after an orderly stop.
func (l *Loader) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	wake := l.deps.Queue.Wake(ctx)
	freed := make(chan struct{}, 1)
	var workers, background sync.WaitGroup
	background.Go(func() { every(work, l.cfg.Heartbeat, l.beat) })
	background.Go(func() { every(work, sweepInterval, l.sweep) })

	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-timer.C:
		case <-wake:
		case <-freed:
		}
		holds, err := l.find(ctx)
		for _, h := range holds {
			workers.Go(func() {
				l.workOn(work, h)
				select {
				case freed <- struct{}{}:
				default:
				}
			})
		}
		timer.Reset(l.wait(len(holds), err))
	}
	l.drain(work)
	patience := time.AfterFunc(l.cfg.DrainTimeout, func() {
		l.cancelAll(errDrained)
		cancel(errDrained)
	})
	workers.Wait()
	patience.Stop()
	cancel(nil)
	background.Wait()
	l.closing.Wait()
	return nil
}

// every runs fn again and again until ctx is over.
func every(ctx context.Context, d time.Duration, fn func(context.Context)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fn(ctx)
		}
	}
}

// wait is the time to the next look for work: short while there is some, longer and longer while claims come to nothing.
func (l *Loader) wait(found int, err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failures++
		l.status.LastError = err.Error()
		l.log.Warn("claim came to nothing; it is tried again", "err", err, "failures", l.failures)
		return max(l.cfg.Poll, min(l.cfg.Poll<<min(l.failures, 6), 30*time.Second))
	case found > 0:
		l.failures = 0
		return min(100*time.Millisecond, l.cfg.Poll)
	}
	l.failures = 0
	return l.cfg.Poll
}

// find gives the streams that are to be worked on now: lingering ones that have work again, and newly claimed ones.
func (l *Loader) find(ctx context.Context) ([]*hold, error) {
	holds := l.resume(ctx)
	claimed, err := l.claim(ctx)
	return append(holds, claimed...), err
}

func (l *Loader) claim(ctx context.Context) ([]*hold, error) {
	now := l.clock.Now()
	l.mu.Lock()
	busy := l.inFlight(now)
	free := l.cfg.Concurrency
	for _, h := range l.held {
		if h.warm == nil {
			free--
		}
	}
	l.mu.Unlock()
	if free <= 0 {
		return nil, nil
	}
	leases, err := l.deps.Queue.Claim(ctx, queue.ClaimRequest{Owner: l.cfg.Owner, Free: free, InFlight: busy, TTL: l.cfg.LeaseTTL})
	if err != nil {
		return nil, fmt.Errorf("claim streams: %w", err)
	}
	holds := make([]*hold, len(leases))
	l.mu.Lock()
	l.status.LastClaim = now
	for i, lease := range leases {
		holds[i] = l.hold(lease, now)
	}
	l.mu.Unlock()
	if len(leases) > 0 {
		l.makeRoom(ctx)
	}
	return holds, nil
}

// inFlight gives the streams that a claim leaves alone. The caller holds the lock.
func (l *Loader) inFlight(now time.Time) []sluice.StreamID {
	var busy []sluice.StreamID
	for id := range l.held {
		busy = append(busy, id)
	}
	for id, until := range l.resting {
		if now.After(until) {
			delete(l.resting, id)
			continue
		}
		busy = append(busy, id)
	}
	slices.Sort(busy)
	return slices.Compact(busy)
}

// workOn works on a stream until there is nothing left to do; then its session lingers, or the stream is given back.
func (l *Loader) workOn(ctx context.Context, h *hold) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &worker{loader: l, hold: h, lease: h.lease, log: l.log.With("org", h.lease.Org, "team_id", h.lease.TeamID, "stream_id", h.lease.StreamID)}
	l.mu.Lock()
	h.cancel = cancel
	if h.lost {
		cancel(queue.ErrLeaseLost)
	}
	w.session, w.opened, w.fence, h.take = h.take.session, h.take.opened, h.take.fence, warm{}
	l.mu.Unlock()

	stop := w.run(ctx)
	if stop.Why == nil && !stop.Rest && l.linger(ctx, h, w, stop.Fence) {
		return
	}
	switch {
	case stop.Why != nil:
		w.close(closedError)
	case ctx.Err() != nil:
		w.close(closedDrain)
	default:
		w.close(closedOffered)
	}
	l.release(ctx, h)
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop.Why != nil {
		l.status.LastError = stop.Why.Error()
	}
	if stop.Rest {
		l.resting[h.lease.StreamID] = l.clock.Now().Add(l.cfg.DeferBase)
	}
}
