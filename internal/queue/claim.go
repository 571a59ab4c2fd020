package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

const (
	// lingerGrace is how long the owner of a warm session has to begin new work of its stream before the sweep asks it to
	// let others have it.
	lingerGrace = 5 * time.Second
	// askGrace is how long an owner may take to close a session that it is asked for. After that its lease is not renewed:
	// it ends with the owner's own deadline, so there is never a session without a lease.
	askGrace = 15 * time.Second
)

func (r *ClaimRequest) complete() error {
	if r.Owner == "" || len(r.Owner) > 64 {
		return sluice.E("SLUICE-USAGE", "claim streams", "the owner is empty or longer than 64 characters", "", nil)
	}
	if r.TTL <= 0 {
		r.TTL = DefaultTTL
	}
	switch {
	case r.FreeChunk == 0:
		r.FreeChunk = (r.Free + 1) / 2
	case r.FreeChunk < 0:
		r.FreeChunk = 0
	}
	return nil
}

func (r *ClaimRequest) filters() statedb.Args {
	return statedb.Args{"in_flight": r.InFlight, "free_chunk": r.FreeChunk}
}

func with(args statedb.Args, more statedb.Args) statedb.Args {
	for k, v := range more {
		args[k] = v
	}
	return args
}

// Claim takes leases of claimable streams, fairly between orgs and never beyond an org's budget (loader.md §4). Orgs that
// another claimer is serving at this instant are left to it; nothing waits. An error means that nothing was taken.
//
// The locks and the counts are statements of their own: under READ COMMITTED a count in the statement that takes the
// locks would see a snapshot older than the locks, and two claimers would overshoot the budget.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) ([]sluice.Lease, error) {
	if err := r.complete(); err != nil {
		return nil, err
	}
	if r.Free <= 0 {
		return nil, nil
	}
	var taken []claimed
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		taken = nil
		orgs, err := statedb.All(ctx, tx, queries.Get("ClaimOrgs"), with(r.filters(), statedb.Args{"free": r.Free}), statedb.Value[sluice.Org])
		if err != nil {
			return err
		}
		if len(orgs) == 0 {
			return nil
		}
		if err := s.ask(ctx, tx, r, orgs); err != nil {
			return err
		}
		taken, err = statedb.All(ctx, tx, queries.Get("ClaimTake"),
			with(r.filters(), statedb.Args{"orgs": orgs, "free": r.Free, "owner": r.Owner, "ttl": r.TTL}), scanClaimed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim streams: %w", err)
	}
	slices.SortFunc(taken, func(a, b claimed) int {
		return cmp.Or(a.oldestAt.Compare(b.oldestAt), cmp.Compare(a.StreamID, b.StreamID))
	})
	leases := make([]sluice.Lease, len(taken))
	for i, c := range taken {
		c.Owner = r.Owner
		leases[i] = c.Lease
	}
	return leases, nil
}

type claimed struct {
	sluice.Lease
	oldestAt time.Time
}

func scanClaimed(scan statedb.Scan) (c claimed, err error) {
	var oldest *time.Time
	err = scan(&c.StreamID, &c.Org, &c.TeamID, &c.Epoch, &c.Purpose, statedb.Time(&c.ExpiresAt), statedb.TimePtr(&oldest))
	if oldest != nil {
		c.oldestAt = *oldest
	}
	return c, err
}

// ask asks for the oldest lingering sessions of orgs that are at their budget while streams of theirs wait
// (control-plane.md §6.3). Their owners hear of it at once, close the sessions and give the leases back; only then is there
// room. To take a lease away before its session is closed would put one session too many into the warehouse.
func (s *Store) ask(ctx context.Context, tx *statedb.Tx, r ClaimRequest, orgs []sluice.Org) error {
	type holds struct {
		org                           sluice.Org
		limit, live, lingering, asked int64
	}
	all, err := statedb.All(ctx, tx, queries.Get("ClaimLingering"), statedb.Args{"orgs": orgs}, func(scan statedb.Scan) (h holds, err error) {
		return h, scan(&h.org, &h.limit, &h.live, &h.lingering, &h.asked)
	})
	if err != nil {
		return err
	}
	asked := false
	for _, h := range all {
		waiting, _, err := statedb.One(ctx, tx, queries.Get("ClaimWaiting"), with(r.filters(), statedb.Args{"org": h.org}), statedb.Value[int64])
		if err != nil {
			return err
		}
		lacking := min(waiting, int64(r.Free)) - max(h.limit-h.live, 0) - h.asked
		if n := min(lacking, h.lingering); n > 0 {
			if err := exec(ctx, tx, "ClaimAsk", statedb.Args{"org": h.org, "n": n}); err != nil {
				return err
			}
			asked = true
		}
	}
	if !asked {
		return nil
	}
	return s.db.Notify(ctx, tx, wakeQueue)
}

// Contended tells whether a stream is claimable that the process does not work on: then an owner that has worked on one
// stream for long offers it back.
func (s *Store) Contended(ctx context.Context, inFlight []sluice.StreamID) (bool, error) {
	r := ClaimRequest{InFlight: inFlight, FreeChunk: 1}
	_, found, err := statedb.One(ctx, s.db, queries.Get("Contended"), r.filters(), statedb.Value[int64])
	return found, err
}
