package stream

import (
	"context"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// SlotCandidate is a plan that waits for a slot.
type SlotCandidate struct {
	PlanID   string
	StreamID sluice.StreamID
	Org      sluice.Org
	RunID    sluice.RunID // set if chunks wait for it
	Priority int64
	Resumed  bool // it had one before
	WantedAt time.Time
	OrgCap   *int64 // the org's own limit; nil: the default
}

// Slots reads, with the lock on granting held, what is in use per org and who waits.
func Slots(ctx context.Context, tx *statedb.Tx, limit int) (used map[sluice.Org]int, waiting []SlotCandidate, err error) {
	if _, _, err := statedb.One(ctx, tx, queries.Get("SlotLock"), statedb.Args{}, statedb.Value[int64]); err != nil {
		return nil, nil, err
	}
	type count struct {
		org sluice.Org
		n   int
	}
	counts, err := statedb.All(ctx, tx, queries.Get("SlotsUsed"), statedb.Args{}, func(scan statedb.Scan) (c count, err error) {
		return c, scan(&c.org, &c.n)
	})
	if err != nil {
		return nil, nil, err
	}
	used = map[sluice.Org]int{}
	for _, c := range counts {
		used[c.org] = c.n
	}
	waiting, err = statedb.All(ctx, tx, queries.Get("SlotCandidates"), statedb.Args{"limit": limit}, func(scan statedb.Scan) (c SlotCandidate, err error) {
		return c, scan(&c.PlanID, &c.StreamID, &c.Org, statedb.Text(&c.RunID), &c.Priority, &c.Resumed, statedb.Time(&c.WantedAt), &c.OrgCap)
	})
	return used, waiting, err
}

// GrantSlot gives a plan its permission to plan and to run.
func GrantSlot(ctx context.Context, tx *statedb.Tx, planID string) (bool, error) {
	return step(ctx, tx, "SlotGrant", statedb.Args{"plan_id": planID})
}

// Look is what the planner saw of a stream's source so far.
type Look struct {
	Due        bool // it is time for the next look
	Patient    bool // the first look is long enough ago
	EmptyApart bool // an empty table was seen, long enough ago
	FirstAt    time.Time
	EmptyAt    *time.Time
	ErrorCode  sluice.Code
	ErrorText  string
	Failures   int64
	NotBefore  time.Time
	LookedAt   time.Time
	known      bool
}

// Known reports whether there was a look at all.
func (l Look) Known() bool { return l.known }

// LookOf reads what was seen of a stream's source; a stream that nobody looked at is due.
func LookOf(ctx context.Context, r statedb.Runner, id sluice.StreamID, patience, apart time.Duration) (Look, error) {
	l, found, err := statedb.One(ctx, r, queries.Get("LookGet"), statedb.Args{"stream_id": id, "patience": patience, "apart": apart},
		func(scan statedb.Scan) (l Look, err error) {
			var due, patient, apart int64
			err = scan(statedb.Time(&l.FirstAt), statedb.Time(&l.LookedAt), statedb.TimePtr(&l.EmptyAt), statedb.Text(&l.ErrorCode), statedb.Text(&l.ErrorText),
				&l.Failures, statedb.Time(&l.NotBefore), &due, &patient, &apart)
			l.Due, l.Patient, l.EmptyApart, l.known = due == 1, patient == 1, apart == 1, true
			return l, err
		})
	if err == nil && !found {
		l.Due = true
	}
	return l, err
}

// Looked stores a look: an empty table, an error, or neither; the next one is due after wait.
func Looked(ctx context.Context, tx *statedb.Tx, id sluice.StreamID, empty bool, code sluice.Code, text string, wait time.Duration) error {
	_, err := step(ctx, tx, "LookStore", statedb.Args{
		"stream_id": id, "empty": empty, "code": statedb.Null(code), "text": statedb.Null(clip(text)), "wait": wait,
	})
	return err
}

// ForgetLooks removes what was seen: there is a plan, or nothing to plan.
func ForgetLooks(ctx context.Context, tx *statedb.Tx, id sluice.StreamID) error {
	_, err := step(ctx, tx, "LookRemove", statedb.Args{"stream_id": id})
	return err
}

// PassEnded notes that a planner process has made a whole pass.
func PassEnded(ctx context.Context, tx *statedb.Tx, instance string) error {
	_, err := step(ctx, tx, "PassEnded", statedb.Args{"instance": instance})
	return err
}

// Lifecycles counts the streams by lifecycle; Oldest is since when the longest of them is in it.
type Lifecycles map[sluice.Lifecycle]struct {
	Streams int64
	Oldest  *time.Time
}

// Lifecycles reads the counts.
func (s *Store) Lifecycles(ctx context.Context) (Lifecycles, error) {
	out := Lifecycles{}
	type row struct {
		lifecycle sluice.Lifecycle
		n         int64
		oldest    *time.Time
	}
	rows, err := statedb.All(ctx, s.db, queries.Get("GaugeLifecycles"), statedb.Args{}, func(scan statedb.Scan) (r row, err error) {
		return r, scan(&r.lifecycle, &r.n, statedb.TimePtr(&r.oldest))
	})
	for _, r := range rows {
		out[r.lifecycle] = struct {
			Streams int64
			Oldest  *time.Time
		}{r.n, r.oldest}
	}
	return out, err
}
