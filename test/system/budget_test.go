package system

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
)

// door passes connections on to a warehouse and counts them: a session is open until the server has closed its end, as the
// server itself sees it.
type door struct {
	to   string
	l    net.Listener
	mu   sync.Mutex
	now  int
	peak int
	all  int
}

func openDoor(t *testing.T, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{to: to, l: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { d.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return d
}

func (d *door) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", d.to)
	if err != nil {
		return
	}
	d.count(1)
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server) // ends when the server has closed
	d.count(-1)
	_ = server.Close()
}

func (d *door) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now += n
	d.peak = max(d.peak, d.now)
	if n > 0 {
		d.all++
	}
}

// seen gives the most sessions at once since the last call, and how many were opened.
func (d *door) seen() (peak, opened int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	peak, opened = d.peak, d.all
	d.peak, d.all = d.now, 0
	return peak, opened
}

// sampled reads a gauge of a server until ctx is over, and gives its highest value.
func sampled(ctx context.Context, addr, metric string) func() int {
	most, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			sum := 0
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
			if err != nil {
				return
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				continue
			}
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, metric) {
					n, _ := strconv.ParseFloat(value, 64)
					sum += int(n)
				}
			}
			_ = resp.Body.Close()
			most = max(most, sum)
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	return func() int { <-done; return most }
}

// background starts a process that has no API to be asked by.
func (i *installation) background(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if err := os.MkdirAll(i.data, 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(i.data + ".log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"serve"}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stderr = i.environ(extensions(t)), filepath.Dir(i.data), log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(i.data + ".log"); err == nil && t.Failed() {
			t.Logf("log of process %d:\n%.4000s", cmd.Process.Pid, text)
		}
	})
	return cmd
}

type budgetScale struct {
	loaders, busy, drained, batches int
	ratio                           float64
}

func budgetScaleOf() budgetScale {
	if os.Getenv("SLUICE_CHAOS") == "full" {
		return budgetScale{loaders: 10, busy: 50, drained: 50, batches: 1200, ratio: 0.9}
	}
	return budgetScale{loaders: 3, busy: 8, drained: 8, batches: 160} // too short to compare times
}

// TestBudgetAtTheServer has many loader processes share one org with a budget, over many streams with work and as many whose
// sessions are warm for nothing. The warehouse never sees more sessions of loaders than the budget, and the work takes as
// long as with as many streams and no budget.
func TestBudgetAtTheServer(t *testing.T) {
	t.Parallel()
	sc := budgetScaleOf()
	server := pg.Start(t, pg.Options{Settings: map[string]string{"max_connections": "400"}})
	state, err := server.CreateDatabase(t.Context(), "sluice_state")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	house := &installation{data: filepath.Join(dir, "house"), env: []string{"SLUICE_STATE_DSN=" + state, "SLUICE_ROLES=api,warehouse"}}
	p := house.serve(t, "--migrate")
	files := filepath.Join(dir, "files")
	file := filepath.Join(files, "a.parquet")
	parquet(t, file, "SELECT i AS id, hash(i)::VARCHAR AS v FROM range(500) t(i)")
	house.must(t, "org", "create", "acme", "--extract-prefix", files, "--max-streams", fmt.Sprint(orgBudget))
	house.must(t, "team", "create", "1", "--org", "acme")
	var streams []string
	for n := range sc.busy + sc.drained {
		var added struct {
			StreamID string `json:"stream_id"`
		}
		p.post(t, "/api/v1/orgs/acme/streams", map[string]any{"team_id": 1, "source_type": "k", "name": fmt.Sprintf("s%d", n), "sync_type": "append"}, &added)
		streams = append(streams, added.StreamID)
	}
	d := openDoor(t, p.warehouse)
	for n := range sc.loaders {
		i := &installation{data: filepath.Join(dir, fmt.Sprintf("loader%d", n)), env: []string{
			"SLUICE_STATE_DSN=" + state, "SLUICE_ROLES=loader", "SLUICE_LOADER__WAREHOUSE=" + d.l.Addr().String(), "SLUICE_LOG_LEVEL=warn",
		}}
		i.background(t)
	}
	db, err := pgx.Connect(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	count := func(query string) (n int) {
		if err := db.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	runs := 0
	// work hands in n batches over some streams, and waits until they are applied.
	work := func(what string, budget bool, over []string, n int) (perSecond float64) {
		t.Helper()
		runs++
		each := n / len(over)
		watch, stop := context.WithCancel(t.Context())
		defer stop()
		atServer := sampled(watch, p.http, "sluice_warehouse_connections")
		var leases *budgets
		if budget {
			leases = watchBudgets(watch, t, state)
		}
		d.seen()
		begin := time.Now()
		for _, id := range over {
			for from := 0; from < each; from += 500 {
				var rows []map[string]any
				for b := from; b < min(from+500, each); b++ {
					rows = append(rows, map[string]any{"batch_index": b, "path": file, "is_final": b == each-1})
				}
				p.post(t, fmt.Sprintf("/api/v1/streams/%s/runs/r%d/batches", id, runs), map[string]any{"batches": rows}, nil)
			}
		}
		waitFor(t, 15*time.Minute, what+" is applied", func() bool {
			if count("SELECT count(*) FROM batch WHERE load_state = 'quarantined'") > 0 {
				t.Fatal("a batch is quarantined")
			}
			return count("SELECT count(*) FROM batch WHERE load_state IN ('queued', 'executing', 'retry_wait')") == 0
		})
		took := time.Since(begin)
		stop()
		peak, opened := d.seen()
		perSecond = float64(each*len(over)) / took.Seconds()
		sampledAtServer := atServer()
		t.Logf("%s: %d batches over %d streams in %s, %.1f a second; %d sessions opened, at most %d at once, %d as sampled at the server",
			what, each*len(over), len(over), took.Round(time.Millisecond), perSecond, opened, peak, sampledAtServer)
		if budget {
			t.Logf("leases were sampled %d times", leases.samples())
			if peak > orgBudget || sampledAtServer > orgBudget {
				t.Errorf("%d sessions at once, %d as sampled at the server; the budget is %d", peak, sampledAtServer, orgBudget)
			}
		}
		return perSecond
	}
	work("making the tables", true, streams, len(streams)) // now each stream is drained, and the budget is full of warm sessions
	house.must(t, "org", "set-limits", "acme", "--max-streams", "-1")
	four := streams[:orgBudget]
	before := work("four streams without a budget", false, four, sc.batches)
	house.must(t, "org", "set-limits", "acme", "--max-streams", fmt.Sprint(orgBudget))
	waitFor(t, 3*time.Minute, "the sessions beyond the budget have ended", func() bool {
		return count("SELECT count(*) FROM stream_lease WHERE owner IS NOT NULL AND expires_at > now()") <= orgBudget
	})
	budgeted := work("all with the budget", true, streams[sc.drained:], sc.batches)
	house.must(t, "org", "set-limits", "acme", "--max-streams", "-1")
	after := work("four streams without a budget", false, four, sc.batches)
	ratio := budgeted / ((before + after) / 2)
	t.Logf("with the budget %.2f of the work of four streams without one", ratio)
	if ratio < sc.ratio {
		t.Errorf("%.1f batches a second with the budget, %.1f and %.1f without", budgeted, before, after)
	}
}
