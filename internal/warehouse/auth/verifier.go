package auth

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/xdg-go/stringprep"
)

// Iterations is the cost of new verifiers, PostgreSQL's default.
const Iterations = 4096

// maxIterations bounds what a stored verifier may ask of a client.
const maxIterations = 10_000_000

// ErrVerifier says that a text is not a verifier. The text itself is never in an error.
var ErrVerifier = errors.New("not a SCRAM-SHA-256 verifier")

// Verifier is what the server keeps of a password.
type Verifier struct {
	Iterations int
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
}

// NewVerifier makes the verifier of a password, in PostgreSQL's form SCRAM-SHA-256$iterations:salt$storedkey:serverkey.
func NewVerifier(password string) string {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	v, err := derive(password, salt, Iterations)
	if err != nil {
		panic(err) // only a key length or hash that crypto/pbkdf2 does not know
	}
	return v.String()
}

func derive(password string, salt []byte, iterations int) (Verifier, error) {
	salted, err := pbkdf2.Key(sha256.New, normalise(password), salt, iterations, sha256.Size)
	if err != nil {
		return Verifier{}, fmt.Errorf("derive key of password: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	return Verifier{iterations, salt, stored[:], mac(salted, "Server Key")}, nil
}

// normalise prepares a password as PostgreSQL does: SASLprep, or the bytes as they are where that is not possible.
func normalise(password string) string {
	if p, err := stringprep.SASLprep.Prepare(password); err == nil && p != "" {
		return p
	}
	return password
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// String writes the verifier in PostgreSQL's form.
func (v Verifier) String() string {
	e := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", v.Iterations, e(v.Salt), e(v.StoredKey), e(v.ServerKey))
}

// ParseVerifier reads PostgreSQL's form.
func ParseVerifier(s string) (Verifier, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 3 || parts[0] != "SCRAM-SHA-256" {
		return Verifier{}, ErrVerifier
	}
	iter, salt, ok1 := strings.Cut(parts[1], ":")
	stored, server, ok2 := strings.Cut(parts[2], ":")
	n, err := strconv.Atoi(iter)
	if !ok1 || !ok2 || err != nil || n < 1 || n > maxIterations {
		return Verifier{}, ErrVerifier
	}
	v := Verifier{Iterations: n}
	for _, f := range []struct {
		to   *[]byte
		text string
		size int
	}{{&v.Salt, salt, 0}, {&v.StoredKey, stored, sha256.Size}, {&v.ServerKey, server, sha256.Size}} {
		b, err := base64.StdEncoding.Strict().DecodeString(f.text)
		if err != nil || len(b) == 0 || f.size > 0 && len(b) != f.size {
			return Verifier{}, ErrVerifier
		}
		*f.to = b
	}
	return v, nil
}

// mock is the verifier of a user that does not exist: no password fits it, and the same name always gets the same salt,
// as an existing one does.
func mock(secret []byte, org, user string) Verifier {
	seed := mac(secret, org, "\x00", user)
	return Verifier{Iterations, mac(seed, "salt")[:16], mac(seed, "stored"), mac(seed, "server")}
}
