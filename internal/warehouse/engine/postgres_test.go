package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/sluice"
	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse/engine"
)

// hard is a password with everything that needs quoting somewhere.
const hard = `ge'h"e\im; $1 =x--`

// server is the package's PostgreSQL as an administrator sees it; orgs of the tests are apart by name.
func server(t *testing.T) string {
	t.Helper()
	return pg.New(t)
}

// pgLake provisions the catalog of an org and gives its configuration.
func pgLake(t *testing.T, admin string, org sluice.Org, dir string) engine.Config {
	t.Helper()
	dsn, err := engine.ProvisionCatalog(t.Context(), admin, org, hard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropCatalog(t, admin, org) })
	cfg := fileLake(org, dir)
	cfg.Lake = engine.Lake{Kind: engine.LakePostgres, Catalog: dsn, Password: hard, DataPath: filepath.Join(dir, string(org), "data")}
	return cfg
}

func dropCatalog(t *testing.T, admin string, org sluice.Org) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, q := range []string{"DROP DATABASE IF EXISTS %s WITH (FORCE)", "DROP ROLE IF EXISTS %s"} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(q, engine.CatalogName(org))); err != nil {
			t.Error(err)
		}
	}
}

// user is the connection string of admin's server for another user.
func user(t *testing.T, admin, name string) string {
	t.Helper()
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(name)
	return u.String()
}

// as opens the catalog of cfg with the given role and password, beside the engine.
func as(t *testing.T, dsn, user, password string) (*pgx.Conn, error) {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Password = user, password
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	}
	return conn, err
}

func TestProvisionCatalogTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	admin := server(t)
	const org = "at-once"
	t.Cleanup(func() { dropCatalog(t, admin, org) })
	var wg sync.WaitGroup
	dsns := make([]string, 6)
	for i := range dsns {
		wg.Go(func() {
			dsn, err := engine.ProvisionCatalog(t.Context(), admin, org, hard)
			if err != nil {
				t.Error(err)
			}
			dsns[i] = dsn
		})
	}
	wg.Wait()
	for _, d := range dsns {
		if d != dsns[0] || strings.Contains(d, "password") || !strings.Contains(d, "dbname=sluice_at_once ") || !strings.Contains(d, "sslmode=disable") {
			t.Fatal(d)
		}
	}
	conn, err := as(t, dsns[0], "sluice_at_once", hard)
	if err != nil {
		t.Fatal(err)
	}
	var owner, locale string
	var public, temp bool
	err = conn.QueryRow(t.Context(), `SELECT pg_get_userbyid(datdba), has_database_privilege('pg_monitor', datname, 'CONNECT'),
		has_database_privilege('pg_monitor', datname, 'TEMPORARY'), current_setting('lc_messages') FROM pg_database WHERE datname = current_database()`).
		Scan(&owner, &public, &temp, &locale)
	if err != nil || owner != "sluice_at_once" || public || temp || locale != "C" {
		t.Fatal(owner, public, temp, locale, err)
	}
}

// The test servers trust everybody; this one asks for passwords.
func TestCatalogPassword(t *testing.T) {
	t.Parallel()
	hba := filepath.Join(t.TempDir(), "pg_hba.conf")
	for dir := filepath.Dir(hba); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the server runs as another user
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(hba, []byte("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := pg.Start(t, pg.Options{Settings: map[string]string{"hba_file": hba}})
	dsn, err := engine.ProvisionCatalog(t.Context(), s.DSN("postgres"), "acme", hard)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fileLake("acme", t.TempDir())
	cfg.Lake.Kind, cfg.Lake.Catalog, cfg.Lake.Password = engine.LakePostgres, dsn, hard
	r, src := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	run(t, c, "CREATE TABLE t AS SELECT 1 AS i")
	_ = c.Close()

	const other = "another-geheim"
	if _, err := engine.ProvisionCatalog(t.Context(), s.DSN("postgres"), "acme", other); err != nil {
		t.Fatal(err)
	}
	r.Recycle("acme")
	_, err = r.Connect(t.Context(), "acme")
	wantCode(t, err, "SLUICE-LAKE-CATALOG-DOWN", "role and password")
	wantCode(t, r.Provision(t.Context(), cfg), "SLUICE-ENGINE-OPEN", "connect to the catalog")
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "ge'h") {
			t.Error(e)
		}
	}
	cfg.Lake.Password = other
	src.set(cfg)
	if got := text(t, connect(t, r, "acme"), "SELECT count(*) FROM t"); got != "1" {
		t.Error(got)
	}
}

// A role that may create roles and databases is enough; it need not be a superuser.
func TestProvisionCatalogWithoutSuperuser(t *testing.T) {
	t.Parallel()
	admin := server(t)
	root, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close(context.WithoutCancel(t.Context())) }()
	for _, q := range []string{"CREATE ROLE platform LOGIN CREATEROLE CREATEDB", "CREATE ROLE nobody LOGIN"} {
		if _, err := root.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		for _, q := range []string{"DROP DATABASE IF EXISTS sluice_plain", "DROP ROLE IF EXISTS sluice_plain", "DROP ROLE platform", "DROP ROLE nobody"} {
			if _, err := conn.Exec(ctx, q); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		if _, err := engine.ProvisionCatalog(t.Context(), user(t, admin, "platform"), "plain", hard); err != nil {
			t.Fatal(err)
		}
	}
	_, err = engine.ProvisionCatalog(t.Context(), user(t, admin, "nobody"), "plain2", hard)
	wantCode(t, err, "SLUICE-ENGINE-OPEN", "create role", "check the rights")
}

func TestOrgsCannotReachEachOthersCatalog(t *testing.T) {
	t.Parallel()
	admin, dir := server(t), t.TempDir()
	a, b := pgLake(t, admin, "one", dir), pgLake(t, admin, "two", dir)
	_ = a
	_, err := as(t, b.Lake.Catalog, "sluice_one", hard)
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "42501" {
		t.Fatal(err)
	}
}

func TestPostgresLake(t *testing.T) {
	t.Parallel()
	admin := server(t)
	cfg := pgLake(t, admin, "lake-pg", t.TempDir())
	cfg.PoolSize = 5
	r, _ := setup(t, engine.Options{}, cfg)
	if err := r.Provision(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c := connect(t, r, "lake-pg")
	run(t, c, "CREATE TABLE t AS SELECT range AS i FROM range(100)", "CREATE TABLE lake._sluice.ctl (i INTEGER)", "INSERT INTO lake._sluice.ctl VALUES (1)")
	if got := text(t, c, "SELECT sum(i)::BIGINT FROM t"); got != "4950" {
		t.Error(got)
	}
	if got := text(t, c, "SELECT max_connections FROM postgres_configure_pool(catalog_name = '__ducklake_metadata_lake')"); got != "5" {
		t.Error("pool:", got)
	}
	conn, err := as(t, cfg.Lake.Catalog, "sluice_lake_pg", hard)
	if err != nil {
		t.Fatal(err)
	}
	var indexes string
	err = conn.QueryRow(t.Context(), "SELECT string_agg(substring(indexdef from 'public.*'), '; ' ORDER BY indexname) FROM pg_indexes WHERE indexname LIKE 'sluice_%'").Scan(&indexes)
	if want := "public.ducklake_file_column_stats USING btree (table_id, column_id)"; err != nil || !strings.Contains(indexes, want) ||
		!strings.Contains(indexes, "public.ducklake_data_file USING btree (table_id)") {
		t.Error(indexes, err)
	}
	// The password is in no answer and in no error.
	for _, q := range []string{
		"SELECT string_agg(d::VARCHAR, ' ') FROM duckdb_databases() d", "SELECT string_agg(s::VARCHAR, ' ') FROM duckdb_secrets() s",
		"SELECT string_agg(s::VARCHAR, ' ') FROM duckdb_settings() s", "SELECT string_agg(s::VARCHAR, ' ') FROM ducklake_settings('lake') s",
	} {
		if got := text(t, c, q); strings.Contains(got, "ge'h") || got == "" {
			t.Errorf("%s: %s", q, got)
		}
	}
	if _, err := c.ExecContext(t.Context(), "SELECT error('x "+strings.ReplaceAll(hard, "'", "''")+" x')"); err == nil || strings.Contains(err.Error(), "im; $1") {
		t.Error("not cut out:", err)
	}
	if _, err := c.ExecContext(t.Context(), "ATTACH '"+cfg.Lake.Catalog+"' AS again (TYPE postgres, SECRET sluice_catalog)"); err == nil {
		t.Error("a tenant attached the catalog")
	}
}

func TestWrongPasswordAndDeadServer(t *testing.T) {
	t.Parallel()
	admin, dir := server(t), t.TempDir()
	cfg := pgLake(t, admin, "wrong", dir)
	gone := cfg
	gone.Org = "gone"
	gone.Lake.Catalog = strings.Replace(cfg.Lake.Catalog, "dbname=sluice_wrong", "dbname=sluice_gone", 1)
	dead := cfg
	dead.Org = "dead"
	dead.Lake.Catalog = "host=127.0.0.1 port=1 dbname=x user=y"
	empty := cfg // there is a database, but no lake in it
	r, _ := newRegistry(engine.Options{}, gone, dead, empty)
	for _, org := range []sluice.Org{"gone", "dead"} {
		_, err := r.Connect(t.Context(), org)
		wantCode(t, err, "SLUICE-LAKE-CATALOG-DOWN", string(org))
		if s := fmt.Sprintf("%v %+v %s", err, errors.Unwrap(err), sluice.HintOf(err)); strings.Contains(s, "ge'h") {
			t.Error("password in", s)
		}
	}
	_, err := r.Connect(t.Context(), "wrong")
	wantCode(t, err, "SLUICE-ENGINE-OPEN", "wrong", "attach lake")
	wantCode(t, r.Provision(t.Context(), dead), "SLUICE-LAKE-CATALOG-DOWN", "dead")
	_, err = engine.ProvisionCatalog(t.Context(), "postgres://u:"+"geheim"+"@127.0.0.1:1/x", "acme", hard)
	wantCode(t, err, "SLUICE-LAKE-CATALOG-DOWN", "acme")
	if strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownCatalogVersion(t *testing.T) {
	t.Parallel()
	cfg := pgLake(t, server(t), "version", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	conn, err := as(t, cfg.Lake.Catalog, "sluice_version", hard)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"1.1", "0.3", "2.0", "1.0"} {
		if _, err := conn.Exec(t.Context(), "UPDATE ducklake_metadata SET value = $1 WHERE key = 'version'", v); err != nil {
			t.Fatal(err)
		}
		c, err := r.Connect(t.Context(), "version")
		if v == "1.0" {
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		} else {
			wantCode(t, err, "SLUICE-LAKE-VERSION", v, "sluice migrate")
		}
	}
}

// Several processes provision, attach and commit to one lake at the same time; none of their rows is lost.
func TestProcessesShareAPostgresLake(t *testing.T) {
	t.Parallel()
	admin := server(t)
	cfg := pgLake(t, admin, "shared", t.TempDir())
	regs := make([]*engine.Registry, 3)
	var wg sync.WaitGroup
	for i := range regs {
		regs[i], _ = newRegistry(engine.Options{}, cfg)
		wg.Go(func() { // first attaches race for the catalog's tables
			if err := regs[i].Provision(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, r := range regs {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	c := connect(t, regs[0], "shared")
	run(t, c, "CREATE TABLE t (tag VARCHAR, i INTEGER)")
	const rows = 20
	a, b := start(t, "commits", cfg, "a", fmt.Sprint(rows)), start(t, "commits", cfg, "b", fmt.Sprint(rows))
	for _, p := range []*process{a, b} {
		if got := p.next(t); got != "ready" {
			t.Fatal(got)
		}
	}
	for _, p := range []*process{a, b} {
		if _, err := p.in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	for range rows {
		run(t, c, "INSERT INTO t VALUES ('c', 0)")
	}
	for _, p := range []*process{a, b} {
		for range rows {
			p.next(t)
		}
		p.end(t)
	}
	if got := text(t, c, "SELECT string_agg(tag || n, ' ' ORDER BY tag) FROM (SELECT tag, count(*) AS n FROM t GROUP BY tag)"); got != "a20 b20 c20" {
		t.Error(got)
	}
}

func TestServerRestartIsSurvived(t *testing.T) {
	t.Parallel()
	s := pg.Start(t, pg.Options{Fsync: true})
	dsn, err := engine.ProvisionCatalog(t.Context(), s.DSN("postgres"), "acme", hard)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fileLake("acme", t.TempDir())
	cfg.Lake.Kind, cfg.Lake.Catalog, cfg.Lake.Password = engine.LakePostgres, dsn, hard
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	run(t, c, "CREATE TABLE t AS SELECT 1 AS i")
	s.Kill()
	if _, err := c.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err == nil {
		t.Fatal("committed without a server")
	}
	if err := r.Probe(t.Context()); err == nil {
		t.Error("the probe saw nothing")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lake answers again", func() bool {
		_, err := c.ExecContext(t.Context(), "INSERT INTO t VALUES (3)")
		return err == nil
	})
	if st := r.Status(); len(st.Retired) != 0 || st.Opened != 1 {
		t.Errorf("%+v", st)
	}
}
