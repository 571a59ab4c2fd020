package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/api"
	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
	"sluice/internal/testkit/pg"
)

const (
	adminSecret     = "planted-admin-secret"
	discoverySecret = "planted-discovery-secret"
)

// house is an API over real stores.
type house struct {
	*testing.T
	api     http.Handler
	db      *statedb.DB
	control *control.Store
	streams *stream.Store
	log     *safeBuffer
	tokens  map[control.Role]string // bearer secrets
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var tester = control.By{Who: "tester"}

func newHouse(t *testing.T, auth *api.Auth) *house {
	t.Helper()
	return houseOn(t, openState(t, filepath.Join(t.TempDir(), "state.db")), auth)
}

func openState(t *testing.T, dsn string) *statedb.DB {
	t.Helper()
	db, err := statedb.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, fn func(t *testing.T, open func() *statedb.DB)) {
	t.Helper()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dsn := filepath.Join(t.TempDir(), "state.db")
			if kind == statedb.PostgreSQL {
				dsn = pg.New(t)
			}
			fn(t, func() *statedb.DB { return openState(t, dsn) })
		})
	}
}

func newOrg(id sluice.Org) control.NewOrg { return control.NewOrg{Org: id, State: sluice.OrgReady} }

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	os.Exit(code)
}

// houseOn is newHouse over a state DB.
func houseOn(t *testing.T, db *statedb.DB, auth *api.Auth) *house {
	t.Helper()
	h := &house{T: t, db: db, control: control.New(db), log: &safeBuffer{}, tokens: map[control.Role]string{}}
	q := queue.New(db, queue.Config{Paths: func(_ context.Context, _ sluice.Org, path string) error {
		if strings.HasPrefix(path, "/ok/") {
			return nil
		}
		return sluice.E("SLUICE-LOAD-PATH-REFUSED", "enqueue", "the path is outside", "", nil)
	}})
	h.streams = stream.New(db, q)
	h.api = api.New(api.Deps{
		Control: h.control, Streams: h.streams, Queue: q, Auth: auth, Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NewLake: func(sluice.Org, []string) (control.Lake, error) {
			return control.Lake{Kind: "duckdb", Catalog: "/lake/x", DataPath: "/lake/x/", ExtractPrefixes: []string{"/ok/"}}, nil
		},
	})
	if _, err := h.control.CreateOrg(t.Context(), control.NewOrg{Org: "acme", State: sluice.OrgReady}, tester); err != nil {
		t.Fatal(err)
	}
	for _, id := range []sluice.TeamID{1, 2} {
		if _, err := h.control.CreateTeam(t.Context(), control.NewTeam{Org: "acme", TeamID: id}, tester); err != nil {
			t.Fatal(err)
		}
	}
	if auth != nil {
		for _, role := range []control.Role{control.RoleDiscovery, control.RoleViewer, control.RoleOperator, control.RoleAdmin} {
			tok, err := h.control.CreateToken(t.Context(), "of "+string(role), role, 0, tester)
			if err != nil {
				t.Fatal(err)
			}
			h.tokens[role] = tok.Secret
		}
	}
	return h
}

func fixed(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func withTokens() *api.Auth {
	return &api.Auth{Admin: fixed(adminSecret), Discovery: fixed(discoverySecret)}
}

// call sends a request and decodes the answer.
func call[T any](h *house, method, path, body string, header ...string) (out T, w *httptest.ResponseRecorder) {
	h.Helper()
	w, _ = do(h.T, h.api, method, "/api/v1"+path, body, header...)
	if w.Code < http.StatusBadRequest && w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			h.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
		}
	}
	return out, w
}

func (h *house) status(want int, method, path, body string, header ...string) *httptest.ResponseRecorder {
	h.Helper()
	w, _ := do(h.T, h.api, method, "/api/v1"+path, body, header...)
	if w.Code != want {
		h.Errorf("%s %s: %d, want %d: %s", method, path, w.Code, want, w.Body)
	}
	return w
}

func asBearer(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

type operation struct {
	method, path, id, role string
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// operations reads the document, and gives each operation with a path that names objects of the house.
func (h *house) operations(org string) []operation {
	h.Helper()
	w, _ := do(h.T, h.api, "GET", "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Role string `json:"x-sluice-role"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		h.Fatal(err)
	}
	var all []operation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, op := range doc.Paths[path] {
			filled := pathParam.ReplaceAllStringFunc(path, func(p string) string {
				switch strings.Trim(p, "{}") {
				case "org":
					return org
				case "team_id":
					return "1"
				}
				return "x"
			})
			all = append(all, operation{strings.ToUpper(method), filled, op.ID, op.Role})
		}
	}
	if len(all) < 40 {
		h.Fatalf("only %d operations", len(all))
	}
	return all
}

// Each route is open to the roles that it needs and to nobody else; refused callers change nothing.
func TestRoutesByRole(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	revoked, err := h.control.CreateToken(t.Context(), "revoked", control.RoleAdmin, 0, tester)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.control.RevokeToken(t.Context(), revoked.TokenID, tester); err != nil {
		t.Fatal(err)
	}
	before, err := h.control.AuditLog(t.Context(), "", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	order := []control.Role{control.RoleDiscovery, control.RoleViewer, control.RoleOperator, control.RoleAdmin}
	for _, op := range h.operations("nobody") {
		needed := slices.Index(order, control.Role(op.role))
		if needed < 0 {
			t.Errorf("%s %s has no role", op.method, op.path)
			continue
		}
		if op.method != "GET" && needed < slices.Index(order, control.RoleOperator) {
			t.Errorf("%s %s changes things and is open to a %s", op.method, op.path, op.role)
		}
		for i, role := range order {
			w, e := do(t, h.api, op.method, op.path, "{", asBearer(h.tokens[role])...) // malformed, so nothing is done where it is let in
			if refused := w.Code == http.StatusForbidden && e.Detail.Code == "SLUICE-API-ROLE"; refused != (i < needed) {
				t.Errorf("%s %s as %s: %d %s, needs %s", op.method, op.path, role, w.Code, e.Detail.Code, op.role)
			}
		}
		for what, header := range map[string][]string{
			"nobody": nil, "a revoked token": asBearer(revoked.Secret), "a wrong token": asBearer(revoked.TokenID + ".x"),
			"an unknown secret": asBearer("planted-unknown-secret"), "another scheme": {"Authorization", "Basic " + adminSecret},
		} {
			if w, e := do(t, h.api, op.method, op.path, "{", header...); w.Code != http.StatusUnauthorized || e.Detail.Code != "SLUICE-API-LOGIN" || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s as %s: %d %s", op.method, op.path, what, w.Code, e.Detail.Code)
			}
		}
	}
	after, err := h.control.AuditLog(t.Context(), "", 0, 1000)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d audit rows, before %d, %v", len(after), len(before), err)
	}
	for secret, want := range map[string]int{adminSecret: 200, discoverySecret: 403} {
		h.status(want, "GET", "/orgs", "", asBearer(secret)...)
		h.status(200, "GET", "/warehouses", "", asBearer(secret)...)
	}
	for _, open := range []string{"/healthz", "/readyz", "/openapi.json"} {
		if w, _ := do(t, h.api, "GET", open, ""); w.Code != 200 {
			t.Errorf("%s: %d", open, w.Code)
		}
	}
}

func TestExpiredToken(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	now := time.Now()
	h.db.SetNow(&now)
	tok, err := h.control.CreateToken(t.Context(), "short", control.RoleAdmin, time.Minute, tester)
	if err != nil {
		t.Fatal(err)
	}
	h.status(200, "GET", "/orgs", "", asBearer(tok.Secret)...)
	later := now.Add(time.Minute)
	h.db.SetNow(&later)
	h.status(401, "GET", "/orgs", "", asBearer(tok.Secret)...)
}

func TestRateLimitAndBan(t *testing.T) {
	t.Parallel()
	auth := withTokens()
	auth.Rate, auth.Burst = 0.01, 3
	h := newHouse(t, auth)
	for i := range 5 {
		w, e := do(t, h.api, "GET", "/api/v1/orgs", "", asBearer(h.tokens[control.RoleViewer])...)
		if limited := w.Code == 429 && e.Detail.Code == "SLUICE-API-RATE" && w.Header().Get("Retry-After") != ""; limited != (i >= 3) {
			t.Errorf("request %d: %d", i, w.Code)
		}
	}
	h.status(200, "GET", "/orgs", "", asBearer(h.tokens[control.RoleAdmin])...) // another token's share is its own
	from := func(addr, secret string) int {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://sluice.example/api/v1/orgs", nil)
		r.RemoteAddr = addr
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		h.api.ServeHTTP(w, r)
		return w.Code
	}
	for range 5 {
		if got := from("192.0.2.7:99", "wrong"); got != 401 {
			t.Errorf("%d", got)
		}
	}
	if got := from("192.0.2.7:100", h.tokens[control.RoleOperator]); got != 429 {
		t.Errorf("an address that failed five times gets %d", got)
	}
	if got := from("192.0.2.8:100", h.tokens[control.RoleOperator]); got != 200 {
		t.Errorf("another address gets %d", got)
	}
}

func TestChangesByVersion(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	_, w := call[control.Team](h, "GET", "/orgs/acme/teams/1", "")
	etag := w.Header().Get("ETag")
	team, w := call[control.Team](h, "PATCH", "/orgs/acme/teams/1", `{"persons_table":"people","earliest_event_date":"2026-03-01"}`, "If-Match", etag)
	if w.Code != 200 || team.PersonsTable != "people" || w.Header().Get("ETag") == etag {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w = h.status(409, "PATCH", "/orgs/acme/teams/1", `{"persons_table":"folk"}`, "If-Match", etag) // the second admin
	if !strings.Contains(w.Body.String(), "SLUICE-CONTROL-CONFLICT") {
		t.Error(w.Body)
	}
	if team, _ = call[control.Team](h, "PATCH", "/orgs/acme/teams/1", `{"enabled":false}`); team.PersonsTable != "people" || team.Enabled || team.EarliestEventDate != "2026-03-01" {
		t.Errorf("what is left out stays: %+v", team)
	}
	if team, _ = call[control.Team](h, "PATCH", "/orgs/acme/teams/1", `{"persons_table":null,"earliest_event_date":null}`); team.PersonsTable != "" || team.EarliestEventDate != "" || team.Enabled {
		t.Errorf("null clears: %+v", team)
	}
	h.status(422, "PATCH", "/orgs/acme/teams/1", `{"enabled":null}`)
	h.status(400, "PATCH", "/orgs/acme/teams/1", `{}`, "If-Match", "yesterday")
	org, _ := call[control.Org](h, "PATCH", "/orgs/acme/limits", `{"max_streams":null,"threads":2}`)
	if org.Limits.MaxStreams != nil || *org.Limits.Threads != 2 || *org.Limits.BackfillPerOrg != 1 {
		t.Errorf("%+v", org.Limits)
	}
	h.status(409, "DELETE", "/orgs/acme/teams/1", "", "If-Match", etag)
	h.status(204, "DELETE", "/orgs/acme/teams/1", "")
	h.status(409, "DELETE", "/orgs/acme/teams/2", "") // the last one
	h.status(404, "DELETE", "/orgs/acme/teams/1", "")
}

func TestRepeatedPost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	admin := asBearer(h.tokens[control.RoleAdmin])
	with := func(key string) []string { return append([]string{"Idempotency-Key", key}, admin...) }
	first, w := call[control.Credential](h, "POST", "/orgs/acme/service-credentials", `{"principal":"bi"}`, with("k1")...)
	if w.Code != 201 || first.Secret == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	again, w := call[control.Credential](h, "POST", "/orgs/acme/service-credentials", `{"principal":"bi"}`, with("k1")...)
	if w.Code != 201 || again.CredentialID != first.CredentialID || again.Secret != "" || w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %+v", w.Code, again)
	}
	h.status(409, "POST", "/orgs/acme/service-credentials", `{"principal":"else"}`, with("k1")...)
	other := append([]string{"Idempotency-Key", "k1"}, asBearer(adminSecret)...)
	if mine, _ := call[control.Credential](h, "POST", "/orgs/acme/service-credentials", `{"principal":"bi"}`, other...); mine.CredentialID == first.CredentialID {
		t.Error("a key of another caller was answered")
	}
	h.status(422, "POST", "/orgs/acme/service-credentials", `{"principal":"B I"}`, with("k2")...)
	h.status(422, "POST", "/orgs/acme/service-credentials", `{"principal":"B I"}`, with("k2")...) // refusals are answers, too
	h.status(400, "POST", "/orgs/acme/service-credentials", `{"principal":"bi"}`, with(strings.Repeat("k", 201))...)
}

// Every route that changes something leaves a row in the audit log, with its caller and its request.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	if _, err := h.control.CreateOrg(t.Context(), control.NewOrg{Org: "beta", State: sluice.OrgReady}, tester); err != nil {
		t.Fatal(err)
	}
	st, err := h.streams.Add(t.Context(), stream.NewStream{Org: "acme", TeamID: 1, SourceType: "pg", Name: "t", SyncType: sluice.Append}, tester)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	change := func(action, method, path, body string) string {
		t.Helper()
		n++
		id := fmt.Sprintf("request-%d", n)
		header := append([]string{"X-Request-Id", id}, asBearer(h.tokens[control.RoleAdmin])...)
		_, w := call[map[string]any](h, method, path, body, header...)
		if w.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		rows, err := h.control.AuditLog(t.Context(), "", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Action == action && r.RequestID == id && strings.HasPrefix(r.Who, "of admin (slt_") {
				return w.Body.String()
			}
		}
		t.Errorf("%s %s: no row %s of %s in %+v", method, path, action, id, rows[0])
		return ""
	}
	field := func(text, name string) string {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		s, _ := v[name].(string)
		return s
	}
	change("org.create", "POST", "/orgs", `{"org":"gone"}`)
	change("org.update", "PATCH", "/orgs/acme", `{"display_name":"Acme"}`)
	change("org.update", "PATCH", "/orgs/acme/limits", `{"max_streams":2}`)
	change("org.set_policy", "POST", "/orgs/acme/policy", `{"naming_policy":"legacy_batch_v1"}`)
	change("org.pause", "POST", "/orgs/acme/pause", "")
	change("org.resume", "POST", "/orgs/acme/resume", "")
	change("org.delete", "DELETE", "/orgs/gone", "")
	change("team.create", "POST", "/orgs/acme/teams", `{"team_id":3}`)
	change("team.update", "PATCH", "/orgs/acme/teams/3", `{"enabled":false}`)
	change("team.delete", "DELETE", "/orgs/acme/teams/3", "")
	change("user.create", "POST", "/orgs/acme/users", `{"username":"ada","role":"reader"}`)
	change("user.update", "PATCH", "/orgs/acme/users/ada", `{"role":"writer","team_id":1}`)
	change("user.reset_password", "POST", "/orgs/acme/users/ada/reset-password", "")
	change("user.delete", "DELETE", "/orgs/acme/users/ada", "")
	id := field(change("credential.mint", "POST", "/orgs/acme/service-credentials", `{"principal":"bi"}`), "credential_id")
	change("credential.refresh", "POST", "/orgs/acme/service-credentials/"+id+"/refresh", "")
	change("credential.revoke", "DELETE", "/orgs/acme/service-credentials/"+id, "")
	id = field(change("token.create", "POST", "/tokens", `{"name":"ci","role":"viewer"}`), "token_id")
	change("token.revoke", "DELETE", "/tokens/"+id, "")
	id = field(change("stream.add", "POST", "/orgs/acme/streams", `{"team_id":1,"source_type":"pg","name":"x","sync_type":"append"}`), "stream_id")
	change("stream.update", "PATCH", "/streams/"+id, `{"enabled":false}`)
	change("stream.bind", "POST", "/streams/"+id+"/bind", `{}`)
	change("stream.reset", "POST", "/streams/"+id+"/reset", `{}`)
	change("stream.remove", "DELETE", "/streams/"+id, "")
	change("team.transfer", "POST", "/orgs/acme/teams/1/transfer", `{"to_org":"beta"}`)
	if moved, err := h.streams.Get(t.Context(), st.StreamID); err != nil || moved.Org != "beta" {
		t.Error(moved, err)
	}
}

// Secrets are shown once, in the answer that makes them: never in a later answer, an error, the log or the audit log.
func TestSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	admin := asBearer(h.tokens[control.RoleAdmin])
	secrets := []string{adminSecret, discoverySecret, "planted-wrong-secret"}
	for _, s := range h.tokens {
		secrets = append(secrets, s, s[strings.Index(s, ".")+1:])
	}
	made := func(field, path, body string) {
		t.Helper()
		v, w := call[map[string]any](h, "POST", path, body, append([]string{"Idempotency-Key", "k" + path}, admin...)...)
		s, _ := v[field].(string)
		if w.Code >= 300 || len(s) < 20 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		secrets = append(secrets, s)
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the answer may be cached", path)
		}
	}
	made("root_password", "/orgs", `{"org":"new"}`)
	made("password", "/orgs/acme/users", `{"username":"ada","role":"reader"}`)
	made("password", "/orgs/acme/users/ada/reset-password", "")
	made("secret", "/orgs/acme/service-credentials", `{"principal":"bi"}`)
	made("secret", "/tokens", `{"name":"ci","role":"viewer"}`)
	var texts []string
	for _, op := range h.operations("acme") {
		if op.method == "GET" {
			w, _ := do(t, h.api, op.method, op.path, "", admin...)
			texts = append(texts, w.Body.String(), fmt.Sprint(w.Header()))
		}
	}
	for _, secret := range secrets { // a secret where another thing belongs is not repeated to anybody
		w, _ := do(t, h.api, "GET", "/api/v1/orgs", "", asBearer(secret+"x")...)
		texts = append(texts, w.Body.String())
	}
	w, _ := do(t, h.api, "GET", "/api/v1/orgs", "", asBearer("planted-wrong-secret")...)
	rows, err := h.control.AuditLog(t.Context(), "", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	audit, _ := json.Marshal(rows)
	texts = append(texts, w.Body.String(), h.log.String(), string(audit))
	if file, err := h.dump(); err != nil {
		t.Fatal(err)
	} else {
		texts = append(texts, file)
	}
	for _, text := range texts {
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("a secret is in …%.60s", text[max(0, i-60):])
			}
		}
		if strings.Contains(text, "SCRAM-SHA-256$") && !strings.Contains(text, "SQLite format") {
			t.Error("a verifier is shown")
		}
	}
}

// dump is the text of the tables that keep answers.
func (h *house) dump() (string, error) {
	var all strings.Builder
	err := h.db.Snapshot(h.Context(), func(tx *statedb.Tx) error {
		rows, err := statedb.All(h.Context(), tx, dumpQueries.Get("Answers"), nil, statedb.Value[string])
		all.WriteString(strings.Join(rows, "\n"))
		return err
	})
	return all.String(), err
}

// A poller keeps what it has: an outage is an error and never an empty answer, and what is gone is absent afterwards.
func TestDiscoveryThroughAnOutage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, withTokens())
	token := asBearer(h.tokens[control.RoleDiscovery])
	d, w := call[control.Discovery](h, "GET", "/warehouses", "", token...)
	if len(d.Warehouses) != 1 || len(d.Warehouses[0].Teams) != 2 {
		t.Fatal(w.Body)
	}
	etag := w.Header().Get("ETag")
	if w := h.status(304, "GET", "/warehouses", "", append([]string{"If-None-Match", etag}, token...)...); w.Body.Len() > 0 {
		t.Errorf("304 with %s", w.Body)
	}
	h.status(204, "DELETE", "/orgs/acme/teams/2", "", asBearer(h.tokens[control.RoleAdmin])...)
	after, _ := call[control.Discovery](h, "GET", "/warehouses", "", append([]string{"If-None-Match", etag}, token...)...)
	if after.ConfigGeneration <= d.ConfigGeneration || len(after.Warehouses[0].Teams) != 1 {
		t.Errorf("%+v", after)
	}
	if ids, _ := call[[]int64](h, "GET", "/warehouse-team-ids", "", token...); !slices.Equal(ids, []int64{1}) {
		t.Error(ids)
	}
	if err := h.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{h.tokens[control.RoleDiscovery], discoverySecret} {
		w, e := do(t, h.api, "GET", "/api/v1/warehouses", "", asBearer(secret)...)
		if w.Code < 500 || e.Detail.Code == "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
