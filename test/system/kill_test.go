package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// seed of the random moments: printed, and SLUICE_SEED repeats them.
func seed(t testing.TB) *rand.Rand {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("SLUICE_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// table is a stream under test with the files that were enqueued for it.
type table struct {
	stream string // as people call it
	target string
	merge  bool // rows of a later file replace those of an earlier one with the same id
	files  []string
}

const rowsPerFile = 2000

// add enqueues one more file of the stream, as a run of its own.
func (tb *table) add(t testing.TB, i *installation, dir string) {
	t.Helper()
	n := len(tb.files)
	first := n * rowsPerFile
	if tb.merge {
		first /= 2 // half of the rows are in the file before as well
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%d.parquet", filepath.Base(tb.target), n))
	parquet(t, file, fmt.Sprintf("SELECT i AS id, %d AS file, hash(i, %d)::VARCHAR AS v FROM range(%d, %d) t(i)", n, n, first, first+rowsPerFile))
	tb.files = append(tb.files, file)
	i.must(t, "enqueue", "--stream", tb.stream, "--run", fmt.Sprintf("r%d", n), file)
}

const sums = "count(*) || ' ' || count(DISTINCT id) || ' ' || coalesce(sum(id), 0) || ' ' || coalesce(bit_xor(hash(id, file, v)), 0)"

// want are the table's sums, made from the files alone.
func (tb *table) want(t testing.TB) string {
	t.Helper()
	list := ""
	for _, f := range tb.files {
		list += ", '" + f + "'"
	}
	rows := "read_parquet([" + list[2:] + "])"
	if tb.merge {
		rows = "(SELECT * FROM " + rows + " QUALIFY row_number() OVER (PARTITION BY id ORDER BY file DESC) = 1)"
	}
	return local(t, "SELECT "+sums+" FROM "+rows)
}

// newTable registers a stream of team 1 of an org.
func newTable(t testing.TB, i *installation, org, name string, merge bool) *table {
	t.Helper()
	tb := &table{stream: "1/k/" + name, target: "team_1_data_imports.k_" + name, merge: merge}
	args := []string{"stream", "add", "--org", org, "--team", "1", "--source-type", "k", "--name", name}
	if merge {
		args = append(args, "--sync-type", "incremental", "--primary-key", "id")
	} else {
		args = append(args, "--sync-type", "append")
	}
	i.must(t, args...)
	return tb
}

// status is what `sluice status --json` tells.
type status struct {
	Server struct {
		Loader struct {
			Batches int64 `json:"batches"`
		} `json:"loader"`
	} `json:"server"`
	Streams []struct {
		Name      string `json:"name"`
		Open      int64  `json:"open_batches"`
		HeadState string `json:"head_state"`
		ErrorCode string `json:"error_code"`
	} `json:"streams"`
}

func open(t testing.TB, i *installation) (n int64) {
	t.Helper()
	for _, s := range answer[status](t, i, "status").Streams {
		if s.HeadState == "quarantined" {
			t.Fatalf("stream %s stopped: %s", s.Name, s.ErrorCode)
		}
		n += s.Open
	}
	return n
}

// fast are settings under which a killed process is followed soon.
var fast = []string{
	"--loader.lease.ttl", "1s", "--loader.lease.heartbeat", "300ms", "--loader.poll", "50ms", "--loader.retry_base", "50ms", "--loader.max_attempts", "1000",
}

// A process that is killed at any moment loses and doubles nothing.
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	const kills = 20
	random := seed(t)
	dir := t.TempDir()
	i := &installation{data: filepath.Join(dir, "data")}
	i.must(t, "org", "create", "acme")
	i.must(t, "team", "create", "1", "--org", "acme")
	tables := []*table{newTable(t, i, "acme", "appended", false), newTable(t, i, "acme", "merged", true), newTable(t, i, "acme", "more", false)}
	for range 3 {
		for _, tb := range tables {
			tb.add(t, i, dir)
		}
	}
	caught := 0 // kills while something was open
	for range kills {
		for _, tb := range tables {
			tb.add(t, i, dir)
		}
		p := i.serve(t, fast...)
		// The engine opens in about 0.2 s, and three batches take about as long again on a fast machine.
		time.Sleep(time.Duration(random.Int64N(int64(700 * time.Millisecond))))
		p.kill()
		if open(t, i) > 0 {
			caught++
		}
	}
	if caught < kills/4 {
		t.Errorf("only %d of %d kills came while batches were open", caught, kills)
	}
	p := i.serve(t, fast...)
	waitFor(t, 2*time.Minute, "all batches are applied", func() bool { return open(t, i) == 0 })
	total := 0
	for _, tb := range tables {
		total += len(tb.files)
		if got, want := p.text(t, "acme", "SELECT "+sums+" FROM "+tb.target), tb.want(t); got != want {
			t.Errorf("%s: %s, want %s (rows, ids, sum of ids, hash)", tb.target, got, want)
		}
	}
	if total < 20 {
		t.Errorf("only %d batches", total)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// The demo ends well on a fresh machine, and says so.
func TestDemo(t *testing.T) {
	t.Parallel()
	i := &installation{data: filepath.Join(t.TempDir(), "data")}
	type report struct {
		OK     bool `json:"ok"`
		Tables []struct {
			Rows, Expected int64
			OK             bool
		} `json:"tables"`
		Batches, Markers, Covered int64
		Killed                    struct {
			PID     int `json:"pid"`
			NextPID int `json:"next_pid"`
		} `json:"killed"`
	}
	for range 2 { // the second one replaces the first
		r := answer[report](t, i, "demo")
		if !r.OK || len(r.Tables) != 5 || r.Tables[4].Rows != 336776 || r.Covered != 3 || r.Batches != 10 || r.Markers != 10 || r.Killed.PID == 0 || r.Killed.NextPID == 0 {
			t.Errorf("%+v", r)
		}
	}
	// A directory with something else in it is not touched.
	other := filepath.Join(t.TempDir(), "other")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := i.try(t, "demo", "--data", other); code != 2 {
		t.Errorf("exit code %d, want 2: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(other, "mine")); err != nil {
		t.Error(err)
	}
}
