package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

func leaseArgs(l sluice.Lease) statedb.Args {
	return statedb.Args{"stream_id": l.StreamID, "owner": l.Owner, "epoch": l.Epoch}
}

// Acquire takes the lease of one stream if it is free and the org is under its budget, for maintenance or an operator;
// ErrLeaseLost if not. ttl 0 means DefaultTTL.
func (s *Store) Acquire(ctx context.Context, id sluice.StreamID, owner string, p sluice.Purpose, ttl time.Duration) (sluice.Lease, error) {
	if !validUUID(string(id)) {
		return sluice.Lease{}, noStream(id)
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	var got claimed
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		limit, found, err := statedb.One(ctx, tx, queries.Get("OrgLock"), statedb.Args{"stream_id": id}, statedb.Value[*int64])
		if err != nil {
			return err
		}
		if !found {
			return noStream(id)
		}
		got, found, err = statedb.One(ctx, tx, queries.Get("LeaseAcquire"), statedb.Args{
			"stream_id": id, "owner": owner, "purpose": p, "ttl": ttl, "max_streams": limit,
		}, scanClaimed)
		if err == nil && !found {
			err = ErrLeaseLost
		}
		return err
	})
	if err != nil {
		return sluice.Lease{}, fmt.Errorf("acquire stream %s: %w", id, err)
	}
	got.Owner = owner
	return got.Lease, nil
}

// Heartbeat renews leases of an owner in one statement and gives the streams whose lease is lost: the owner stops working
// on these at once. Expiry is terminal, so a lease that has expired is lost although nobody else has taken it. After an
// error nothing is known to be lost: the owner tries again within its own deadline.
func (s *Store) Heartbeat(ctx context.Context, owner string, leases []sluice.Lease, ttl time.Duration) (lost []sluice.StreamID, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	type pair struct {
		StreamID sluice.StreamID `json:"stream_id"`
		Epoch    int64           `json:"epoch"`
	}
	pairs := make([]pair, len(leases))
	for i, l := range leases {
		pairs[i] = pair{l.StreamID, l.Epoch}
	}
	doc, err := json.Marshal(pairs)
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	kept := map[sluice.StreamID]bool{}
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		clear(kept)
		renewed, err := statedb.All(ctx, tx, queries.Get("Heartbeat"), statedb.Args{"leases": string(doc), "owner": owner, "ttl": ttl, "ask_grace": askGrace},
			statedb.Value[sluice.StreamID])
		for _, id := range renewed {
			kept[id] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	for _, l := range leases {
		if !kept[l.StreamID] {
			lost = append(lost, l.StreamID)
		}
	}
	return lost, nil
}

// Release gives a lease back. Releasing a lost lease is no error.
func (s *Store) Release(ctx context.Context, l sluice.Lease) error {
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		ok, err := changed(ctx, tx, "LeaseRelease", leaseArgs(l))
		if err != nil || !ok {
			return err
		}
		return s.db.Notify(ctx, tx, wakeQueue)
	})
	if err != nil {
		return fmt.Errorf("release stream %s: %w", l.StreamID, err)
	}
	return nil
}

// Linger keeps a lease only for its warm session. It still counts in the org's budget; its owner is asked for it when the
// org is at its budget and others wait, or when the stream has had work for some seconds. Start ends it.
func (s *Store) Linger(ctx context.Context, l sluice.Lease) error {
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		ok, err := changed(ctx, tx, "LeaseLinger", leaseArgs(l))
		if err == nil && !ok {
			err = ErrLeaseLost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("linger on stream %s: %w", l.StreamID, err)
	}
	return nil
}

// Lingerer is a lease that lingers, as its owner looks at it.
type Lingerer struct {
	StreamID sluice.StreamID
	Epoch    int64
	Asked    bool // another stream of the org waits for its place: close the session, then release the lease
	OrgReady bool // else the session is to be closed as well
	HasWork  bool // its own stream can go on
}

// Lingering lists an owner's lingering leases, in one read. One that is not among them is lost.
func (s *Store) Lingering(ctx context.Context, owner string) ([]Lingerer, error) {
	all, err := statedb.All(ctx, s.db, queries.Get("LeaseLingering"), statedb.Args{"owner": owner}, func(scan statedb.Scan) (l Lingerer, err error) {
		var asked, ready, work int64
		err = scan(&l.StreamID, &l.Epoch, &asked, &ready, &work)
		l.Asked, l.OrgReady, l.HasWork = asked == 1, ready == 1, work == 1
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list lingering leases: %w", err)
	}
	return all, nil
}

// Halt stops a stream for a reason that is not one batch's: a lake that is ahead of the queue, or damaged, or whose last
// outcome cannot be found out. Nothing of the stream is claimed until Resume.
func (s *Store) Halt(ctx context.Context, l sluice.Lease, code sluice.Code, text string) error {
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if err := s.Lock(ctx, tx, l.StreamID); err != nil {
			return err
		}
		args := leaseArgs(l)
		args["code"], args["text"] = code, cut(text)
		ok, err := changed(ctx, tx, "LeaseHalt", args)
		if err != nil {
			return err
		}
		if !ok {
			return ErrLeaseLost
		}
		return s.recompute(ctx, tx, l.StreamID)
	})
	if err != nil {
		return fmt.Errorf("halt stream %s: %w", l.StreamID, err)
	}
	return nil
}

// Next returns what to do on a leased stream: its head, ErrLeaseLost, or ErrNoWork (a BlockedError if there is open work
// that may not be applied now). It changes nothing and may be called again.
func (s *Store) Next(ctx context.Context, l sluice.Lease) (Work, error) {
	var w Work
	type facts struct {
		held, org, stream, ready bool
		headID                   sluice.BatchID
		headSeq                  *int64
		readyAt                  *time.Time
		blocked                  string
	}
	f, found, err := statedb.One(ctx, s.db, queries.Get("NextWork"), leaseArgs(l), func(scan statedb.Scan) (f facts, err error) {
		var held, org, stream, ready int64
		err = scan(&held, &org, &stream, &ready, statedb.Text(&f.headID), &f.headSeq, statedb.TimePtr(&f.readyAt), statedb.Text(&f.blocked))
		f.held, f.org, f.stream, f.ready = held == 1, org == 1, stream == 1, ready == 1
		return f, err
	})
	switch {
	case err != nil:
		return w, fmt.Errorf("find work of stream %s: %w", l.StreamID, err)
	case !found || !f.held:
		return w, ErrLeaseLost
	case f.headID == "" && f.blocked == "":
		return w, ErrNoWork
	case f.blocked != "":
		return w, &BlockedError{Rule: f.blocked}
	case !f.org:
		return w, &BlockedError{Rule: "E6 warehouse is not ready"}
	case !f.stream:
		return w, &BlockedError{Rule: "E1 stream is disabled or paused"}
	case !f.ready:
		return w, &BlockedError{Rule: "E10 waits to be tried again", ReadyAt: *f.readyAt}
	}
	if w.Batch, err = getBatch(ctx, s.db, f.headID); err != nil {
		return w, err
	}
	r, err := mustRun(ctx, s.db, l.StreamID, w.Batch.RunID)
	if err != nil {
		return w, err
	}
	w.Run = r.Run
	w.PrevExecuting = w.Batch.LoadState == sluice.Executing
	if !r.live() {
		spec, found, err := statedb.One(ctx, s.db, queries.Get("SpecGet"), statedb.Args{"batch_id": f.headID}, statedb.Value[[]byte])
		if err != nil {
			return w, err
		}
		if found {
			w.Spec = spec
		}
	}
	if !w.Batch.LoadState.Open() { // it ended between the two reads
		return Work{}, ErrNoWork
	}
	return w, nil
}
