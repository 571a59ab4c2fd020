package auth

import (
	"context"
	"errors"

	"sluice/internal/sluice"
)

// Role is what a principal may do in a warehouse; the gate has the rules.
type Role string

// The roles.
const (
	Reader     Role = "reader"     // SELECT, SHOW, EXPLAIN
	Writer     Role = "writer"     // also writes to tables
	Owner      Role = "owner"      // everything that a tenant may
	Loader     Role = "loader"     // the loader: also reads and writes files of the org, and the control tables
	Maintainer Role = "maintainer" // the loader's rights and the lake's maintenance functions
)

// Tenant reports whether the role is one of an org's people, not of Sluice's own services.
func (r Role) Tenant() bool { return r != Loader && r != Maintainer }

// Principal is who a session belongs to.
type Principal struct {
	Org  sluice.Org
	Name string
	Role Role
}

// Account is what is known of a user: its principal and its password's verifier, in the text form of NewVerifier.
type Account struct {
	Principal Principal
	Verifier  string
}

// Errors of an Authenticator.
var (
	// ErrNoUser: there is no such user in the org, or no such org.
	ErrNoUser = errors.New("no such user")
	// ErrNotReady: the org exists but its warehouse cannot be used now.
	ErrNotReady = errors.New("the warehouse is not ready")
)

// Authenticator looks users up. It must answer ErrNoUser alike for an unknown org and an unknown user; any other error
// but ErrNotReady means that it cannot say, and the client is told to come back. It is called at each login by many
// goroutines.
type Authenticator interface {
	Lookup(ctx context.Context, org sluice.Org, user string) (Account, error)
}

// ServicePrefix begins the names of Sluice's own services; they always have a password.
const ServicePrefix = "svc_"
