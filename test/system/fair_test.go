package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
)

// TestNoisyOrgDelaysNobody gives one org a deep backlog on many streams and another one a single batch: while that one
// waits, the noisy org gets no more than a batch of each of its streams that are under way.
func TestNoisyOrgDelaysNobody(t *testing.T) {
	t.Parallel()
	streams, batches := 10, 20
	if os.Getenv("SLUICE_CHAOS") == "full" {
		streams, batches = 50, 100
	}
	dir := t.TempDir()
	server := pg.Start(t, pg.Options{})
	state, err := server.CreateDatabase(t.Context(), "sluice_state")
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(dir, "files")
	i := &installation{data: filepath.Join(dir, "data"), env: []string{"SLUICE_STATE_DSN=" + state, "SLUICE_LOADER__POLL=100ms"}}
	p := i.serve(t)
	sc := scale{orgs: 2, streams: 2 * streams, batches: 2 * streams * batches}
	chaosFiles(t, files, batches)
	all := chaosStreams(t, i, p, sc, files)
	var noisy []chaosStream
	var quiet chaosStream
	for _, s := range all { // streams alternate between the two orgs
		if s.org == "org-0" {
			noisy = append(noisy, s)
		} else {
			quiet = s
		}
	}
	enqueueChaos(t, p, noisy, batches, files)
	db, err := pgx.Connect(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	applied := func(org string) (n int64) {
		q := "SELECT count(*) FROM batch_marker m JOIN stream s ON s.stream_id = m.stream_id WHERE s.org = $1"
		if err := db.QueryRow(t.Context(), q, org).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The quiet org's engine is open and its first table is there, as it is for an org that has been loaded before.
	enqueueChaos(t, p, []chaosStream{quiet}, 1, files)
	waitFor(t, time.Minute, "the quiet org's first batch is applied", func() bool { return applied("org-1") == 1 })
	waitFor(t, time.Minute, "the noisy org is under way", func() bool { return applied("org-0") > 4 })
	for round := int64(1); round <= 3; round++ {
		before, begin := applied("org-0"), time.Now()
		p.post(t, fmt.Sprintf("/api/v1/streams/%s/runs/q%d/batches", quiet.id, round), map[string]any{"batches": []map[string]any{
			{"batch_index": 0, "path": filepath.Join(files, fmt.Sprintf("%v-%d.parquet", quiet.merge, round)), "is_final": true},
		}}, nil)
		waitFor(t, time.Minute, "the quiet org's batch is applied", func() bool { return applied("org-1") == round+1 })
		got := applied("org-0") - before
		t.Logf("the noisy org got %d batches in the %s that the quiet one's took", got, time.Since(begin).Round(time.Millisecond))
		// orgBudget streams of the noisy org are under way: each may end one batch while the quiet one is claimed, and one
		// more while it is applied.
		if most := int64(2 * orgBudget); got > most {
			t.Errorf("the noisy org got %d batches meanwhile, want at most %d", got, most)
		}
	}
	if applied("org-0") == int64(streams*batches) {
		t.Error("the backlog was gone before the end: nothing was shown")
	}
}
