package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

// faulty lets a test come before the calls of a loader to the lake and to the queue.
type faulty struct {
	open      func() error
	apply     func(w lake.Write) error
	applied   func(w lake.Write, err error) // set: a transaction is begun even if its loader has given up
	target    func() error
	heartbeat func() error
	claim     func()
}

func (f *faulty) sessions(s load.Sessions) load.Sessions { return faultySessions{s, f} }
func (f *faulty) queue(b load.Batches) load.Batches      { return faultyQueue{b, f} }

type faultySessions struct {
	load.Sessions
	f *faulty
}

func (s faultySessions) Open(ctx context.Context, org sluice.Org) (load.Session, error) {
	if s.f.open != nil {
		if err := s.f.open(); err != nil {
			return nil, err
		}
	}
	opened, err := s.Sessions.Open(ctx, org)
	if err != nil {
		return nil, err
	}
	return faultySession{opened, s.f}, nil
}

type faultySession struct {
	load.Session
	f *faulty
}

func (s faultySession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	if s.f.apply != nil {
		if err := s.f.apply(w); err != nil {
			return lake.Applied{}, err
		}
	}
	if s.f.applied == nil {
		return s.Session.Apply(ctx, w)
	}
	applied, err := s.Session.Apply(context.WithoutCancel(ctx), w)
	s.f.applied(w, err)
	return applied, err
}

func (s faultySession) DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error) {
	if s.f.target != nil {
		if err := s.f.target(); err != nil {
			return lake.Target{}, lake.AsFailure(err, lake.PhaseDescribe, "describe table "+t.String())
		}
	}
	return s.Session.DescribeTarget(ctx, t)
}

type faultyQueue struct {
	load.Batches
	f *faulty
}

func (q faultyQueue) Heartbeat(ctx context.Context, owner string, leases []sluice.Lease, ttl time.Duration) ([]sluice.StreamID, error) {
	if q.f.heartbeat != nil {
		if err := q.f.heartbeat(); err != nil {
			return nil, err
		}
	}
	return q.Batches.Heartbeat(ctx, owner, leases, ttl)
}

func (q faultyQueue) Claim(ctx context.Context, r queue.ClaimRequest) ([]sluice.Lease, error) {
	leases, err := q.Batches.Claim(ctx, r)
	if q.f.claim != nil && len(leases) > 0 {
		q.f.claim()
	}
	return leases, err
}

// Two loaders past the claim with the same batch: one stops before its transaction until its lease has ended and another
// has applied the batch; then it goes on. It finds the fence moved and writes nothing (cases 23 and 27).
func TestTwoWritersOfOneBatch(t *testing.T) {
	t.Parallel()
	for kind, opts := range map[string]house.Options{"duckdb": {}, "postgres": {Postgres: true}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := house.New(t, opts)
			for name, c := range map[string]struct {
				sync  sluice.SyncType
				batch string
			}{
				"insert":                  {sluice.Append, rows("2, 'b'")},
				"merge that matches":      {sluice.Incremental, rows("1, 'A'", "2, 'b'")},
				"merge that only inserts": {sluice.Incremental, rows("2, 'b'")},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					reached, goOn := make(chan struct{}), make(chan struct{})
					var first atomic.Bool
					var codes []sluice.Code // of the tries to apply the batch, in the order of their ends
					f := faulty{
						apply: func(w lake.Write) error {
							if w.RunID == "r2" && first.CompareAndSwap(false, true) {
								close(reached)
								<-goOn
							}
							return nil
						},
						applied: func(w lake.Write, err error) {
							if w.RunID == "r2" {
								codes = append(codes, sluice.CodeOf(err))
							}
						},
					}
					r := rig.New(t, h, rig.Options{Sessions: f.sessions, Config: load.Config{LeaseTTL: 500 * time.Millisecond, Heartbeat: time.Hour}})
					id := r.Stream(c.sync)
					r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
					r.Load()
					r.Enqueue(id, "r2", r.File(c.batch))
					stopped := r.Loader()
					<-reached
					r.Load()
					before := r.Rows(id, "SELECT * FROM {t} ORDER BY ALL")
					b, history, err := r.Queue.Batch(t.Context(), r.Batches(id, "r2")[0].BatchID)
					if err != nil || b.LoadState != sluice.Succeeded {
						t.Fatalf("the batch is %s, %v", b.LoadState, err)
					}
					close(goOn)
					stopped.Stop()
					r.WantTable(id, "*", before...)
					if len(codes) != 2 || codes[0] != "" || codes[1] != "SLUICE-LOAD-FENCE-LOST" {
						t.Errorf("the tries ended with %q, want none and then SLUICE-LOAD-FENCE-LOST", codes)
					}
					_, after, err := r.Queue.Batch(t.Context(), b.BatchID)
					if err != nil || len(after) != len(history) {
						t.Errorf("the stopped loader wrote to the state DB: %+v", after)
					}
					if got := r.Rows(id, "SELECT count(*), count(DISTINCT id) FROM {t}")[0]; got != "2|2" {
						t.Errorf("rows and keys: %s", got)
					}
				})
			}
		})
	}
}

// A batch that kills each loader that applies it ends in quarantine after five, and other streams go on (case 31).
func TestPoisonBatch(t *testing.T) {
	t.Parallel()
	var killed atomic.Int64
	died := make(chan struct{}, 10)
	hang := make(chan struct{})
	f := faulty{apply: func(w lake.Write) error {
		if w.RunID == "poison" {
			killed.Add(1)
			died <- struct{}{}
			<-hang // until the process is dead
			return errors.New("dead")
		}
		return nil
	}}
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{Sessions: f.sessions, Config: load.Config{LeaseTTL: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond}})
	id, other := r.Stream(sluice.Append), r.Stream(sluice.Append)
	r.Enqueue(id, "poison", r.File(rows("1, 'a'")), r.File(rows("2, 'b'")))
	for range 5 {
		l := r.Loader()
		<-died
		go func() { hang <- struct{}{} }()
		l.Kill()
	}
	r.Enqueue(other, "r1", r.File(rows("1, 'a'")))
	r.Load()
	r.WantQuarantined(id, "SLUICE-LOAD-INTERRUPTED")
	if n := killed.Load(); n != 5 {
		t.Errorf("%d loaders died, want 5", n)
	}
	r.WantTable(other, "id, v", "1|a")
}

// The lease outlives a claim that is slower than its life, and a heartbeat that fails: it is renewed or given up before the
// first apply, and the work goes on (case 29).
func TestSlowClaimAndLostHeartbeat(t *testing.T) {
	t.Parallel()
	var beats, claims atomic.Int64
	f := faulty{
		heartbeat: func() error {
			if beats.Add(1)%2 == 1 {
				return errors.New("connection reset")
			}
			return nil
		},
		claim: func() {
			if claims.Add(1) == 1 {
				time.Sleep(600 * time.Millisecond) // longer than the lease's life
			}
		},
		apply: func(lake.Write) error {
			time.Sleep(150 * time.Millisecond) // a batch takes a few heartbeats
			return nil
		},
	}
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{
		Sessions: f.sessions, Queue: f.queue, Config: load.Config{LeaseTTL: 500 * time.Millisecond, Heartbeat: 60 * time.Millisecond},
	})
	id := r.Stream(sluice.Append)
	r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File(rows("2, 'b'")), r.File(rows("3, 'c'")), r.File(rows("4, 'd'")), r.File(rows("5, 'e'")), r.File(rows("6, 'f'")))
	r.Load()
	r.WantTable(id, "id, v", "1|a", "2|b", "3|c", "4|d", "5|e", "6|f")
	if beats.Load() == 0 || claims.Load() < 2 {
		t.Errorf("%d heartbeats and %d claims: the test tests nothing", beats.Load(), claims.Load())
	}
}

// A session that cannot be opened uses no try and holds no lease (case 35).
func TestSessionCannotBeOpened(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	f := faulty{open: func() error {
		if tries.Add(1) <= 7 {
			return lake.AsFailure(&pgconn.PgError{Code: "57P03", Message: "starting up"}, lake.PhaseConnect, "open a session")
		}
		return nil
	}}
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{Sessions: f.sessions, Config: load.Config{Limits: load.Limits{DeferCap: 50 * time.Millisecond}}})
	id := r.Stream(sluice.Append)
	r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
	r.Load()
	r.WantTable(id, "id, v", "1|a")
	if b := r.Batches(id, "r1")[0]; b.Attempt != 1 || b.Deferrals != 7 {
		t.Errorf("%d tries and %d deferrals, want 1 and 7", b.Attempt, b.Deferrals)
	}
}

// A table counts as absent only if the catalog has said so: a probe that fails is no proof, and no table is made on it
// (case 16).
func TestProbeThatFails(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]error{
		"times out":       &pgconn.PgError{Code: "57014", Message: "canceling statement due to timeout"},
		"catalog is away": &pgconn.PgError{Code: "58030", Message: "Unable to connect to Postgres"},
		"connection lost": &pgconn.PgError{Code: "57P01", Message: "terminating connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var probes atomic.Int64
			f := faulty{target: func() error {
				if n := probes.Add(1); n == 2 || n == 3 {
					return probe
				}
				return nil
			}}
			r := rig.New(t, house.New(t, house.Options{}), rig.Options{Sessions: f.sessions})
			id := r.Stream(sluice.Incremental)
			r.Enqueue(id, "r1", r.File(rows("1, 'a'"))) // its schema does not exist either
			r.Load()
			r.Enqueue(id, "r2", r.File(rows("2, 'b'")))
			r.Load()
			r.WantTable(id, "id, v", "1|a", "2|b")
			r.WantOps(id, "r1", "create")
			r.WantOps(id, "r2", "merge")
			if probes.Load() < 4 {
				t.Errorf("%d probes: the test tests nothing", probes.Load())
			}
		})
	}
}

// Markers of one stream are pruned while another loads: they are in tables of their own, so no try of the other is used up
// (case 49).
func TestMarkersArePrunedMeanwhile(t *testing.T) {
	t.Parallel()
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{})
	old, busy := r.Stream(sluice.Append), r.Stream(sluice.Append)
	file := r.File(rows("1, 'a'"))
	r.Enqueue(old, "r1", file, file, file)
	r.Load()
	r.Enqueue(busy, "r1", file, file, file, file, file, file, file, file)
	l := r.Loader()
	maintenance := r.House.Service(r.Org)
	for r.Batches(busy, "r1")[7].LoadState != sluice.Succeeded {
		if _, err := maintenance.Exec(t.Context(), "DELETE FROM "+lake.ControlTable(old).SQL()+" WHERE kind = 'marker'"); err != nil {
			t.Fatal(err)
		}
	}
	l.Stop()
	for _, b := range r.Batches(busy, "r1") {
		if b.Attempt != 1 || b.Deferrals != 0 {
			t.Errorf("batch %d: %d tries, %d deferrals", b.BatchIndex, b.Attempt, b.Deferrals)
		}
	}
	r.Enqueue(old, "r2", file)
	r.Load()
	r.WantTable(old, "count(*)", "4")
}
