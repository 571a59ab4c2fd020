package control

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Lifetimes of a service credential, and the SCRAM iteration count that PostgreSQL uses as well.
const (
	DefaultTTL      = 900 * time.Second
	minTTL          = 60 * time.Second
	maxTTL          = 3600 * time.Second
	scramIterations = 4096
	secretBytes     = 32
	saltBytes       = 16
)

// Credential is a short-lived login of a service. Secret is set only by Mint and Refresh: it is shown once.
type Credential struct {
	CredentialID string     `json:"credential_id"`
	Org          sluice.Org `json:"org"`
	Principal    string     `json:"principal"`
	Secret       string     `json:"secret,omitempty"`
	Verifier     string     `json:"-"`
	ExpiresAt    time.Time  `json:"expires_at"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
}

// Verifier makes PostgreSQL's form of a SCRAM-SHA-256 verifier: SCRAM-SHA-256$4096:salt$stored:server (RFC 5802, 7677).
// The secret must be ASCII, so that it needs no SASLprep.
func Verifier(secret string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, secret, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive SCRAM verifier: %w", err)
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, b64(salt), b64(stored[:]), b64(mac("Server Key"))), nil
}

// newSecret makes a random secret and its verifier.
func newSecret() (secret, verifier string, err error) {
	raw, salt := make([]byte, secretBytes), make([]byte, saltBytes)
	_, _ = rand.Read(raw) // never fails, it ends the process instead
	_, _ = rand.Read(salt)
	secret = base64.RawURLEncoding.EncodeToString(raw)
	verifier, err = Verifier(secret, salt)
	return secret, verifier, err
}

func checkTTL(doing string, ttl time.Duration) (time.Duration, error) {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if ttl < minTTL || ttl > maxTTL {
		return 0, invalid(doing, fmt.Sprintf("a lifetime of %s is not allowed", ttl), "use 60 s to 3,600 s")
	}
	return ttl, nil
}

// Mint makes a credential for a principal of an org on its own behalf; ttl 0 means 900 s, allowed are 60 s to 3,600 s.
func (s *Store) Mint(ctx context.Context, org sluice.Org, principal string, ttl time.Duration) (Credential, error) {
	return s.MintFor(ctx, org, principal, ttl, By{Who: principal})
}

// MintFor is Mint on somebody's behalf.
func (s *Store) MintFor(ctx context.Context, org sluice.Org, principal string, ttl time.Duration, by By) (Credential, error) {
	doing := fmt.Sprintf("mint credential for %s of org %s", principal, org)
	ttl, err := checkTTL(doing, ttl)
	if err != nil {
		return Credential{}, err
	}
	if !identifier.MatchString(principal) {
		return Credential{}, invalid(doing, "the principal is not a bare identifier", "")
	}
	secret, verifier, err := newSecret()
	if err != nil {
		return Credential{}, err
	}
	raw := make([]byte, 12)
	_, _ = rand.Read(raw)
	id := "svc_" + hex.EncodeToString(raw)
	var c Credential
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		if _, err := OrgIn(ctx, tx, org); err != nil {
			return err
		}
		_, err := statedb.Exec(ctx, tx, queries.Get("CredentialInsert"), statedb.Args{
			"id": id, "org": org, "principal": principal, "verifier": verifier, "ttl": ttl, "by": or(by.Who, "system"),
		})
		if err != nil {
			return err
		}
		if c, err = credentialIn(ctx, tx, id); err != nil {
			return err
		}
		return Audit(ctx, tx, by, Entry{Action: "credential.mint", Org: org, Object: id, After: c})
	})
	if err != nil {
		return Credential{}, err
	}
	c.Secret = secret
	return c, nil
}

func scanCredential(scan statedb.Scan) (c Credential, err error) {
	return c, scan(&c.CredentialID, &c.Org, &c.Principal, &c.Verifier, statedb.Time(&c.ExpiresAt), statedb.TimePtr(&c.RevokedAt))
}

func credentialIn(ctx context.Context, r statedb.Runner, id string) (Credential, error) {
	c, found, err := statedb.One(ctx, r, queries.Get("CredentialGet"), statedb.Args{"id": id}, scanCredential)
	if err == nil && !found {
		err = noCredential(id)
	}
	return c, err
}

func noCredential(id string) error {
	return sluice.E("SLUICE-NOT-FOUND", "find credential "+id, "there is no such credential", "mint a new one", nil)
}

// Credentials lists the credentials of an org that have not been removed yet, by id, after one of them.
func (s *Store) Credentials(ctx context.Context, org sluice.Org, after string, limit int) ([]Credential, error) {
	return statedb.All(ctx, s.db, queries.Get("CredentialList"), statedb.Args{"org": org, "after": after, "limit": min(max(limit, 1), 1000)}, scanCredential)
}

// Refresh gives a credential a new secret and a new end, on its own behalf; an expired one may be refreshed, a revoked one
// is SLUICE-CONTROL-REVOKED.
func (s *Store) Refresh(ctx context.Context, id string, ttl time.Duration) (Credential, error) {
	return s.RefreshFor(ctx, "", id, ttl, By{})
}

// RefreshFor is Refresh on somebody's behalf; a credential of another org is unknown to it.
func (s *Store) RefreshFor(ctx context.Context, org sluice.Org, id string, ttl time.Duration, by By) (Credential, error) {
	ttl, err := checkTTL("refresh credential "+id, ttl)
	if err != nil {
		return Credential{}, err
	}
	secret, verifier, err := newSecret()
	if err != nil {
		return Credential{}, err
	}
	var c Credential
	err = s.db.Tx(ctx, func(tx *statedb.Tx) error {
		before, err := credentialIn(ctx, tx, id)
		if err != nil {
			return err
		}
		if org != "" && before.Org != org {
			return noCredential(id)
		}
		n, err := statedb.Exec(ctx, tx, queries.Get("CredentialRefresh"), statedb.Args{"id": id, "verifier": verifier, "ttl": ttl})
		if err != nil {
			return err
		}
		if n == 0 {
			return sluice.E("SLUICE-CONTROL-REVOKED", "refresh credential "+id, "it is revoked", "mint a new one", nil)
		}
		if c, err = credentialIn(ctx, tx, id); err != nil {
			return err
		}
		who := by
		if who.Who == "" {
			who.Who = c.Principal
		}
		return Audit(ctx, tx, who, Entry{Action: "credential.refresh", Org: c.Org, Object: id, Before: before, After: c})
	})
	if err != nil {
		return Credential{}, err
	}
	c.Secret = secret
	return c, nil
}

// Revoke ends a credential at once; revoking it again changes nothing. Sessions that it has let in end within seconds.
func (s *Store) Revoke(ctx context.Context, id string, by By) error {
	return s.RevokeFor(ctx, "", id, by)
}

// RevokeFor is Revoke, and knows only the credentials of one org.
func (s *Store) RevokeFor(ctx context.Context, org sluice.Org, id string, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		c, err := credentialIn(ctx, tx, id)
		if err != nil {
			return err
		}
		if org != "" && c.Org != org {
			return noCredential(id)
		}
		n, err := statedb.Exec(ctx, tx, queries.Get("CredentialRevoke"), statedb.Args{"id": id})
		if err != nil || n == 0 {
			return err
		}
		return Audit(ctx, tx, by, Entry{Action: "credential.revoke", Org: c.Org, Object: id, Before: c})
	})
}

// Lookup gives a credential with its verifier for a handshake. One that is expired, revoked or unknown is not found.
func (s *Store) Lookup(ctx context.Context, id string) (Credential, bool, error) {
	return statedb.One(ctx, s.db, queries.Get("CredentialLive"), statedb.Args{"id": id}, scanCredential)
}

// LoginState is what has become of a login since it was let in.
type LoginState string

// The states of a login.
const (
	LoginLive    LoginState = "live"
	LoginExpired LoginState = "expired" // its session may end what is under way
	LoginGone    LoginState = "gone"    // revoked, disabled, deleted: its session ends at once
)

// CredentialStates tells what has become of credentials; one that is not there any more is gone.
func (s *Store) CredentialStates(ctx context.Context, ids []string) (map[string]LoginState, error) {
	states := make(map[string]LoginState, len(ids))
	for _, id := range ids {
		states[id] = LoginGone
	}
	_, err := statedb.All(ctx, s.db, queries.Get("CredentialStates"), statedb.Args{"ids": ids}, func(scan statedb.Scan) (struct{}, error) {
		var id string
		var revoked, expired int64
		if err := scan(&id, &revoked, &expired); err != nil {
			return struct{}{}, err
		}
		switch {
		case revoked == 1:
		case expired == 1:
			states[id] = LoginExpired
		default:
			states[id] = LoginLive
		}
		return struct{}{}, nil
	})
	return states, err
}

// PruneCredentials removes credentials that ended a day ago.
func (s *Store) PruneCredentials(ctx context.Context) (int64, error) {
	return statedb.Exec(ctx, s.db, queries.Get("CredentialPrune"), statedb.Args{"age": 24 * time.Hour})
}
