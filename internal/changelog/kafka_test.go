package changelog

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/kafka"
)

// world is a broker, a lake and a state DB, with one process that works on changelogs.
type world struct {
	t     testing.TB
	k     *kafka.Server
	h     *house.House
	store *Store
	admin *Admin
	log   *slog.Logger
}

var tester = By{Who: "tester"}

func newWorld(t testing.TB, opts house.Options) *world {
	t.Helper()
	w := &world{t: t, k: kafka.New(t), h: house.New(t, opts), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("CHANGELOG_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.h.Org(rigOrg)
	db, err := statedb.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := control.New(db).CreateOrg(t.Context(), control.NewOrg{Org: rigOrg, State: sluice.OrgReady}, tester); err != nil {
		t.Fatal(err)
	}
	w.store = NewStore(db)
	w.admin = &Admin{Store: w.store, Sessions: w.h.Dialer(), Files: LocalFiles{}, Cluster: Cluster{Brokers: []string{w.k.Addr()}}, Log: w.log}
	return w
}

func (w *world) add(name, topic string, slots int, config string) *Changelog {
	w.t.Helper()
	c, _, err := w.admin.Add(w.t.Context(), NewChangelog{Name: name, Lake: rigOrg, Topic: topic, Slots: slots, Config: []byte(config)}, tester)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// quick is how a process works whose test waits for it.
func (w *world) quick() Config {
	return Config{
		Cluster: w.admin.Cluster, LeaseTTL: 5 * time.Second, Heartbeat: time.Second, Poll: 100 * time.Millisecond,
		Slot: SlotConfig{
			Thresholds: Thresholds{Interval: 300 * time.Millisecond, MaxInterval: time.Nanosecond}, Check: 500 * time.Millisecond,
			Fetching: Fetching{MinBytes: 1, MaxWait: 100 * time.Millisecond},
		},
	}
}

// run starts a process; stop ends it in order.
func (w *world) run(cfg Config) (r *Runner, stop func()) {
	w.t.Helper()
	r = NewRunner(cfg, Deps{Store: w.store, Sessions: w.h.Dialer(), Files: LocalFiles{}, Log: w.log})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return r, stop
}

// until waits until a query gives a text.
func (w *world) until(query, want string) {
	w.t.Helper()
	c := w.h.Service(rigOrg)
	deadline := time.Now().Add(60 * time.Second)
	for {
		got := ask(w.t.Context(), c, query)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: still %s, not %s", query, got, want)
		}
		time.Sleep(50 * time.Millisecond) // a poll of a condition
	}
}

// ask gives the one row of a query, or its error: a table or column may not be there yet.
func ask(ctx context.Context, c *pgx.Conn, query string) string {
	rows, err := c.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	out := ""
	for rows.Next() {
		for i, v := range rows.RawValues() {
			if i > 0 {
				out += "|"
			}
			if v == nil {
				out += "∅"
			}
			out += string(v)
		}
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	return out
}

// halted waits until a changelog has halted with a code.
func (w *world) halted(name string, code sluice.Code) {
	w.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		c, err := w.store.Get(w.t.Context(), name)
		if err != nil {
			w.t.Fatal(err)
		}
		if c.Halt != nil {
			if c.Halt.Code != code {
				w.t.Fatalf("halted with %s: %s", c.Halt.Code, c.Halt.Detail)
			}
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not halted with %s", code)
		}
		time.Sleep(50 * time.Millisecond) // a poll of a condition
	}
}

func TestTopicBecomesTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 2, nil)
	w.k.Produce(t, topic, 0, `{"id":1,"v":"a"}`, `{"id":2,"v":"b"}`)
	w.k.Produce(t, topic, 1, `{"id":3,"w":1.5}`, `nonsense`)
	w.add("events", topic, 2, "")
	_, stop := w.run(w.quick())
	w.until("SELECT string_agg(id || ':' || _partition || ':' || _offset, ' ' ORDER BY id) FROM lake.changelog.events", "1:0:0 2:0:1 3:1:0")
	w.k.Produce(t, topic, 0, `{"id":4}`)
	w.until("SELECT count(*), max(id) FROM lake.changelog.events", "4|4")
	st, err := w.admin.Status(t.Context(), "events")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range st.Partitions {
		if p.LagRecords != 0 || p.LagSeconds != 0 {
			t.Errorf("%+v", p)
		}
	}
	if st.Open["malformed_json"] != 1 {
		t.Errorf("quarantine %v", st.Open)
	}
	stop()
	w.k.Produce(t, topic, 0, `{"id":5}`)
	if st, err = w.admin.Status(t.Context(), "events"); err != nil || st.Partitions[0].LagRecords != 1 || st.Partitions[0].LagSeconds <= 0 {
		t.Errorf("with all processes down: %+v, %v", st.Partitions, err)
	}
	w.run(w.quick())
	w.until("SELECT count(*), count(DISTINCT (_partition, _offset)) FROM lake.changelog.events", "5|5")
}
