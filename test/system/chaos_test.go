package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
	"sluice/internal/testkit/pgproxy"
)

// scale of a chaos run: small by default, the whole with SLUICE_CHAOS=full.
type scale struct {
	processes, orgs, streams, batches, kills int
	latency                                  time.Duration
	lose                                     int64 // every n-th COMMIT loses its reply
	most                                     time.Duration
}

func chaosScale() scale {
	if os.Getenv("SLUICE_CHAOS") == "full" {
		return scale{processes: 4, orgs: 20, streams: 200, batches: 2000, kills: 5, latency: 50 * time.Millisecond, lose: 50, most: 40 * time.Minute}
	}
	return scale{processes: 3, orgs: 4, streams: 12, batches: 60, kills: 1, latency: 5 * time.Millisecond, lose: 20, most: 4 * time.Minute}
}

const orgBudget = 4

// TestChaos has several processes share many streams over one PostgreSQL, while they are killed, replies to COMMIT are lost
// on the way from the catalogs, and each message to a catalog is late. Afterwards each row is there exactly once, each
// stream's batches were applied in order, and no org was ever seen above its budget.
func TestChaos(t *testing.T) {
	t.Parallel()
	sc := chaosScale()
	random := seed(t)
	server := pg.Start(t, pg.Options{Settings: map[string]string{"max_connections": "900"}})
	state, err := server.CreateDatabase(t.Context(), "sluice_state")
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgproxy.Start(t, fmt.Sprintf("127.0.0.1:%d", server.Port()))
	catalogs := strings.Replace(server.DSN("postgres"), fmt.Sprintf(":%d/", server.Port()), proxy.Addr()[strings.LastIndex(proxy.Addr(), ":"):]+"/", 1)

	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	var nodes []*installation
	var procs []*process
	for n := range sc.processes {
		i := &installation{data: filepath.Join(dir, fmt.Sprintf("node%d", n)), env: []string{
			"SLUICE_STATE_DSN=" + state, "SLUICE_CATALOG__KIND=postgres", "SLUICE_CATALOG__DSN=" + catalogs,
			"SLUICE_CATALOG__ROLE_KEY=a key of the test", "SLUICE_STORE__URL=" + filepath.Join(dir, "lake"),
			"SLUICE_CATALOG__POOL_PER_ORG=2", "SLUICE_WAREHOUSE__THREADS=1", "SLUICE_LOADER__LEASE__TTL=5s",
			"SLUICE_LOADER__LEASE__HEARTBEAT=1s", "SLUICE_LOADER__POLL=100ms", "SLUICE_LOADER__RETRY_BASE=50ms", "SLUICE_LOADER__MAX_ATTEMPTS=1000",
		}}
		nodes, procs = append(nodes, i), append(procs, i.serve(t))
	}
	want := chaosFiles(t, files, sc.batches/sc.streams)
	streams := chaosStreams(t, nodes[0], procs[0], sc, files)

	proxy.Latency(sc.latency)
	proxy.Decide(func(n int64) pgproxy.Fate {
		if n%sc.lose == 0 {
			return pgproxy.LoseAfter
		}
		return pgproxy.Pass
	})
	watch, stop := context.WithCancel(t.Context())
	over := watchBudgets(watch, t, state)
	begin := time.Now()
	enqueueChaos(t, procs[0], streams, sc.batches/sc.streams, files)
	t.Logf("%d batches of %d streams are enqueued", sc.batches, sc.streams)
	killAll(t, random, nodes, procs, sc.kills)
	db, err := pgx.Connect(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	count := func(query string) (n int64) {
		if err := db.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	waitFor(t, sc.most, "all batches are applied", func() bool {
		if n := count("SELECT count(*) FROM batch WHERE load_state = 'quarantined'"); n > 0 {
			var why string
			_ = db.QueryRow(t.Context(), "SELECT error_code || ': ' || error_text FROM batch WHERE load_state = 'quarantined' LIMIT 1").Scan(&why)
			t.Fatalf("%d batches are quarantined, one of them with %s", n, why)
		}
		return count("SELECT count(*) FROM batch WHERE load_state <> 'succeeded'") == 0
	})
	took := time.Since(begin)
	stop()
	proxy.Decide(nil)
	proxy.Latency(0)
	_, lost := proxy.Lost()
	t.Logf("%s; %d COMMITs of snapshots, %d lost their reply; %d recovered; budgets were sampled %d times", took.Round(time.Second), proxy.Commits(), lost,
		count("SELECT count(*) FROM batch_marker WHERE origin = 'recovered'"), over.samples())
	if lost == 0 {
		t.Error("no COMMIT lost its reply: nothing was shown")
	}
	if n := count(`SELECT count(*) FROM (SELECT fence_seq, lag(fence_seq) OVER (PARTITION BY m.stream_id ORDER BY r.seq, m.batch_index) AS before
		FROM batch_marker m JOIN run r ON r.stream_id = m.stream_id AND r.run_id = m.run_id) AS s WHERE fence_seq <= before`); n > 0 {
		t.Errorf("%d batches were applied before the batch that they follow", n)
	}
	if n := count("SELECT count(*) FROM batch_marker"); n != int64(sc.batches) {
		t.Errorf("%d markers, want %d", n, sc.batches)
	}
	for _, s := range streams {
		got := procs[len(procs)-1].text(t, s.org, "SELECT "+sums+" FROM "+s.target)
		if got != want[s.merge] {
			t.Errorf("%s of %s: %s, want %s (rows, ids, sum of ids, hash)", s.target, s.org, got, want[s.merge])
		}
	}
}

type chaosStream struct {
	org, id, target string
	merge           bool
}

// chaosFiles writes the files that all streams share, and gives the sums of a stream that adds and of one that merges.
func chaosFiles(t *testing.T, dir string, n int) map[bool]string {
	t.Helper()
	want := map[bool]string{}
	for _, merge := range []bool{false, true} {
		tb := &table{merge: merge}
		for b := range n {
			first := b * 500
			if merge {
				first /= 2
			}
			file := filepath.Join(dir, fmt.Sprintf("%v-%d.parquet", merge, b))
			parquet(t, file, fmt.Sprintf("SELECT i AS id, %d AS file, hash(i, %d)::VARCHAR AS v FROM range(%d, %d) t(i)", b, b, first, first+500))
			tb.files = append(tb.files, file)
		}
		want[merge] = tb.want(t)
	}
	return want
}

func chaosStreams(t *testing.T, i *installation, p *process, sc scale, files string) []chaosStream {
	t.Helper()
	for o := range sc.orgs {
		org := fmt.Sprintf("org-%d", o)
		i.must(t, "org", "create", org, "--extract-prefix", files, "--max-streams", fmt.Sprint(orgBudget))
		i.must(t, "team", "create", fmt.Sprint(o+1), "--org", org) // a team is in one org only
	}
	var out []chaosStream
	for n := range sc.streams {
		s := chaosStream{org: fmt.Sprintf("org-%d", n%sc.orgs), merge: n%2 == 1, target: fmt.Sprintf("team_%d_data_imports.k_s%d", n%sc.orgs+1, n)}
		body := map[string]any{"team_id": n%sc.orgs + 1, "source_type": "k", "name": fmt.Sprintf("s%d", n), "sync_type": "append"}
		if s.merge {
			body["sync_type"], body["options"] = "incremental", map[string]any{"primary_keys": []string{"id"}}
		}
		var added struct {
			StreamID string `json:"stream_id"`
		}
		p.post(t, "/api/v1/orgs/"+s.org+"/streams", body, &added)
		s.id = added.StreamID
		out = append(out, s)
	}
	return out
}

// post sends a request that has to work.
func (p *process) post(t testing.TB, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.http+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %s, %v\n%s", path, resp.Status, err, raw)
	}
	if answer != nil {
		if err := json.Unmarshal(raw, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// enqueueChaos gives each stream its batches, two to a run.
func enqueueChaos(t *testing.T, p *process, streams []chaosStream, batches int, files string) {
	t.Helper()
	for b := 0; b < batches; b += 2 {
		for _, s := range streams {
			var rows []map[string]any
			for i := b; i < min(b+2, batches); i++ {
				rows = append(rows, map[string]any{
					"batch_index": i - b, "path": filepath.Join(files, fmt.Sprintf("%v-%d.parquet", s.merge, i)), "is_final": i == min(b+2, batches)-1,
				})
			}
			p.post(t, fmt.Sprintf("/api/v1/streams/%s/runs/r%d/batches", s.id, b), map[string]any{"batches": rows}, nil)
		}
	}
}

// killAll kills each process as often as wanted, at random moments, and starts it again.
func killAll(t *testing.T, random *rand.Rand, nodes []*installation, procs []*process, kills int) {
	t.Helper()
	for range kills {
		for _, n := range random.Perm(len(procs)) {
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
			procs[n].kill()
			procs[n] = nodes[n].serve(t)
		}
	}
}

type budgets struct {
	mu sync.Mutex
	n  int
}

func (b *budgets) samples() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// watchBudgets looks again and again whether an org has more live leases than it may.
func watchBudgets(ctx context.Context, t *testing.T, state string) *budgets {
	t.Helper()
	db, err := pgx.Connect(ctx, state)
	if err != nil {
		t.Fatal(err)
	}
	b := &budgets{}
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		defer func() { _ = db.Close(context.Background()) }()
		for ctx.Err() == nil {
			var most int64
			err := db.QueryRow(ctx, "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM stream_lease WHERE owner IS NOT NULL AND expires_at > now() GROUP BY org) AS x").Scan(&most)
			if err == nil && most > orgBudget {
				t.Errorf("an org has %d live leases, its budget is %d", most, orgBudget)
			}
			b.mu.Lock()
			b.n++
			b.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return b
}
