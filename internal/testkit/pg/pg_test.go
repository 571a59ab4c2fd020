package pg_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	os.Exit(code)
}

func query(t *testing.T, dsn, sql string) (n int, err error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	return n, conn.QueryRow(t.Context(), sql).Scan(&n)
}

func TestDatabasesArePrivate(t *testing.T) {
	t.Parallel()
	a, b := pg.New(t), pg.New(t)
	if a == b {
		t.Fatalf("two tests share %s", a)
	}
	if _, err := query(t, a, "CREATE TABLE x AS SELECT 1 AS n; SELECT n FROM x"); err == nil {
		t.Fatal("two statements in one query were accepted")
	}
	if n, err := query(t, a, "SELECT 41 + 1"); err != nil || n != 42 {
		t.Fatalf("got %d, %v", n, err)
	}
}

func TestServerSurvivesKillAndRestart(t *testing.T) {
	t.Parallel()
	s := pg.Start(t, pg.Options{Fsync: true})
	dsn, err := s.CreateDatabase(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := query(t, dsn, "CREATE TABLE x AS SELECT 7 AS n"); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := query(t, dsn, "SELECT n FROM x"); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if n, err := query(t, dsn, "SELECT n FROM x"); err != nil || n != 7 {
		t.Fatalf("after the restart: %d, %v", n, err)
	}
}
