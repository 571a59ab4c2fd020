package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Loader is a loader that runs until it is stopped or killed, at the latest until the test ends.
type Loader struct {
	*load.Loader
	stop  context.CancelFunc
	die   context.CancelFunc
	death context.Context // over once the loader is killed
	done  chan struct{}
}

// Loader starts a loader: a process of its own, as far as the state DB and the lake can tell.
func (r *Rig) Loader() *Loader {
	r.Helper()
	cfg := r.opts.Config
	cfg.Owner = fmt.Sprintf("%064d", r.owner.Add(1))
	if cfg.Poll == 0 {
		cfg.Poll = 20 * time.Millisecond
	}
	if cfg.RetryBase == 0 {
		cfg.RetryBase = 20 * time.Millisecond
	}
	if cfg.DeferBase == 0 {
		cfg.DeferBase = 20 * time.Millisecond
	}
	if cfg.SecondLook == 0 {
		cfg.SecondLook = 50 * time.Millisecond
	}
	l := &Loader{done: make(chan struct{})}
	var q load.Batches = r.Queue
	if r.opts.Queue != nil {
		q = r.opts.Queue(q)
	}
	sessions := load.Dial(r.House.Dialer())
	if r.opts.Sessions != nil {
		sessions = r.opts.Sessions(sessions)
	}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", r.Name())
	}
	l.Loader = load.New(cfg, load.Deps{Queue: mortalQueue{q, l}, Streams: r.Streams, Sessions: mortalSessions{sessions, l}, Sources: r.opts.Sources, Log: log})
	base := context.WithoutCancel(r.Context())
	ctx, stop := context.WithCancel(base)
	l.stop = stop
	l.death, l.die = context.WithCancel(base)
	go func() {
		defer close(l.done)
		if err := l.Run(ctx); err != nil {
			r.Errorf("loader: %v", err)
		}
	}()
	r.Cleanup(l.Kill)
	return l
}

// Stop ends the loader in order.
func (l *Loader) Stop() {
	l.stop()
	<-l.done
}

// Kill ends the loader as the death of its process would: from now on it writes nothing to the state DB, gives back no
// lease, and its transaction ends without a COMMIT.
func (l *Loader) Kill() {
	l.die()
	l.Stop()
}

var errDead = errors.New("this process is dead")

func (l *Loader) alive() error {
	if l.death.Err() != nil {
		return errDead
	}
	return nil
}

// mortalQueue is the queue as long as its loader lives.
type mortalQueue struct {
	load.Batches
	l *Loader
}

func (q mortalQueue) Release(ctx context.Context, l sluice.Lease) error {
	if err := q.l.alive(); err != nil {
		return err
	}
	return q.Batches.Release(ctx, l)
}

func (q mortalQueue) Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (int, error) {
	if err := q.l.alive(); err != nil {
		return 0, err
	}
	return q.Batches.Start(ctx, l, id)
}

func (q mortalQueue) Next(ctx context.Context, l sluice.Lease) (queue.Work, error) {
	if err := q.l.alive(); err != nil {
		return queue.Work{}, err
	}
	return q.Batches.Next(ctx, l)
}

func (q mortalQueue) Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error {
	if err := q.l.alive(); err != nil {
		return err
	}
	return q.Batches.Succeed(ctx, l, a)
}

func (q mortalQueue) Advance(ctx context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error) {
	if err := q.l.alive(); err != nil {
		return nil, err
	}
	return q.Batches.Advance(ctx, l, a)
}

func (q mortalQueue) Retry(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	if err := q.l.alive(); err != nil {
		return "", err
	}
	return q.Batches.Retry(ctx, l, f)
}

func (q mortalQueue) Defer(ctx context.Context, l sluice.Lease, f queue.Failure) error {
	if err := q.l.alive(); err != nil {
		return err
	}
	return q.Batches.Defer(ctx, l, f)
}

func (q mortalQueue) Quarantine(ctx context.Context, l sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	if err := q.l.alive(); err != nil {
		return "", err
	}
	return q.Batches.Quarantine(ctx, l, f)
}

// mortalSessions opens sessions as long as their loader lives.
type mortalSessions struct {
	load.Sessions
	l *Loader
}

func (s mortalSessions) Open(ctx context.Context, org sluice.Org) (load.Session, error) {
	if err := s.l.alive(); err != nil {
		return nil, err
	}
	opened, err := s.Sessions.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	return mortalSession{opened, s.l}, nil
}

type mortalSession struct {
	load.Session
	l *Loader
}

func (s mortalSession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.l.death, cancel)()
	return s.Session.Apply(ctx, w)
}

// settleTimeout is far above what any test needs; it ends a test that would hang.
const settleTimeout = 90 * time.Second

// Settle waits until nothing is claimable or being worked on: each stream has nothing left, or is held by a rule that time
// alone does not lift.
func (r *Rig) Settle() {
	r.Helper()
	deadline := time.Now().Add(settleTimeout)
	for {
		rows, _, err := r.Queue.Status(r.Context(), queue.Filter{Org: r.Org, Limit: 1000})
		if err != nil {
			r.Fatal(err)
		}
		var moving []string
		for _, s := range rows {
			held := s.Owner != "" && !s.Lingering
			stuck := s.Head == "" || s.HeadState == sluice.Quarantined || s.BlockedBy != "" && !strings.HasPrefix(s.BlockedBy, "E10 tried again")
			if held || !stuck {
				moving = append(moving, fmt.Sprintf("%s head %s %s %s owner %.8s", s.Name, s.HeadRun, s.HeadState, s.BlockedBy, s.Owner))
			}
		}
		if len(moving) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("streams do not come to rest: %s", strings.Join(moving, "; "))
		}
		time.Sleep(10 * time.Millisecond) // a poll, not a guess: the condition above decides
	}
}

// Load runs a loader until everything has settled.
func (r *Rig) Load() {
	r.Helper()
	l := r.Loader()
	r.Settle()
	l.Stop()
}
