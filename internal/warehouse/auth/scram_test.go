package auth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"sluice/internal/warehouse/auth"
)

// talk runs a login of the xdg-go client, an implementation of its own, against ours.
func talk(t *testing.T, ex *auth.Exchange, password string) error {
	t.Helper()
	client, err := scram.SHA256.NewClient("", password, "")
	if err != nil {
		t.Fatal(err)
	}
	conv := client.NewConversation()
	m1, _ := conv.Step("")
	s1, err := ex.First(m1)
	if err != nil {
		return err
	}
	m2, err := conv.Step(s1)
	if err != nil {
		t.Fatal(err)
	}
	s2, err := ex.Final(m2)
	if err != nil {
		return err
	}
	if _, err := conv.Step(s2); err != nil || !conv.Valid() {
		t.Fatalf("the client refuses the server's signature: %v", err)
	}
	return nil
}

func TestLogin(t *testing.T) {
	t.Parallel()
	secret := auth.NewSecret()
	acc := auth.Account{Verifier: auth.NewVerifier("pässwörd ½")}
	for _, c := range []struct {
		password string
		want     error
	}{{"pässwörd ½", nil}, {"wrong", auth.ErrPassword}} {
		ex, err := secret.Begin(acc)
		if err != nil {
			t.Fatal(err)
		}
		if err := talk(t, ex, c.password); !errors.Is(err, c.want) {
			t.Errorf("%q: %v", c.password, err)
		}
	}
}

func TestUnknownUserLooksLikeAWrongPassword(t *testing.T) {
	t.Parallel()
	secret := auth.NewSecret()
	a, _ := secret.BeginUnknown("acme", "eve").First("n,,n=,r=0123456789")
	b, _ := secret.BeginUnknown("acme", "eve").First("n,,n=,r=0123456789")
	other, _ := secret.BeginUnknown("acme", "eva").First("n,,n=,r=0123456789")
	salt := func(s string) string { return strings.Split(s, ",")[1] }
	if salt(a) != salt(b) || salt(a) == salt(other) {
		t.Error("the salt of an unknown user must be its own and stay the same")
	}
	if err := talk(t, secret.BeginUnknown("acme", "eve"), "x"); !errors.Is(err, auth.ErrPassword) {
		t.Error(err)
	}
}

// The second text is what PostgreSQL 15 stores for the password "secret".
func TestParseVerifier(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		auth.NewVerifier("secret"),
		"SCRAM-SHA-256$4096:AbyVJuAuzZZgLBbPpGDoBQ==$L6hOyAaRcK4F4oc4jzM1C3xlUGiaM1ChdzUSfc4KlNo=:WC7oIywG51K7d9ogTr9GCGqqYKqvxOZAzfC0DZ4QAKk=",
	} {
		v, err := auth.ParseVerifier(s)
		if err != nil || v.String() != s {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{
		"", "secret", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA==",
		"SCRAM-SHA-256$99999999999:AA==$AA==:AA==",
	} {
		if _, err := auth.ParseVerifier(s); !errors.Is(err, auth.ErrVerifier) {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	secret := auth.NewSecret()
	for _, m := range []string{"", "n,,", "p=tls-unique,,n=,r=0123456789", "n,,n=x", "n,,r=0123456789,n=", "n,b=x,n=,r=0123456789"} {
		if _, err := secret.BeginUnknown("o", "u").First(m); !errors.Is(err, auth.ErrProtocol) {
			t.Errorf("first %q: %v", m, err)
		}
	}
	for _, m := range []string{"", "c=biws,r=x,p=AA==", "c=biws", "c=biws,r=0123456789,p=!"} {
		ex := secret.BeginUnknown("o", "u")
		if _, err := ex.First("n,,n=,r=0123456789"); err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Final(m); !errors.Is(err, auth.ErrProtocol) {
			t.Errorf("final %q: %v", m, err)
		}
	}
}
