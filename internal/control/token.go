package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Role is what a caller of the API may do. Viewer, operator and admin include the ones before them; discovery reads the
// warehouses and nothing else.
type Role string

// The roles of tokens.
const (
	RoleViewer    Role = "viewer"
	RoleOperator  Role = "operator"
	RoleAdmin     Role = "admin"
	RoleDiscovery Role = "discovery"
)

// rank orders the roles that include each other; 0 is none of them.
func (r Role) rank() int {
	switch r {
	case RoleViewer:
		return 1
	case RoleOperator:
		return 2
	case RoleAdmin:
		return 3
	case RoleDiscovery:
	}
	return 0
}

// Valid reports whether the role is one of the above.
func (r Role) Valid() bool { return r == RoleDiscovery || r.rank() > 0 }

// May reports whether the role is enough where another one is needed. What discovery needs, every reader may.
func (r Role) May(needed Role) bool {
	if needed == RoleDiscovery {
		return r.Valid()
	}
	return needed.rank() > 0 && r.rank() >= needed.rank()
}

// Token lets a caller use the API. Secret is set only when it is made: it is shown once.
type Token struct {
	TokenID   string     `json:"token_id"`
	Name      string     `json:"name"`
	Role      Role       `json:"role" enum:"viewer,operator,admin,discovery"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	Secret    string     `json:"secret,omitempty" doc:"the bearer token; only in the answer that made it"`
	hash      string
}

// TokenPrefix begins every token's id and its secret, so that scanners of source code know one when they see it.
const TokenPrefix = "slt_"

// hashSecret is what is kept of a token. It has 256 random bits, so a slow hash would add nothing.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// CreateToken makes a token; ttl 0 means that it does not expire.
func (s *Store) CreateToken(ctx context.Context, name string, role Role, ttl time.Duration, by By) (Token, error) {
	doing := "create token " + name
	switch {
	case !role.Valid():
		return Token{}, invalid(doing, fmt.Sprintf("role %q is unknown", role), "use viewer, operator, admin or discovery")
	case ttl < 0:
		return Token{}, invalid(doing, "the lifetime is negative", "leave it out for a token that does not expire")
	case name == "" || len(name) > 200:
		return Token{}, invalid(doing, "the name is empty or longer than 200 bytes", "say what the token is for")
	}
	id, raw := make([]byte, 12), make([]byte, secretBytes)
	_, _ = rand.Read(id) // never fails
	_, _ = rand.Read(raw)
	tokenID := TokenPrefix + hex.EncodeToString(id)
	secret := tokenID + "." + base64.RawURLEncoding.EncodeToString(raw)
	args := statedb.Args{"token_id": tokenID, "hash": hashSecret(secret), "role": role, "ttl": nil, "name": name, "created_by": or(by.Who, "system")}
	if ttl > 0 {
		args["ttl"] = ttl
	}
	var t Token
	err := s.db.Tx(ctx, func(tx *statedb.Tx) error {
		_, err := statedb.Exec(ctx, tx, queries.Get("TokenInsert"), args)
		if err != nil {
			return err
		}
		if t, err = tokenIn(ctx, tx, tokenID); err != nil {
			return err
		}
		return Audit(ctx, tx, by, Entry{Action: "token.create", Object: "token " + tokenID, After: t})
	})
	if err != nil {
		return Token{}, err
	}
	t.Secret = secret
	return t, nil
}

func scanToken(scan statedb.Scan) (t Token, err error) {
	return t, scan(&t.TokenID, &t.hash, &t.Role, &t.Name, &t.CreatedBy, statedb.TimePtr(&t.ExpiresAt), statedb.TimePtr(&t.RevokedAt), statedb.Time(&t.CreatedAt))
}

func tokenIn(ctx context.Context, r statedb.Runner, id string) (Token, error) {
	t, found, err := statedb.One(ctx, r, queries.Get("TokenGet"), statedb.Args{"token_id": id}, scanToken)
	if err == nil && !found {
		err = sluice.E("SLUICE-NOT-FOUND", "find token "+id, "there is no such token", "see `sluice token list`", nil)
	}
	return t, err
}

// Tokens lists tokens by id, after one of them; without their secrets.
func (s *Store) Tokens(ctx context.Context, after string, limit int) ([]Token, error) {
	return statedb.All(ctx, s.db, queries.Get("TokenList"), statedb.Args{"after": after, "limit": min(max(limit, 1), 1000)}, scanToken)
}

// RevokeToken ends a token at once; revoking it again changes nothing.
func (s *Store) RevokeToken(ctx context.Context, id string, by By) error {
	return s.db.Tx(ctx, func(tx *statedb.Tx) error {
		t, err := tokenIn(ctx, tx, id)
		if err != nil {
			return err
		}
		n, err := statedb.Exec(ctx, tx, queries.Get("TokenRevoke"), statedb.Args{"token_id": id})
		if err != nil || n == 0 {
			return err
		}
		return Audit(ctx, tx, by, Entry{Action: "token.revoke", Object: "token " + id, Before: t})
	})
}

// LookupToken finds the token that a bearer secret belongs to. One that is wrong, expired, revoked or unknown is not found.
func (s *Store) LookupToken(ctx context.Context, secret string) (Token, bool, error) {
	id, _, _ := strings.Cut(secret, ".")
	hash := hashSecret(secret)
	t, found, err := statedb.One(ctx, s.db, queries.Get("TokenLive"), statedb.Args{"token_id": id}, scanToken)
	if err != nil {
		return Token{}, false, err
	}
	if !found {
		t.hash = hashSecret("") // compare all the same
	}
	same := subtle.ConstantTimeCompare([]byte(hash), []byte(t.hash)) == 1
	return t, found && same, nil
}

// TokenRole tells the role of the token that a secret is, dead ones included: a secret of the configuration must not be one.
func (s *Store) TokenRole(ctx context.Context, secret string) (Role, bool, error) {
	return statedb.One(ctx, s.db, queries.Get("TokenHash"), statedb.Args{"hash": hashSecret(secret)}, statedb.Value[Role])
}
