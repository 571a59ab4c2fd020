package control_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"
	"go.uber.org/goleak"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// onBoth runs a test on SQLite and on PostgreSQL; open gives further handles of the same database, like processes.
func onBoth(t *testing.T, fn func(t *testing.T, open func() *statedb.DB)) {
	t.Helper()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dsn := filepath.Join(t.TempDir(), "state.db")
			if kind == statedb.PostgreSQL {
				dsn = pg.New(t)
			}
			fn(t, func() *statedb.DB {
				db, err := statedb.Open(t.Context(), dsn)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				if err := db.Up(t.Context()); err != nil {
					t.Fatal(err)
				}
				return db
			})
		})
	}
}

func TestQueriesAreUnderstood(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		if err := open().Check(t.Context(), control.Queries); err != nil {
			t.Fatal(err)
		}
	})
}

var by = control.By{Who: "tester", RequestID: "r1"}

func TestOrgsAndTeams(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, s := t.Context(), control.New(open())
		before, err := s.Generation(ctx)
		if err != nil {
			t.Fatal(err)
		}
		lake := control.Lake{Kind: "duckdb", Catalog: "a.ducklake", DataPath: "a/", ExtractPrefixes: []string{"s3://x/"}}
		org, err := s.CreateOrg(ctx, control.NewOrg{Org: "acme", Lake: lake, HostnameAlias: "acme-eu"}, by)
		if err != nil {
			t.Fatal(err)
		}
		if org.DatabaseName != "acme" || org.NamingPolicy != sluice.PolicyCopyV1 || org.State != sluice.OrgPending ||
			*org.Limits.MaxStreams != 4 || *org.Limits.BackfillPerOrg != 1 || org.Limits.MaxSessions != nil {
			t.Fatalf("%+v", org)
		}
		got, err := s.OrgByDatabase(ctx, "acme")
		if err != nil || got.Lake.Catalog != "a.ducklake" || got.Lake.ExtractPrefixes[0] != "s3://x/" {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "acme"}, by); sluice.CodeOf(err) != "SLUICE-CONTROL-EXISTS" {
			t.Fatal(err)
		}
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "other", DatabaseName: "acme"}, by); sluice.CodeOf(err) != "SLUICE-CONTROL-EXISTS" {
			t.Fatal(err)
		}
		for _, bad := range []control.NewOrg{
			{Org: ""}, {Org: "Acme"}, {Org: "-a"}, {Org: "a_b"}, {Org: sluice.Org(strings.Repeat("a", 64))}, {Org: "b", DatabaseName: "X"},
		} {
			if _, err := s.CreateOrg(ctx, bad, by); sluice.CodeOf(err) != "SLUICE-CONTROL-INVALID" {
				t.Fatalf("%+v: %v", bad, err)
			}
		}
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "b", NamingPolicy: "mine"}, by); sluice.CodeOf(err) != "SLUICE-NAME-POLICY" {
			t.Fatal(err)
		}
		if _, err := s.Org(ctx, "none"); sluice.CodeOf(err) != "SLUICE-CONTROL-NO-ORG" {
			t.Fatal(err)
		}
		team, err := s.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 7}, by)
		if err != nil {
			t.Fatal(err)
		}
		want := control.Tables{
			Events: "team_7.events", Persons: "team_7.persons", PersonsDistinctIDs: "team_7.persons_distinct_ids", PersonsKind: "table",
			ImportsSchema: "team_7_data_imports",
		}
		if team.Tables() != want || !team.Enabled {
			t.Fatalf("%+v", team.Tables())
		}
		over, err := s.CreateTeam(ctx, control.NewTeam{Org: "acme", TeamID: 8, SchemaName: "eight", EventsTable: "ev", ImportsSchema: "imports"}, by)
		if err != nil || over.Tables() != (control.Tables{
			Events: "eight.ev", Persons: "eight.persons", PersonsDistinctIDs: "eight.persons_distinct_ids", PersonsKind: "table", ImportsSchema: "imports",
		}) {
			t.Fatalf("%+v, %v", over, err)
		}
		for code, bad := range map[sluice.Code]control.NewTeam{
			"SLUICE-CONTROL-EXISTS":  {Org: "acme", TeamID: 7, SchemaName: "x"},
			"SLUICE-CONTROL-NO-ORG":  {Org: "none", TeamID: 9},
			"SLUICE-CONTROL-INVALID": {Org: "acme", TeamID: 9, SchemaName: "Big-Schema"},
		} {
			if _, err := s.CreateTeam(ctx, bad, by); sluice.CodeOf(err) != code {
				t.Fatalf("%+v: %v", bad, err)
			}
		}
		if _, err := s.Team(ctx, "acme", 99); sluice.CodeOf(err) != "SLUICE-CONTROL-NO-TEAM" {
			t.Fatal(err)
		}
		teams, err := s.Teams(ctx, "acme")
		if err != nil || len(teams) != 2 || teams[0].TeamID != 7 {
			t.Fatalf("%+v, %v", teams, err)
		}
		limit := int64(9)
		for what, err := range map[string]error{
			"state": s.SetOrgState(ctx, "acme", sluice.OrgReady, by), "policy": s.SetPolicy(ctx, "acme", sluice.PolicyLegacyBatchV1, by),
			"limits": s.SetLimits(ctx, "acme", control.Limits{MaxStreams: &limit}, by),
			"lake":   s.SetLake(ctx, "acme", control.Lake{Kind: "postgres"}, by),
		} {
			if err != nil {
				t.Fatal(what, err)
			}
		}
		if err := s.SetOrgState(ctx, "acme", "odd", by); sluice.CodeOf(err) != "SLUICE-CONTROL-INVALID" {
			t.Fatal(err)
		}
		org, err = s.Org(ctx, "acme")
		if err != nil || org.State != sluice.OrgReady || org.NamingPolicy != sluice.PolicyLegacyBatchV1 || *org.Limits.MaxStreams != 9 ||
			org.Lake.Kind != "postgres" || org.Version != 5 {
			t.Fatalf("%+v, %v", org, err)
		}
		after, err := s.Generation(ctx)
		if err != nil || after-before != 7 { // one org, two teams, four changes; refused ones do not count
			t.Fatalf("generation rose by %d, %v", after-before, err)
		}
		log, err := s.AuditLog(ctx, "acme", 0, 100)
		if err != nil || len(log) != 7 || log[6].Action != "org.create" || log[0].Who != "tester" || log[0].RequestID != "r1" {
			t.Fatalf("%+v, %v", log, err)
		}
		if page, err := s.AuditLog(ctx, "", log[2].ID, 2); err != nil || len(page) != 2 || page[0].ID != log[3].ID {
			t.Fatalf("%+v, %v", page, err)
		}
		if err := s.SetOrgState(ctx, "acme", sluice.OrgDeleting, by); err != nil {
			t.Fatal(err)
		}
		if orgs, err := s.Orgs(ctx); err != nil || len(orgs) != 0 {
			t.Fatalf("%+v, %v", orgs, err)
		}
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, db := t.Context(), open()
		s := control.New(db)
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		at := func(d time.Duration) {
			v := now.Add(d)
			db.SetNow(&v)
		}
		at(0)
		if _, err := s.CreateOrg(ctx, control.NewOrg{Org: "acme"}, by); err != nil {
			t.Fatal(err)
		}
		c, err := s.Mint(ctx, "acme", "loader", 0)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^svc_[0-9a-f]{24}$`).MatchString(c.CredentialID) || c.ExpiresAt != now.Add(15*time.Minute) || len(c.Secret) < 40 {
			t.Fatalf("%+v", c)
		}
		handshake(t, c, c.Secret, true)
		handshake(t, c, c.Secret+"x", false)
		found := func(want bool) control.Credential {
			t.Helper()
			got, ok, err := s.Lookup(ctx, c.CredentialID)
			if err != nil || ok != want {
				t.Fatalf("found %t, %v", ok, err)
			}
			return got
		}
		if got := found(true); got.Org != "acme" || got.Principal != "loader" || got.Verifier != c.Verifier || got.Secret != "" {
			t.Fatalf("%+v", got)
		}
		at(15 * time.Minute)
		found(false)
		again, err := s.Refresh(ctx, c.CredentialID, time.Minute) // an expired one may be refreshed
		if err != nil || again.Secret == c.Secret {
			t.Fatal(err)
		}
		handshake(t, found(true), again.Secret, true)
		handshake(t, found(true), c.Secret, false)
		if err := s.Revoke(ctx, c.CredentialID, by); err != nil {
			t.Fatal(err)
		}
		found(false)
		if _, err := s.Refresh(ctx, c.CredentialID, 0); sluice.CodeOf(err) != "SLUICE-CONTROL-REVOKED" {
			t.Fatal(err)
		}
		if _, err := s.Refresh(ctx, "svc_none", 0); sluice.CodeOf(err) != "SLUICE-NOT-FOUND" {
			t.Fatal(err)
		}
		if _, err := s.Mint(ctx, "acme", "loader", time.Second); sluice.CodeOf(err) != "SLUICE-CONTROL-INVALID" {
			t.Fatal(err)
		}
		if _, err := s.Mint(ctx, "none", "loader", 0); sluice.CodeOf(err) != "SLUICE-CONTROL-NO-ORG" {
			t.Fatal(err)
		}
		log, err := s.AuditLog(ctx, "acme", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range log {
			for _, secret := range []string{c.Secret, again.Secret, "SCRAM-SHA-256"} {
				if strings.Contains(string(row.Before)+string(row.After), secret) {
					t.Fatalf("a secret is in the audit log: %s", row.Action)
				}
			}
		}
		at(48 * time.Hour)
		if n, err := s.PruneCredentials(ctx); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	})
}

// handshake lets an independent SCRAM client log in with a secret against the stored verifier.
func handshake(t *testing.T, c control.Credential, secret string, want bool) {
	t.Helper()
	var iterations int
	var rest string
	if _, err := fmt.Sscanf(c.Verifier, "SCRAM-SHA-256$%d:%s", &iterations, &rest); err != nil {
		t.Fatal(err)
	}
	salt, keys, _ := strings.Cut(rest, "$")
	stored, server, _ := strings.Cut(keys, ":")
	dec := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	srv, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) {
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(dec(salt)), Iters: iterations}, StoredKey: dec(stored), ServerKey: dec(server),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := scram.SHA256.NewClient("user", secret, "")
	if err != nil {
		t.Fatal(err)
	}
	a, b := client.NewConversation(), srv.NewConversation()
	msg := ""
	for !a.Done() && err == nil {
		if msg, err = a.Step(msg); err == nil && msg != "" {
			msg, err = b.Step(msg)
		}
	}
	if (err == nil && a.Valid() && b.Valid()) != want {
		t.Fatalf("handshake: %v, want success = %t", err, want)
	}
}
