package fanout

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/house"
	"sluice/internal/warehouse/engine"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

const sourceOrg = sluice.Org("feeds")

var by = control.By{Who: "test"}

// rig is a source lake and destinations, of real parts.
type rig struct {
	testing.TB
	h       *house.House
	dsn     string
	db      *statedb.DB
	control *control.Store
	store   *Store
	f       *Fanout
	runner  *Runner
	down    *downSessions
	src     *engine.Conn
	offset  int64
	teams   map[sluice.TeamID]sluice.Org

	childLog lockedBuffer
}

// downSessions makes warehouses unreachable.
type downSessions struct {
	Sessions
	org atomic.Value
}

func (d *downSessions) Open(ctx context.Context, org sluice.Org) (*lake.Session, error) {
	if d.org.Load() == org {
		return nil, lake.Fail(lake.PhaseConnect, lake.Deferred, sluice.E("SLUICE-LOAD-CONNECT", "open a session", "the test has taken the warehouse down", "", nil))
	}
	return d.Sessions.Open(ctx, org)
}

const personColumns = `team_id BIGINT, id VARCHAR, version BIGINT, is_deleted BIGINT, props JSON`

const personsDef = `
key_columns: [team_id, id]
version_column: version
delete_column: is_deleted
table_field: persons_table
columns:
  team_id: {}
  id: {}
  version: {type: UBIGINT}
  is_deleted: {type: BOOLEAN}
  props: {type: VARCHAR}
`

const metadataDDL = `_topic_epoch INTEGER, _partition INTEGER, _offset BIGINT, _timestamp TIMESTAMPTZ, _key VARCHAR, _tombstone BOOLEAN, _extra JSON, ` +
	`_inserted_at TIMESTAMPTZ, _inserted_month DATE`

func newRig(t testing.TB, opts house.Options) *rig {
	t.Helper()
	r := &rig{TB: t, h: house.New(t, opts), teams: map[sluice.TeamID]sluice.Org{}}
	r.dsn = filepath.Join(t.TempDir(), "state.db")
	var err error
	if r.db, err = statedb.Open(t.Context(), r.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	if err := r.db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.control, r.store = control.New(r.db), NewStore(r.db)
	r.org(sourceOrg)
	r.down = &downSessions{Sessions: r.h.Dialer()}
	r.src = r.h.Engine(sourceOrg)
	return r
}

func (r *rig) org(org sluice.Org) {
	r.Helper()
	r.h.Org(org)
	if _, err := r.control.CreateOrg(r.Context(), control.NewOrg{Org: org, State: sluice.OrgReady}, by); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) team(org sluice.Org, team sluice.TeamID) {
	r.Helper()
	if _, err := r.control.CreateTeam(r.Context(), control.NewTeam{Org: org, TeamID: team}, by); err != nil {
		r.Fatal(err)
	}
	r.teams[team] = org
}

// exec runs a statement in the source's lake.
func (r *rig) exec(format string, a ...any) {
	r.Helper()
	q := fmt.Sprintf(format, a...)
	if _, err := r.src.ExecContext(r.Context(), q); err != nil {
		r.Fatalf("%s: %v", q, err)
	}
}

// changelog makes the source table.
func (r *rig) changelog(columns string) {
	r.Helper()
	r.exec("CREATE SCHEMA lake.feeds")
	r.exec("CREATE TABLE lake.feeds.ev (%s, %s)", metadataDDL, columns)
	r.exec("ALTER TABLE lake.feeds.ev SET PARTITIONED BY (_inserted_month)")
}

// put adds messages to the changelog, one snapshot; each is the SQL of the payload columns, or "tomb team id".
func (r *rig) put(rows ...string) {
	r.Helper()
	var values []string
	for _, row := range rows {
		r.offset++
		head := fmt.Sprintf("0, 0, %d, make_timestamptz(%d), NULL", r.offset, 1_700_000_000_000_000+r.offset)
		if rest, ok := strings.CutPrefix(row, "tomb "); ok {
			values = append(values, fmt.Sprintf("(%s, true, NULL, now(), DATE '2026-01-01', %s, NULL, NULL, NULL)", head, rest))
			continue
		}
		values = append(values, fmt.Sprintf("(%s, false, NULL, now(), DATE '2026-01-01', %s)", head, row))
	}
	r.exec("INSERT INTO lake.feeds.ev VALUES %s", strings.Join(values, ", "))
}

func (r *rig) add(def string) {
	r.Helper()
	d, err := ParseDefinition([]byte(def))
	if err != nil {
		r.Fatal(err)
	}
	r.f = &Fanout{Name: "persons", Lake: sourceOrg, Source: lake.Table{Schema: "feeds", Name: "ev"}, Def: d, Shards: 4}
	if err := r.store.Insert(r.Context(), r.f, by); err != nil {
		r.Fatal(err)
	}
	r.runner = r.newRunner("one")
}

func (r *rig) files() LocalFiles {
	dir := r.h.Dir
	return LocalFiles{Org: func(org sluice.Org) string { return filepath.Join(dir, "extracts", string(org)) }}
}

func (r *rig) newRunner(owner string) *Runner {
	return New(Config{Owner: owner, Poll: 20 * time.Millisecond, FlushInterval: time.Millisecond, Discovery: time.Hour}, Deps{
		Store: r.store, Sessions: r.down, Files: r.files(), Discovery: r.control, Log: r.log(),
	})
}

func (r *rig) log() *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// destinations by team.
func (r *rig) destinations() map[sluice.TeamID]Destination {
	r.Helper()
	list, err := r.store.Destinations(r.Context(), r.f)
	if err != nil {
		r.Fatal(err)
	}
	out := map[sluice.TeamID]Destination{}
	for _, d := range list {
		out[d.Team] = d
	}
	return out
}

// settled reports whether the runner has nothing left to do.
func (r *rig) settled() bool {
	r.Helper()
	head := r.head()
	for _, w := range r.runner.all() {
		w.settle(r.Context())
		if w.f.Halt != nil {
			return true
		}
		if len(w.dests) == 0 {
			return false
		}
		for _, x := range w.dests {
			rests := x.d.State == StateHalted || x.d.State == StateRetrying || x.d.State == StateWaiting || x.d.State == StateRemoved || x.d.State == StatePaused
			if !rests && (!x.open || x.busy || x.pos < head || len(x.buf.parts) > 0) {
				return false
			}
			if x.busy {
				return false
			}
		}
	}
	return true
}

func (r *rig) head() (head int64) {
	r.Helper()
	if err := r.src.QueryRowContext(r.Context(), "SELECT max(snapshot_id) FROM "+metadata+".ducklake_snapshot").Scan(&head); err != nil {
		r.Fatal(err)
	}
	return head
}

// follow runs until everything is applied.
func (r *rig) follow() {
	r.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for i := 0; ; i++ {
		if err := r.runner.runOnce(r.Context(), r.Context()); err != nil {
			r.Fatal(err)
		}
		if i > 1 && r.settled() {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("the destinations did not settle: %+v", r.runner.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// followTo runs until all destinations are in a state and everything is applied.
func (r *rig) followTo(s State) {
	r.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		r.follow()
		all := true
		for _, d := range r.destinations() {
			all = all && d.State == s
		}
		if all {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("not all are %s: %+v", s, r.destinations())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// want compares the rows of a team's table.
func (r *rig) want(team sluice.TeamID, rows ...string) {
	r.Helper()
	got := r.h.Rows(r.teams[team], fmt.Sprintf("SELECT id, version, is_deleted, props FROM team_%d.persons ORDER BY id", team))
	if strings.Join(got, "\n") != strings.Join(rows, "\n") {
		r.Errorf("team %d has\n%s\nwant\n%s", team, strings.Join(got, "\n"), strings.Join(rows, "\n"))
	}
}

func (r *rig) wantState(team sluice.TeamID, s State, code sluice.Code) {
	r.Helper()
	if d := r.destinations()[team]; d.State != s || d.Code != code {
		r.Errorf("team %d is %s %s (%s), want %s %s", team, d.State, d.Code, d.Detail, s, code)
	}
}

func (r *rig) wantHalt(code sluice.Code) {
	r.Helper()
	f, err := r.store.Get(r.Context(), r.f.Name)
	if err != nil {
		r.Fatal(err)
	}
	if f.Halt == nil && code != "" || f.Halt != nil && f.Halt.Code != code {
		r.Errorf("the fan-out's halt is %+v, want %s", f.Halt, code)
	}
}
