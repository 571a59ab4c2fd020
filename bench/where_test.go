package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// clock adds up where a loader's time goes, by call.
type clock struct {
	mu    sync.Mutex
	spent map[string]time.Duration
	calls map[string]int
}

func newClock() *clock { return &clock{spent: map[string]time.Duration{}, calls: map[string]int{}} }

func (c *clock) time(call string) func() {
	begin := time.Now()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spent[call] += time.Since(begin)
		c.calls[call]++
	}
}

func (c *clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.spent)
	clear(c.calls)
}

// String lists the calls, the costliest first, in milliseconds a batch.
func (c *clock) String(batches int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, call := range slices.SortedFunc(maps.Keys(c.spent), func(x, y string) int { return cmp.Compare(c.spent[y], c.spent[x]) }) {
		fmt.Fprintf(&b, "  %-22s %7.2f ms/batch  %5.2f calls\n", call, c.spent[call].Seconds()*1000/float64(batches), float64(c.calls[call])/float64(batches))
	}
	return b.String()
}

type timedQueue struct {
	load.Batches
	c *clock
}

func (q timedQueue) Next(ctx context.Context, l sluice.Lease) (queue.Work, error) {
	defer q.c.time("queue next")()
	return q.Batches.Next(ctx, l)
}

func (q timedQueue) Start(ctx context.Context, l sluice.Lease, id sluice.BatchID) (int, error) {
	defer q.c.time("queue start")()
	return q.Batches.Start(ctx, l, id)
}

func (q timedQueue) Succeed(ctx context.Context, l sluice.Lease, a queue.Applied) error {
	defer q.c.time("queue succeed")()
	q.phases(a)
	return q.Batches.Succeed(ctx, l, a)
}

func (q timedQueue) Advance(ctx context.Context, l sluice.Lease, a queue.Applied) (*queue.Work, error) {
	defer q.c.time("queue advance")()
	q.phases(a)
	return q.Batches.Advance(ctx, l, a)
}

func (q timedQueue) Upcoming(ctx context.Context, l sluice.Lease, limit int) ([]string, error) {
	defer q.c.time("queue upcoming")()
	return q.Batches.Upcoming(ctx, l, limit)
}

func (q timedQueue) phases(a queue.Applied) {
	for phase, ms := range a.Phases {
		q.c.mu.Lock()
		q.c.spent["  of apply: "+phase] += time.Duration(ms) * time.Millisecond
		q.c.calls["  of apply: "+phase]++
		q.c.mu.Unlock()
	}
}

type timedSessions struct {
	load.Sessions
	c *clock
}

func (s timedSessions) Open(ctx context.Context, org sluice.Org) (load.Session, error) {
	defer s.c.time("open session")()
	session, err := s.Sessions.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	return timedSession{session, s.c}, nil
}

type timedSession struct {
	load.Session
	c *clock
}

func (s timedSession) ReadControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (lake.Control, error) {
	defer s.c.time("read control")()
	return s.Session.ReadControl(ctx, id, batch)
}

func (s timedSession) DescribeFiles(ctx context.Context, paths []string) (map[string]lake.File, error) {
	defer s.c.time("describe files")()
	return s.Session.DescribeFiles(ctx, paths)
}

func (s timedSession) DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error) {
	defer s.c.time("describe target")()
	return s.Session.DescribeTarget(ctx, t)
}

func (s timedSession) DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error) {
	defer s.c.time("describe keys")()
	return s.Session.DescribeKeys(ctx, path, ask)
}

func (s timedSession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	defer s.c.time("apply")()
	return s.Session.Apply(ctx, w)
}
