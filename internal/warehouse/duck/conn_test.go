package duck_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	driver "github.com/duckdb/duckdb-go/v2"

	"sluice/internal/warehouse/duck"
)

func open(t *testing.T) *duck.Conn {
	t.Helper()
	c, err := driver.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	t.Cleanup(func() { _ = db.Close() })
	sc, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sc.Close() })
	var conn *duck.Conn
	if err := sc.Raw(func(dc any) (err error) { conn, err = duck.FromDriver(dc); return err }); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestFromDriver(t *testing.T) {
	t.Parallel()
	c := open(t)
	got, err := c.Text(t.Context(), "SELECT 'a' UNION ALL SELECT NULL UNION ALL SELECT 'a long text that is not inlined'")
	if err != nil || len(got) != 2 || got[1] != "a long text that is not inlined" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := duck.FromDriver(42); !errors.Is(err, duck.ErrNotDuckDB) {
		t.Fatalf("a foreign connection gave %v", err)
	}
}

func TestPrepareRunsNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	if _, err := c.Prepare(t.Context(), "CREATE TABLE a (x INT); CREATE TABLE b (x INT)"); err == nil {
		t.Fatal("two statements were prepared as one")
	}
	s, err := c.Prepare(t.Context(), "CREATE TABLE a (x INT)")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	got, err := c.Text(t.Context(), "SELECT table_name FROM duckdb_tables()")
	if err != nil || len(got) != 0 {
		t.Fatalf("tables %q, %v", got, err)
	}
}

func TestCancelLeavesUsableConnection(t *testing.T) {
	t.Parallel()
	c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	err := c.Exec(ctx, "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3")
	var de *duck.Error
	if !errors.As(err, &de) || de.Type != duck.ErrorInterrupt {
		t.Fatalf("got %v", err)
	}
	for range 50 {
		if err := c.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreamReportsLateErrorAndIsBounded(t *testing.T) {
	t.Parallel()
	c := open(t)
	s, err := c.Prepare(t.Context(), "SELECT CASE WHEN range = 3000000 THEN error('late') ELSE repeat('x', 100) END FROM range(100000000)")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := time.Now()
	r, err := s.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := time.Since(start); d > 5*time.Second {
		t.Fatalf("the first row took %s: the result is not streamed", d)
	}
	rows := 0
	for {
		ch, err := r.Next(t.Context())
		if err != nil {
			break
		}
		if ch == nil {
			t.Fatal("the error was lost")
		}
		rows += ch.Size()
		ch.Close()
	}
	if rows == 0 {
		t.Fatal("no row before the error")
	}
}
