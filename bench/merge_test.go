package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/lake"
	"sluice/internal/load"
	"sluice/internal/sluice"
	"sluice/internal/stream"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

const (
	mergeRows  = 1_000_000
	mergeBatch = 5_000
)

// BenchmarkWarmMerge merges batches of 5,000 rows, half of them new, into a table of 1 M rows: through queue, loader and
// lake, one after the other on a warm session; and as the same MERGE in a transaction of its own, typed by hand into the
// same engine over the same wire. The two take turns, so that a noisy machine hits both. docs/adr/0080 says what the rest is.
func BenchmarkWarmMerge(b *testing.B) {
	for _, kind := range []string{"duckdb", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			where := newClock()
			r := rig.New(b, house.New(b, house.Options{Postgres: kind == "postgres"}), rig.Options{
				Postgres: kind == "postgres", Config: load.Config{Poll: 2 * time.Second}, // as it is by default; an enqueue wakes the loader
				Queue:    func(q load.Batches) load.Batches { return timedQueue{q, where} },
				Sessions: func(s load.Sessions) load.Sessions { return timedSessions{s, where} },
			})
			const rounds, perRound = 5, 12
			byLoader, byHand := mergeStream(r), mergeStream(r)
			l := r.Loader()
			defer l.Stop()
			r.FirstEver(byLoader, "seed", r.File(seedRows()))
			r.FirstEver(byHand, "seed", r.File(seedRows()))
			r.Settle()
			hand := r.House.Service(r.Org)
			var loaded, typed []float64
			next := 0
			for round := range rounds + 1 { // the first one warms up
				var files []string
				var scripts [][]string
				for range perRound {
					files = append(files, r.File(batchRows(next)))
					scripts = append(scripts, statements(r, byHand, files[len(files)-1]))
					next++
				}
				if round == 1 {
					where.reset()
				}
				begin := time.Now()
				for _, script := range scripts {
					for _, q := range script {
						done := where.time("by hand: " + strings.ToLower(q[:strings.IndexByte(q+" ", ' ')]))
						if _, err := hand.Exec(b.Context(), q); err != nil {
							b.Fatalf("%s: %v", q, err)
						}
						done()
					}
				}
				handMS := ms(begin, perRound)
				begin = time.Now()
				r.Enqueue(byLoader, fmt.Sprintf("r%d", round), files...)
				r.Settle()
				if loaderMS := ms(begin, perRound); round > 0 {
					loaded, typed = append(loaded, loaderMS), append(typed, handMS)
				}
			}
			want := fmt.Sprint(mergeRows + next*mergeBatch/2)
			for _, id := range []sluice.StreamID{byLoader, byHand} {
				if got := r.Rows(id, "SELECT count(DISTINCT id) FROM "+r.Table(id).SQL())[0]; got != want {
					b.Fatalf("the table has %s ids, want %s", got, want)
				}
			}
			m, h := median(loaded), median(typed)
			b.ReportMetric(m-1.1*h, "over-1.1x-ms") // the mark is 20
			b.ReportMetric(h, "hand-ms/batch")
			b.ReportMetric(m, "loader-ms/batch")
			b.ReportMetric(m/h, "ratio")
			b.ReportMetric(m-h, "overhead-ms")
			b.ReportMetric(3_600_000/m, "batches/h")
			b.ReportMetric(0, "ns/op")
			fmt.Printf("where the loader's time goes (%s):\n%s", kind, where.String(rounds*perRound))
		})
	}
}

func ms(begin time.Time, n int) float64 { return time.Since(begin).Seconds() * 1000 / float64(n) }

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func mergeStream(r *rig.Rig) sluice.StreamID {
	return r.Stream(sluice.Incremental, func(n *stream.NewStream) { n.Options.PrimaryKeys = []string{"id"} })
}

const mergeColumns = "i AS id, 'name ' || i AS name, i %% 97 AS kind, %d AS version, i * 1.5 AS amount, TIMESTAMP '2024-01-01' + to_seconds(i) AS at_time"

func seedRows() string {
	return fmt.Sprintf("SELECT "+mergeColumns+" FROM range(%d) r(i)", 0, mergeRows)
}

// batchRows are the rows of the n-th batch: half of them change the newest rows of the table, half follow them.
func batchRows(n int) string {
	first := mergeRows + n*mergeBatch/2 - mergeBatch/2
	return fmt.Sprintf("SELECT "+mergeColumns+" FROM range(%d, %d) r(i)", n+1, first, first+mergeBatch)
}

// statements are what the loader sends to change the table, without fence and marker.
func statements(r *rig.Rig, id sluice.StreamID, path string) []string {
	s := r.Session()
	files, err := s.DescribeFiles(r.Context(), []string{path})
	if err != nil {
		r.Fatal(err)
	}
	target, err := s.DescribeTarget(r.Context(), r.Table(id))
	if err != nil {
		r.Fatal(err)
	}
	st, err := r.Streams.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	choice, fail := load.Choose(load.Facts{
		Stream: st, Run: sluice.Run{SyncType: sluice.Incremental}, Batch: sluice.Batch{Path: path},
		File: files[path], Target: target, Options: st.Options,
	}, lake.KeyFacts{})
	if fail != nil {
		r.Fatal(fail)
	}
	out := []string{"BEGIN"}
	for _, x := range choice.Change.Statements() {
		out = append(out, x.SQL)
	}
	return append(out, "COMMIT")
}
