package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// historyTable is a Delta table of plain appends and replacements, written by hand.
type historyTable struct {
	dir     string
	version int
	live    []string
}

// commit writes a version: the files that it adds, and whether it takes all others out.
func (d *historyTable) commit(t testing.TB, replace bool, files map[string]string) {
	t.Helper()
	var lines []string
	add := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	if d.version == 0 {
		schema := `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"v","type":"string","nullable":true,"metadata":{}}]}`
		add(map[string]any{"protocol": map[string]any{"minReaderVersion": 1, "minWriterVersion": 2}})
		add(map[string]any{"metaData": map[string]any{
			"id": "00000000-0000-4000-8000-000000000001", "format": map[string]any{"provider": "parquet", "options": map[string]any{}},
			"schemaString": schema, "partitionColumns": []string{}, "configuration": map[string]any{},
		}})
	}
	if replace {
		for _, f := range d.live {
			add(map[string]any{"remove": map[string]any{"path": f, "dataChange": true, "deletionTimestamp": 1}})
		}
		d.live = nil
	}
	for name, query := range files {
		parquet(t, filepath.Join(d.dir, name), query)
		info, err := os.Stat(filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		add(map[string]any{"add": map[string]any{"path": name, "partitionValues": map[string]any{}, "size": info.Size(), "modificationTime": 1, "dataChange": true}})
		d.live = append(d.live, name)
	}
	log := filepath.Join(d.dir, "_delta_log")
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(log, fmt.Sprintf("%020d.json", d.version)), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.version++
}

// plan is what `sluice backfill status STREAM --json` tells.
type plan struct {
	Stream    string `json:"stream"`
	Lifecycle string `json:"lifecycle"`
	State     string `json:"state"`
	Chunks    struct {
		Done int64  `json:"done"`
		Of   *int64 `json:"of"`
	} `json:"chunks"`
	LastError *string `json:"last_error"`
	Targets   []struct {
		Reason string `json:"reason"`
	} `json:"targets"`
	Steps []struct {
		LoadState string `json:"load_state"`
		ErrorCode string `json:"error_code"`
	} `json:"steps"`
}

func (i *installation) plan(t testing.TB, stream string) plan {
	t.Helper()
	return answer[plan](t, i, "backfill", "status", stream)
}

// announce enqueues a file as a run of its own that no history holds.
func (p *process) announce(t testing.TB, stream, run, file string) {
	t.Helper()
	body := fmt.Sprintf(`{"batches":[{"batch_index":0,"path":%q,"is_final":true,"upstream_state":"none"}]}`, file)
	resp, err := http.Post("http://"+p.http+"/api/v1/streams/"+stream+"/runs/"+run+"/batches", "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		t.Fatalf("announce %s: %s", run, resp.Status)
	}
}

var backfillFast = append(append([]string{}, fast...), "--backfill.interval", "100ms", "--backfill.chunk_bytes", "1KiB", "--loader.lease.ttl", "3s")

// A backfill of 20 chunks over a live table, with live batches arriving, survives 30 kills: nothing is lost or doubled, it is
// swapped once, and no reader sees anything between the old table and the new one.
func TestKilledInBackfill(t *testing.T) {
	t.Parallel()
	const kills, chunks, rowsPerChunk, old, liveRows = 30, 20, 50_000, 10_000, 100
	random := seed(t)
	dir := t.TempDir()
	i := &installation{data: filepath.Join(dir, "data")}
	i.must(t, "org", "create", "acme")
	i.must(t, "team", "create", "1", "--org", "acme")
	extracts := filepath.Join(i.data, "extracts", "acme")
	d := &historyTable{dir: filepath.Join(extracts, "history")}
	d.commit(t, false, map[string]string{"old.parquet": fmt.Sprintf("SELECT i::BIGINT AS id, 'old' AS v FROM range(%d) t(i)", old)})
	i.must(t, "stream", "add", "--org", "acme", "--team", "1", "--source-type", "k", "--name", "h", "--sync-type", "incremental", "--primary-key", "id",
		"--delta-uri", d.dir)
	const stream, target = "1/k/h", "team_1_data_imports.k_h"
	p := i.serve(t, backfillFast...)
	waitFor(t, time.Minute, "the first history is loaded", func() bool { return i.plan(t, stream).Lifecycle == "primed" })
	if got := p.text(t, "acme", "SELECT count(*) FROM "+target); got != strconv.Itoa(old) {
		t.Fatalf("%s rows", got)
	}
	files := map[string]string{}
	for n := range chunks {
		files[fmt.Sprintf("part-%02d.parquet", n)] = fmt.Sprintf("SELECT i::BIGINT AS id, hash(i)::VARCHAR AS v FROM range(%d, %d) t(i)", n*rowsPerChunk, (n+1)*rowsPerChunk)
	}
	d.commit(t, true, files)
	i.must(t, "backfill", "start", stream)

	// A reader polls all the while: the old table, or the new one with some of the live batches, and never back.
	var reader sync.WaitGroup
	var server atomic.Pointer[process]
	server.Store(p)
	stop := make(chan struct{})
	var looks, last atomic.Int64
	last.Store(old)
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			text, err := server.Load().query("acme", "SELECT count(*) FROM "+target+" WHERE v IS NOT NULL")
			n, perr := strconv.ParseInt(text, 10, 64)
			if err != nil || perr != nil { // the server is dead just now
				time.Sleep(5 * time.Millisecond)
				continue
			}
			looks.Add(1)
			whole := n == old || n >= chunks*rowsPerChunk && (n-chunks*rowsPerChunk)%liveRows == 0
			if before := last.Swap(n); !whole || n < before {
				t.Errorf("a reader saw %d rows after %d", n, before)
			}
		}
	})
	id, caught, live := i.plan(t, stream).Stream, 0, 0
	for range kills {
		st := i.plan(t, stream)
		if st.State == "running" || st.State == "done" {
			file := filepath.Join(extracts, fmt.Sprintf("live-%d.parquet", live))
			from := chunks*rowsPerChunk + live*liveRows
			parquet(t, file, fmt.Sprintf("SELECT i::BIGINT AS id, 'live' AS v FROM range(%d, %d) t(i)", from, from+liveRows))
			p.announce(t, id, fmt.Sprintf("live-%d", live), file)
			live++
		}
		time.Sleep(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		p.kill()
		p = i.serve(t, backfillFast...)
		server.Store(p)
		if st.State != "done" {
			caught++
		}
	}
	waitFor(t, 5*time.Minute, "all is loaded", func() bool {
		return i.plan(t, stream).State == "done" && open(t, i) == 0
	})
	close(stop)
	reader.Wait()
	st := i.plan(t, stream)
	swaps := 0
	for _, x := range st.Targets {
		if x.Reason == "swap" {
			swaps++
		}
	}
	if swaps != 2 || st.Chunks.Of == nil || *st.Chunks.Of != chunks || st.Chunks.Done != chunks {
		t.Errorf("%+v", st)
	}
	n := chunks*rowsPerChunk + live*liveRows
	want := local(t, fmt.Sprintf("SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || sum(id) || ' ' || bit_xor(hash(id, v)) FROM "+
		"(SELECT i::BIGINT AS id, CASE WHEN i < %d THEN hash(i)::VARCHAR ELSE 'live' END AS v FROM range(%d) t(i))", chunks*rowsPerChunk, n))
	if got := p.text(t, "acme", "SELECT count(*) || ' ' || count(DISTINCT id) || ' ' || sum(id) || ' ' || bit_xor(hash(id, v)) FROM "+target); got != want {
		t.Errorf("the table has %s, want %s", got, want)
	}
	t.Logf("%d of %d kills while the history was loading, %d live batches, %d looks of the reader", caught, kills, live, looks.Load())
	if caught < kills/3 || looks.Load() < kills {
		t.Error("the kills or the looks were not in time")
	}
}
