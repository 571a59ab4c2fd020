package pg_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
)

// childEnv makes this binary a child of TestServerEndsWithItsProcess: a process with a server, which waits to be killed.
const childEnv = "PG_TEST_CHILD"

type childTest struct{ testing.TB } // a child has no test, only the server's needs of one

func (childTest) Helper()           {}
func (childTest) Cleanup(func())    {}
func (childTest) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		fmt.Println("port", pg.Start(childTest{}, pg.Options{}).Port())
		time.Sleep(time.Hour)
	}
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

func TestRunningServerIsUsed(t *testing.T) {
	s := pg.Start(t, pg.Options{})
	t.Setenv(pg.EnvDSN, s.DSN("postgres"))
	dsn := pg.New(t)
	if want := fmt.Sprintf(":%d/", s.Port()); !strings.Contains(dsn, want) {
		t.Fatalf("%s is not on the server with %s", dsn, want)
	}
	if n, err := query(t, dsn, "SELECT 1"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	port := 0
	for lines := bufio.NewScanner(out); port == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "port %d", &port)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("the child's server does not answer: %v", err)
	}
	_ = conn.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server outlives the process that started it")
		}
	}
}
