package app

import (
	"context"
	"fmt"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/warehouse/auth"
)

// logins looks users of the warehouse up: services by their credential. People need no account on loopback, which is all
// that the warehouse listens on.
type logins struct{ orgs *control.Store }

// Lookup implements auth.Authenticator.
func (l *logins) Lookup(ctx context.Context, org sluice.Org, user string) (auth.Account, error) {
	c, ok, err := l.orgs.Lookup(ctx, user)
	if err != nil {
		return auth.Account{}, fmt.Errorf("look up user %s: %w", user, err)
	}
	if !ok || c.Org != org || c.Principal != loaderPrincipal {
		return auth.Account{}, auth.ErrNoUser
	}
	return auth.Account{Principal: auth.Principal{Org: org, Name: user, Role: auth.Loader}, Verifier: c.Verifier}, nil
}
