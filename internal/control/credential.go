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

// Mint makes a credential for a principal of an org; ttl 0 means 900 s, allowed are 60 s to 3,600 s.
func (s *Store) Mint(ctx context.Context, org sluice.Org, principal string, ttl time.Duration) (Credential, error) {
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
			"id": id, "org": org, "principal": principal, "verifier": verifier, "ttl": ttl, "by": principal,
		})
		if err != nil {
			return err
		}
		if c, err = credentialIn(ctx, tx, id); err != nil {
			return err
		}
		return Audit(ctx, tx, By{Who: principal}, Entry{Action: "credential.mint", Org: org, Object: id, After: c})
	})
	c.Secret = secret
	return c, err
}

func scanCredential(scan statedb.Scan) (c Credential, err error) {
	return c, scan(&c.CredentialID, &c.Org, &c.Principal, &c.Verifier, statedb.Time(&c.ExpiresAt), statedb.TimePtr(&c.RevokedAt))
}

func credentialIn(ctx context.Context, r statedb.Runner, id string) (Credential, error) {
	c, found, err := statedb.One(ctx, r, queries.Get("CredentialGet"), statedb.Args{"id": id}, scanCredential)
	if err == nil && !found {
		err = sluice.E("SLUICE-NOT-FOUND", "find credential "+id, "there is no such credential", "mint a new one", nil)
	}
	return c, err
}

// Refresh gives a credential a new secret and a new end; an expired one may be refreshed, a revoked one not.
func (s *Store) Refresh(ctx context.Context, id string, ttl time.Duration) (Credential, error) {
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
		n, err := statedb.Exec(ctx, tx, queries.Get("CredentialRefresh"), statedb.Args{"id": id, "verifier": verifier, "ttl": ttl})
		if err != nil {
			return err
		}
		if c, err = credentialIn(ctx, tx, id); err != nil {
			return err
		}
		if n == 0 {
			return sluice.E("SLUICE-CONTROL-INVALID", "refresh credential "+id, "it is revoked", "mint a new one", nil)
		}
		return Audit(ctx, tx, By{Who: c.Principal}, Entry{Action: "credential.refresh", Org: c.Org, Object: id, After: c})
	})
	if err != nil {
		return Credential{}, err
	}
	c.Secret = secret
	return c, nil
}

// Revoke ends a credential at once; revoking it again changes nothing.
func (s *Store) Revoke(ctx context.Context, id string, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		c, err := credentialIn(ctx, tx, id)
		if err != nil {
			return err
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

// PruneCredentials removes credentials that ended a day ago.
func (s *Store) PruneCredentials(ctx context.Context) (int64, error) {
	return statedb.Exec(ctx, s.db, queries.Get("CredentialPrune"), statedb.Args{"age": 24 * time.Hour})
}
