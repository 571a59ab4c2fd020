package control

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

const (
	// repeatedFor is how long the answer to a request with a key is kept.
	repeatedFor = 24 * time.Hour
	// brokenAfter is when a request that was never answered counts as dead: its process has gone.
	brokenAfter = 2 * time.Minute
)

// Answer is what a request with an Idempotency-Key was answered.
type Answer struct {
	Status int
	Body   []byte
}

// BeginOnce notes a request under its caller's key, before it is carried out. nil means that it is new; else it is the
// answer that was given. A key that was used for something else, or whose request is under way, is refused.
func (s *Store) BeginOnce(ctx context.Context, caller, key, requestHash string) (*Answer, error) {
	doing := fmt.Sprintf("repeat the request with key %s", key)
	type row struct {
		hash, body string
		status     *int64
	}
	var known *row
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		known = nil
		n, err := statedb.Exec(ctx, tx, queries.Get("IdempotencyInsert"), statedb.Args{
			"caller": caller, "key": key, "request_hash": requestHash, "age": repeatedFor, "broken": brokenAfter,
		})
		if err != nil || n == 1 {
			return err
		}
		r, found, err := statedb.One(ctx, tx, queries.Get("IdempotencyGet"), statedb.Args{"caller": caller, "key": key},
			func(scan statedb.Scan) (r row, err error) { return r, scan(&r.hash, &r.status, statedb.Text(&r.body)) })
		if err == nil && !found {
			err = refused(doing, "the first one has just ended without an answer", "send it again")
		}
		known = &r
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case known == nil:
		return nil, nil
	case known.hash != requestHash:
		return nil, sluice.E("SLUICE-CONTROL-REFUSED", doing, "the key was used for another request", "take a new key for a new request", nil)
	case known.status == nil:
		return nil, sluice.E("SLUICE-CONTROL-REFUSED", doing, "the first one is under way", "send it again in a moment", nil)
	}
	return &Answer{Status: int(*known.status), Body: []byte(known.body)}, nil
}

// EndOnce keeps the answer of a request; the caller has cut secrets out. A nil answer forgets the request, so that it can be
// sent again.
func (s *Store) EndOnce(ctx context.Context, caller, key string, a *Answer) error {
	if a == nil {
		_, err := statedb.Exec(ctx, s.db, queries.Get("IdempotencyForget"), statedb.Args{"caller": caller, "key": key})
		return err
	}
	_, err := statedb.Exec(ctx, s.db, queries.Get("IdempotencyStore"), statedb.Args{"caller": caller, "key": key, "status": a.Status, "body": string(a.Body)})
	return err
}
