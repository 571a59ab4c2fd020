package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/api"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

func do(t *testing.T, h http.Handler, method, target, body string, header ...string) (*httptest.ResponseRecorder, api.Error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8090"+target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	r.RemoteAddr = "127.0.0.1:4711" // never banned
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var e api.Error
	if w.Code >= http.StatusBadRequest {
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			t.Fatalf("%s %s: %d with %q: %v", method, target, w.Code, w.Body, err)
		}
		if e.Detail.Code == "" || e.Detail.Message == "" || e.Detail.RequestID == "" {
			t.Errorf("%s %s: incomplete error %s", method, target, w.Body)
		}
	}
	return w, e
}

func TestErrorsHaveOneShape(t *testing.T) {
	t.Parallel()
	newLake := func(sluice.Org, []string) (control.Lake, error) { return control.Lake{}, nil }
	h := api.New(api.Deps{NewLake: newLake})
	for _, c := range []struct {
		method, target, body string
		status               int
		code                 sluice.Code
	}{
		{"GET", "/api/v1/names/preview?policy=x&name=n&source_type=s", "", 422, "SLUICE-NAME-POLICY"},
		{"POST", "/api/v1/orgs", `{"org":"Not Good"}`, 422, "SLUICE-CONTROL-INVALID"},
		{"POST", "/api/v1/orgs", `{"org":"a","nonsense":1}`, 400, "SLUICE-USAGE"},
		{"POST", "/api/v1/orgs", `{"org":`, 400, "SLUICE-USAGE"},
		{"POST", "/api/v1/orgs/acme/streams", `{"team_id":1,"source_type":"s","name":"n","sync_type":"none"}`, 422, "SLUICE-LOAD-SYNC-TYPE"},
		{"POST", "/api/v1/streams/x/runs/r%2F1/batches", `{"batches":[]}`, 400, "SLUICE-USAGE"},
		{"GET", "/api/v1/orgs/acme/teams/seven", "", 400, "SLUICE-USAGE"},
		{"GET", "/api/v1/runs?limit=0", "", 400, "SLUICE-USAGE"},
		{"GET", "/nowhere", "", 404, "SLUICE-NOT-FOUND"},
		{"DELETE", "/api/v1/orgs", "", 405, "SLUICE-USAGE"},
	} {
		w, e := do(t, h, c.method, c.target, c.body)
		if w.Code != c.status || e.Detail.Code != c.code {
			t.Errorf("%s %s: %d %s, want %d %s: %s", c.method, c.target, w.Code, e.Detail.Code, c.status, c.code, w.Body)
		}
		if w.Header().Get("X-Request-Id") != e.Detail.RequestID {
			t.Errorf("%s %s: header and body differ in the request id", c.method, c.target)
		}
	}
}

// There is no login, so a page of any site that a browser shows must not be able to use the server.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := api.New(api.Deps{})
	const preview = "/api/v1/names/preview?name=n&source_type=s"
	if w, _ := do(t, h, "GET", preview, "", "Origin", "http://127.0.0.1:8090"); w.Code != http.StatusOK {
		t.Errorf("own page: %d", w.Code)
	}
	if w, _ := do(t, h, "GET", preview, "", "Origin", "https://example.org"); w.Code != http.StatusForbidden {
		t.Errorf("other page: %d", w.Code)
	}
	if w, _ := do(t, h, "GET", preview, "", "Host", "rebound.example.org"); w.Code != http.StatusForbidden {
		t.Errorf("other host: %d", w.Code)
	}
	if w, _ := do(t, h, "GET", preview, "", "Host", "localhost:8090"); w.Code != http.StatusOK {
		t.Errorf("localhost: %d", w.Code)
	}
}

// Clients are generated from the document: every route is in it, with an id of its own.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w, _ := do(t, api.New(api.Deps{}), "GET", "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Name string `json:"name"`
			} `json:"parameters"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for path, ops := range doc.Paths {
		for _, op := range ops {
			have := map[string]bool{}
			for _, p := range op.Parameters {
				have[p.Name] = true
			}
			for part := range strings.SplitSeq(path, "/") {
				if name := strings.Trim(part, "{}"); name != part && !have[name] {
					t.Errorf("%s: parameter %s is not read", path, name)
				}
			}
			if strings.HasPrefix(op.OperationID, "list-") && op.OperationID != "list-orgs" && op.OperationID != "list-teams" && op.OperationID != "list-users" && op.OperationID != "list-changelogs" && op.OperationID != "list-fanouts" && !have["limit"] {
				t.Errorf("%s: no limit", path)
			}
			if op.OperationID == "" || seen[op.OperationID] {
				t.Errorf("operation id %q is empty or there twice", op.OperationID)
			}
			seen[op.OperationID] = true
		}
	}
	for _, id := range []string{"create-org", "create-team", "add-stream", "bind-stream", "enqueue", "report-upstream", "cancel-run", "retry-batch", "discard-quarantine", "get-status"} {
		if !seen[id] {
			t.Errorf("operation %s is missing", id)
		}
	}
}

func TestHealthNeedsNothing(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Handler{api.New(api.Deps{}), api.Ops(api.Deps{})} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if w, _ := do(t, h, "GET", path, ""); w.Code != http.StatusOK {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
}
