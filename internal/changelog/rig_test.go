package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sluice/internal/lake"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/kafka"
	"sluice/internal/testkit/pg"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	code := m.Run()
	kafka.Shutdown()
	pg.Shutdown()
	os.Exit(code)
}

// rig is a lake with one changelog, without a topic.
type rig struct {
	t testing.TB
	h *house.House
	c *Changelog
}

const rigOrg = "acme"

func newRig(t testing.TB, opts house.Options, def Definition, cursors ...Cursor) *rig {
	t.Helper()
	h := house.New(t, opts)
	h.Org(rigOrg)
	def, err := def.complete()
	if err != nil {
		t.Fatal(err)
	}
	c := &Changelog{ID: uuid.NewString(), Name: "events", Lake: rigOrg, Table: lake.Table{Schema: "feeds", Name: "events"}, Topic: "events", Slots: 1, Def: def}
	r := &rig{t, h, c}
	if len(cursors) == 0 {
		cursors = []Cursor{{Partition: 0, LeaderEpoch: -1, Timestamp: -1}, {Partition: 1, LeaderEpoch: -1, Timestamp: -1}}
	}
	s, err := h.Dialer().Open(t.Context(), rigOrg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := Provision(t.Context(), s, c, cursors); err != nil {
		t.Fatal(err)
	}
	return r
}

func clock(context.Context) (time.Time, error) { return time.Now(), nil }

// sink takes the slot as an owner.
func (r *rig) sink(owner string) (*sink, SlotState) {
	r.t.Helper()
	k := &sink{
		c: r.c, owner: owner, sessions: r.h.Dialer(), files: LocalFiles{}, now: clock,
		log: slog.New(slog.DiscardHandler), stop: make(chan struct{}),
	}
	st, err := k.take(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(k.close)
	return k, st
}

// flush writes messages, each "partition offset value"; the value "null" is a tombstone.
func (r *rig) flush(k *sink, messages ...string) (Flushed, error) {
	r.t.Helper()
	s, err := k.session(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	st, err := ReadSlot(r.t.Context(), s, r.c.ID, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	b := NewBuffer(Limits{r.c.Def.MaxMessageBytes}, st.Next())
	for _, m := range messages {
		var msg Message
		head := strings.SplitN(m, " ", 3)
		_, _ = fmt.Sscan(head[0], &msg.Partition)
		_, _ = fmt.Sscan(head[1], &msg.Offset)
		msg.Timestamp, msg.LeaderEpoch = 1_700_000_000_000+msg.Offset, 5
		if head[2] != "null" {
			msg.Value = []byte(head[2])
		}
		b.Add(&msg, time.Now())
	}
	f := &flushing{b: b, trigger: TriggerInterval}
	err = k.flush(r.t.Context(), f)
	return f.out, err
}

func (r *rig) rows(query string) string {
	r.t.Helper()
	c := r.h.Service(rigOrg)
	return strings.Join(r.h.RowsOn(c, query), "\n")
}

func (r *rig) want(query string, rows ...string) {
	r.t.Helper()
	if got := r.rows(query); got != strings.Join(rows, "\n") {
		r.t.Errorf("%s\ngot:\n%s\nwant:\n%s", query, got, strings.Join(rows, "\n"))
	}
}
