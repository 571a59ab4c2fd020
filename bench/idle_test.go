package bench

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"

	"sluice/internal/statedb"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/pg"
)

// idleStreams have no work; idleTime is more than the longest interval of any sweep.
const (
	idleStreams = 10_000
	idleTime    = 75 * time.Second
)

// BenchmarkIdle runs the built binary over a state DB of 10,000 streams without work and prints what that costs: its share of
// one CPU, and the slowest query of the state DB by the histograms of /metrics.
func BenchmarkIdle(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "sluice")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", bin, "../cmd/sluice").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			data := b.TempDir()
			dsn, driver := filepath.Join(data, "state.db"), "sqlite3"
			env := append(os.Environ(), "SLUICE_DATA="+data, "SLUICE_WAREHOUSE__EXTENSIONS="+house.Extensions(b), "SLUICE_LOG_LEVEL=warn")
			if kind == "postgres" {
				dsn, driver = pg.New(b), "pgx"
				env = append(env, "SLUICE_STATE_DSN="+dsn)
			}
			fillIdle(b, driver, dsn)
			serve := exec.CommandContext(b.Context(), bin, "serve", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0")
			serve.Env, serve.Stderr = env, os.Stderr
			if err := serve.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() {
				_ = serve.Process.Signal(os.Interrupt)
				_ = serve.Wait()
			}()
			addr := httpAddr(b, data)
			time.Sleep(5 * time.Second) // what a start costs is not asked
			before := cpuSeconds(b, serve.Process.Pid)
			begin := time.Now()
			time.Sleep(idleTime)
			spent := cpuSeconds(b, serve.Process.Pid) - before
			b.ReportMetric(spent/time.Since(begin).Seconds()*100, "%cpu")
			slow, all, names := slowQueries(b, addr)
			b.ReportMetric(slow, "queries>10ms")
			b.ReportMetric(all, "queries")
			b.ReportMetric(0, "ns/op")
			fmt.Printf("%s: slower than 10 ms: %s\n", kind, names)
		})
	}
}

// fillIdle makes the state DB and its streams.
func fillIdle(b *testing.B, driver, dsn string) {
	b.Helper()
	db, err := statedb.Open(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Up(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	raw, err := sql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	series := func(n int) string {
		return fmt.Sprintf("WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < %d)", n)
	}
	now, uuid, flag := "now()", "md5(i::text)::uuid", []string{"true", "false"}
	if driver == "sqlite3" {
		now, uuid, flag = fmt.Sprint(time.Now().UnixMicro()), "printf('00000000-0000-4000-8000-%012d', i)", []string{"1", "0"}
	}
	for _, q := range []string{
		series(500) + ` INSERT INTO org (org, display_name, database_name, naming_policy, state, max_streams, version, lake, created_at)
			SELECT 'o' || i, 'o', 'o' || i, 'copy_v1', 'pending', 4, 1, '{}', ` + now + ` FROM g`,
		series(500) + ` INSERT INTO team (org, team_id, schema_name, enabled, backfill_enabled, version, created_at)
			SELECT 'o' || i, i, 's', ` + flag[0] + `, ` + flag[0] + `, 1, ` + now + ` FROM g`,
		series(idleStreams) + ` INSERT INTO stream (stream_id, org, team_id, source_type, prefix, name, sync_type, options, enabled, paused, lifecycle, lifecycle_at, bootstrapped_at, version, created_at)
			SELECT ` + uuid + `, 'o' || (i % 500 + 1), i % 500 + 1, 's', '', 'n' || i, 'append', '{}', ` + flag[0] + `, ` + flag[1] + `, 'primed', ` + now + `, ` + now + `, 1, ` + now + ` FROM g`,
		`INSERT INTO stream_lease (stream_id, org, team_id) SELECT stream_id, org, team_id FROM stream`,
		`UPDATE org SET state = 'paused'`, // no warehouses are to be made
		`ANALYZE`,
	} {
		if _, err := raw.ExecContext(b.Context(), q); err != nil {
			b.Fatalf("%s: %v", q, err)
		}
	}
}

// httpAddr waits until the server answers.
func httpAddr(b *testing.B, data string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		var at struct {
			HTTP string `json:"http"`
		}
		text, err := os.ReadFile(filepath.Join(data, "serve.json"))
		if err == nil && json.Unmarshal(text, &at) == nil && at.HTTP != "" {
			addr := at.HTTP
			if !strings.HasPrefix(addr, "http") {
				addr = "http://" + addr
			}
			if body := get(ctx, addr+"/readyz"); body != "" {
				return addr
			}
		}
		time.Sleep(100 * time.Millisecond) // a poll: the condition above decides
	}
	b.Fatal("the server does not become ready")
	return ""
}

// get gives the body of a page that answers 200, else nothing.
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	var out strings.Builder
	if _, err := bufio.NewReader(res.Body).WriteTo(&out); err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return out.String()
}

func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skipf("no CPU times on this system: %v", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// slowQueries counts queries above 10 ms and all, and names the slow ones.
func slowQueries(b *testing.B, addr string) (slow, all float64, names string) {
	b.Helper()
	fast := map[string]float64{}
	for line := range strings.Lines(get(b.Context(), addr+"/metrics")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, `sluice_state_query_seconds_bucket{query="`), `"`)
		if !ok || !strings.HasPrefix(line, "sluice_state_query_seconds_bucket") {
			continue
		}
		_, value, _ := strings.Cut(rest, "} ")
		n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case strings.Contains(rest, `le="0.01"`):
			fast[name] = n
		case strings.Contains(rest, `le="+Inf"`):
			all += n
			if over := n - fast[name]; over > 0 {
				slow += over
				names += fmt.Sprintf(" %s %.0f of %.0f", name, over, n)
			}
		}
	}
	return slow, all, names
}
