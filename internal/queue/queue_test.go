package queue_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/queue"
	"sluice/internal/queue/queuetest"
	"sluice/internal/statedb"
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

// opener gives a function that opens handles of one private, empty database: each is like a process of its own.
func opener(t testing.TB, kind statedb.Dialect) func(t testing.TB) *statedb.DB {
	t.Helper()
	dsn := filepath.Join(t.TempDir(), "state.db")
	if kind == statedb.PostgreSQL {
		dsn = pg.New(t)
	}
	return func(t testing.TB) *statedb.DB {
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
}

func onBoth(t *testing.T, fn func(t *testing.T, open func(t testing.TB) *statedb.DB)) {
	t.Helper()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			fn(t, opener(t, kind))
		})
	}
}

func TestQueriesAreUnderstood(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t testing.TB) *statedb.DB) {
		if err := open(t).Check(t.Context(), queue.Queries); err != nil {
			t.Fatal(err)
		}
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range []statedb.Dialect{statedb.SQLite, statedb.PostgreSQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			queuetest.Run(t, func(t *testing.T) queuetest.Open { return opener(t, kind) })
		})
	}
}
