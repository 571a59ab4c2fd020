// Package house gives tests a real warehouse: DuckDB with DuckLake behind the PostgreSQL protocol, for any number of orgs,
// with a way to write Parquet files and to look into tables.
package house

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse"
	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/engine"
)

// Options of a House. The zero value is a house over DuckDB-file catalogs.
type Options struct {
	Postgres bool // catalogs on a real PostgreSQL
	// Route gives the host and port under which the engine finds its PostgreSQL catalog, for a proxy in between.
	Route func(addr string) string
	Log   *slog.Logger
}

// House is a warehouse, as one test sees it.
type House struct {
	*building
	t testing.TB
}

// building is what the tests of a house share.
type building struct {
	Addr string
	Dir  string

	opts     Options
	admin    string // DSN of the catalogs' server
	registry *engine.Registry
	mu       sync.Mutex
	orgs     map[sluice.Org]engine.Config
	maker    *sql.DB // writes the Parquet files
}

// On gives the house to a subtest, which then fails by itself.
func (h *House) On(t testing.TB) *House { return &House{h.building, t} }

const password = "house-loader"

var verifier = sync.OnceValue(func() string { return auth.NewVerifier(password) })

// Extensions is the folder of the engine extensions that `make extensions` fills.
func Extensions(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "../../../build/extensions")
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("look for the engine extensions: %v; run make extensions", err)
	}
	return dir
}

// New starts a warehouse until the test ends.
func New(t testing.TB, opts Options) *House {
	t.Helper()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	h := &House{&building{opts: opts, Dir: t.TempDir(), orgs: map[sluice.Org]engine.Config{}}, t}
	if opts.Postgres {
		h.admin = pg.New(t)
	}
	var err error
	if h.maker, err = sql.Open("duckdb", ""); err != nil {
		t.Fatalf("open an engine for files: %v", err)
	}
	h.registry = engine.NewRegistry(h, opts.Log, engine.Options{})
	srv := warehouse.New(warehouse.Config{Listen: "127.0.0.1:0", TrustLoopback: true, Grace: time.Second},
		warehouse.EngineFunc(func(ctx context.Context, org sluice.Org) (warehouse.Conn, error) {
			c, err := h.registry.Connect(ctx, org)
			if err != nil {
				return nil, err
			}
			return c, nil
		}), h, opts.Log)
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	h.Addr = srv.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("warehouse: %v", err)
		}
		if err := h.registry.Close(); err != nil {
			t.Errorf("close the engines: %v", err)
		}
		_ = h.maker.Close()
	})
	return h
}

// Org provisions an org.
func (h *House) Org(org sluice.Org) {
	h.t.Helper()
	cfg := engine.Config{
		Org: org, Extensions: Extensions(h.t), ReadPrefixes: []string{h.extracts(org)}, TempDir: h.Dir, Threads: 2,
		Lake: engine.Lake{
			Kind: engine.LakeDuckDB, Catalog: filepath.Join(h.Dir, string(org), "catalog.ducklake"), DataPath: filepath.Join(h.Dir, string(org), "data"),
		},
	}
	if err := os.MkdirAll(h.extracts(org), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if h.opts.Postgres {
		name := sluice.Org(fmt.Sprintf("%s-%x", org, time.Now().UnixNano()))
		dsn, err := engine.ProvisionCatalog(h.t.Context(), h.admin, name, password)
		if err != nil {
			h.t.Fatalf("provision the catalog: %v", err)
		}
		cfg.Lake.Kind, cfg.Lake.Catalog, cfg.Lake.Password = engine.LakePostgres, h.route(dsn), password
	}
	if err := h.registry.Provision(h.t.Context(), cfg); err != nil {
		h.t.Fatalf("provision org %s: %v", org, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orgs[org] = cfg
}

// route puts the proxy's address into a keyword DSN.
func (h *House) route(dsn string) string {
	if h.opts.Route == nil {
		return dsn
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(h.opts.Route(net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))))
	if err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%s dbname=%s user=%s sslmode=disable", host, port, cfg.Database, cfg.User)
}

func (h *House) extracts(org sluice.Org) string {
	return filepath.Join(h.Dir, "extracts", string(org)) + "/"
}

// Warehouse makes a House an engine.Source.
func (h *House) Warehouse(_ context.Context, org sluice.Org) (engine.Config, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cfg, ok := h.orgs[org]
	if !ok {
		return cfg, sluice.E("SLUICE-CONTROL-NO-ORG", "open the warehouse", "no such org", "", nil)
	}
	return cfg, nil
}

// Lookup makes a House an auth.Authenticator: it knows the loader and nobody else; people are trusted on loopback.
func (h *House) Lookup(_ context.Context, org sluice.Org, user string) (auth.Account, error) {
	if user != "svc_loader" {
		return auth.Account{}, auth.ErrNoUser
	}
	return auth.Account{Principal: auth.Principal{Org: org, Name: user, Role: auth.Loader}, Verifier: verifier()}, nil
}

// Credential makes a House lake.Credentials.
func (h *House) Credential(context.Context, sluice.Org) (lake.Credential, error) {
	return lake.Credential{User: "svc_loader", Password: password, Expires: time.Now().Add(time.Hour)}, nil
}

// Dialer opens loader sessions to the house.
func (h *House) Dialer() *lake.Dialer {
	return &lake.Dialer{Addr: func() string { return h.Addr }, Credentials: h}
}

// File writes the result of a query as a Parquet file that the org may read, and gives its path.
func (h *House) File(org sluice.Org, name, query string) string {
	h.t.Helper()
	path := h.extracts(org) + name + ".parquet"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.maker.ExecContext(h.t.Context(), "COPY ("+query+") TO "+lake.Literal(path)+" (FORMAT parquet)"); err != nil {
		h.t.Fatalf("write file %s: %v", name, err)
	}
	return path
}

// Copy puts a copy of a file where the org may read it, and gives its path.
func (h *House) Copy(org sluice.Org, file string) string {
	h.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	path := h.extracts(org) + filepath.Base(file)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// Engine gives a connection of the org's engine, past the server and what it guards.
func (h *House) Engine(org sluice.Org) *engine.Conn {
	h.t.Helper()
	c, err := h.registry.Connect(h.t.Context(), org)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Connect opens a connection as a person of the org.
func (h *House) Connect(org sluice.Org) *pgx.Conn {
	h.t.Helper()
	u := url.URL{Scheme: "postgres", User: url.User("olga"), Host: h.Addr, Path: string(org), RawQuery: "sslmode=disable"}
	c, err := pgx.Connect(h.t.Context(), u.String())
	if err != nil {
		h.t.Fatalf("connect to org %s: %v", org, err)
	}
	h.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Service opens a connection with the rights of the loader, for statements by hand.
func (h *House) Service(org sluice.Org) *pgx.Conn {
	h.t.Helper()
	u := url.URL{Scheme: "postgres", User: url.UserPassword("svc_loader", password), Host: h.Addr, Path: string(org), RawQuery: "sslmode=disable"}
	c, err := pgx.Connect(h.t.Context(), u.String())
	if err != nil {
		h.t.Fatalf("connect to org %s as the loader: %v", org, err)
	}
	h.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Rows runs a query as a person of the org and gives its rows as text, columns joined by |, NULL as ∅.
func (h *House) Rows(org sluice.Org, query string) []string {
	h.t.Helper()
	c := h.Connect(org)
	defer func() { _ = c.Close(context.Background()) }()
	return h.RowsOn(c, query)
}

// RowsOn is Rows on a connection that is open.
func (h *House) RowsOn(c *pgx.Conn, query string) []string {
	h.t.Helper()
	rows, err := c.Query(h.t.Context(), query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		h.t.Fatalf("query %q: %v", query, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var parts []string
		for _, v := range rows.RawValues() {
			if v == nil {
				parts = append(parts, "∅")
				continue
			}
			parts = append(parts, string(v))
		}
		out = append(out, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		h.t.Fatalf("query %q: %v", query, err)
	}
	return out
}
