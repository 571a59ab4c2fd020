package load

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
	"sluice/internal/queue"
	"sluice/internal/queue/queuetest"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// rig is a whole system in one test: the real queue on SQLite, a lake in memory, and any number of loader processes. Their
// work runs in tasks of which one runs at a time: each call to the queue, the registry or the lake hands the turn back, so
// that a schedule depends on nothing but the choices of the test.
type rig struct {
	t       testing.TB
	rng     *rand.Rand
	env     *queuetest.Env
	fake    *laketest.Fake
	files   map[string][]laketest.Record
	absent  map[string][]laketest.Record // files that their producer has not written yet
	now     time.Time                    // of the state DB
	procs   []*proc
	streams []*modelStream
	fate    func(call string) fate
	calls   int

	current *task
	trace   []string
	err     error
	close   func()
	data    []byte // the state DB's file, once it is closed
}

// fate is what befalls a call.
type fate struct {
	fault laketest.Fault // LoseConn: before it had an effect; LoseReply: afterwards
	die   bool           // the process is killed in this call
}

// proc is a loader process.
type proc struct {
	rig    *rig
	name   string
	loader *Loader
	ctx    context.Context
	kill   context.CancelFunc
	dead   bool
	frozen time.Time // it does not run before
	skew   time.Duration
	tasks  []*task
	timers []*timer
	busy   map[string]bool // tasks of the process itself that are under way
}

type task struct {
	proc  *proc
	name  string
	next  func() (struct{}, bool) // gives it the turn
	yield func(struct{}) bool     // hands it back
	until time.Time               // it waits for the time; zero: it does not
	ctx   context.Context
	done  bool
}

type timer struct {
	at      time.Time
	fn      func()
	stopped bool
}

var (
	errInjected = errors.New("the fault of this test")
	errDead     = errors.New("the process is dead")
)

// template is an empty state DB, made once.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp(memoryDir(), "sluice-load")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "state.db")
	db, err := statedb.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.Up(context.Background()), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// memoryDir is where a sync of a file costs nothing, if there is such a place.
func memoryDir() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

var rigQueries = statedb.MustLoad(fstest.MapFS{"rig.sql": {Data: []byte(`
-- name: OverBudget
SELECT l.org FROM stream_lease l JOIN org o ON o.org = l.org WHERE l.owner IS NOT NULL AND l.expires_at > {{now}}
GROUP BY l.org, o.max_streams HAVING count(*) > o.max_streams;
-- name: NextTime
SELECT min(at) FROM (
    SELECT l.ready_at AS at FROM stream_lease l WHERE l.ready_at > {{now}}
    UNION ALL SELECT l.expires_at FROM stream_lease l WHERE l.owner IS NOT NULL AND l.expires_at > {{now}} AND l.ready_at IS NOT NULL
) AS times WHERE at IS NOT NULL;
-- name: Claimable
SELECT count(*) FROM stream_lease l WHERE l.ready_at <= {{now}};
-- name: Mirrors
SELECT m.batch_id FROM batch_marker m WHERE m.stream_id = :stream_id;
`)}}, "*.sql")

func newRig(t testing.TB, seed uint64) *rig {
	t.Helper()
	data, err := template()
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, seed, data)
}

// newRigOn begins with a state DB that was used before.
func newRigOn(t testing.TB, seed uint64, data []byte) *rig {
	t.Helper()
	dir, err := os.MkdirTemp(memoryDir(), "sluice-load")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := statedb.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fake: laketest.NewFake(), files: map[string][]laketest.Record{}, absent: map[string][]laketest.Record{}, fate: func(string) fate { return fate{} }}
	r.env = queuetest.NewEnv(t, func(testing.TB) *statedb.DB { return db })
	r.advance(0)
	r.fake.Before = func(_ context.Context, call string) laketest.Fault {
		if r.current == nil {
			return laketest.NoFault
		}
		return r.call(r.current.proc, call).fault
	}
	r.close = sync.OnceFunc(func() {
		for _, p := range r.procs {
			r.crash(p)
		}
		_ = db.Close()
		r.data, _ = os.ReadFile(path)
		_ = os.RemoveAll(dir)
	})
	t.Cleanup(r.close)
	return r
}

func (r *rig) advance(d time.Duration) {
	if r.now.IsZero() {
		r.now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	}
	r.now = r.now.Add(d)
	r.env.SetNow(r.now)
}

func (r *rig) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf("%4d %s ", len(r.trace), r.now.Format("04:05.000"))+fmt.Sprintf(format, args...))
}

func (r *rig) failed(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.note("FAILED: %v", r.err)
	}
}

// tail is the end of the trace.
func (r *rig) tail() string {
	return strings.Join(r.trace[max(0, len(r.trace)-400):], "\n")
}

func (r *rig) hash() uint64 {
	h := fnv.New64a()
	for _, line := range r.trace {
		_, _ = h.Write([]byte(line))
	}
	return h.Sum64()
}

func (r *rig) addOrg(name string, budget int64, team sluice.TeamID) {
	limits := control.DefaultLimits()
	limits.MaxStreams = &budget
	_, err := r.env.Control.CreateOrg(context.Background(), control.NewOrg{Org: sluice.Org(name), State: sluice.OrgReady, Limits: &limits}, control.By{Who: "test"})
	if err == nil {
		_, err = r.env.Control.CreateTeam(context.Background(), control.NewTeam{Org: sluice.Org(name), TeamID: team}, control.By{Who: "test"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) addStream(org string, team sluice.TeamID, sync sluice.SyncType) *modelStream {
	n := len(r.streams) + 1
	s := stream.NewStream{
		StreamID: sluice.StreamID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Org: sluice.Org(org), TeamID: team,
		SourceType: "pg", Name: fmt.Sprintf("table%d", n), SyncType: sync,
	}
	if sync == sluice.Incremental {
		s.Options.PrimaryKeys = []string{"id"}
	}
	st, err := r.env.Streams.Add(context.Background(), s, stream.By{Who: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	m := &modelStream{id: st.StreamID, sync: sync}
	r.streams = append(r.streams, m)
	return m
}

func (r *rig) file(path string, rows []laketest.Record) {
	text, err := lake.ParseType("VARCHAR")
	if err != nil {
		r.t.Fatal(err)
	}
	r.files[path] = rows
	r.fake.File(path, lake.Columns{{Name: "id", Type: text}, {Name: "v", Type: text}}, rows)
}

// deliver lets a producer say the next thing.
func (r *rig) deliver(s *modelStream) {
	d := s.planned[0]
	s.planned = s.planned[1:]
	res, err := r.env.Queue.Enqueue(context.Background(), queue.EnqueueRequest{
		StreamID: s.id, RunID: sluice.RunID(d.run.id), IsFirstEver: d.run.firstEver, Batches: d.rows,
	})
	r.note("enqueue %s %s %s: %v", short(s.id), d.run.id, indexes(d.rows), err)
	if err != nil {
		givenUp := slices.Contains(s.runs, d.run) && s.runs[len(s.runs)-1] != d.run || !slices.Contains(s.runs, d.run) && sluice.CodeOf(err) == "SLUICE-LOAD-RUN-SEALED"
		if sluice.CodeOf(err) != "SLUICE-LOAD-RUN-SEALED" || !givenUp {
			r.failed("enqueue: %v", err)
		}
		return
	}
	s.accept(d, res)
}

func indexes(rows []queue.NewBatch) string {
	out := ""
	for _, b := range rows {
		out += fmt.Sprintf("%d", b.BatchIndex)
		if b.IsFinal {
			out += "!"
		}
		out += " "
	}
	return out
}

func short[S ~string](id S) string { return strings.TrimLeft(string(id)[max(0, len(id)-4):], "0") }

// start starts a loader process.
func (r *rig) start() *proc {
	p := &proc{rig: r, name: fmt.Sprintf("p%d", len(r.procs)+1), busy: map[string]bool{}}
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.loader = New(Config{Owner: p.name, Concurrency: 4}, Deps{Queue: rigQueue{p, r.env.Queue}, Streams: rigStreams{p}, Sessions: rigSessions{p}})
	p.loader.clock = rigClock{p}
	r.procs = append(r.procs, p)
	r.note("start %s", p.name)
	return p
}

// crash kills a process as kill -9 does: nothing it does after has an effect.
func (r *rig) crash(p *proc) {
	if p.dead {
		return
	}
	r.note("crash %s", p.name)
	p.dead = true
	p.kill()
	for len(p.tasks) > 0 {
		r.run(p.tasks[0])
	}
}

func (p *proc) alive() bool { return !p.dead && !p.frozen.After(p.rig.now) }

// spawn begins a task.
func (p *proc) spawn(name string, fn func(ctx context.Context)) {
	t := &task{proc: p, name: p.name + "/" + name, ctx: p.ctx}
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		fn(p.ctx)
		t.done = true
	})
	p.tasks = append(p.tasks, t)
}

// once begins one of the tasks that a process has one of.
func (p *proc) once(name string, fn func(ctx context.Context)) {
	if p.busy[name] {
		return
	}
	p.busy[name] = true
	p.spawn(name, func(ctx context.Context) {
		fn(ctx)
		p.busy[name] = false
	})
}

// look is one turn of the loop in Run.
func (p *proc) look() {
	p.once("find", func(ctx context.Context) {
		holds, err := p.loader.find(ctx)
		p.loader.wait(len(holds), err)
		for _, h := range holds {
			p.spawn("work "+short(h.lease.StreamID), func(ctx context.Context) { p.loader.workOn(ctx, h) })
		}
	})
}

func (p *proc) beat()  { p.once("beat", p.loader.beat) }
func (p *proc) sweep() { p.once("sweep", p.loader.sweep) }

func (t *task) ready() bool {
	return t.proc.dead || t.proc.alive() && !t.until.After(t.proc.rig.now) || t.proc.alive() && t.ctx.Err() != nil
}

// run gives a task the turn until its next call, or its end.
func (r *rig) run(t *task) {
	r.current = t
	t.next()
	r.current = nil
	if t.done {
		t.proc.tasks = slices.DeleteFunc(t.proc.tasks, func(o *task) bool { return o == t })
	}
}

// turn hands the turn back, and waits for the next.
func (r *rig) turn() { r.current.yield(struct{}{}) }

// call is where each call of a process passes.
func (r *rig) call(p *proc, name string) fate {
	if p.dead {
		return fate{fault: laketest.LoseConn, die: true}
	}
	task := r.current.name
	r.turn()
	if p.dead {
		if name == "apply" { // killed in the middle of it: anything may have become of the COMMIT
			return fate{fault: laketest.LoseConn + laketest.Fault(r.rng.IntN(4)), die: true}
		}
		return fate{fault: laketest.LoseConn + laketest.Fault(r.rng.IntN(2)), die: true}
	}
	f := r.fate(name)
	r.calls++
	text := ""
	if f.fault != laketest.NoFault {
		text = fmt.Sprintf(": fault %d", f.fault)
	}
	if f.die {
		text += ", dies"
		p.dead = true
		p.kill()
	}
	r.note("%s %s%s", task, name, text)
	return f
}

// timers runs what is due in processes that run; with a chance below 1, some of it later.
func (r *rig) timers(chance float64) {
	for _, p := range r.procs {
		if !p.alive() {
			continue
		}
		for i := 0; i < len(p.timers); i++ {
			if t := p.timers[i]; !t.stopped && !t.at.After(r.now) && (chance == 1 || r.rng.Float64() < chance) {
				t.stopped = true
				t.fn()
			}
		}
		p.timers = slices.DeleteFunc(p.timers, func(t *timer) bool { return t.stopped })
	}
}

// settle lets late COMMITs arrive.
func (r *rig) settle() {
	r.note("late commits arrive")
	r.fake.Settle()
}

// heal takes all faults away and lets one new process bring everything to its end.
func (r *rig) heal() {
	r.fate = func(string) fate { return fate{} }
	p := r.start()
	for range 4000 {
		if r.err != nil {
			return
		}
		r.timers(1)
		if r.runReady() {
			continue
		}
		before := len(r.trace)
		p.look()
		r.runReady()
		if r.open(p) || slices.ContainsFunc(r.trace[before:], func(s string) bool { return strings.Contains(s, " has ") }) {
			continue
		}
		if r.operate() {
			continue
		}
		if !r.wait() {
			return
		}
		p.beat()
		p.sweep()
	}
	r.failed("it does not come to an end")
}

// open reports whether a process works on a stream.
func (r *rig) open(p *proc) bool {
	return slices.ContainsFunc(p.tasks, func(t *task) bool { return t.ready() })
}

// runReady runs what can run, to the end; false if there was nothing.
func (r *rig) runReady() bool {
	ran := false
	for again := true; again && r.err == nil; {
		again = false
		for _, p := range r.procs {
			for _, t := range slices.Clone(p.tasks) {
				if !t.done && t.ready() {
					r.run(t)
					ran, again = true, true
				}
			}
			r.reap()
		}
	}
	return ran
}

// reap ends the tasks of processes that have died.
func (r *rig) reap() {
	for _, p := range r.procs {
		for p.dead && len(p.tasks) > 0 {
			r.run(p.tasks[0])
		}
	}
}

// wait lets the time pass until something is due; false if nothing will be.
func (r *rig) wait() bool {
	next, found, err := statedb.One(background, r.env.DB, rigQueries.Get("NextTime"), nil, func(scan statedb.Scan) (t *time.Time, err error) {
		return t, scan(statedb.TimePtr(&t))
	})
	if err != nil {
		r.failed("look for the next time: %v", err)
		return false
	}
	var at time.Time
	if found && next != nil {
		at = *next
	}
	for _, p := range r.procs {
		for _, t := range p.tasks {
			if p.frozen.After(r.now) && (at.IsZero() || p.frozen.Before(at)) {
				at = p.frozen
			}
			if t.until.After(r.now) && (at.IsZero() || t.until.Before(at)) {
				at = t.until
			}
		}
	}
	if at.IsZero() {
		n, _, err := statedb.One(background, r.env.DB, rigQueries.Get("Claimable"), nil, statedb.Value[int64])
		if err != nil || n == 0 {
			return false
		}
		at = r.now.Add(time.Second) // a stream rests
	}
	r.advance(min(at.Sub(r.now), 10*time.Second))
	return true
}

// operate is the operator, who looks at what is quarantined: batches whose loaders died too often are tried again, files that
// are missing are put in their place. Gaps are left as they are.
func (r *rig) operate() bool {
	rows, _, err := r.env.Queue.Quarantined(background, queue.Filter{State: "open", Limit: 1000})
	if err != nil {
		r.failed("list quarantine: %v", err)
		return false
	}
	any := false
	for _, q := range rows {
		switch q.Code {
		case "SLUICE-LOAD-INTERRUPTED", "SLUICE-LOAD-FILE-GONE":
			if rows, ok := r.absent[q.Path]; ok {
				r.file(q.Path, rows)
				delete(r.absent, q.Path)
			}
			_, err := r.env.Queue.QuarantineRetry(background, q.BatchID, queue.Operator{Who: "test"})
			r.note("quarantine retry %s/%s/%d: %v", short(q.StreamID), q.RunID, q.BatchIndex, err)
			if err != nil {
				r.failed("quarantine retry: %v", err)
			}
			any = true
		case "SLUICE-LOAD-RUN-GAP":
		default:
			r.failed("batch %d of run %s of stream %s is quarantined: %s %s", q.BatchIndex, q.RunID, short(q.StreamID), q.Code, q.Message)
		}
	}
	return any
}

// check is what must hold at the end.
func (r *rig) check() {
	if r.err != nil {
		return
	}
	wrong, err := r.env.Queue.HeadsRight(background)
	if err != nil || len(wrong) > 0 {
		r.failed("heads are wrong: %v %v", wrong, err)
	}
	markers := 0
	for _, s := range r.streams {
		st, err := r.env.Streams.Get(background, s.id)
		if err != nil {
			r.failed("get stream: %v", err)
			return
		}
		s.table = lake.Table{Schema: st.TargetSchema, Name: st.TargetTable}
		batches, _, err := r.env.Queue.Batches(background, queue.Filter{StreamID: s.id, Limit: 1000})
		if err != nil {
			r.failed("list batches: %v", err)
		}
		runs, _, err := r.env.Queue.Runs(background, queue.Filter{StreamID: s.id, Limit: 1000})
		if err != nil {
			r.failed("list runs: %v", err)
		}
		if err := s.check(r.fake, batches, runs); err != nil {
			r.failed("stream %s (%s): %v", short(s.id), s.sync, err)
		}
		marked := r.fake.Markers(s.id)
		markers += len(marked)
		mirrors, err := statedb.All(background, r.env.DB, rigQueries.Get("Mirrors"), statedb.Args{"stream_id": s.id}, statedb.Value[sluice.BatchID])
		if err != nil {
			r.failed("read mirrors: %v", err)
		}
		for _, id := range mirrors {
			if !slices.ContainsFunc(marked, func(m lake.Marker) bool { return m.BatchID == id }) {
				r.failed("the mirror of batch %s has no marker in the lake", id)
			}
		}
	}
	if r.fake.Commits != markers {
		r.failed("%d transactions left %d markers", r.fake.Commits, markers)
	}
}
