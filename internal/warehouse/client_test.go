package warehouse_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse"
)

const slow = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3"

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen: " + what)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	for _, c := range []struct{ user, password, db, want string }{
		{"olga", "pw-olga", "acme", ""},
		{"olga", "wrong", "acme", "28P01"},
		{"eve", "pw-eve", "acme", "28P01"},
		{"olga", "pw-olga", "other", "28P01"},
		{"olga", "pw-olga", "../acme", "28P01"},
		{"svc_loader", "pw-svc_loader", "acme", ""},
	} {
		cfg, err := pgx.ParseConfig("postgres://x@" + srv.Addr().String() + "/x?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Password, cfg.Database = c.user, c.password, c.db
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if code(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if conn != nil {
			_ = conn.Close(t.Context())
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := start(t, warehouse.Config{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	c, err := pgx.Connect(t.Context(), strings.Replace(dsn(srv, "olga"), "sslmode=disable", "sslmode=require", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	runSteps(t, c, []step{{"SELECT range FROM range(100000)", "SELECT 100000", 'I'}, {"SET statement_timeout = 200", "SET", 'I'}, {slow, "57014", 'I'}, {"SELECT 1", "SELECT 1", 'I'}})
}

func TestTrustOnLoopback(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{TrustLoopback: true})
	for user, want := range map[string]string{"anyone": "", "svc_loader": "28P01", "SVC_x": "28P01"} {
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://%s:x@%s/acme?sslmode=disable", user, srv.Addr()))
		if code(err) != want {
			t.Errorf("%s: %v", user, err)
		}
		if conn != nil {
			_ = conn.Close(t.Context())
		}
	}
	if _, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://anyone@%s/nobody?sslmode=disable", srv.Addr())); code(err) != "3D000" {
		t.Errorf("unknown org: %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
		c := connect(t, srv, "olga")
		pid := c.PgConn().PID()
		active := func() bool {
			for _, s := range srv.Status().Sessions {
				if s.PID == pid && s.State == "active" && time.Since(s.Since) > 50*time.Millisecond {
					return true
				}
			}
			return false
		}
		done := make(chan error, 1)
		go func() { _, err := c.Exec(context.Background(), slow, mode); done <- err }()
		eventually(t, "the statement runs", active)
		// A wrong key changes nothing.
		wrong, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b, _ := (&pgproto3.CancelRequest{ProcessID: pid, SecretKey: []byte{1, 2, 3, 4}}).Encode(nil)
		_, _ = wrong.Write(b)
		_ = wrong.Close()
		if err := c.PgConn().CancelRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; code(err) != "57014" {
			t.Fatal(err)
		}
		var n int
		for range 20 {
			if err := c.QueryRow(t.Context(), "SELECT 1").Scan(&n); err != nil {
				t.Fatal("after the cancel: ", err)
			}
		}
	}
}

func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	runSteps(t, c, []step{
		{"SET statement_timeout = 150", "SET", 'I'},
		{slow, "57014", 'I'},
		{"BEGIN", "BEGIN", 'T'},
		{slow, "57014", 'E'},
		{"COMMIT", "ROLLBACK", 'I'},
		{"SELECT 1", "SELECT 1", 'I'},
	})
}

// A client that goes away while its statement runs must not leave it running.
func TestLostClientEndsItsStatement(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.fe.Send(query(slow))
	if err := r.fe.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the statement runs", func() bool { return srv.Status().Active == 1 })
	_ = r.nc.Close()
	eventually(t, "the session ends", func() bool { return srv.Status().Connections == 0 })
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{MaxConnections: 1})
	c := connect(t, srv, "olga")
	if _, err := pgx.Connect(t.Context(), dsn(srv, "olga")); code(err) != "53300" {
		t.Fatal(err)
	}
	_ = c.Close(t.Context())
	eventually(t, "a place is free", func() bool { return srv.Status().Connections == 0 })
	connect(t, srv, "olga")
}

func TestIdleInTransaction(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{IdleInTx: 100 * time.Millisecond})
	r := hijack(t, srv, "olga")
	r.expect("T[x:23:0] D(1) C:SELECT_1 Z:I", query("SELECT 1 AS x"))
	time.Sleep(200 * time.Millisecond) // idle outside a transaction has no limit
	r.expect("C:BEGIN Z:T", query("BEGIN"))
	if got := r.until("gone"); got != "E:25P03 gone" {
		t.Fatal(got)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	srv := warehouse.New(warehouse.Config{Listen: "127.0.0.1:0", Grace: 400 * time.Millisecond}, m, users, discard)
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	idle, busy, quick, inTx := hijack(t, srv, "olga"), hijack(t, srv, "olga"), hijack(t, srv, "olga"), hijack(t, srv, "olga")
	inTx.expect("C:BEGIN Z:T", query("BEGIN"))
	for r, sql := range map[*raw]string{busy: slow, quick: "SELECT count(*) AS n FROM range(300000) a, range(1000) b WHERE a.range % 7 = b.range % 3"} {
		r.fe.Send(query(sql))
		if err := r.fe.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both run", func() bool { return srv.Status().Active == 2 })
	stop()
	if got := idle.until("gone"); got != "E:57P01 gone" {
		t.Error("idle:", got)
	}
	inTx.expect("C:CREATE_TABLE Z:T", query("CREATE TABLE kept (i INTEGER)"))
	inTx.expect("C:COMMIT Z:I", query("COMMIT"))
	if got := inTx.until("gone"); got != "E:57P01 gone" {
		t.Error("in a transaction:", got)
	}
	if got := busy.until("gone"); !strings.HasSuffix(got, "E:57P01 gone") {
		t.Error("busy:", got)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", srv.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
	var n int
	if err := m.db.QueryRow("SELECT count(*) FROM lake.kept").Scan(&n); err != nil {
		t.Error(err)
	}
}

func TestRetiredEngineEndsItsSessions(t *testing.T) {
	t.Parallel()
	srv, m := start(t, warehouse.Config{})
	idle, busy := hijack(t, srv, "olga"), hijack(t, srv, "olga")
	busy.fe.Send(query(slow))
	if err := busy.fe.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the statement runs", func() bool { return srv.Status().Active == 1 })
	close(m.retired)
	for _, r := range []*raw{idle, busy} {
		if got := r.until("gone"); got != "E:57P01 gone" {
			t.Error(got)
		}
	}
}

// Three million rows must not be held anywhere: the server's memory stays flat.
func TestLargeResultIsStreamed(t *testing.T) {
	srv, _ := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	rows, err := c.Query(t.Context(), "SELECT range AS i, repeat('x', 50) AS s FROM range(3000000)")
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	n := 0
	for rows.Next() {
		if n++; n == 100_000 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if rows.Err() != nil || n != 3_000_000 {
		t.Fatal(n, rows.Err())
	}
	if after.HeapInuse > before.HeapInuse+64<<20 {
		t.Errorf("heap grew from %d to %d", before.HeapInuse, after.HeapInuse)
	}
}

// psql runs a script and gives what it prints.
func psql(t *testing.T, srv *warehouse.Server, script string) string {
	t.Helper()
	return psqlAt(t, dsn(srv, "olga"), script)
}

func psqlAt(t *testing.T, dsn, script string) string {
	t.Helper()
	bin, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	cmd := exec.CommandContext(t.Context(), bin, "-X", "-q", "-A", "-t", dsn)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{"PGCONNECT_TIMEOUT=10", "HOME=" + t.TempDir(), "PATH=" + filepath.Dir(bin)}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("psql: %v", err)
	}
	return string(out)
}

func TestPsql(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	got := psql(t, srv, `
CREATE TABLE t (i INTEGER, s VARCHAR);
INSERT INTO t VALUES (1, 'one'), (2, NULL);
BEGIN;
DELETE FROM t;
ROLLBACK;
SELECT * FROM t ORDER BY i;
BEGIN;
INSERT INTO t VALUES (3, 'x');
SELECT nothing FROM t;
SELECT 1;
COMMIT;
SELECT count(*) FROM t;
SELECT 1 \; SELECT 2;
SELECT 5 AS a, 'x' AS b \gdesc
\echo :SERVER_VERSION_NAME
`)
	for _, want := range []string{
		"1|one\n2|\n", "ERROR:  Referenced column \"nothing\" not found in FROM clause!\nLINE 1: SELECT nothing FROM t;\n               ^\n",
		"ERROR:  current transaction is aborted, commands ignored until end of transaction block\n", "\n2\n1\n2\n", "a|integer\nb|text\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestErrorsReachTheOwnerOfTheEngine(t *testing.T) {
	t.Parallel()
	srv, m := start(t, warehouse.Config{})
	c := connect(t, srv, "olga")
	_, err := c.Exec(t.Context(), "SELECT * FROM nowhere")
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Position != 15 {
		t.Fatalf("%+v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := false
	for _, e := range m.checked {
		seen = seen || e != nil
	}
	if !seen {
		t.Fatal("the owner was not told")
	}
}
