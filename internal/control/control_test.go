package control_test

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"

	"sluice/internal/control"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
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
		if err := open().Check(t.Context(), control.Queries); err != nil {
			t.Fatal(err)
		}
	})
}
