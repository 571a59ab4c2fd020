package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Mechanism is the one SASL mechanism that is offered.
const Mechanism = "SCRAM-SHA-256"

// Errors of an exchange.
var (
	// ErrProtocol: the client's message is not SCRAM.
	ErrProtocol = errors.New("malformed SCRAM message")
	// ErrPassword: the proof does not fit the verifier.
	ErrPassword = errors.New("password authentication failed")
)

// Exchange is the server's side of one SCRAM login: First, then Final.
type Exchange struct {
	verifier Verifier
	doomed   bool // there is no such user; the exchange runs and fails

	nonce, gs2, bare, first string
}

// Secret is what verifiers of unknown users are made from; one per process.
type Secret []byte

// NewSecret makes one.
func NewSecret() Secret {
	b := make([]byte, sha256.Size)
	_, _ = rand.Read(b) // never fails
	return b
}

// Begin starts the exchange for an account.
func (s Secret) Begin(a Account) (*Exchange, error) {
	v, err := ParseVerifier(a.Verifier)
	if err != nil {
		return nil, fmt.Errorf("read verifier of user %s: %w", a.Principal.Name, err)
	}
	return begin(v, false), nil
}

// BeginUnknown starts an exchange that fails at its end, for a user that does not exist.
func (s Secret) BeginUnknown(org, user string) *Exchange {
	return begin(mock(s, org, user), true)
}

func begin(v Verifier, doomed bool) *Exchange {
	n := make([]byte, 18)
	_, _ = rand.Read(n)
	return &Exchange{verifier: v, doomed: doomed, nonce: base64.StdEncoding.EncodeToString(n)}
}

// First answers the client's first message with nonce, salt and cost. Channel binding is not offered.
func (e *Exchange) First(msg string) (string, error) {
	parts := strings.SplitN(msg, ",", 3)
	if len(parts) != 3 || parts[0] != "n" && parts[0] != "y" || parts[1] != "" && !strings.HasPrefix(parts[1], "a=") {
		return "", ErrProtocol
	}
	e.gs2, e.bare = parts[0]+","+parts[1]+",", parts[2]
	attrs := strings.Split(e.bare, ",")
	if len(attrs) < 2 || !strings.HasPrefix(attrs[0], "n=") || !strings.HasPrefix(attrs[1], "r=") || len(attrs[1]) < 10 {
		return "", ErrProtocol
	}
	e.nonce = attrs[1][2:] + e.nonce
	e.first = fmt.Sprintf("r=%s,s=%s,i=%d", e.nonce, base64.StdEncoding.EncodeToString(e.verifier.Salt), e.verifier.Iterations)
	return e.first, nil
}

// Final checks the client's proof and answers with the server's signature.
func (e *Exchange) Final(msg string) (string, error) {
	without, proof, ok := strings.Cut(msg, ",p=")
	if !ok || e.first == "" {
		return "", ErrProtocol
	}
	want := "c=" + base64.StdEncoding.EncodeToString([]byte(e.gs2)) + ",r=" + e.nonce
	if without != want {
		return "", ErrProtocol
	}
	p, err := base64.StdEncoding.DecodeString(proof)
	if err != nil || len(p) != sha256.Size {
		return "", ErrProtocol
	}
	authMessage := e.bare + "," + e.first + "," + without
	key := mac(e.verifier.StoredKey, authMessage)
	for i := range key {
		key[i] ^= p[i]
	}
	stored := sha256.Sum256(key)
	if right := hmac.Equal(stored[:], e.verifier.StoredKey); !right || e.doomed {
		return "", ErrPassword
	}
	return "v=" + base64.StdEncoding.EncodeToString(mac(e.verifier.ServerKey, authMessage)), nil
}
