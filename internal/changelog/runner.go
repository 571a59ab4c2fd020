package changelog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Config of a Runner; the zero value of each field is its default.
type Config struct {
	Owner       string // of leases and fences; default: random
	Cluster     Cluster
	Slot        SlotConfig
	MemoryLimit int64 // default 512 MiB
	LeaseTTL    time.Duration
	Heartbeat   time.Duration
	Poll        time.Duration
	Only        []int // assignment static: these slots of every changelog, and no others
}

// Deps are what a Runner works with.
type Deps struct {
	Store    *Store
	Sessions Sessions
	Files    Files
	Meter    Meter
	Log      *slog.Logger
}

// Runner works on the slots that this process has taken.
type Runner struct {
	cfg    Config
	deps   Deps
	memory *Memory

	mu    sync.Mutex
	works map[slotKey]*work
}

type slotKey struct {
	id   string
	slot int
}

// work is one slot under way.
type work struct {
	lease  Lease
	c      *Changelog
	slot   *slot
	stop   context.CancelFunc      // give it up in order
	lose   context.CancelCauseFunc // there is no time: the lease is lost
	done   chan struct{}
	beaten time.Time // the last good heartbeat
}

var errLeaseLost = errors.New("the slot's lease is lost")

// NewRunner makes a Runner. It starts nothing.
func NewRunner(cfg Config, deps Deps) *Runner {
	if cfg.Owner == "" {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails
		cfg.Owner = hex.EncodeToString(b)
	}
	if cfg.MemoryLimit == 0 {
		cfg.MemoryLimit = 512 << 20
	}
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = time.Minute
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = 2 * time.Second
	}
	if deps.Meter == nil {
		deps.Meter = noMeter{}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	deps.Log = deps.Log.With("component", "changelog")
	return &Runner{cfg: cfg, deps: deps, memory: NewMemory(cfg.MemoryLimit), works: map[slotKey]*work{}}
}

type noMeter struct{}

func (noMeter) Flushed(*Changelog, Flushed) {}
func (noMeter) Fenced(*Changelog, int)      {}

// Run works until ctx is over, then gives all slots up.
func (r *Runner) Run(ctx context.Context) error {
	defer r.leave(ctx)
	var beats sync.WaitGroup
	beating, stop := context.WithCancel(context.WithoutCancel(ctx)) // leases are kept while slots are being given up
	beats.Go(func() { r.beat(beating) })
	defer beats.Wait()
	defer stop()
	defer r.giveUp()
	t := time.NewTicker(r.cfg.Poll)
	defer t.Stop()
	for {
		if err := r.runOnce(ctx); err != nil && ctx.Err() == nil {
			r.deps.Log.WarnContext(ctx, "slots not looked at, tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func (r *Runner) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.deps.Store.Leave(ctx, r.cfg.Owner); err != nil {
		r.deps.Log.WarnContext(ctx, "process not signed off: the others wait until its time is over", "error", err)
	}
}

func (r *Runner) giveUp() {
	for _, w := range r.all() {
		w.stop()
	}
	for _, w := range r.all() {
		<-w.done
	}
}

func (r *Runner) all() []*work {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*work, 0, len(r.works))
	for _, w := range r.works {
		out = append(out, w)
	}
	return out
}

// runOnce takes slots that are free, and gives back what is not wanted or more than this process's share.
func (r *Runner) runOnce(ctx context.Context) error {
	members, err := r.deps.Store.Join(ctx, r.cfg.Owner, r.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	slots, err := r.deps.Store.Slots(ctx)
	if err != nil {
		return err
	}
	changelogs, err := r.deps.Store.List(ctx)
	if err != nil {
		return err
	}
	byID := map[string]*Changelog{}
	for _, c := range changelogs {
		byID[c.ID] = c
	}
	wanted := map[slotKey]bool{}
	for _, l := range slots {
		if len(r.cfg.Only) == 0 || slices.Contains(r.cfg.Only, l.Slot) {
			wanted[slotKey{l.ChangelogID, l.Slot}] = true
		}
	}
	share := len(wanted)
	if len(r.cfg.Only) == 0 {
		share = Share(len(slots), int(members))
	}
	mine := 0
	for _, w := range r.all() {
		key := slotKey{w.lease.ChangelogID, w.lease.Slot}
		c := byID[w.lease.ChangelogID]
		if !wanted[key] || mine >= share || c == nil || changed(c, w.c) {
			w.stop() // it is taken again with the new config, by whoever is first
			continue
		}
		mine++
	}
	for _, l := range slots {
		key := slotKey{l.ChangelogID, l.Slot}
		if mine >= share || l.Live || !wanted[key] || byID[l.ChangelogID] == nil || r.has(key) {
			continue
		}
		lease, ok, err := r.deps.Store.Take(ctx, l, r.cfg.Owner, r.cfg.LeaseTTL)
		if err != nil {
			return err
		}
		if ok {
			r.start(ctx, lease, byID[l.ChangelogID])
			mine++
		}
	}
	return nil
}

// changed reports whether what a slot works by has changed.
func changed(a, b *Changelog) bool {
	return !reflect.DeepEqual(a.Def, b.Def) || a.TopicID != b.TopicID
}

// Share is how many slots one of so many processes takes.
func Share(slots, members int) int {
	members = max(members, 1)
	return (slots + members - 1) / members
}

func (r *Runner) has(k slotKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.works[k] != nil
}

// start works on a slot in a goroutine of its own until it ends by itself or is stopped.
func (r *Runner) start(ctx context.Context, l Lease, c *Changelog) {
	ctx, stop := context.WithCancel(ctx)
	hurry, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	log := r.deps.Log.With("changelog", c.Name, "slot", l.Slot)
	cfg := r.cfg.Slot
	s := &slot{
		c: c, number: l.Slot, cfg: cfg, cluster: r.cfg.Cluster, memory: r.memory, meter: r.deps.Meter, log: log,
		sink: &sink{
			c: c, slot: l.Slot, owner: fmt.Sprintf("%s-%d", r.cfg.Owner, l.Epoch), sessions: r.deps.Sessions, files: r.deps.Files,
			log: log, now: r.deps.Store.Now, stop: make(chan struct{}),
		},
	}
	w := &work{lease: l, c: c, slot: s, stop: stop, lose: lose, done: make(chan struct{}), beaten: time.Now()}
	r.mu.Lock()
	r.works[slotKey{l.ChangelogID, l.Slot}] = w
	r.mu.Unlock()
	log.InfoContext(ctx, "slot taken")
	go func() {
		defer close(w.done)
		err := r.filtered(ctx, hurry, w)
		stop()
		r.ended(context.WithoutCancel(ctx), w, err)
		lose(nil)
	}()
}

// ended notes why the work on a slot has ended, and gives the lease back.
func (r *Runner) ended(ctx context.Context, w *work, err error) {
	code := sluice.CodeOf(err)
	switch {
	case err == nil:
		w.slot.log.InfoContext(ctx, "slot given up")
	case halts(err):
		w.slot.log.ErrorContext(ctx, "changelog halted", "code", code, "error", err, "hint", sluice.HintOf(err))
		if herr := r.deps.Store.Halt(ctx, w.c, code, err.Error()); herr != nil {
			w.slot.log.WarnContext(ctx, "halt not stored: the slot halts again", "error", herr)
		}
	default:
		w.slot.note(err)
		w.slot.log.WarnContext(ctx, "slot ended, taken again after a while", "code", code, "error", err)
	}
	r.mu.Lock()
	resting := err != nil && !halts(err)
	if !resting {
		delete(r.works, slotKey{w.lease.ChangelogID, w.lease.Slot})
	}
	r.mu.Unlock()
	if rerr := r.deps.Store.Release(ctx, w.lease); rerr != nil {
		w.slot.log.WarnContext(ctx, "lease not released: it expires", "error", rerr)
	}
	if resting { // it stays in the list, with its error, until it may be taken again
		time.AfterFunc(r.rest(err), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.works[slotKey{w.lease.ChangelogID, w.lease.Slot}] == w {
				delete(r.works, slotKey{w.lease.ChangelogID, w.lease.Slot})
			}
		})
	}
}

// topicRetry is how long a topic that cannot be read is left alone.
const topicRetry = 30 * time.Second

func (r *Runner) rest(err error) time.Duration {
	switch sluice.CodeOf(err) {
	case "SLUICE-CHANGELOG-TOPIC", "SLUICE-CHANGELOG-AUTH":
		return min(topicRetry, 15*r.cfg.Poll)
	}
	return r.cfg.Poll
}

// halts reports whether an error needs a person.
func halts(err error) bool {
	switch sluice.CodeOf(err) {
	case "SLUICE-CHANGELOG-GAP", "SLUICE-CHANGELOG-TRUNCATED", "SLUICE-CHANGELOG-TOPIC-RECREATED", "SLUICE-CHANGELOG-POISON-FLOOD",
		"SLUICE-CHANGELOG-CONTROL", "SLUICE-CHANGELOG-TABLE":
		return true
	}
	var f *lake.Failure
	return errors.As(err, &f) && f.Class == lake.Permanent && f.Err.Code != "SLUICE-CHANGELOG-FENCED"
}

// beat renews the leases. One that is lost, or has not been renewed for 2/3 of its time, ends its slot at once.
func (r *Runner) beat(ctx context.Context) {
	t := time.NewTicker(r.cfg.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, w := range r.all() {
			select {
			case <-w.done:
				continue
			default:
			}
			kept, err := r.deps.Store.Beat(ctx, w.lease, r.cfg.LeaseTTL)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil && kept:
				w.beaten = time.Now()
				if err := r.deps.Store.Running(ctx, w.c); err != nil {
					r.deps.Log.DebugContext(ctx, "status not stored", "error", err)
				}
			case err == nil, time.Since(w.beaten) > r.cfg.LeaseTTL*2/3:
				w.lose(errLeaseLost)
				w.stop()
			}
		}
	}
}

// Status lists the slots that this process works on.
func (r *Runner) Status() []SlotStatus {
	var out []SlotStatus
	for _, w := range r.all() {
		s := w.slot.Status()
		s.Changelog, s.Slot = w.c.Name, w.lease.Slot
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b SlotStatus) int {
		return cmp.Or(cmp.Compare(a.Changelog, b.Changelog), cmp.Compare(a.Slot, b.Slot))
	})
	return out
}

// Held is the memory that the buffers of this process take.
func (r *Runner) Held() int64 { return r.memory.Held() }

// filtered runs a slot, with the list of its filter kept up to date beside it.
func (r *Runner) filtered(ctx, hurry context.Context, w *work) error {
	d := w.c.Def
	switch {
	case d.Filter != nil:
		values := d.Filter.Values
		w.slot.sink.filter = func() (*[]string, int64) { return &values, 0 }
	case d.IncludeValues != nil:
		p := newPoller(w.c, r.deps.Store, w.slot.log)
		ready, stop, err := p.start(ctx)
		if err != nil {
			return err
		}
		defer stop()
		if !ready(ctx) {
			return nil
		}
		w.slot.sink.filter = p.filter
	}
	return w.slot.run(ctx, hurry)
}
