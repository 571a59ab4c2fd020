package fanout

import (
	"context"
	"time"

	"sluice/internal/statedb"
)

// Lease is the right of a process to work on a shard.
type Lease struct {
	Fanout string
	Shard  int
	Owner  string
	Epoch  int64
	Live   bool
}

func scanLease(scan statedb.Scan) (Lease, error) {
	var l Lease
	var live *bool
	err := scan(&l.Fanout, &l.Shard, statedb.Text(&l.Owner), &l.Epoch, &live)
	l.Live = l.Owner != "" && live != nil && *live
	return l, err
}

// Leases lists the shards of a fan-out, with who works on them.
func (s *Store) Leases(ctx context.Context, f *Fanout) ([]Lease, error) {
	return statedb.All(ctx, s.db, queries.Get("Shards"), statedb.Args{"fanout_id": f.ID}, scanLease)
}

// Join says that a process is there, and tells how many are.
func (s *Store) Join(ctx context.Context, owner string, ttl time.Duration) (members int64, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := statedb.Exec(ctx, tx, queries.Get("MemberBeat"), statedb.Args{"owner": owner, "ttl": ttl}); err != nil {
			return err
		}
		members, _, err = statedb.One(ctx, tx, queries.Get("Members"), nil, statedb.Value[int64])
		return err
	})
	return members, err
}

// Leave takes a process out.
func (s *Store) Leave(ctx context.Context, owner string) error {
	return s.exec(ctx, "MemberLeave", statedb.Args{"owner": owner})
}

// Take takes a shard that nobody has; ok is false if somebody has it.
func (s *Store) Take(ctx context.Context, l Lease, owner string, ttl time.Duration) (got Lease, ok bool, err error) {
	got = Lease{Fanout: l.Fanout, Shard: l.Shard, Owner: owner, Live: true}
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		var err error
		got.Epoch, ok, err = statedb.One(ctx, tx, queries.Get("ShardTake"),
			statedb.Args{"fanout_id": l.Fanout, "shard": int64(l.Shard), "owner": owner, "ttl": ttl}, statedb.Value[int64])
		return err
	})
	return got, ok, err
}

// Beat renews leases and gives those that are lost.
func (s *Store) Beat(ctx context.Context, leases []Lease, ttl time.Duration) (lost []Lease, err error) {
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		lost = nil
		for _, l := range leases {
			n, err := statedb.Exec(ctx, tx, queries.Get("ShardBeat"), l.args(ttl))
			if err != nil {
				return err
			}
			if n == 0 {
				lost = append(lost, l)
			}
		}
		return nil
	})
	return lost, err
}

// Release gives a lease back.
func (s *Store) Release(ctx context.Context, l Lease) error {
	return s.exec(ctx, "ShardRelease", l.args(0))
}

func (l Lease) args(ttl time.Duration) statedb.Args {
	a := statedb.Args{"fanout_id": l.Fanout, "shard": int64(l.Shard), "owner": l.Owner, "epoch": l.Epoch}
	if ttl > 0 {
		a["ttl"] = ttl
	}
	return a
}
