package load

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/pg"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// desk is a queue of one stream in memory. It decides nothing: what the queue promises is shown by queuetest, and what
// both do together by the simulation. Here it is about the loop, its times and its end.
type desk struct {
	mu        sync.Mutex
	batches   []sluice.Batch // still to be done
	owner     string
	lingering bool
	asked     bool // another stream waits for the session's place
	orgPaused bool
	log       []string
	begun     time.Time
	rests     time.Time // the head waits until then

	claimErr  func() error
	heartbeat func(ctx context.Context) (lost bool, err error)
	contended bool
}

func (d *desk) note(s string) {
	d.log = append(d.log, time.Since(d.begun).Round(time.Second).String()+" "+s)
}

// has reports whether the log has a line with a text, and its time.
func (d *desk) when(text string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.log {
		if at, rest, _ := strings.Cut(l, " "); strings.HasPrefix(rest, text) {
			return at
		}
	}
	return ""
}

func (d *desk) count(text string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, l := range d.log {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

const theStream = sluice.StreamID("00000000-0000-0000-0000-00000000000a")

func (d *desk) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range n {
		i := int64(len(d.log)*1000 + len(d.batches))
		d.batches = append(d.batches, sluice.Batch{
			BatchID: sluice.BatchID(time.Duration(i).String()), RunID: "r", RunSeq: 1, BatchIndex: i, Path: "/x.parquet", LoadState: sluice.Queued,
		})
	}
}

func (d *desk) Claim(_ context.Context, r queue.ClaimRequest) ([]sluice.Lease, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.claimErr != nil {
		if err := d.claimErr(); err != nil {
			d.note("claim fails")
			return nil, err
		}
	}
	if len(d.batches) == 0 || time.Now().Before(d.rests) || d.owner != "" || r.Free <= 0 || slices.Contains(r.InFlight, theStream) {
		return nil, nil
	}
	d.note("claimed")
	d.owner = r.Owner
	return []sluice.Lease{{StreamID: theStream, Org: "acme", Owner: r.Owner, Epoch: 1}}, nil
}

func (d *desk) Heartbeat(ctx context.Context, _ string, leases []sluice.Lease, _ time.Duration) ([]sluice.StreamID, error) {
	if d.heartbeat == nil {
		return nil, nil
	}
	lost, err := d.heartbeat(ctx)
	if lost {
		return []sluice.StreamID{leases[0].StreamID}, err
	}
	return nil, err
}

func (d *desk) Release(context.Context, sluice.Lease) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("released")
	d.owner, d.lingering = "", false
	return nil
}

func (d *desk) Next(context.Context, sluice.Lease) (queue.Work, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.owner == "":
		return queue.Work{}, queue.ErrLeaseLost
	case len(d.batches) == 0 || time.Now().Before(d.rests):
		return queue.Work{}, queue.ErrNoWork
	}
	return queue.Work{Batch: d.batches[0], Run: sluice.Run{RunID: "r", Seq: 1, SyncType: sluice.Append}}, nil
}

func (d *desk) Start(context.Context, sluice.Lease, sluice.BatchID) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lingering = false
	d.note("started")
	return 1, nil
}

func (d *desk) Succeed(context.Context, sluice.Lease, queue.Applied) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batches = d.batches[1:]
	d.note("succeeded")
	return nil
}

func (d *desk) Advance(_ context.Context, _ sluice.Lease, _ queue.Applied) (*queue.Work, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batches = d.batches[1:]
	d.note("succeeded")
	if len(d.batches) == 0 {
		return nil, nil
	}
	d.note("started")
	next := d.batches[0]
	next.Attempt = 1
	return &queue.Work{Batch: next, Run: sluice.Run{RunID: "r", Seq: 1, SyncType: sluice.Append}}, nil
}

func (d *desk) Upcoming(context.Context, sluice.Lease, int) ([]string, error) { return nil, nil }

func (d *desk) Defer(_ context.Context, _ sluice.Lease, f queue.Failure) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("deferred")
	d.rests = time.Now().Add(f.Wait)
	return nil
}

func (d *desk) Retry(_ context.Context, _ sluice.Lease, f queue.Failure) (sluice.LoadState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("retry")
	d.rests = time.Now().Add(f.Wait)
	return sluice.RetryWait, nil
}

func (d *desk) Quarantine(context.Context, sluice.Lease, queue.Failure) (sluice.LoadState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("quarantined")
	d.batches = nil
	return sluice.Quarantined, nil
}

func (d *desk) Linger(context.Context, sluice.Lease) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("lingers")
	d.lingering = true
	return nil
}

func (d *desk) Lingering(context.Context, string) ([]queue.Lingerer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner == "" || !d.lingering {
		return nil, nil
	}
	work := len(d.batches) > 0 && !time.Now().Before(d.rests)
	return []queue.Lingerer{{StreamID: theStream, Epoch: 1, Asked: d.asked, OrgReady: !d.orgPaused, HasWork: work}}, nil
}

func (d *desk) Covered(context.Context, sluice.StreamID, sluice.RunID) ([]stream.CoveredBatch, error) {
	return nil, nil
}

func (d *desk) Contended(context.Context, []sluice.StreamID) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("contended?")
	return d.contended, nil
}

func (d *desk) Wake(context.Context) <-chan struct{} { return nil }

func (d *desk) Get(context.Context, sluice.StreamID) (sluice.Stream, error) {
	return sluice.Stream{StreamID: theStream, Org: "acme", TargetSchema: "s", TargetTable: "t"}, nil
}

func (d *desk) Bind(context.Context, sluice.StreamID, stream.BindOptions, stream.By) (stream.Binding, error) {
	return stream.Binding{}, errors.New("not asked for")
}

// parlour opens sessions to a lake in memory; each call may take a while or wait for its end.
type parlour struct {
	desk    *desk
	fake    *laketest.Fake
	apply   func(ctx context.Context) error
	expires time.Duration
	openErr error
}

type parlourSession struct {
	*laketest.FakeSession
	p       *parlour
	expires time.Time
}

func (p *parlour) Open(ctx context.Context, _ sluice.Org) (Session, error) {
	p.desk.mu.Lock()
	p.desk.note("opened")
	p.desk.mu.Unlock()
	if p.openErr != nil {
		return nil, p.openErr
	}
	s, err := p.fake.Open(ctx)
	if err != nil {
		return nil, err
	}
	ps := &parlourSession{FakeSession: s, p: p}
	if p.expires > 0 {
		ps.expires = time.Now().Add(p.expires)
	}
	return ps, nil
}

func (s *parlourSession) Expires() time.Time { return s.expires }

func (s *parlourSession) Close() error {
	s.p.desk.mu.Lock()
	defer s.p.desk.mu.Unlock()
	s.p.desk.note("closed")
	return nil
}

func (s *parlourSession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	if s.p.apply != nil {
		if err := s.p.apply(ctx); err != nil {
			return lake.Applied{}, lake.Fail(lake.PhaseData, lake.Deferred, sluice.E("SLUICE-LOAD-CONNECT", "apply", err.Error(), "", err))
		}
	}
	return s.FakeSession.Apply(ctx, w)
}

// inBubble runs a loader in a bubble of its own time, and a test beside it; at the end the loader must stop in order.
func inBubble(t *testing.T, setup func(d *desk, p *parlour, c *Config), fn func(t *testing.T, l *Loader, d *desk, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{begun: time.Now()}
		p := &parlour{desk: d, fake: laketest.NewFake()}
		text, err := lake.ParseType("VARCHAR")
		if err != nil {
			t.Fatal(err)
		}
		p.fake.File("/x.parquet", lake.Columns{{Name: "id", Type: text}}, []laketest.Record{{"id": "a"}})
		c := Config{Owner: "me"}
		setup(d, p, &c)
		l := New(c, Deps{Queue: d, Streams: d, Sessions: p})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		fn(t, l, d, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			ended <- nil
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(strings.Join(d.log, "\n"))
		}
	})
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// untilCancelled is an apply that goes on until it is told to end.
func untilCancelled(d *desk) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		d.mu.Lock()
		d.note("cancelled: " + context.Cause(ctx).Error())
		d.mu.Unlock()
		return context.Cause(ctx)
	}
}

func TestLostLeaseEndsTheWork(t *testing.T) {
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(1)
		p.apply = untilCancelled(d)
		d.heartbeat = func(context.Context) (bool, error) { return true, nil }
	}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
		time.Sleep(16 * time.Second)
		synctest.Wait()
		want(t, "cancelled", d.when("cancelled: lease lost"), "15s")
		if n := d.count("retry") + d.count("deferred") + d.count("quarantined") + d.count("succeeded"); n != 0 {
			t.Error("an outcome was written without the lease")
		}
		want(t, "given back", d.when("released"), "15s")
	})
}

// A heartbeat that hangs is cut off long after our own deadline; the work must end at the deadline all the same.
func TestOwnDeadlineHoldsWhileHeartbeatHangs(t *testing.T) {
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(1)
		p.apply = untilCancelled(d)
		d.heartbeat = func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}
	}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
		time.Sleep(2 * time.Minute)
		want(t, "cancelled", d.when("cancelled: lease lost"), "55s")
	})
}

func TestFailedHeartbeatIsSentAgain(t *testing.T) {
	var n atomic.Int64
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(1)
		p.apply = func(ctx context.Context) error {
			select {
			case <-time.After(5 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		d.heartbeat = func(context.Context) (bool, error) {
			if n.Add(1)%3 != 0 { // two of three come to nothing: 45 s from one that is confirmed to the next
				return false, errors.New("no answer")
			}
			return false, nil
		}
	}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
		time.Sleep(6 * time.Minute)
		want(t, "succeeded", d.when("succeeded"), "5m0s")
	})
}

// A stopping loader finishes the batch that is under way. It once went on with the next ones until it was cut off.
func TestDrainFinishesTheBatchAndBeginsNone(t *testing.T) {
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(20)
		p.apply = func(ctx context.Context) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}, func(t *testing.T, _ *Loader, d *desk, stop func()) {
		time.Sleep(15 * time.Second)
		stop()
		want(t, "the end", time.Since(d.begun).String(), "20s")
		if n := d.count("succeeded"); n != 2 {
			t.Errorf("%d batches are applied, want 2", n)
		}
		want(t, "given back", d.when("released"), "20s")
	})
}

func TestDrainIsCutOff(t *testing.T) {
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(1)
		p.apply = untilCancelled(d)
	}, func(t *testing.T, _ *Loader, d *desk, stop func()) {
		time.Sleep(5 * time.Second)
		stop()
		want(t, "cancelled", d.when("cancelled: the loader is stopping"), "35s")
		want(t, "recorded", d.when("retry"), "35s")
		want(t, "given back", d.when("released"), "35s")
	})
}

func TestClaimErrorsBackOff(t *testing.T) {
	inBubble(t, func(d *desk, _ *parlour, _ *Config) {
		d.claimErr = func() error {
			if time.Since(d.begun) < 10*time.Minute {
				return errors.New("no answer")
			}
			return nil
		}
		d.add(1)
	}, func(t *testing.T, l *Loader, d *desk, _ func()) {
		time.Sleep(9 * time.Minute)
		if n := d.count("claim fails"); n < 18 || n > 25 {
			t.Errorf("%d claims in 9 minutes, want one in 30 s after the first ones", n)
		}
		if s := l.Status().Stuck; !strings.Contains(s, "claims in a row") {
			t.Errorf("stuck: %q", s)
		}
		time.Sleep(2 * time.Minute)
		if d.when("succeeded") == "" {
			t.Error("it did not go on")
		}
		want(t, "stuck", l.Status().Stuck, "")
	})
}

func TestWorkThatDoesNotEndIsStuck(t *testing.T) {
	free := make(chan struct{})
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		free = make(chan struct{})
		d.add(1)
		p.apply = func(context.Context) error {
			<-free
			return errors.New("at last")
		}
		d.heartbeat = func(context.Context) (bool, error) { return true, nil }
	}, func(t *testing.T, l *Loader, _ *desk, _ func()) {
		time.Sleep(9 * time.Minute)
		want(t, "stuck", l.Status().Stuck, "")
		time.Sleep(2 * time.Minute)
		if s := l.Status().Stuck; !strings.Contains(s, "was told to end") {
			t.Errorf("stuck: %q", s)
		}
		close(free)
		synctest.Wait()
		want(t, "stuck", l.Status().Stuck, "")
	})
}

func TestSessionFailureGivesTheStreamBack(t *testing.T) {
	inBubble(t, func(d *desk, p *parlour, _ *Config) {
		d.add(1)
		p.openErr = errors.New("connection refused")
	}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
		time.Sleep(time.Second)
		want(t, "deferred", d.when("deferred"), "0s")
		want(t, "given back", d.when("released"), "0s")
	})
}

func TestWarmSessionIsUsedAgainAndClosedWhenIdle(t *testing.T) {
	inBubble(t, func(d *desk, _ *parlour, _ *Config) { d.add(1) }, func(t *testing.T, l *Loader, d *desk, _ func()) {
		time.Sleep(30 * time.Second)
		want(t, "lingers", d.when("lingers"), "0s")
		if s := l.Status(); s.Lingering != 1 || s.Streams != 0 {
			t.Errorf("%+v", s)
		}
		d.add(2)
		time.Sleep(30 * time.Second)
		if d.count("opened") != 1 || d.count("succeeded") != 3 {
			t.Errorf("%d sessions for %d batches", d.count("opened"), d.count("succeeded"))
		}
		time.Sleep(2 * time.Minute)
		if d.count("closed") != 1 || d.count("released") != 1 {
			t.Error("the idle session is kept")
		}
	})
}

func TestSessionIsReplacedByAgeAndCredential(t *testing.T) {
	for name, expires := range map[string]time.Duration{"age": 0, "credential": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(_ *desk, p *parlour, _ *Config) { p.expires = expires }, func(t *testing.T, _ *Loader, d *desk, _ func()) {
				for range 60 { // steady work, so that it is never idle for long
					d.add(1)
					time.Sleep(20 * time.Second)
				}
				n := d.count("opened")
				if expires == 0 && n != 2 || expires > 0 && (n < 5 || n > 6) {
					t.Errorf("%d sessions in 20 minutes", n)
				}
				if d.count("succeeded") != 60 {
					t.Errorf("%d batches", d.count("succeeded"))
				}
			})
		})
	}
}

func TestEvictedSessionIsClosed(t *testing.T) {
	inBubble(t, func(d *desk, _ *parlour, _ *Config) { d.add(1) }, func(t *testing.T, l *Loader, d *desk, _ func()) {
		time.Sleep(10 * time.Second)
		d.mu.Lock()
		d.owner = "" // taken by the queue, for a stream that waits
		d.mu.Unlock()
		time.Sleep(5 * time.Second)
		if d.count("closed") != 1 || l.Status().Lingering != 0 {
			t.Error("the session is kept without its lease")
		}
	})
}

func TestStreamIsOfferedBackOnlyIfOthersWait(t *testing.T) {
	for _, contended := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "others wait"}[contended], func(t *testing.T) {
			inBubble(t, func(d *desk, _ *parlour, _ *Config) {
				d.contended = contended
				d.add(120)
			}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
				time.Sleep(time.Second)
				wantDone, wantBack := 120, 0
				if contended {
					wantDone, wantBack = 50, 1 // and the rest after a moment
				}
				if done, back := d.count("succeeded"), d.count("released"); done != wantDone || back != wantBack {
					t.Errorf("%d batches done, offered back %d times", done, back)
				}
			})
		})
	}
}

func TestLeaseIsRenewedBeforeABatch(t *testing.T) {
	var beats atomic.Int64
	inBubble(t, func(d *desk, p *parlour, c *Config) {
		c.Heartbeat = time.Hour // it does not come by itself
		d.add(8)
		p.apply = func(ctx context.Context) error {
			select {
			case <-time.After(20 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		d.heartbeat = func(context.Context) (bool, error) {
			beats.Add(1)
			return false, nil
		}
	}, func(t *testing.T, _ *Loader, d *desk, _ func()) {
		time.Sleep(3 * time.Minute)
		if d.count("succeeded") != 8 || beats.Load() == 0 {
			t.Errorf("%d batches, %d heartbeats", d.count("succeeded"), beats.Load())
		}
	})
}
