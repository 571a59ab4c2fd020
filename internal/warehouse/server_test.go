package warehouse_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	driver "github.com/duckdb/duckdb-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"sluice/internal/sluice"
	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse"
	"sluice/internal/warehouse/auth"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pg.Shutdown()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// memory is an engine without a lake: one in-memory database, attached as "lake" for all connections.
type memory struct {
	db      *sql.DB
	mu      sync.Mutex
	retired chan struct{}
	checked []error
}

func newMemory(t testing.TB) *memory {
	t.Helper()
	c, err := driver.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{db: sql.OpenDB(c), retired: make(chan struct{})}
	t.Cleanup(func() { _ = m.db.Close() })
	if _, err := m.db.ExecContext(t.Context(), "ATTACH ':memory:' AS lake"); err != nil {
		t.Fatal(err)
	}
	return m
}

type memoryConn struct {
	m  *memory
	sc *sql.Conn
}

func (m *memory) Connect(ctx context.Context, org sluice.Org) (warehouse.Conn, error) {
	if org == "nobody" {
		return nil, sluice.E("SLUICE-CONTROL-NO-ORG", "open engine of org nobody", "no such org", "", nil)
	}
	sc, err := m.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_, err = sc.ExecContext(ctx, "USE lake")
	return &memoryConn{m, sc}, err
}

func (c *memoryConn) SQL() *sql.Conn           { return c.sc }
func (c *memoryConn) Retired() <-chan struct{} { return c.m.retired }
func (c *memoryConn) Check(err error) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.checked = append(c.m.checked, err)
	return err
}

func (c *memoryConn) Close() error {
	_ = c.sc.Raw(func(any) error { return fmt.Errorf("not for reuse: %w", errBad) })
	return c.sc.Close()
}

var errBad = errors.New("bad")

var discard = slog.New(slog.DiscardHandler)

type accounts map[string]auth.Account

func (a accounts) Lookup(_ context.Context, org sluice.Org, user string) (auth.Account, error) {
	acc, ok := a[string(org)+"/"+user]
	if !ok {
		return auth.Account{}, auth.ErrNoUser
	}
	return acc, nil
}

func account(org, name string, role auth.Role) auth.Account {
	return auth.Account{Principal: auth.Principal{Org: sluice.Org(org), Name: name, Role: role}, Verifier: auth.NewVerifier("pw-" + name)}
}

var users = accounts{
	"acme/olga":       account("acme", "olga", auth.Owner),
	"acme/rita":       account("acme", "rita", auth.Reader),
	"acme/svc_loader": account("acme", "svc_loader", auth.Loader),
}

// start runs a server on a free port until the test ends, and checks that it ends cleanly.
func start(t *testing.T, cfg warehouse.Config) (*warehouse.Server, *memory) {
	t.Helper()
	m := newMemory(t)
	cfg.Listen = "127.0.0.1:0"
	if cfg.Grace == 0 {
		cfg.Grace = 100 * time.Millisecond
	}
	srv := warehouse.New(cfg, m, users, discard)
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server does not end")
		}
	})
	return srv, m
}

func dsn(srv *warehouse.Server, user string) string {
	return fmt.Sprintf("postgres://%s:pw-%s@%s/acme?sslmode=disable", user, user, srv.Addr())
}

func connect(t *testing.T, srv *warehouse.Server, user string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn(srv, user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestFirstQueries(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	var n int
	if err := c.QueryRow(t.Context(), "SELECT 41 + $1", 1).Scan(&n); err != nil || n != 42 {
		t.Fatal(n, err)
	}
	if err := c.QueryRow(t.Context(), "SELECT 42", pgx.QueryExecModeSimpleProtocol).Scan(&n); err != nil || n != 42 {
		t.Fatal(n, err)
	}
	tag, err := c.Exec(t.Context(), "CREATE TABLE t (id INTEGER, name VARCHAR)")
	if err != nil || tag.String() != "CREATE TABLE" {
		t.Fatal(tag, err)
	}
	tag, err = c.Exec(t.Context(), "INSERT INTO t VALUES ($1, $2), ($3, $4)", 1, "one", 2, nil)
	if err != nil || tag.String() != "INSERT 0 2" {
		t.Fatal(tag, err)
	}
	rows, err := c.Query(t.Context(), "SELECT id, name FROM t ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID   int
		Name *string
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil || len(got) != 2 || *got[0].Name != "one" || got[1].Name != nil {
		t.Fatal(got, err)
	}
	if _, err := c.Exec(t.Context(), "SELECT * FROM nowhere"); code(err) != "42P01" {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "SELECT count(*) FROM read_csv('/etc/passwd')"); code(err) != "42501" {
		t.Fatal(err)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	srv := warehouse.New(warehouse.Config{Listen: l.Addr().String()}, nil, nil, slog.New(slog.DiscardHandler))
	err = srv.Listen()
	if sluice.CodeOf(err) != "SLUICE-WAREHOUSE-LISTEN" || sluice.HintOf(err) == "" {
		t.Fatal(err)
	}
}
