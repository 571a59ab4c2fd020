package stream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/control"
	"sluice/internal/naming"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/stream"
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
		if err := open().Check(t.Context(), stream.Queries); err != nil {
			t.Fatal(err)
		}
	})
}

var by = stream.By{Who: "tester"}

// env is one process with the stores that streams need.
type env struct {
	t       *testing.T
	control *control.Store
	queue   *queue.Store
	streams *stream.Store
}

func newEnv(t *testing.T, db *statedb.DB) *env {
	q := queue.New(db, queue.Config{Paths: func(context.Context, sluice.Org, string) error { return nil }})
	return &env{t: t, control: control.New(db), queue: q, streams: stream.New(db, q)}
}

// setup makes org acme with team 7.
func setup(t *testing.T, db *statedb.DB, policy sluice.NamingPolicy) *env {
	t.Helper()
	e := newEnv(t, db)
	if _, err := e.control.CreateOrg(t.Context(), control.NewOrg{Org: "acme", State: sluice.OrgReady, NamingPolicy: policy}, by); err != nil {
		t.Fatal(err)
	}
	if _, err := e.control.CreateTeam(t.Context(), control.NewTeam{Org: "acme", TeamID: 7}, by); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) add(n stream.NewStream) sluice.Stream {
	e.t.Helper()
	n.Org, n.TeamID = "acme", 7
	if n.SyncType == "" {
		n.SyncType = sluice.Append
	}
	st, err := e.streams.Add(e.t.Context(), n, by)
	if err != nil {
		e.t.Fatal(err)
	}
	return st
}

func (e *env) bind(id sluice.StreamID, o stream.BindOptions) stream.Binding {
	e.t.Helper()
	b, err := e.streams.Bind(e.t.Context(), id, o, by)
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}

func tables(names ...string) stream.Exists {
	return func(_ context.Context, schema, table string) (bool, error) {
		return schema == "team_7_data_imports" && slices.Contains(names, table), nil
	}
}

func TestAddAndLifecycle(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		for _, c := range []struct {
			sync  sluice.SyncType
			delta string
			want  sluice.Lifecycle
		}{
			{sluice.Append, "", sluice.Primed},
			{sluice.Incremental, "", sluice.Primed},
			{sluice.Incremental, "s3://d/t", sluice.PendingBackfill},
			{sluice.Append, "s3://d/t", sluice.PendingBackfill},
			{sluice.FullRefresh, "s3://d/t", sluice.Primed}, // each run is the whole table
		} {
			st := e.add(stream.NewStream{SourceType: "pg", Name: "a", SyncType: c.sync, DeltaURI: c.delta})
			if st.Lifecycle != c.want || (st.BootstrappedAt != nil) != (c.want == sluice.Primed) || !st.Enabled || st.NextRunSeq != 1 {
				t.Errorf("%s %q: %+v", c.sync, c.delta, st)
			}
		}
		own := e.add(stream.NewStream{StreamID: "7B000000-0000-4000-8000-00000000000A", SourceType: "pg", Name: "a", Options: sluice.Options{PrimaryKeys: []string{"id"}}})
		if own.StreamID != "7b000000-0000-4000-8000-00000000000a" {
			t.Fatal(own.StreamID)
		}
		got, err := e.streams.Get(ctx, own.StreamID)
		if err != nil || got.Options.PrimaryKeys[0] != "id" {
			t.Fatalf("%+v, %v", got, err)
		}
		for code, n := range map[sluice.Code]stream.NewStream{
			"SLUICE-CONTROL-EXISTS":  {StreamID: own.StreamID, Org: "acme", TeamID: 7, Name: "a", SyncType: sluice.Append},
			"SLUICE-CONTROL-INVALID": {Org: "acme", TeamID: 7, Name: "a", SyncType: "sometimes"},
			"SLUICE-CONTROL-NO-ORG":  {Org: "none", TeamID: 7, Name: "a", SyncType: sluice.Append},
			"SLUICE-CONTROL-NO-TEAM": {Org: "acme", TeamID: 8, Name: "a", SyncType: sluice.Append},
		} {
			if _, err := e.streams.Add(ctx, n, by); sluice.CodeOf(err) != code {
				t.Errorf("%+v: %v", n, err)
			}
		}
		all, err := e.streams.List(ctx, stream.Filter{Org: "acme", Limit: 4})
		if err != nil || len(all) != 4 {
			t.Fatal(len(all), err)
		}
		rest, err := e.streams.List(ctx, stream.Filter{Org: "acme", After: all[3].StreamID})
		if err != nil || len(rest) != 2 {
			t.Fatal(len(rest), err)
		}
		if err := e.streams.Remove(ctx, own.StreamID, by); err != nil {
			t.Fatal(err)
		}
		if _, err := e.streams.Get(ctx, own.StreamID); sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
			t.Fatal(err)
		}
		if err := e.streams.SetPaused(ctx, own.StreamID, true, by); sluice.CodeOf(err) != "SLUICE-LOAD-NO-STREAM" {
			t.Fatal(err)
		}
	})
}

func TestBindOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		st := e.add(stream.NewStream{SourceType: "Stripe", Prefix: "eu", Name: "Charge Items"})
		dry := e.bind(st.StreamID, stream.BindOptions{DryRun: true})
		if got, err := e.streams.Get(ctx, st.StreamID); err != nil || got.TargetTable != "" || dry.Bound {
			t.Fatalf("a dry run has bound: %+v, %v", got, err)
		}
		b := e.bind(st.StreamID, stream.BindOptions{})
		if b.TargetSchema != "team_7_data_imports" || b.TargetTable != "stripe_eu_charge_items" || !b.Bound || b.TargetTable != dry.TargetTable {
			t.Fatalf("%+v", b)
		}
		// A change of policy, and tables under other names, rename nothing.
		preview, err := e.streams.Preview(ctx, "acme", sluice.PolicyLegacyBatchV1)
		if err != nil || len(preview) != 0 {
			t.Fatal(preview, err)
		}
		if err := e.control.SetPolicy(ctx, "acme", sluice.PolicyLegacyBatchV1, by); err != nil {
			t.Fatal(err)
		}
		if again := e.bind(st.StreamID, stream.BindOptions{Exists: tables("other")}); again.TargetTable != b.TargetTable || again.Bound {
			t.Fatalf("%+v", again)
		}
		if _, err := e.streams.Bind(ctx, st.StreamID, stream.BindOptions{Table: "other"}, by); sluice.CodeOf(err) != "SLUICE-LOAD-STATE" {
			t.Fatal(err)
		}
	})
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		first := e.bind(e.add(stream.NewStream{SourceType: "pg", Name: "a b"}).StreamID, stream.BindOptions{})
		second := e.add(stream.NewStream{SourceType: "pg", Name: "a-b"})
		b := e.bind(second.StreamID, stream.BindOptions{})
		want := naming.Collide(7, "pg", "", "a-b", second.StreamID, "pg_a_b", 0)
		if first.TargetTable != "pg_a_b" || b.TargetTable != want || !b.Collided {
			t.Fatalf("%+v, %+v", first, b)
		}
		if _, err := e.streams.Bind(ctx, e.add(stream.NewStream{SourceType: "pg", Name: "c"}).StreamID, stream.BindOptions{Table: "pg_a_b"}, by); sluice.CodeOf(err) != "SLUICE-NAME-TAKEN" {
			t.Fatal(err)
		}
		for _, bad := range []string{"_sluice_x", "Upper", "1a", "a;b"} {
			if _, err := e.streams.Bind(ctx, e.add(stream.NewStream{SourceType: "pg", Name: "c"}).StreamID, stream.BindOptions{Table: bad}, by); sluice.CodeOf(err) != "SLUICE-CONTROL-INVALID" {
				t.Fatal(bad, err)
			}
		}
		// The name of a removed stream stays taken: its table is still there.
		if err := e.streams.Remove(ctx, second.StreamID, by); err != nil {
			t.Fatal(err)
		}
		if third := e.bind(e.add(stream.NewStream{SourceType: "pg", Name: "a+b"}).StreamID, stream.BindOptions{}); third.TargetTable == want || !third.Collided {
			t.Fatalf("%+v", third)
		}
	})
}

func TestAdoptsExistingTables(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, e := t.Context(), setup(t, open(), "")
		n := stream.NewStream{SourceType: "pg", Name: "userEvents"} // copy_v1: pg_userevents, legacy_batch_v1: pg_user_events
		if b := e.bind(e.add(n).StreamID, stream.BindOptions{Exists: tables("pg_user_events")}); b.TargetTable != "pg_user_events" || !b.Adopted {
			t.Fatalf("%+v", b)
		}
		both := tables("pg_user_events", "pg_userevents")
		if b := e.bind(e.add(n).StreamID, stream.BindOptions{Exists: both}); b.TargetTable != "pg_userevents" || !b.Adopted {
			t.Fatalf("one of the two is bound, so the other is meant: %+v", b)
		}
		if b := e.bind(e.add(n).StreamID, stream.BindOptions{Exists: both}); !b.Collided || b.Adopted {
			t.Fatalf("%+v", b)
		}
		two := stream.NewStream{SourceType: "pg", Name: "payIn"}
		_, err := e.streams.Bind(ctx, e.add(two).StreamID, stream.BindOptions{Exists: tables("pg_payin", "pg_pay_in")}, by)
		if sluice.CodeOf(err) != "SLUICE-NAME-AMBIGUOUS" {
			t.Fatal(err)
		}
		if b := e.bind(e.add(two).StreamID, stream.BindOptions{Exists: tables("pg_payin", "pg_pay_in"), Table: "pg_pay_in"}); b.TargetTable != "pg_pay_in" || !b.Adopted {
			t.Fatalf("%+v", b)
		}
		_, err = e.streams.Bind(ctx, e.add(two).StreamID, stream.BindOptions{Exists: func(context.Context, string, string) (bool, error) {
			return false, errors.New("the lake is away")
		}}, by)
		if err == nil {
			t.Fatal("a lake that does not answer was taken for an empty one")
		}
	})
}

// Two processes that bind two colliding streams at the same time get two names.
func TestRacingBinds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		e := setup(t, open(), "")
		const racers = 4
		names := make(chan string, racers)
		var wg sync.WaitGroup
		for i := range racers {
			id := e.add(stream.NewStream{SourceType: "pg", Name: fmt.Sprintf("a%sb", strings.Repeat(" ", i+1))}).StreamID
			for range 2 { // and the same stream twice
				p := newEnv(t, open())
				wg.Go(func() {
					b, err := p.streams.Bind(t.Context(), id, stream.BindOptions{}, by)
					if err != nil {
						t.Error(err)
					}
					if b.Bound {
						names <- b.TargetTable
					}
				})
			}
		}
		wg.Wait()
		close(names)
		seen := map[string]bool{}
		for n := range names {
			seen[n] = true
		}
		if len(seen) != racers || !seen["pg_a_b"] {
			t.Fatalf("%d streams got %v", racers, seen)
		}
	})
}
