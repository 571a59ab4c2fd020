package changelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/sluice"
)

// Values is the list of an include_values filter, as last accepted.
type Values struct {
	Version int64          `json:"version"`
	Values  []string       `json:"values"`
	Kind    string         `json:"kind"`             // type of the elements in the answer: string, number
	Absent  map[string]int `json:"absent,omitempty"` // good polls in a row without a value that is still in the list
	At      time.Time      `json:"at"`
}

// removalAfter is how many good polls in a row must lack a value before it is taken out.
const removalAfter = 3

// Poll decides what becomes of the list after an answer (spec/changelog.md §6.3). An answer that is refused changes nothing, the
// counting of absences neither. now stamps a list that has changed.
func Poll(old *Values, body []byte, now time.Time) (Values, error) {
	got, kind, err := readValues(body)
	if err != nil {
		return Values{}, err
	}
	refuse := func(format string, a ...any) (Values, error) {
		return Values{}, sluice.E("SLUICE-CHANGELOG-VALUES", "read the list of include_values", fmt.Sprintf(format, a...), "the list stays as it was; check what the endpoint answers", nil)
	}
	if old == nil {
		return Values{Version: 1, Values: got, Kind: kind, At: now}, nil
	}
	var absent []string
	for _, v := range old.Values {
		if _, ok := slices.BinarySearch(got, v); !ok {
			absent = append(absent, v)
		}
	}
	switch {
	case len(got) == 0 && len(old.Values) > 0:
		return refuse("it is empty, and ours has %d values", len(old.Values))
	case kind != "" && old.Kind != "" && kind != old.Kind:
		return refuse("its elements are of type %s, and were of type %s", kind, old.Kind)
	case len(absent)*2 > len(old.Values):
		return refuse("it lacks %d of %d values", len(absent), len(old.Values))
	}
	next := Values{Version: old.Version, Kind: old.Kind, At: old.At, Absent: map[string]int{}}
	if next.Kind == "" {
		next.Kind = kind
	}
	for _, v := range absent {
		if n := old.Absent[v] + 1; n < removalAfter {
			next.Absent[v] = n
			got = append(got, v)
		}
	}
	slices.Sort(got)
	next.Values = got
	if !slices.Equal(got, old.Values) {
		next.Version, next.At = old.Version+1, now
	}
	return next, nil
}

// readValues reads a JSON list of texts or of numbers, or an object that has one under "values". The values come sorted.
func readValues(body []byte) (values []string, kind string, err error) {
	bad := func(what string) error {
		return sluice.E("SLUICE-CHANGELOG-VALUES", "read the list of include_values", what, "answer with a JSON list of texts or of numbers, or {\"values\": [...]}", nil)
	}
	var wrapped struct {
		Values *[]json.RawMessage `json:"values"`
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		if err := json.Unmarshal(body, &wrapped); err != nil || wrapped.Values == nil {
			return nil, "", bad("it is no list of values")
		}
		list = *wrapped.Values
	}
	for _, raw := range list {
		text, k := strings.TrimSpace(string(raw)), "number"
		switch {
		case strings.HasPrefix(text, `"`):
			k = "string"
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, "", bad("an element cannot be read")
			}
		case text == "" || !strings.ContainsAny(text[:1], "-0123456789"):
			return nil, "", bad("an element is neither a text nor a number")
		}
		if kind != "" && k != kind {
			return nil, "", bad("its elements are of several types")
		}
		kind = k
		values = append(values, text)
	}
	slices.Sort(values)
	return slices.Compact(values), kind, nil
}

// Bounds of a poll.
const (
	pollTimeout = 10 * time.Second
	pollBytes   = 4 << 20
)

// poller keeps the list of one changelog up to date.
type poller struct {
	c     *Changelog
	store *Store
	log   *slog.Logger
	http  *http.Client

	mu   sync.Mutex
	list *Values
	bad  int // polls in a row that were refused or failed
}

func newPoller(c *Changelog, store *Store, log *slog.Logger) *poller {
	return &poller{c: c, store: store, log: log, list: c.Values, http: &http.Client{
		Timeout:       pollTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect is not followed") },
	}}
}

// start polls until stop. ready waits until the slot may begin: at once but for mode authoritative, which needs a good poll.
func (p *poller) start(ctx context.Context) (ready func(context.Context) bool, stop func(), err error) {
	interval, err := time.ParseDuration(p.c.Def.IncludeValues.Interval)
	if err != nil {
		return nil, nil, invalid("include_values.interval is %q", p.c.Def.IncludeValues.Interval)
	}
	ctx, cancel := context.WithCancel(ctx)
	good, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		first := sync.OnceFunc(func() { close(good) })
		for {
			if err := p.poll(ctx); err != nil {
				p.log.WarnContext(ctx, "list of include_values not taken", "code", sluice.CodeOf(err), "error", err)
			} else {
				first()
			}
			t := time.NewTimer(interval)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
		}
	}()
	stop = func() { cancel(); <-done }
	ready = func(ctx context.Context) bool {
		if p.c.Def.IncludeValues.Mode == ModeShadow || p.c.Def.IncludeValues.Mode == ModeAdvisory && p.c.Values != nil {
			return true
		}
		select {
		case <-good:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return ready, stop, nil
}

// poll asks once.
func (p *poller) poll(ctx context.Context) (err error) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.bad++; err == nil {
			p.bad = 0
		}
	}()
	failed := func(what string, cause error) error {
		return sluice.E("SLUICE-CHANGELOG-VALUES", "read the list of include_values", what, "the list stays as it was; check the endpoint", cause)
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	v := p.c.Def.IncludeValues
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.URL, nil)
	if err != nil {
		return failed("", err)
	}
	if token, err := v.token(); err != nil {
		return failed("the token cannot be read", err)
	} else if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := p.http.Do(req)
	if err != nil {
		return failed("", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return failed("the endpoint answers "+res.Status, nil)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, pollBytes+1))
	if err != nil {
		return failed("", err)
	}
	if len(body) > pollBytes {
		return failed("the answer is larger than 4 MiB", nil)
	}
	p.mu.Lock()
	old := p.list
	p.mu.Unlock()
	next, err := Poll(old, body, time.Now())
	if err != nil {
		return err
	}
	if err := p.store.SetList(ctx, p.c, next); err != nil {
		return err
	}
	p.mu.Lock()
	p.list = &next
	p.mu.Unlock()
	return nil
}

// token reads the token from where it is kept.
func (v *IncludeValues) token() (string, error) {
	if v.TokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(v.TokenFile)
	return strings.TrimSpace(string(b)), err
}

// filter gives the present list to a flush.
func (p *poller) filter() (*[]string, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		return nil, 0
	}
	return &p.list.Values, p.list.Version
}
