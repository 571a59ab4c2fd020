package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/testkit/pg"
	"sluice/internal/warehouse/engine"
)

// rss is the resident memory of this process in MiB; 0 where /proc is not there.
func rss() float64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.Atoi(string(bytes.Fields(b)[1]))
	if err != nil {
		return 0
	}
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// BenchmarkOpen opens the instances of many orgs, which stay open: the time of one, and its resident memory once a
// connection has read and written.
func BenchmarkOpen(b *testing.B) {
	for _, kind := range []engine.LakeKind{engine.LakeDuckDB, engine.LakePostgres} {
		b.Run(string(kind), func(b *testing.B) {
			dir := b.TempDir()
			r, src := newRegistry(engine.Options{})
			admin := ""
			if kind == engine.LakePostgres {
				admin = pg.Start(b, pg.Options{}).DSN("postgres")
			}
			orgs := make([]sluice.Org, b.N)
			for i := range orgs {
				orgs[i] = sluice.Org(fmt.Sprintf("org%d", i))
				cfg := fileLake(orgs[i], dir)
				if kind == engine.LakePostgres {
					dsn, err := engine.ProvisionCatalog(b.Context(), admin, orgs[i], "pw")
					if err != nil {
						b.Fatal(err)
					}
					cfg.Lake = engine.Lake{Kind: kind, Catalog: dsn, Password: "pw", DataPath: filepath.Join(dir, string(orgs[i]))}
				}
				src.set(cfg)
				if err := r.Provision(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
			}
			before := rss()
			b.ResetTimer()
			for _, org := range orgs {
				c, err := r.Connect(b.Context(), org)
				if err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
			}
			b.StopTimer()
			idle := rss()
			for _, org := range orgs {
				c, err := r.Connect(b.Context(), org)
				if err != nil {
					b.Fatal(err)
				}
				for _, q := range []string{"CREATE TABLE t AS SELECT range AS i FROM range(1000)", "INSERT INTO t VALUES (1)", "SELECT count(*) FROM t"} {
					if _, err := c.ExecContext(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
				_ = c.Close()
			}
			b.ReportMetric((idle-before)/float64(b.N), "MiB-idle/op")
			b.ReportMetric((rss()-before)/float64(b.N), "MiB-used/op")
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkConnect is a fresh connection to an open instance, with one query, and its close.
func BenchmarkConnect(b *testing.B) {
	cfg := fileLake("acme", b.TempDir())
	r, _ := newRegistry(engine.Options{}, cfg)
	if err := r.Provision(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c, err := r.Connect(b.Context(), "acme")
		if err != nil {
			b.Fatal(err)
		}
		var n int
		if err := c.QueryRowContext(b.Context(), "SELECT 1").Scan(&n); err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
}
