package system

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/testkit/pg"
)

// Two servers share a PostgreSQL state DB and lakes with PostgreSQL catalogs. Both work; either may be killed in the middle,
// and nothing is lost or doubled.
func TestTwoServersOnPostgreSQL(t *testing.T) {
	t.Parallel()
	random := seed(t)
	server := pg.Start(t, pg.Options{})
	dsn, err := server.CreateDatabase(t.Context(), "sluice_state")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	install := func(name string) *installation {
		return &installation{data: filepath.Join(dir, name), env: []string{
			"SLUICE_STATE_DSN=" + dsn, "SLUICE_CATALOG__KIND=postgres", "SLUICE_CATALOG__DSN=" + server.DSN("postgres"),
			"SLUICE_CATALOG__ROLE_KEY=a key of the test", "SLUICE_STORE__URL=" + filepath.Join(dir, "lake"),
			"SLUICE_LOADER__CONCURRENCY=2", "SLUICE_CATALOG__POOL_PER_ORG=4", "SLUICE_WAREHOUSE__THREADS=1",
		}}
	}
	a, b := install("a"), install("b")
	pa, pb := a.serve(t, fast...), b.serve(t, fast...)
	a.must(t, "org", "create", "acme", "--max-streams", "8")
	a.must(t, "team", "create", "1", "--org", "acme")
	var tables []*table
	for n := range 4 {
		tables = append(tables, newTable(t, a, "acme", fmt.Sprintf("t%d", n), n%2 == 1))
	}
	add := func(files int) {
		for range files {
			for _, tb := range tables {
				tb.add(t, a, dir)
			}
		}
	}
	add(4)
	applied := func(i *installation) int64 { return answer[status](t, i, "status").Server.Loader.Batches }
	waitFor(t, 2*time.Minute, "both servers have applied batches", func() bool { return applied(a) > 0 && applied(b) > 0 })

	for round := range 4 {
		add(2)
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		if round%2 == 0 {
			pa.kill()
			pa = a.serve(t, fast...)
		} else {
			pb.kill()
			pb = b.serve(t, fast...)
		}
	}
	waitFor(t, 3*time.Minute, "all batches are applied", func() bool { return open(t, a) == 0 })
	for _, tb := range tables {
		want := tb.want(t)
		for _, p := range []*process{pa, pb} {
			if got := p.text(t, "acme", "SELECT "+sums+" FROM "+tb.target); got != want {
				t.Errorf("%s: %s, want %s (rows, ids, sum of ids, hash)", tb.target, got, want)
			}
		}
	}
	for _, p := range []*process{pa, pb} {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	if stdout, stderr, code := a.try(t, "doctor", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0"); code != 0 {
		t.Errorf("doctor: %d\n%s%s", code, stdout, stderr)
	}
}
