package backfill_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/backfill"
	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/deltagen"
	"sluice/internal/testkit/rig"
)

// Case 21: deletion vectors, partition values, odd paths, absolute paths, missing statistics: the table has the rows of the
// version, whatever the catalog.
func TestDeltaHistory(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kinds{"embedded": {}, "postgres": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e *env
			source := &backfill.Delta{
				Table: func(_ context.Context, uri string) (*delta.Table, error) {
					return delta.Open(objstore.Local{}, uri, delta.Options{})
				},
				Side: func(_ context.Context, org sluice.Org) (objstore.Bucket, objstore.Location, error) {
					at, err := objstore.ParseLocation(filepath.Join(e.House.Dir, string(org), "data"))
					return objstore.Local{}, at, err
				},
			}
			e = newEnv(t, k, func(o *rig.Options) { o.Sources = source })
			e.planner = backfill.New(backfill.Config{Owner: "p", Instance: "p", ChunkBytes: 4096}, backfill.Deps{
				DB: e.DB, Queue: e.Queue, Streams: e.Streams, Source: source, Lakes: backfill.Dialed(e.House.Dialer()),
			})
			dir := filepath.Join(e.House.Dir, "extracts", string(e.Org), "history")
			seed := rand.Uint64()
			h := deltagen.NewHistory(t, seed, deltagen.HistoryOptions{Versions: 8, Checkpoints: true, Root: "file://" + deltagen.Escape(dir)})
			if err := os.CopyFS(dir, os.DirFS(h.Dir)); err != nil {
				t.Fatal(err)
			}
			e.id = e.Stream(sluice.Incremental, func(n *stream.NewStream) { n.DeltaURI = dir })
			preview, err := e.planner.Preview(t.Context(), e.id, stream.PlanRequest{})
			if err != nil {
				t.Fatal(err)
			}
			e.until("the history is loaded", func() bool { return e.plan().State == stream.PlanDone || e.plan().State == stream.PlanHalted })
			p := e.wantPlan(stream.PlanDone)
			if *p.DeltaVersion != preview.Version || *p.Files != preview.Files || *p.ChunkCount != preview.Chunks || p.PlanHash != preview.PlanHash {
				t.Errorf("the plan differs from its preview: %+v, %+v", p, preview)
			}
			ids := make([]string, 0, 1000)
			for _, id := range h.IDs(h.Version) {
				ids = append(ids, fmt.Sprint(id))
			}
			want := fmt.Sprintf(`(%s)`, deltagen.ExpectedSQL("SELECT unnest(["+strings.Join(ids, ", ")+"]::BIGINT[]) AS id"))
			is := `SELECT id, "a text", amount, part FROM {t}`
			for _, q := range []string{is + " EXCEPT ALL " + want, want + " EXCEPT ALL " + is, "SELECT 1 WHERE (SELECT count(*) FROM {t}) <> " + fmt.Sprint(len(ids))} {
				if got := e.Rows(e.id, q+" LIMIT 5"); len(got) > 0 {
					t.Errorf("seed %d: %s", seed, strings.Join(got, "\n"))
				}
			}
			t.Logf("version %d: %d files in %d chunks, %d rows, %d deleted", *p.DeltaVersion, *p.Files, *p.ChunkCount, len(ids), preview.DeletedRows)
		})
	}
}
