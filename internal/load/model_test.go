package load

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/lake/laketest"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// The model of what a stream's table must hold: the producer's batches one after the other, as simply as it can be said.
// It knows nothing of claims, leases, fences and markers.

// modelStream is a stream with its producer.
type modelStream struct {
	id      sluice.StreamID
	sync    sluice.SyncType
	table   lake.Table
	runs    []*modelRun // in the order of acceptance
	planned []*delivery // what the producer still has to say
}

type modelRun struct {
	id        string
	firstEver bool
	resume    bool
	sealed    bool // the producer has said how many batches there are
	wanted    int64
	batches   map[int64]*modelBatch // accepted ones
}

type modelBatch struct {
	id    sluice.BatchID
	empty bool
	rows  []laketest.Record
}

// delivery is one call of a producer.
type delivery struct {
	run   *modelRun
	rows  []queue.NewBatch
	data  map[int64]*modelBatch // what the rows' files hold
	final bool
}

// replaces reports whether the run's first batch makes the table anew.
func (s *modelStream) replaces(r *modelRun) bool {
	return !r.resume && (s.sync == sluice.FullRefresh || s.sync == sluice.Incremental && r.firstEver)
}

// expected is what the table must hold, which accepted batches must never be applied because one before them is missing
// for good, and whether all runs can end.
func (s *modelStream) expected() (rows []laketest.Record, blocked map[sluice.BatchID]bool, complete bool) {
	blocked = map[sluice.BatchID]bool{}
	stopped := false
	for _, r := range s.runs {
		if s.replaces(r) && r.batches[0] != nil {
			stopped, rows = false, nil
			clear(blocked)
		}
		last := int64(-1)
		for i := range r.batches {
			last = max(last, i)
		}
		for i := range last + 1 {
			b := r.batches[i]
			switch {
			case b == nil:
				stopped = true
			case stopped:
				blocked[b.id] = true
			default:
				rows = s.apply(r, i, b, rows)
			}
		}
		if r.sealed && last+1 < r.wanted {
			stopped = true
		}
	}
	return rows, blocked, !stopped && (len(s.runs) == 0 || s.runs[len(s.runs)-1].sealed)
}

func (s *modelStream) apply(r *modelRun, index int64, b *modelBatch, rows []laketest.Record) []laketest.Record {
	switch {
	case b.empty:
		return nil
	case index == 0 && s.replaces(r):
		rows = nil
	}
	if s.sync != sluice.Incremental {
		return append(rows, b.rows...)
	}
	for _, row := range b.rows {
		at := slices.IndexFunc(rows, func(have laketest.Record) bool { return have["id"] == row["id"] })
		if at < 0 {
			rows = append(rows, row)
			continue
		}
		rows = slices.Clone(rows)
		rows[at] = row
	}
	return rows
}

func fingerprint(rows []laketest.Record) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = fmt.Sprint(r["id"], "=", r["v"])
	}
	slices.Sort(out)
	return out
}

// plan makes up what a producer will do: a few runs in order, with batches out of order, calls said twice, newer runs that
// begin before the older ones are complete, and each way to say that a run is complete.
func (s *modelStream) plan(rng *rand.Rand, file func(path string, rows []laketest.Record)) {
	runs := 1 + rng.IntN(3)
	for n := range runs {
		r := &modelRun{id: fmt.Sprintf("r%d", n+1), batches: map[int64]*modelBatch{}}
		r.firstEver = n == 0 && rng.IntN(2) == 0 || s.sync == sluice.Incremental && rng.IntN(8) == 0
		r.resume = n > 0 && s.sync == sluice.FullRefresh && rng.IntN(6) == 0
		mine := s.planRun(rng, r, 1+rng.IntN(4), file)
		if n < runs-1 && rng.IntN(5) == 0 { // the producer dies somewhere in the run
			mine = mine[:rng.IntN(len(mine)+1)]
		}
		for range rng.IntN(2) { // said twice
			if len(mine) > 0 {
				again := rng.IntN(len(mine))
				mine = slices.Insert(mine, again+rng.IntN(len(mine)-again)+1, mine[again])
			}
		}
		s.planned = append(s.planned, mine...)
		if k := len(s.planned) - len(mine); n > 0 && k > 0 && len(mine) > 0 && rng.IntN(6) == 0 {
			s.planned[k-1], s.planned[k] = s.planned[k], s.planned[k-1] // the newer run overtakes
		}
	}
}

func (s *modelStream) planRun(rng *rand.Rand, r *modelRun, batches int, file func(path string, rows []laketest.Record)) []*delivery {
	if s.sync == sluice.FullRefresh && !r.resume && rng.IntN(12) == 0 { // an empty refresh
		total := int64(0)
		return []*delivery{{
			run: r, final: true, rows: []queue.NewBatch{{BatchIndex: 0, IsFinal: true, TotalBatches: &total, UpstreamState: sluice.UpstreamNone}},
			data: map[int64]*modelBatch{0: {empty: true}},
		}}
	}
	var out []*delivery
	for i := range int64(batches) {
		b := &modelBatch{}
		for k := range rng.IntN(4) {
			id := fmt.Sprintf("%s.%d.%d", r.id, i, k)
			row := laketest.Record{"id": id, "v": id}
			if s.sync == sluice.Incremental {
				row["id"] = fmt.Sprint(rng.IntN(6)) // so that batches overwrite each other, and themselves
			}
			b.rows = append(b.rows, row)
		}
		path := fmt.Sprintf("s3://x/%s/%s/%d.parquet", s.id, r.id, i)
		file(path, b.rows)
		out = append(out, &delivery{
			run: r, data: map[int64]*modelBatch{i: b},
			rows: []queue.NewBatch{{BatchIndex: i, Path: path, IsResume: r.resume, UpstreamState: sluice.UpstreamNone}},
		})
	}
	last := int64(batches - 1)
	marker := &delivery{run: r, final: true, rows: []queue.NewBatch{{IsFinal: true, UpstreamState: sluice.UpstreamNone, IsResume: r.resume}}}
	total := int64(batches)
	switch rng.IntN(3) {
	case 0: // the last data row says it
		out[last].rows[0].IsFinal, out[last].final = true, true
	case 1: // a marker with the index of the last data row
		marker.rows[0].BatchIndex = last
		marker.rows[0].TotalBatches = &total
		out = append(out, marker)
	default: // a marker with the next index
		marker.rows[0].BatchIndex = last + 1
		out = append(out, marker)
	}
	r.wanted = total
	if rng.IntN(3) == 0 {
		rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	if len(out) > 1 && rng.IntN(3) == 0 { // several rows in one call
		a, b := out[0], out[1]
		both := &delivery{run: r, rows: append(slices.Clone(a.rows), b.rows...), data: maps.Clone(a.data), final: a.final || b.final}
		if both.data == nil {
			both.data = map[int64]*modelBatch{}
		}
		maps.Copy(both.data, b.data)
		out = append([]*delivery{both}, out[2:]...)
	}
	return out
}

// accept notes what the queue has taken.
func (s *modelStream) accept(d *delivery, results []queue.EnqueueResult) {
	if !slices.Contains(s.runs, d.run) {
		s.runs = append(s.runs, d.run)
	}
	d.run.sealed = d.run.sealed || d.final
	for _, res := range results {
		b := d.data[res.BatchIndex]
		if b != nil && res.BatchID != "" && d.run.batches[res.BatchIndex] == nil {
			b.id = res.BatchID
			d.run.batches[res.BatchIndex] = b
		}
	}
}

// check compares lake and queue with the model, after everything that can be applied has been.
func (s *modelStream) check(fake *laketest.Fake, batches []sluice.Batch, runs []sluice.Run) error {
	want, blocked, complete := s.expected()
	got := fake.Rows(s.table)
	if g, w := fingerprint(got), fingerprint(want); !slices.Equal(g, w) {
		return fmt.Errorf("the table holds\n  %s\nand not\n  %s", strings.Join(g, " "), strings.Join(w, " "))
	}
	marked := map[sluice.BatchID]bool{}
	var before lake.Marker
	for i, m := range fake.Markers(s.id) {
		if i > 0 && (m.Seq <= before.Seq || cmp.Or(cmp.Compare(m.RunSeq, before.RunSeq), cmp.Compare(m.BatchIndex, before.BatchIndex)) <= 0) {
			return fmt.Errorf("marker %+v follows %+v", m, before)
		}
		if blocked[m.BatchID] {
			return fmt.Errorf("batch %d of run %s is applied behind a gap", m.BatchIndex, m.RunID)
		}
		before, marked[m.BatchID] = m, true
	}
	state := map[sluice.BatchID]sluice.LoadState{}
	for _, b := range batches {
		state[b.BatchID] = b.LoadState
		switch {
		case b.LoadState == sluice.Succeeded && !marked[b.BatchID]:
			return fmt.Errorf("batch %d of run %s succeeded without a marker in the lake", b.BatchIndex, b.RunID)
		case b.LoadState == sluice.Executing:
			return fmt.Errorf("batch %d of run %s is still executing", b.BatchIndex, b.RunID)
		case b.LoadState.Open() && !blocked[b.BatchID]:
			return fmt.Errorf("batch %d of run %s is still %s (%s %s)", b.BatchIndex, b.RunID, b.LoadState, b.ErrorCode, b.ErrorText)
		}
	}
	for _, r := range s.runs {
		for i, b := range r.batches {
			if state[b.id] == "" {
				return fmt.Errorf("accepted batch %d of run %s is gone", i, r.id)
			}
		}
	}
	for _, r := range runs {
		if complete && r.State != sluice.RunSucceeded && r.State != sluice.RunSuperseded {
			return fmt.Errorf("run %s is %s (%s)", r.RunID, r.State, r.Reason)
		}
	}
	return nil
}
