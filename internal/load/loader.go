package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	Defer(ctx context.Context, l sluice.Lease, f queue.Failure) error
	Retry(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error)
	Quarantine(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error)
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
	DescribeFile(ctx context.Context, path string) (lake.File, error)
	DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error)
	DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error)
	FirstMisfit(ctx context.Context, path, column string, to lake.Type) (string, bool, error)
	TableExists(ctx context.Context, t lake.Table) (bool, error)
	CreateSchema(ctx context.Context, schema string) error
	Apply(ctx context.Context, w lake.Write) (lake.Applied, error)
	Resolve(ctx context.Context, w lake.Write) (sluice.Outcome, lake.Control, error)
	MissingFiles(ctx context.Context, id sluice.StreamID, batch sluice.BatchID, seq int64) ([]string, error)
	Repair(ctx context.Context, id sluice.StreamID, t lake.Table, m lake.Marker) (lake.Control, error)
	Broken() bool
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
	return s, nil
}

// Config of a Loader. The zero value is the default, but for Owner.
type Config struct {
	Owner        string        // id of this process, unique for its life
	Concurrency  int           // streams at once; 16
	Poll         time.Duration // between claims when there is no work; 2 s
	BatchTimeout time.Duration // of one batch's transaction; 30 min
	LeaseTTL     time.Duration // 60 s
	Heartbeat    time.Duration // 15 s
	DrainTimeout time.Duration // for what is under way at the end; 30 s
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
	def(&c.LeaseTTL, queue.DefaultTTL)
	def(&c.Heartbeat, c.LeaseTTL/4)
	def(&c.DrainTimeout, 30*time.Second)
	c.Limits = c.Limits.WithDefaults()
	return c
}

// Deps are the parts that a Loader works with.
type Deps struct {
	Queue    Batches
	Streams  Streams
	Sessions Sessions
	Log      *slog.Logger
}

// Loader claims streams and works on them.
type Loader struct {
	cfg  Config
	deps Deps
	log  *slog.Logger

	mu      sync.Mutex
	held    map[sluice.StreamID]*hold
	resting map[sluice.StreamID]time.Time // streams that are not claimed again before
	status  Status
}

// hold is a lease that this process works under.
type hold struct {
	lease  sluice.Lease
	until  time.Time // our own deadline: earlier than the lease's end by a margin
	cancel context.CancelCauseFunc
}

// Status is what a loader is doing.
type Status struct {
	Streams   int       `json:"streams"`  // worked on now
	Batches   int64     `json:"batches"`  // applied since the start
	Failures  int64     `json:"failures"` // attempts that came to nothing
	LastClaim time.Time `json:"last_claim"`
	LastError string    `json:"last_error,omitempty"`
}

// New makes a Loader. It starts nothing.
func New(cfg Config, deps Deps) *Loader {
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Loader{
		cfg: cfg.withDefaults(), deps: deps, log: log.With("component", "load"),
		held: map[sluice.StreamID]*hold{}, resting: map[sluice.StreamID]time.Time{},
	}
}

// Status tells what the loader is doing.
func (l *Loader) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Streams = len(l.held)
	return s
}

var errDrained = errors.New("the loader is stopping")

// Run claims and works until ctx is over; what is under way then may go on for DrainTimeout. It returns nil after an
// orderly stop.
func (l *Loader) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	wake := l.deps.Queue.Wake(ctx)
	freed := make(chan struct{}, 1)
	var workers sync.WaitGroup
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		l.beat(work)
	}()

	pause := time.NewTimer(0)
	defer pause.Stop()
	failures := 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-pause.C:
		case <-wake:
		case <-freed:
		}
		n, err := l.claim(ctx, func(lease sluice.Lease) {
			workers.Go(func() {
				l.workOn(work, lease)
				select {
				case freed <- struct{}{}:
				default:
				}
			})
		})
		pause.Reset(l.wait(n, &failures, err))
	}
	timer := time.AfterFunc(l.cfg.DrainTimeout, func() { cancel(errDrained) })
	workers.Wait()
	timer.Stop()
	cancel(nil)
	<-beats
	return nil
}

// wait is the time to the next claim: short while there is work, longer and longer while claims come to nothing.
func (l *Loader) wait(claimed int, failures *int, err error) time.Duration {
	switch {
	case err != nil:
		*failures++
		l.fail(err)
		l.log.Warn("claim came to nothing; it is tried again", "err", err, "failures", *failures)
		return min(l.cfg.Poll<<min(*failures, 6), 30*time.Second)
	case claimed > 0:
		*failures = 0
		return min(100*time.Millisecond, l.cfg.Poll)
	}
	*failures = 0
	return l.cfg.Poll
}

func (l *Loader) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.LastError = err.Error()
}

func (l *Loader) claim(ctx context.Context, start func(sluice.Lease)) (int, error) {
	now := time.Now()
	l.mu.Lock()
	free := l.cfg.Concurrency - len(l.held)
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
	l.mu.Unlock()
	if free <= 0 {
		return 0, nil
	}
	leases, err := l.deps.Queue.Claim(ctx, queue.ClaimRequest{Owner: l.cfg.Owner, Free: free, InFlight: busy, TTL: l.cfg.LeaseTTL})
	if err != nil {
		return 0, fmt.Errorf("claim streams: %w", err)
	}
	l.mu.Lock()
	l.status.LastClaim = now
	for _, lease := range leases {
		// Held from here on, so that the next claim and heartbeat know it; the deadline counts from before the claim.
		l.held[lease.StreamID] = &hold{lease: lease, until: now.Add(l.cfg.LeaseTTL - l.margin())}
	}
	l.mu.Unlock()
	for _, lease := range leases {
		start(lease)
	}
	return len(leases), nil
}

// margin is how much earlier than the lease's end this process stops by itself.
func (l *Loader) margin() time.Duration { return min(5*time.Second, l.cfg.LeaseTTL/4) }

// beat renews all leases of the process until ctx is over. A heartbeat that cannot be sent ends nothing by itself; a lease
// that was not renewed in time, or that the answer does not confirm, ends the work on its stream.
func (l *Loader) beat(ctx context.Context) {
	tick := time.NewTicker(l.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sent := time.Now()
		var leases []sluice.Lease
		l.mu.Lock()
		for _, h := range l.held {
			leases = append(leases, h.lease)
		}
		l.mu.Unlock()
		if len(leases) == 0 {
			continue
		}
		beatCtx, cancel := context.WithTimeout(ctx, max(l.cfg.LeaseTTL/2, time.Second))
		lost, err := l.deps.Queue.Heartbeat(beatCtx, l.cfg.Owner, leases, l.cfg.LeaseTTL)
		cancel()
		if err != nil {
			l.log.Warn("heartbeat came to nothing; it is sent again", "err", err)
		}
		l.beaten(leases, lost, err, sent)
	}
}

func (l *Loader) beaten(leases []sluice.Lease, lost []sluice.StreamID, err error, sent time.Time) {
	gone := map[sluice.StreamID]bool{}
	for _, id := range lost {
		gone[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		h := l.held[lease.StreamID]
		if h == nil || h.lease.Epoch != lease.Epoch {
			continue
		}
		switch {
		case gone[lease.StreamID], time.Now().After(h.until):
			if h.cancel != nil {
				h.cancel(queue.ErrLeaseLost)
			}
		case err == nil:
			h.until = sent.Add(l.cfg.LeaseTTL - l.margin())
		}
	}
}

// workOn works on a claimed stream until there is nothing left to do, then gives it back.
func (l *Loader) workOn(ctx context.Context, lease sluice.Lease) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	h := l.held[lease.StreamID]
	h.cancel = cancel
	l.mu.Unlock()

	w := &worker{loader: l, lease: lease, log: l.log.With("org", lease.Org, "team_id", lease.TeamID, "stream_id", lease.StreamID)}
	stop := w.run(ctx)
	w.close()

	// Given back whatever happened, or each claim of this process would find a lease that nobody works under.
	release, done := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer done()
	if err := l.deps.Queue.Release(release, lease); err != nil {
		w.log.Warn("lease was not given back; it expires by itself", "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, lease.StreamID)
	if stop.Why != nil {
		l.status.LastError = stop.Why.Error()
	}
	if stop.Rest {
		l.resting[lease.StreamID] = time.Now().Add(l.cfg.DeferBase)
	}
}
