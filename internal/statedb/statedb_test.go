package statedb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(context.Background(), path); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
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

// onBoth runs a test on SQLite and on PostgreSQL; open gives further handles of the same database.
func onBoth(t *testing.T, fn func(t *testing.T, open func() *statedb.DB)) {
	t.Helper()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			dsn := filepath.Join(t.TempDir(), "with space?and#marks", "state.db")
			if kind == statedb.PostgreSQL {
				dsn = pg.New(t)
			}
			fn(t, func() *statedb.DB {
				db, err := statedb.Open(t.Context(), dsn)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
				return db
			})
		})
	}
}

func TestMigrationsUpAndDown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		db := open()
		ctx := t.Context()
		if err := db.Current(ctx); sluice.CodeOf(err) != "SLUICE-STATE-VERSION" {
			t.Fatalf("an empty database passes as current: %v", err)
		}
		if err := db.Up(ctx); err != nil {
			t.Fatal(err)
		}
		have, want, err := db.Version(ctx)
		if err != nil || have != want || want == 0 {
			t.Fatalf("version %d of %d, %v", have, want, err)
		}
		status, err := db.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range status {
			if s.AppliedAt == nil || s.AppliedAt.IsZero() {
				t.Errorf("migration %d %s has no time", s.Version, s.Name)
			}
		}
		for range status {
			if err := db.Down(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if have, _, err := db.Version(ctx); err != nil || have != 0 {
			t.Fatalf("after all downs: version %d, %v", have, err)
		}
		if err := db.Up(ctx); err != nil {
			t.Fatalf("up after down: %v", err)
		}
	})
}

func TestProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		var wg sync.WaitGroup
		for range 4 {
			db := open()
			wg.Go(func() {
				if err := db.Up(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

var set = statedb.MustLoad(os.DirFS("testdata"), "*.sql")

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		db := open()
		if err := db.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := statedb.Exec(t.Context(), db, set.Get("Future"), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Up(t.Context()); sluice.CodeOf(err) != "SLUICE-STATE-VERSION" {
			t.Fatalf("up on a newer schema: %v", err)
		}
		if err := db.Current(t.Context()); sluice.CodeOf(err) != "SLUICE-STATE-VERSION" {
			t.Fatalf("a newer schema passes: %v", err)
		}
	})
}

func TestAbsentServerIsNamed(t *testing.T) {
	t.Parallel()
	_, err := statedb.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/none?connect_timeout=2")
	if sluice.CodeOf(err) != "SLUICE-STATE-AWAY" {
		t.Fatalf("got %v", err)
	}
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		db := open()
		if _, err := statedb.Exec(ctx, db, set.Get("Make"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := statedb.Exec(ctx, db, set.Get("Zero"), nil); err != nil {
			t.Fatal(err)
		}
		const writers, rounds = 8, 25
		var wg sync.WaitGroup
		for range writers {
			db := open()
			wg.Go(func() {
				for range rounds {
					err := db.Tx(ctx, func(tx *statedb.Tx) error {
						n, _, err := statedb.One(ctx, tx, set.Get("ReadLocked"), nil, statedb.Value[int64])
						if err != nil {
							return err
						}
						_, err = statedb.Exec(ctx, tx, set.Get("Write"), statedb.Args{"n": n + 1})
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n, _, err := statedb.One(ctx, db, set.Get("Read"), nil, statedb.Value[int64]); err != nil || n != writers*rounds {
			t.Fatalf("%d of %d, %v", n, writers*rounds, err)
		}
	})
}

func TestErrorRollsBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		db := open()
		if _, err := statedb.Exec(ctx, db, set.Get("Make"), nil); err != nil {
			t.Fatal(err)
		}
		boom := errors.New("boom")
		err := db.Tx(ctx, func(tx *statedb.Tx) error {
			if _, err := statedb.Exec(ctx, tx, set.Get("Zero"), nil); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatalf("got %v", err)
		}
		if _, found, err := statedb.One(ctx, db, set.Get("Read"), nil, statedb.Value[int64]); err != nil || found {
			t.Fatalf("the row is there (%v)", err)
		}
		err = db.Tx(ctx, func(tx *statedb.Tx) error {
			for range 2 {
				if _, err := statedb.Exec(ctx, tx, set.Get("Zero"), nil); err != nil {
					return err
				}
			}
			return nil
		})
		if !statedb.Unique(err) {
			t.Fatalf("a second row with the same key: %v", err)
		}
	})
}

func TestClockAndLists(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx := t.Context()
		db := open()
		now, err := db.Now(ctx)
		if err != nil || time.Since(now).Abs() > time.Minute {
			t.Fatalf("clock says %v, %v", now, err)
		}
		fixed := time.Date(2026, 3, 1, 2, 3, 4, 567000, time.UTC)
		db.SetNow(&fixed)
		type row struct{ now, after, ago time.Time }
		got, _, err := statedb.One(ctx, db, set.Get("Clock"), statedb.Args{"d": 90 * time.Second}, func(s statedb.Scan) (r row, err error) {
			return r, s(statedb.Time(&r.now), statedb.Time(&r.after), statedb.Time(&r.ago))
		})
		want := row{fixed, fixed.Add(90 * time.Second), fixed.Add(-90 * time.Second)}
		if err != nil || got != want {
			t.Fatalf("got %v, want %v, %v", got, want, err)
		}
		n, _, err := statedb.One(ctx, db, set.Get("Lists"), statedb.Args{"orgs": []sluice.Org{"a", "b"}, "ids": []sluice.TeamID{1, 2}}, statedb.Value[int64])
		if err != nil || n != 2 {
			t.Fatalf("lists: %d, %v", n, err)
		}
		if _, _, err := statedb.One(ctx, db, set.Get("Lists"), statedb.Args{"orgs": []string{}}, statedb.Value[int64]); err == nil {
			t.Fatal("a missing parameter was accepted")
		}
	})
}

func TestNotifyWakesAfterCommit(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func() *statedb.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		db := open()
		heard := db.Listen(ctx)
		if db.Dialect() == statedb.PostgreSQL {
			<-heard // the empty name: it listens
		}
		err := db.Tx(ctx, func(tx *statedb.Tx) error {
			if err := db.Notify(ctx, tx, "queue"); err != nil {
				return err
			}
			return db.Notify(ctx, tx, "queue")
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != "queue" {
			t.Fatalf("heard %q", got)
		}
		cancel()
		for range heard { // ends once ctx is over
		}
	})
}
