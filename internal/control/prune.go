package control

import (
	"context"
	"errors"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

const (
	auditFor   = 400 * 24 * time.Hour
	purgeAfter = 7 * 24 * time.Hour
)

// Prune removes what is past its retention: ended credentials, answers of repeated requests, old audit rows, and the people
// of orgs that were deleted a week ago.
func (s *Store) Prune(ctx context.Context) error {
	_, cerr := s.PruneCredentials(ctx)
	_, ierr := statedb.Exec(ctx, s.db, queries.Get("IdempotencyPrune"), statedb.Args{"age": repeatedFor})
	_, aerr := statedb.Exec(ctx, s.db, queries.Get("AuditPrune"), statedb.Args{"age": auditFor})
	return errors.Join(cerr, ierr, aerr, s.purge(ctx))
}

// purge forgets the logins and names of orgs that were deleted long enough ago. The id stays taken, so that nobody ever
// meets the lake of somebody else under it.
func (s *Store) purge(ctx context.Context) error {
	orgs, err := statedb.All(ctx, s.db, queries.Get("OrgToPurge"), statedb.Args{"age": purgeAfter}, statedb.Value[sluice.Org])
	if err != nil {
		return err
	}
	for _, org := range orgs {
		err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
			for _, query := range []string{"UserPurge", "CredentialPurge", "OrgPurged"} {
				if _, err := statedb.Exec(ctx, tx, queries.Get(query), statedb.Args{"org": org}); err != nil {
					return err
				}
			}
			return Audit(ctx, tx, By{}, Entry{Action: "org.purge", Org: org, Object: "org " + string(org)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
