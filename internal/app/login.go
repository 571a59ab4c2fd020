package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/warehouse"
	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/wire"
)

// logins looks users of the warehouse up: services by their credential, people by their account. On loopback people need
// none.
type logins struct{ orgs *control.Store }

// Lookup implements auth.Authenticator. What is expired, revoked, disabled or another org's is no user.
func (l *logins) Lookup(ctx context.Context, org sluice.Org, user string) (auth.Account, error) {
	if !strings.HasPrefix(user, auth.ServicePrefix) {
		return l.person(ctx, org, user)
	}
	c, ok, err := l.orgs.Lookup(ctx, user)
	if err != nil {
		return auth.Account{}, fmt.Errorf("look up user %s: %w", user, err)
	}
	if !ok || c.Org != org {
		return auth.Account{}, auth.ErrNoUser
	}
	return auth.Account{Principal: auth.Principal{Org: org, Name: user, Role: serviceRole(c.Principal)}, Verifier: c.Verifier}, nil
}

// serviceRole is what a service may do: the principals that Sluice itself has, or else read.
func serviceRole(principal string) auth.Role {
	switch principal {
	case loaderPrincipal:
		return auth.Loader
	case maintainerPrincipal:
		return auth.Maintainer
	}
	return auth.Reader
}

const maintainerPrincipal = "maintainer"

func (l *logins) person(ctx context.Context, org sluice.Org, user string) (auth.Account, error) {
	u, err := l.orgs.User(ctx, org, user)
	switch {
	case sluice.CodeOf(err) == "SLUICE-CONTROL-NO-USER":
		return auth.Account{}, auth.ErrNoUser
	case err != nil:
		return auth.Account{}, fmt.Errorf("look up user %s: %w", user, err)
	case u.Disabled || u.TeamID != nil: // the gate cannot keep a login to some schemas yet, so one that is limited gets none
		return auth.Account{}, auth.ErrNoUser
	}
	role := map[control.UserRole]auth.Role{control.UserReader: auth.Reader, control.UserWriter: auth.Writer, control.UserOwner: auth.Owner}[u.Role]
	return auth.Account{Principal: auth.Principal{Org: org, Name: user, Role: role}, Verifier: u.Verifier}, nil
}

// loginPoll is how often the logins of open sessions are looked at: a session outlives its login by less than 5 s.
const loginPoll = 2 * time.Second

// watchLogins ends sessions whose service credential has ended: revoked ones at once, expired ones when they are idle. If
// the state DB does not say, they go on.
func (a *App) watchLogins(ctx context.Context, server *warehouse.Server) error {
	log := a.log.With("component", "logins")
	return every(ctx, loginPoll, nil, func(ctx context.Context) {
		var ids []string
		for _, s := range server.Status().Sessions {
			if strings.HasPrefix(s.Principal.Name, auth.ServicePrefix) {
				ids = append(ids, s.Principal.Name)
			}
		}
		if len(ids) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, loginPoll)
		defer cancel()
		states, err := a.orgs.CredentialStates(ctx, ids)
		if err != nil {
			if ctx.Err() == nil {
				log.WarnContext(ctx, "logins of open sessions not looked at; they go on", "error", err)
			}
			return
		}
		server.End(func(s wire.Info) (end, idle bool) {
			state, known := states[s.Principal.Name]
			if known && state == control.LoginGone {
				log.InfoContext(ctx, "session ended with its login", "session", s.PID, "org", s.Principal.Org, "user", s.Principal.Name)
			}
			return known && state != control.LoginLive, state == control.LoginExpired
		})
	})
}
