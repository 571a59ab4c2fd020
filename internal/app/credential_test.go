package app

import (
	"path/filepath"
	"testing"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// A credential that a warehouse has refused is not given again; another one that was minted meanwhile is.
func TestRefusedCredentialIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	db, err := statedb.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	orgs := control.New(db)
	if _, err := orgs.CreateOrg(t.Context(), control.NewOrg{Org: "acme"}, control.By{}); err != nil {
		t.Fatal(err)
	}
	c := &credentials{orgs: orgs, held: map[sluice.Org]lake.Credential{}}
	give := func() lake.Credential {
		t.Helper()
		got, err := c.Credential(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := give()
	if give() != first {
		t.Error("each session gets a credential of its own")
	}
	c.Refused("acme", first)
	second := give()
	if second.User == first.User {
		t.Error("a refused credential is given again")
	}
	c.Refused("acme", first) // by a session that was slow
	if give() != second {
		t.Error("the new one was thrown away for the old one")
	}
}
