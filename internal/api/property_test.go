package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
)

// document is as much of an OpenAPI document as the tester looks at.
type document struct {
	Paths      map[string]map[string]documented `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type documented struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name     string  `json:"name"`
		In       string  `json:"in"`
		Required bool    `json:"required"`
		Schema   *schema `json:"schema"`
	} `json:"parameters"`
	RequestBody *struct {
		Required bool `json:"required"`
		Content  map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"` // a name, or several
	Enum       []any              `json:"enum"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional any                `json:"additionalProperties"` // false, or a schema
	Format     string             `json:"format"`
	Pattern    string             `json:"pattern"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	MinLength  *int               `json:"minLength"`
	MaxLength  *int               `json:"maxLength"`
	MinItems   *int               `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
}

func (s *schema) types() []string {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, x := range t {
			all = append(all, fmt.Sprint(x))
		}
		return all
	}
	return nil
}

func (d *document) at(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	return s
}

// violations lists where a value is not what its schema says.
func (d *document) violations(where string, s *schema, v any) (bad []string) {
	if s = d.at(s); s == nil {
		return nil
	}
	is := func(name string) bool { return slices.Contains(s.types(), name) }
	wrong := func(format string, args ...any) { bad = append(bad, where+": "+fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
		wrong("%v is not one of %v", v, s.Enum)
	}
	switch x := v.(type) {
	case nil:
		if len(s.types()) > 0 && !is("null") {
			wrong("null, want %v", s.Type)
		}
	case bool:
		if len(s.types()) > 0 && !is("boolean") {
			wrong("a boolean, want %v", s.Type)
		}
	case json.Number:
		_, err := x.Int64()
		f, _ := x.Float64()
		switch {
		case len(s.types()) > 0 && !is("number") && !(is("integer") && err == nil):
			wrong("%s, want %v", x, s.Type)
		case s.Minimum != nil && f < *s.Minimum, s.Maximum != nil && f > *s.Maximum:
			wrong("%s is out of bounds", x)
		}
	case string:
		n := len([]rune(x))
		switch {
		case len(s.types()) > 0 && !is("string"):
			wrong("a text, want %v", s.Type)
		case s.MinLength != nil && n < *s.MinLength, s.MaxLength != nil && n > *s.MaxLength:
			wrong("%d characters", n)
		case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(x):
			wrong("%q does not match %s", x, s.Pattern)
		case s.Format == "date-time":
			if _, err := time.Parse(time.RFC3339Nano, x); err != nil {
				wrong("%q is no time", x)
			}
		}
	case []any:
		if len(s.types()) > 0 && !is("array") {
			wrong("a list, want %v", s.Type)
		}
		for i, item := range x {
			bad = append(bad, d.violations(where+"["+strconv.Itoa(i)+"]", s.Items, item)...)
		}
	case map[string]any:
		if len(s.types()) > 0 && !is("object") {
			wrong("an object, want %v", s.Type)
		}
		for _, name := range s.Required {
			if _, there := x[name]; !there {
				wrong("%s is missing", name)
			}
		}
		for name, inner := range x {
			if p, known := s.Properties[name]; known {
				bad = append(bad, d.violations(where+"."+name, p, inner)...)
			} else if s.Additional == false {
				wrong("%s is not documented", name)
			}
		}
	}
	return bad
}

// maker makes values for schemas: mostly what they ask for, with the names of things that exist, and now and then not.
type maker struct {
	*rand.Rand
	doc   *document
	known map[string][]string // values for a field or parameter name
}

var oddTexts = []string{
	"", " ", "x", "acme", "ÄÖÜ ß", "日本語", "a\u0000b", "a'b\"c`;--", "%", "../..", strings.Repeat("x", 64), strings.Repeat("y", 501), strings.Repeat("長", 300),
	"true", "null", "0", "-1", "\u202e", "{}", "\n", "Robert'); DROP TABLE org;--", "9223372036854775808", "/ok/a.parquet",
}

func (m *maker) one(of []string) string { return of[m.IntN(len(of))] }

func (m *maker) value(name string, s *schema, depth int) any {
	s = m.doc.at(s)
	if m.IntN(12) == 0 {
		return []any{nil, true, -1, 1 << 40, 1e300, "x", m.one(oddTexts), []any{}, map[string]any{}, []any{nil}}[m.IntN(10)]
	}
	if known := m.known[name]; len(known) > 0 && m.IntN(5) > 0 {
		text := m.one(known)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && s != nil && slices.Contains(s.types(), "integer") {
			return n
		}
		return text
	}
	if s == nil || depth > 6 {
		return nil
	}
	if len(s.Enum) > 0 {
		return s.Enum[m.IntN(len(s.Enum))]
	}
	types := s.types()
	if len(types) == 0 {
		return m.one(oddTexts)
	}
	switch types[m.IntN(len(types))] {
	case "boolean":
		return m.IntN(3) == 0
	case "integer", "number":
		low, high := -3.0, 2000.0
		if s.Minimum != nil {
			low = *s.Minimum
		}
		if s.Maximum != nil {
			high = *s.Maximum
		}
		return []int64{int64(low), int64(high), int64(low) + m.Int64N(max(1, int64(high-low))), int64(low) - 1, 1<<62 + 1}[m.IntN(5)]
	case "string":
		if s.Format == "date-time" {
			return "2026-03-01T00:00:00Z"
		}
		return m.one(oddTexts)
	case "array":
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.value("", s.Items, depth+1))
		}
		return list
	case "object":
		object := map[string]any{}
		for field, p := range s.Properties {
			if slices.Contains(s.Required, field) && m.IntN(20) > 0 || m.IntN(3) == 0 {
				object[field] = m.value(field, p, depth+1)
			}
		}
		if m.IntN(30) == 0 {
			object["unheard_of"] = 1
		}
		return object
	}
	return nil
}

// request makes a request of an operation.
func (m *maker) request(t *testing.T, method, path string, op documented) (*http.Request, string) {
	query, header := url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		text := fmt.Sprint(m.value(p.Name, p.Schema, 0))
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			if p.Required || m.IntN(3) == 0 {
				query.Set(p.Name, text)
			}
		case "header":
			if m.IntN(3) == 0 {
				header.Set(p.Name, strings.Map(func(r rune) rune {
					if r < ' ' || r > '~' {
						return -1
					}
					return r
				}, text))
			}
		}
	}
	var body string
	if op.RequestBody != nil {
		if content, ok := op.RequestBody.Content["application/json"]; ok {
			text, err := json.Marshal(m.value("", content.Schema, 0))
			if err != nil {
				t.Fatal(err)
			}
			body = string(text)
			header.Set("Content-Type", "application/json")
		}
		switch m.IntN(40) {
		case 0:
			body = body[:len(body)/2]
		case 1:
			header.Set("Content-Type", "text/plain")
		}
	}
	if method == http.MethodPost && m.IntN(10) == 0 {
		header.Set("Idempotency-Key", m.one([]string{"a", "b", "c", "d"}))
	}
	target := "http://127.0.0.1:8090" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header, r.RemoteAddr = header, "127.0.0.1:1"
	return r, fmt.Sprintf("%s %s %v %.300s", method, target, header, body)
}

// A tester that knows nothing but the document calls every operation with what the document asks for, and with what it
// does not: nothing ends in a 5xx, and every answer is what the document says.
func TestOpenAPIProperties(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		seed, rounds := uint64(time.Now().UnixNano()), 25
		if s, err := strconv.ParseUint(os.Getenv("SLUICE_TEST_SEED"), 10, 64); err == nil {
			seed = s
		}
		if n, err := strconv.Atoi(os.Getenv("SLUICE_TEST_ROUNDS")); err == nil {
			rounds = n
		}
		t.Logf("seed %d", seed)
		h := houseOn(t, open(), nil)
		if _, _, err := h.control.CreateOrgWithRoot(t.Context(), newOrg("beta"), tester); err != nil {
			t.Fatal(err)
		}
		known := map[string][]string{
			"org": {"acme", "beta", "made"}, "to_org": {"acme", "beta"}, "team_id": {"1", "2", "3"}, "username": {"root", "ada"}, "run_id": {"r1", "r2"},
			"naming_policy": {"copy_v1", "legacy_batch_v1"}, "policy": {"copy_v1", "legacy_batch_v1"}, "sync_type": {"append", "incremental", "cdc", "full_refresh"},
			"principal": {"loader", "bi"}, "role": {"reader", "writer", "viewer", "admin"}, "batch_index": {"0", "1", "2"}, "path": {"/ok/a.parquet"},
			"batch_id": {"00000000-0000-0000-0000-000000000001"}, "If-Match": {`"1"`, `"2"`, "*"}, "ttl_s": {"60", "900"}, "earliest_event_date": {"2026-03-01"},
		}
		for i := range 3 {
			s, err := h.streams.Add(t.Context(), stream.NewStream{Org: "acme", TeamID: sluice.TeamID(1 + i%2), SourceType: "pg", Name: fmt.Sprint("t", i), SyncType: sluice.Append}, tester)
			if err != nil {
				t.Fatal(err)
			}
			known["stream_id"] = append(known["stream_id"], string(s.StreamID))
		}
		w, _ := do(t, h.api, "GET", "/openapi.json", "")
		var doc document
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		m := &maker{rand.New(rand.NewPCG(seed, 0)), &doc, known}
		calls, good := 0, map[string]bool{}
		for range rounds {
			for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
				for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
					op := doc.Paths[path][method]
					if op.ID == "delete-org" && m.IntN(10) > 0 || op.ID == "transfer-team" && m.IntN(4) > 0 {
						continue // else there is soon nothing left to work with
					}
					r, what := m.request(t, strings.ToUpper(method), path, op)
					w := httptest.NewRecorder()
					h.api.ServeHTTP(w, r)
					calls++
					m.check(t, what, op, w)
					if w.Code < 300 {
						good[op.ID] = true
						m.learn(w.Body.Bytes())
					}
					if t.Failed() {
						return
					}
				}
			}
		}
		t.Logf("%d calls, %d operations succeeded at least once", calls, len(good))
		if len(good) < 30 {
			t.Errorf("only %d operations ever succeeded: %v", len(good), slices.Sorted(maps.Keys(good)))
		}
	})
}

func (m *maker) check(t *testing.T, what string, op documented, w *httptest.ResponseRecorder) {
	t.Helper()
	answer, documented := op.Responses[strconv.Itoa(w.Code)]
	switch {
	case w.Code >= 500:
		t.Errorf("%s\n%d %s", what, w.Code, w.Body)
		return
	case !documented && (w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound): // of a path that an empty part makes another one
		t.Errorf("%s\n%d is not documented: %s", what, w.Code, w.Body)
		return
	}
	content, isJSON := answer.Content["application/json"]
	if !isJSON {
		return
	}
	dec := json.NewDecoder(w.Body)
	dec.UseNumber()
	var v any
	text := w.Body.String()
	if err := dec.Decode(&v); err != nil {
		t.Errorf("%s\n%d %v in %s", what, w.Code, err, text)
		return
	}
	for _, bad := range m.doc.violations("answer", content.Schema, v) {
		t.Errorf("%s\n%d %s in %.2000s", what, w.Code, bad, text)
	}
}

// learn takes ids out of an answer, so that later requests meet what earlier ones made.
func (m *maker) learn(text []byte) {
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return
	}
	for _, name := range []string{"credential_id", "token_id", "stream_id", "batch_id", "username"} {
		if id, ok := v[name].(string); ok && !slices.Contains(m.known[name], id) {
			m.known[name] = append(m.known[name], id)
		}
	}
}
