package control_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// store makes a store with org acme and teams 1 and 2.
func store(t *testing.T, open func() *statedb.DB) (*control.Store, *statedb.DB) {
	t.Helper()
	db := open()
	s := control.New(db)
	if _, err := s.CreateOrg(t.Context(), control.NewOrg{Org: "acme", State: sluice.OrgReady}, by); err != nil {
		t.Fatal(err)
	}
	for _, id := range []sluice.TeamID{1, 2} {
		if _, err := s.CreateTeam(t.Context(), control.NewTeam{Org: "acme", TeamID: id}, by); err != nil {
			t.Fatal(err)
		}
	}
	return s, db
}

func code(t *testing.T, err error, want sluice.Code) {
	t.Helper()
	if sluice.CodeOf(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, _ := store(t, open)
		u, err := s.CreateUser(ctx, control.NewUser{Org: "acme", Username: "ada", Role: control.UserReader}, by)
		if err != nil || len(u.Password) < 40 {
			t.Fatalf("%+v, %v", u, err)
		}
		handshake(t, control.Credential{Verifier: u.Verifier}, u.Password, true)
		_, err = s.CreateUser(ctx, control.NewUser{Org: "acme", Username: "ada", Role: control.UserReader}, by)
		code(t, err, "SLUICE-CONTROL-EXISTS")
		team := sluice.TeamID(1)
		for _, bad := range []control.NewUser{
			{Org: "acme", Username: "svc_x", Role: control.UserReader},
			{Org: "acme", Username: "Ada", Role: control.UserReader},
			{Org: "acme", Username: "eve", Role: "root"},
			{Org: "acme", Username: "eve", Role: control.UserOwner, TeamID: &team},
		} {
			_, err := s.CreateUser(ctx, bad, by)
			code(t, err, "SLUICE-CONTROL-INVALID")
		}
		_, err = s.CreateUser(ctx, control.NewUser{Org: "none", Username: "eve", Role: control.UserReader}, by)
		code(t, err, "SLUICE-CONTROL-NO-ORG")
		again, err := s.ResetPassword(ctx, "acme", "ada", by)
		if err != nil || again.Password == u.Password {
			t.Fatal(err)
		}
		got, err := s.User(ctx, "acme", "ada")
		if err != nil || got.Password != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		handshake(t, control.Credential{Verifier: got.Verifier}, u.Password, false)
		handshake(t, control.Credential{Verifier: got.Verifier}, again.Password, true)
		_, err = s.UpdateUser(ctx, "acme", "ada", 1, by, func(*control.User) error { return nil })
		code(t, err, "SLUICE-CONTROL-CONFLICT")
		if got, err = s.UpdateUser(ctx, "acme", "ada", got.Version, by, func(u *control.User) error {
			u.TeamID = &team
			return nil
		}); err != nil || *got.TeamID != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		code(t, s.DeleteUser(ctx, "acme", "ada", 1, by), "SLUICE-CONTROL-CONFLICT")
		if err := s.DeleteUser(ctx, "acme", "ada", 0, by); err != nil {
			t.Fatal(err)
		}
		_, err = s.User(ctx, "acme", "ada")
		code(t, err, "SLUICE-CONTROL-NO-USER")
		noSecrets(t, s, u.Password, again.Password, "SCRAM-SHA-256")
	})
}

// noSecrets greps the audit log.
func noSecrets(t *testing.T, s *control.Store, secrets ...string) {
	t.Helper()
	rows, err := s.AuditLog(t.Context(), "", 0, 1000)
	if err != nil || len(rows) == 0 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s: a secret is in the audit log", row.Action)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, db := store(t, open)
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		db.SetNow(&now)
		tok, err := s.CreateToken(ctx, "ci", control.RoleOperator, time.Hour, by)
		if err != nil || !strings.HasPrefix(tok.Secret, tok.TokenID+".") {
			t.Fatalf("%+v, %v", tok, err)
		}
		found := func(secret string, want bool) {
			t.Helper()
			got, ok, err := s.LookupToken(ctx, secret)
			if err != nil || ok != want || ok && got.Role != control.RoleOperator {
				t.Errorf("found %t, %v", ok, err)
			}
		}
		found(tok.Secret, true)
		found(tok.Secret+"x", false)
		found(tok.TokenID, false)
		found("", false)
		if role, ok, err := s.TokenRole(ctx, tok.Secret); err != nil || !ok || role != control.RoleOperator {
			t.Error(role, ok, err)
		}
		later := now.Add(time.Hour)
		db.SetNow(&later)
		found(tok.Secret, false)
		for range 2 {
			if err := s.RevokeToken(ctx, tok.TokenID, by); err != nil {
				t.Fatal(err)
			}
		}
		db.SetNow(&now)
		found(tok.Secret, false)
		code(t, s.RevokeToken(ctx, "slt_none", by), "SLUICE-NOT-FOUND")
		_, err = s.CreateToken(ctx, "x", "king", 0, by)
		code(t, err, "SLUICE-CONTROL-INVALID")
		list, err := s.Tokens(ctx, "", 10)
		if err != nil || len(list) != 1 || list[0].Secret != "" || list[0].RevokedAt == nil {
			t.Errorf("%+v, %v", list, err)
		}
		noSecrets(t, s, tok.Secret, strings.Split(tok.Secret, ".")[1])
	})
}

func TestRoles(t *testing.T) {
	t.Parallel()
	all := []control.Role{control.RoleDiscovery, control.RoleViewer, control.RoleOperator, control.RoleAdmin}
	want := map[control.Role]string{ // what each may: discovery, viewer, operator, admin
		control.RoleDiscovery: "1000", control.RoleViewer: "1100", control.RoleOperator: "1110", control.RoleAdmin: "1111", "": "0000",
	}
	for role, row := range want {
		for i, needed := range all {
			if got := role.May(needed); got != (row[i] == '1') {
				t.Errorf("%q where %s is needed: %t", role, needed, got)
			}
		}
	}
	if control.RoleAdmin.May("") {
		t.Error("a route without a role must be closed")
	}
}

// A state that is in neither list would make a warehouse vanish from the readers of discovery by accident.
func TestEveryStateIsListedOrAbsent(t *testing.T) {
	t.Parallel()
	for _, s := range control.OrgStates {
		if control.Listed(s) == slices.Contains(control.AbsentStates, s) {
			t.Errorf("%s must be in exactly one list", s)
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, db := store(t, open)
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "new"}, by); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "empty", State: sluice.OrgReady, Lake: control.Lake{SecretRef: "ref"}}, by); err != nil {
			t.Fatal(err)
		}
		read := func() control.Discovery {
			t.Helper()
			d, err := s.Discovery(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := read()
		if len(d.Warehouses) != 2 || d.Warehouses[0].OrgID != "acme" || !d.Warehouses[0].Writable || len(d.Warehouses[0].Teams) != 2 {
			t.Fatalf("%+v", d)
		}
		text, _ := json.Marshal(d.Warehouses[1])
		if !strings.Contains(string(text), `"teams":[]`) {
			t.Errorf("no teams must be an empty list: %s", text)
		}
		before := d.ConfigGeneration
		if err := db.Tx(ctx, func(tx *statedb.Tx) error {
			if err := control.SetPersons(ctx, tx, "acme", 1, true, control.PersonsView, by); err != nil {
				return err
			}
			return control.RemoveTeamIn(ctx, tx, "acme", 2, 0, true, by)
		}); err != nil {
			t.Fatal(err)
		}
		d = read()
		got := d.Warehouses[0].Teams
		if len(got) != 1 || got[0].PersonsRaw != "team_1.persons_raw" || got[0].PersonsDistinctIDsRaw != "team_1.persons_distinct_ids_raw" || got[0].PersonsKind != "view" {
			t.Errorf("%+v", got)
		}
		if d.ConfigGeneration <= before {
			t.Error("a deletion must raise the generation")
		}
		if ids, err := s.WarehouseTeamIDs(ctx); err != nil || !slices.Equal(ids, []sluice.TeamID{1}) {
			t.Error(ids, err)
		}
		if o, err := s.SetPaused(ctx, "acme", true, by); err != nil || o.State != sluice.OrgPaused {
			t.Fatal(o.State, err)
		}
		if w := read().Warehouses[0]; w.Writable || w.State != sluice.OrgPaused {
			t.Errorf("%+v", w)
		}
		_, err := s.SetPaused(ctx, "new", true, by)
		code(t, err, "SLUICE-CONTROL-REFUSED")
	})
}

// The generation is read before the rows and in one snapshot with them: a reader that sees a change sees its generation.
func TestDiscoveryUnderChanges(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, _ := store(t, open)
		other := control.New(open())
		start, err := s.Generation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		const changes = 40
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range sluice.TeamID(changes) { // each raises the generation by one and adds one team
				if _, err := other.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 100 + i}, by); err != nil {
					t.Error(err)
				}
			}
		})
		for {
			d, err := s.Discovery(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if n := int64(len(d.Warehouses[0].Teams)) - 2; n != d.ConfigGeneration-start {
				t.Fatalf("%d more teams in generation %d more", n, d.ConfigGeneration-start)
			}
			if d.ConfigGeneration == start+changes {
				break
			}
		}
		wg.Wait()
	})
}

func TestTwoAdminsEditOneRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, _ := store(t, open)
		other := control.New(open())
		results := make(chan error, 2)
		for i, admin := range []*control.Store{s, other} {
			go func() {
				_, err := admin.UpdateTeam(ctx, "acme", 1, 1, by, func(team *control.Team) error {
					team.EventsTable = []string{"one", "two"}[i]
					return nil
				})
				results <- err
			}()
		}
		a, b := <-results, <-results
		if (a == nil) == (b == nil) {
			t.Fatalf("%v and %v: exactly one must win", a, b)
		}
		if a == nil {
			a = b
		}
		code(t, a, "SLUICE-CONTROL-CONFLICT")
	})
}

func TestTeamsAreKeptInShape(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, db := store(t, open)
		change := func(fn func(*control.Team)) error {
			_, err := s.UpdateTeam(ctx, "acme", 1, 0, by, func(t *control.Team) error { fn(t); return nil })
			return err
		}
		code(t, change(func(t *control.Team) { t.PersonsTable = strings.Repeat("p", 47) }), "SLUICE-PERSONS-NAME")
		code(t, change(func(t *control.Team) { t.PersonsTable = "events" }), "SLUICE-CONTROL-INVALID")
		code(t, change(func(t *control.Team) { t.EventsTable = "other.events" }), "SLUICE-CONTROL-INVALID")
		code(t, change(func(t *control.Team) { t.EarliestEventDate = "2026-13-01" }), "SLUICE-CONTROL-INVALID")
		code(t, change(func(t *control.Team) { t.SchemaName = "else" }), "SLUICE-CONTROL-REFUSED")
		if err := change(func(t *control.Team) { t.EarliestEventDate, t.PersonsTable = "2026-03-01", "people" }); err != nil {
			t.Fatal(err)
		}
		remove := func(id sluice.TeamID) error {
			return db.Tx(ctx, func(tx *statedb.Tx) error { return control.RemoveTeamIn(ctx, tx, "acme", id, 0, true, by) })
		}
		if err := remove(2); err != nil {
			t.Fatal(err)
		}
		code(t, remove(1), "SLUICE-CONTROL-REFUSED") // the last one
		code(t, remove(2), "SLUICE-CONTROL-NO-TEAM")
		again, err := s.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 2, SchemaName: "back"}, by)
		if err != nil || again.SchemaName != "back" || again.Version != 3 {
			t.Errorf("%+v, %v", again, err)
		}
		team, err := s.Team(ctx, "acme", 1)
		if err != nil || team.Tables().PersonsDistinctIDs != "team_1.people_distinct_ids" || team.EarliestEventDate != "2026-03-01" {
			t.Errorf("%+v, %v", team, err)
		}
	})
}

func TestOrgsChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, db := store(t, open)
		o, err := s.UpdateOrg(ctx, "acme", 1, by, func(o *control.Org) error { o.DisplayName, o.HostnameAlias = "Acme", "acme-eu"; return nil })
		if err != nil || o.Version != 2 || o.DisplayName != "Acme" {
			t.Fatalf("%+v, %v", o, err)
		}
		if o, err := s.OrgByHostname(ctx, "acme-eu"); err != nil || o.Org != "acme" {
			t.Error(o, err)
		}
		_, err = s.UpdateOrg(ctx, "acme", 1, by, func(*control.Org) error { return nil })
		code(t, err, "SLUICE-CONTROL-CONFLICT")
		org, root, err := s.CreateOrgWithRoot(ctx, control.NewOrg{Org: "two"}, by)
		if err != nil || root.Username != control.RootUser || root.Role != control.UserOwner || root.Password == "" {
			t.Fatalf("%+v %+v %v", org, root, err)
		}
		_, err = s.UpdateOrg(ctx, "two", 0, by, func(o *control.Org) error { o.HostnameAlias = "acme-eu"; return nil })
		code(t, err, "SLUICE-CONTROL-EXISTS")
		c, err := s.Mint(ctx, "two", "loader", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Tx(ctx, func(tx *statedb.Tx) error { return control.DeleteOrgIn(ctx, tx, "two", 0, by) }); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.Lookup(ctx, c.CredentialID); ok || err != nil {
			t.Error("the credential of a deleted org lets somebody in", err)
		}
		if states, err := s.CredentialStates(ctx, []string{c.CredentialID, "svc_none"}); err != nil || states[c.CredentialID] != control.LoginGone || states["svc_none"] != control.LoginGone {
			t.Error(states, err)
		}
		if users, err := s.Users(ctx, "two"); err != nil || !users[0].Disabled {
			t.Error(users, err)
		}
		later := time.Now().Add(8 * 24 * time.Hour)
		db.SetNow(&later)
		if err := s.Prune(ctx); err != nil {
			t.Fatal(err)
		}
		if users, err := s.Users(ctx, "two"); err != nil || len(users) != 0 {
			t.Error(users, err)
		}
		_, err = s.CreateOrg(ctx, control.NewOrg{Org: "two"}, by)
		code(t, err, "SLUICE-CONTROL-EXISTS") // for ever: its lake may still be there
	})
}

func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		s, db := store(t, open)
		now := time.Now()
		db.SetNow(&now)
		begin := func(caller, hash string) (*control.Answer, sluice.Code) {
			a, err := s.BeginOnce(ctx, caller, "k", hash)
			return a, sluice.CodeOf(err)
		}
		want := func(a *control.Answer, c sluice.Code, body string, wantCode sluice.Code) {
			t.Helper()
			got := ""
			if a != nil {
				got = string(a.Body)
			}
			if got != body || c != wantCode {
				t.Errorf("%q %s, want %q %s", got, c, body, wantCode)
			}
		}
		a, c := begin("one", "h")
		want(a, c, "", "")
		a, c = begin("one", "h")
		want(a, c, "", "SLUICE-CONTROL-REFUSED") // under way
		a, c = begin("two", "h")
		want(a, c, "", "") // another caller's key
		if err := s.EndOnce(ctx, "one", "k", &control.Answer{Status: 201, Body: []byte("made")}); err != nil {
			t.Fatal(err)
		}
		a, c = begin("one", "h")
		want(a, c, "made", "")
		a, c = begin("one", "else")
		want(a, c, "", "SLUICE-CONTROL-REFUSED")
		if err := s.EndOnce(ctx, "two", "k", nil); err != nil {
			t.Fatal(err)
		}
		a, c = begin("two", "else") // it was forgotten
		want(a, c, "", "")
		later := now.Add(3 * time.Minute)
		db.SetNow(&later)
		a, c = begin("two", "h") // its process has died
		want(a, c, "", "")
		later = now.Add(25 * time.Hour)
		db.SetNow(&later)
		a, c = begin("one", "else")
		want(a, c, "", "")
	})
}
