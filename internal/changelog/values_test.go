package changelog

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestPoll reads as the rules for the list of include_values: one answer after the other, and the list after each.
func TestPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answers []string // body => list, or body => ! and a part of the refusal
	}{
		{"the first list is taken", []string{`[3,1,2] => 1 2 3 v1`}},
		{"an object with values", []string{`{"values":["b","a","a"]} => a b v1`}},
		{"an addition counts at once", []string{`[1] => 1 v1`, `[1,2] => 1 2 v2`}},
		{"a removal counts after three polls in a row", []string{`[1,2,3] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[1,2] => 1 2 v2`}},
		{"a return begins the count anew", []string{`[1,2,3] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[1,2,3] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[1,2] => 1 2 v2`}},
		{"empty is refused, and does not count", []string{`[1,2,3] => 1 2 3 v1`, `[1,2] => 1 2 3 v1`, `[] => ! it is empty`, `[1,2] => 1 2 3 v1`, `[1,2] => 1 2 v2`}},
		{"an empty first list is a list", []string{`[] =>  v1`, `[1] => 1 v2`}},
		{"more than half is refused", []string{`[1,2,3] => 1 2 3 v1`, `[1] => ! lacks 2 of 3`}},
		{"half is not more than half", []string{`[1,2] => 1 2 v1`, `[1] => 1 2 v1`}},
		{"another type is refused", []string{`[1,2] => 1 2 v1`, `["1","2"] => ! of type string`}},
		{"mixed types are refused", []string{`[1,"2"] => ! several types`}},
		{"no list", []string{`{"value":[1]} => ! no list`, `nonsense => ! no list`, `[true] => ! neither`, `[null] => ! neither`, `[[1]] => ! neither`}},
		{"numbers as they are written", []string{`[10000000000000000001, 1.50] => 1.50 10000000000000000001 v1`}},
	} {
		var list *Values
		for _, a := range c.answers {
			body, want, _ := strings.Cut(a, " => ")
			next, err := Poll(list, []byte(body), time.Now())
			if reason, refused := strings.CutPrefix(want, "! "); refused {
				if err == nil || !strings.Contains(err.Error(), reason) || sluice.CodeOf(err) != "SLUICE-CHANGELOG-VALUES" {
					t.Errorf("%s: %s: %v, want a refusal with %q", c.name, body, err, reason)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", c.name, body, err)
				break
			}
			if got := fmt.Sprintf("%s v%d", strings.Join(next.Values, " "), next.Version); got != want {
				t.Errorf("%s: %s: %s, want %s", c.name, body, got, want)
			}
			list = &next
		}
	}
}

// TestPollerAgainstAServer: what servers may do, and what becomes of the list.
func TestPollerAgainstAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	c := &Changelog{Name: "events", Lake: rigOrg, Topic: "x", Slots: 1}
	c.Table.Schema, c.Table.Name = "changelog", "events"
	if err := w.store.Insert(t.Context(), c, tester); err != nil {
		t.Fatal(err)
	}
	var answer atomic.Pointer[http.HandlerFunc]
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*answer.Load())(rw, r) }))
	t.Cleanup(srv.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := IncludeValues{Field: "team_id", URL: srv.URL, TokenFile: token}.complete()
	if err != nil {
		t.Fatal(err)
	}
	c.Def.IncludeValues = &v
	p := newPoller(c, w.store, slog.New(slog.DiscardHandler))
	body := func(s string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t0ken" {
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = rw.Write([]byte(s))
		}
	}
	for _, s := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the error; empty: taken
	}{
		{"right", body(`[1,2]`), ""},
		{"an error", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) }, "500"},
		{"a redirect", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/elsewhere", http.StatusFound) }, "redirect"},
		{"too large", body(`["` + strings.Repeat("x", 4<<20) + `"]`), "larger than 4 MiB"},
		{"refused", body(`[]`), "it is empty"},
		{"broken off", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			_, _ = rw.Write([]byte("[1,2,3"))
		}, "EOF"},
	} {
		answer.Store(&s.answer)
		err := p.poll(t.Context())
		if (err == nil) != (s.want == "") || err != nil && (!strings.Contains(err.Error(), s.want) || sluice.CodeOf(err) != "SLUICE-CHANGELOG-VALUES") {
			t.Errorf("%s: %v, want %q", s.name, err, s.want)
		}
		if got, version := p.filter(); fmt.Sprint(*got) != "[1 2]" || version != 1 {
			t.Errorf("%s: the list is %v of version %d", s.name, *got, version)
		}
	}
	if stored, err := w.store.Get(t.Context(), "events"); err != nil || stored.Values == nil || len(stored.Values.Values) != 2 {
		t.Errorf("stored: %+v, %v", stored, err)
	}
}

// TestIncludeValues: only what the list has becomes rows, and a new value counts at once.
func TestIncludeValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	var list atomic.Value
	list.Store("")
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if list.Load() == "" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = rw.Write([]byte(list.Load().(string)))
	}))
	t.Cleanup(srv.Close)
	w.k.Produce(t, topic, 0, `{"team_id":1}`, `{"team_id":2}`)
	w.add("events", topic, 1, fmt.Sprintf("include_values: {field: team_id, url: %q, interval: 1s, mode: authoritative}", srv.URL))
	w.run(w.quick())
	w.until("SELECT count(*) FROM lake.changelog.events", "0") // there was no good answer yet
	list.Store("[1]")
	w.until("SELECT count(*), max(team_id) FROM lake.changelog.events", "1|1")
	list.Store("[1,3]")
	deadline := time.Now().Add(30 * time.Second)
	for {
		c, err := w.store.Get(t.Context(), "events")
		if err == nil && c.Values != nil && len(c.Values.Values) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the list is not taken")
		}
		time.Sleep(50 * time.Millisecond) // a poll of a condition
	}
	w.k.Produce(t, topic, 0, `{"team_id":2}`, `{"team_id":3}`)
	w.until("SELECT string_agg(team_id::VARCHAR, ' ' ORDER BY team_id) FROM lake.changelog.events", "1 3")
}
