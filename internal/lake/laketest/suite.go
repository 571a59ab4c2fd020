package laketest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Session is the contract of a session to a lake, used by one goroutine at a time. After an error it is Broken and may
// only be closed. Errors are lake.Failures; the Outcome of a failed Apply says whether it may be stored.
type Session interface {
	EnsureControl(ctx context.Context, id sluice.StreamID) error
	ReadControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (lake.Control, error)
	DescribeFile(ctx context.Context, path string) (lake.File, error)
	DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error)
	DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error)
	TableExists(ctx context.Context, t lake.Table) (bool, error)
	CreateSchema(ctx context.Context, schema string) error
	Apply(ctx context.Context, w lake.Write) (lake.Applied, error)
	Resolve(ctx context.Context, w lake.Write) (sluice.Outcome, lake.Control, error)
	Broken() bool
	Close() error
}

// Harness is one fresh lake with a store for files. Records have the columns id (BIGINT) and v (VARCHAR).
type Harness struct {
	Open func(ctx context.Context) (Session, error)
	File func(name string, rows []Record) (path string)
	Rows func(t lake.Table) []Record // in any order
}

const (
	streamA = sluice.StreamID("00000000-0000-4000-8000-00000000000a")
	streamB = sluice.StreamID("00000000-0000-4000-8000-00000000000b")
)

// Columns of the suite's records.
var Columns = lake.Columns{{Name: "id", Type: lake.Type{Base: "BIGINT"}}, {Name: "v", Type: lake.Type{Base: "VARCHAR"}}}

// Run checks an implementation against the contract. open makes a fresh lake each time.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(*testing.T, *rig){
		"ControlTableIsMadeOnce":            testControl,
		"EachOpLeavesItsRowsAndItsMarker":   testOps,
		"OneOfTwoWritersCommits":            testTwoWriters,
		"TheSameBatchTwiceIsThereOnce":      testSameBatch,
		"AFailedTransactionLeavesNothing":   testFailure,
		"StreamsDoNotGetInEachOthersWay":    testStreams,
		"AnInsertIsNotLostBesideAReplace":   testReplaceAgainstInsert,
		"AnUnknownOutcomeIsReadBack":        testResolve,
		"KeysAndFilesAreDescribedAsTheyAre": testDescribe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &rig{T: t, Harness: open(t), table: lake.Table{Schema: "team_1_data_imports", Name: "t"}})
		})
	}
}

type rig struct {
	*testing.T
	Harness
	table lake.Table
}

func (r *rig) open() Session {
	r.Helper()
	s, err := r.Open(r.Context())
	if err != nil {
		r.Fatalf("open: %v", err)
	}
	r.Cleanup(func() { _ = s.Close() })
	return s
}

// ready opens a session on a stream whose control table and schema exist.
func (r *rig) ready(id sluice.StreamID) Session {
	r.Helper()
	s := r.open()
	_, err := s.ReadControl(r.Context(), id, "")
	if errors.Is(err, lake.ErrNoControl) {
		err = s.EnsureControl(r.Context(), id)
	}
	if err != nil {
		r.Fatalf("make the control table: %v", err)
	}
	if err := s.CreateSchema(r.Context(), r.table.Schema); err != nil {
		r.Fatalf("create schema: %v", err)
	}
	return s
}

func records(from, to int) []Record {
	var out []Record
	for i := from; i < to; i++ {
		out = append(out, Record{"id": int64(i), "v": fmt.Sprintf("v%d", i)})
	}
	return out
}

func (r *rig) write(op sluice.Op, seq int64, batch string, path string) lake.Write {
	w := lake.Write{
		StreamID: streamA, Seq: seq, RunSeq: 1, BatchIndex: seq, RunID: "r1", BatchID: sluice.BatchID(batch),
		Change: lake.Change{Op: op, Target: r.table, Path: path, Columns: Columns, WantRows: -1},
	}
	for _, c := range Columns {
		w.Change.Assign = append(w.Change.Assign, lake.Assignment{To: c, From: c.Name})
	}
	if op == sluice.OpMerge {
		w.Change.Keys = []string{"id"}
		w.Change.OnlyChanged = true
	}
	return w
}

func (r *rig) apply(s Session, w lake.Write) lake.Applied {
	r.Helper()
	a, err := s.Apply(r.Context(), w)
	if err != nil {
		r.Fatalf("apply %s of %s: %v", w.Change.Op, w.BatchID, err)
	}
	return a
}

func (r *rig) control(s Session, batch string) lake.Control {
	r.Helper()
	c, err := s.ReadControl(r.Context(), streamA, sluice.BatchID(batch))
	if err != nil {
		r.Fatalf("read control: %v", err)
	}
	return c
}

// wantRows compares the table with ids and, for some of them, values.
func (r *rig) wantRows(t lake.Table, want []Record) {
	r.Helper()
	got := map[int64]string{}
	rows := r.Rows(t)
	for _, row := range rows {
		got[row["id"].(int64)] = fmt.Sprint(row["v"])
	}
	if len(rows) != len(want) || len(got) != len(want) {
		r.Fatalf("table %s has %d rows and %d ids, want %d", t, len(rows), len(got), len(want))
	}
	for _, row := range want {
		if got[row["id"].(int64)] != fmt.Sprint(row["v"]) {
			r.Fatalf("table %s: id %v is %q, want %q", t, row["id"], got[row["id"].(int64)], row["v"])
		}
	}
}

func testControl(t *testing.T, r *rig) {
	s := r.open()
	if _, err := s.ReadControl(t.Context(), streamA, "b"); !errors.Is(err, lake.ErrNoControl) {
		t.Fatalf("a stream without control table: got %v, want ErrNoControl", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			own, err := r.Open(t.Context())
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer func() { _ = own.Close() }()
			_ = own.EnsureControl(t.Context(), streamA) // all but one are refused
		})
	}
	wg.Wait()
	c := r.control(r.open(), "b")
	if c.Fence.Seq != 0 || c.Fence.RunSeq != -1 || c.Fence.BatchIndex != -1 || c.Marker != nil {
		t.Fatalf("a new control table says %+v", c)
	}
}

func testOps(t *testing.T, r *rig) {
	s := r.ready(streamA)
	if d, err := s.DescribeTarget(t.Context(), r.table); err != nil || d.Exists || !d.SchemaExists {
		t.Fatalf("an absent target: %+v, %v", d, err)
	}
	create := r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10)))
	create.Change.WantRows = 10
	if a := r.apply(s, create); a.RowsWritten != 10 || a.FenceSeq != 1 {
		t.Fatalf("create: %+v", a)
	}
	r.wantRows(r.table, records(0, 10))
	d, err := s.DescribeTarget(t.Context(), r.table)
	if err != nil || !d.Exists || len(d.Columns) != 2 {
		t.Fatalf("the new target: %+v, %v", d, err)
	}
	r.apply(s, r.write(sluice.OpInsert, 1, "b1", r.File("1", records(10, 20))))
	r.wantRows(r.table, records(0, 20))

	merged := append(records(15, 25), Record{"id": int64(15), "v": "newest"})
	r.apply(s, r.write(sluice.OpMerge, 2, "b2", r.File("2", merged)))
	want := records(0, 25)
	want[15] = Record{"id": int64(15), "v": "newest"}
	r.wantRows(r.table, want)

	c := r.control(s, "b2")
	if c.Fence.Seq != 3 || c.Fence.BatchIndex != 2 || c.Fence.BatchID != "b2" || c.Marker == nil || c.Marker.Seq != 3 || c.Marker.Op != sluice.OpMerge {
		t.Fatalf("control after the merge: %+v, marker %+v", c.Fence, c.Marker)
	}
	r.apply(s, r.write(sluice.OpReplace, 3, "b3", r.File("3", records(100, 103))))
	r.wantRows(r.table, records(100, 103))
	rewrite := r.write(sluice.OpReplace, 4, "b4", r.File("4", records(200, 205)))
	rewrite.Change.Rewrite = true
	r.apply(s, rewrite)
	r.wantRows(r.table, records(200, 205))
	r.apply(s, r.write(sluice.OpReplace, 5, "b5", "")) // an empty refresh
	r.wantRows(r.table, nil)
	if c := r.control(s, "nope"); c.Marker != nil || c.Fence.Seq != 6 {
		t.Fatalf("control of a batch that was never applied: %+v", c)
	}
}

// lostOut reports whether err is what the loser of a race may see: it wrote nothing, or it is told so by reading back.
func (r *rig) lostOut(w lake.Write, err error) {
	r.Helper()
	f := lake.AsFailure(err, lake.PhaseData, "")
	if f.Outcome != sluice.Unknown {
		return
	}
	outcome, _, err := r.open().Resolve(r.Context(), w)
	if outcome == sluice.Done {
		r.Errorf("the loser of a race finds itself done: %v", err)
	}
}

func testTwoWriters(t *testing.T, r *rig) {
	s := r.ready(streamA)
	r.apply(s, r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10))))
	writes := []lake.Write{
		r.write(sluice.OpInsert, 1, "one", r.File("one", records(100, 110))),
		r.write(sluice.OpInsert, 1, "two", r.File("two", records(200, 210))),
	}
	errs := r.race(writes)
	won := slices.Index(errs, nil)
	if won < 0 || errs[1-won] == nil {
		t.Fatalf("of two writers at one fence value exactly one commits; got %v", errs)
	}
	r.lostOut(writes[1-won], errs[1-won])
	r.wantRows(r.table, append(records(0, 10), records(100*(won+1), 100*(won+1)+10)...))
}

func (r *rig) race(writes []lake.Write) []error {
	errs := make([]error, len(writes))
	sessions := make([]Session, len(writes))
	for i := range writes {
		sessions[i] = r.open()
	}
	var wg sync.WaitGroup
	for i, w := range writes {
		wg.Go(func() { _, errs[i] = sessions[i].Apply(r.Context(), w) })
	}
	wg.Wait()
	return errs
}

func testSameBatch(t *testing.T, r *rig) {
	s := r.ready(streamA)
	r.apply(s, r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10))))
	for seq := int64(1); seq < 6; seq++ {
		batch := fmt.Sprintf("b%d", seq)
		w := r.write(sluice.OpInsert, seq, batch, r.File(batch, records(int(seq)*10, int(seq)*10+10)))
		errs := r.race([]lake.Write{w, w, w})
		if n := len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err != nil })); n != 1 {
			t.Fatalf("%s: %d of three writers committed: %v", batch, n, errs)
		}
	}
	r.wantRows(r.table, records(0, 60))
}

func testFailure(t *testing.T, r *rig) {
	s := r.ready(streamA)
	r.apply(s, r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10))))
	w := r.write(sluice.OpInsert, 1, "b1", r.File("1", records(10, 20)))
	w.Seq = 7 // not what the fence says
	_, err := s.Apply(t.Context(), w)
	if f := lake.AsFailure(err, lake.PhaseData, ""); err == nil || f.Class != lake.NotOurs || f.Outcome != sluice.NotDone {
		t.Fatalf("a write at another fence value: %v", err)
	}
	if !s.Broken() {
		t.Error("the session is not broken after an error")
	}
	if c := r.control(r.open(), "b1"); c.Marker != nil || c.Fence.Seq != 1 {
		t.Fatalf("control after a failed write: %+v", c)
	}
	r.wantRows(r.table, records(0, 10))
}

func testStreams(t *testing.T, r *rig) {
	for _, id := range []sluice.StreamID{streamA, streamB} {
		_ = r.ready(id)
	}
	var wg sync.WaitGroup
	for i, id := range []sluice.StreamID{streamA, streamB} {
		s := r.open()
		table := lake.Table{Schema: r.table.Schema, Name: fmt.Sprintf("t%d", i)}
		wg.Go(func() {
			for seq := range int64(10) {
				op := sluice.OpInsert
				if seq == 0 {
					op = sluice.OpCreate
				}
				name := fmt.Sprintf("%d-%d", i, seq)
				w := r.write(op, seq, name, r.File(name, records(int(seq)*10, int(seq)*10+10)))
				w.StreamID, w.Change.Target = id, table
				if _, err := s.Apply(t.Context(), w); err != nil {
					t.Errorf("stream %d, batch %d: %v", i, seq, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		r.wantRows(lake.Table{Schema: r.table.Schema, Name: fmt.Sprintf("t%d", i)}, records(0, 100))
	}
}

func testReplaceAgainstInsert(t *testing.T, r *rig) {
	s := r.ready(streamA)
	r.apply(s, r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10))))
	writes := []lake.Write{
		r.write(sluice.OpReplace, 1, "new", r.File("new", records(100, 110))),
		r.write(sluice.OpInsert, 1, "more", r.File("more", records(10, 20))),
	}
	errs := r.race(writes)
	switch {
	case errs[0] == nil && errs[1] != nil:
		r.lostOut(writes[1], errs[1])
		r.wantRows(r.table, records(100, 110))
	case errs[1] == nil && errs[0] != nil:
		r.lostOut(writes[0], errs[0])
		r.wantRows(r.table, records(0, 20))
	default:
		t.Fatalf("exactly one commits; got %v", errs)
	}
}

func testResolve(t *testing.T, r *rig) {
	s := r.ready(streamA)
	w := r.write(sluice.OpCreate, 0, "b0", r.File("0", records(0, 10)))
	if outcome, _, err := r.open().Resolve(t.Context(), w); outcome != sluice.NotDone || err != nil {
		t.Fatalf("before: %s, %v", outcome, err)
	}
	r.apply(s, w)
	outcome, c, err := r.open().Resolve(t.Context(), w)
	if outcome != sluice.Done || err != nil || c.Marker == nil || c.Marker.Rows != 10 {
		t.Fatalf("after: %s, %+v, %v", outcome, c.Marker, err)
	}
	other := r.write(sluice.OpInsert, 0, "other", "")
	if _, _, err := r.open().Resolve(t.Context(), other); lake.AsFailure(err, lake.PhaseResolve, "").Class != lake.NotOurs {
		t.Fatalf("a fence that is past us without our marker: %v", err)
	}
}

func testDescribe(t *testing.T, r *rig) {
	s := r.open()
	path := r.File("keys", append(records(0, 10), Record{"id": int64(3), "v": "x"}, Record{"id": nil, "v": "y"}))
	f, err := s.DescribeFile(t.Context(), path)
	if err != nil || f.Rows != 12 || len(f.Columns) != 2 || f.Columns[0].Name != "id" || f.SizeBytes == 0 {
		t.Fatalf("file: %+v, %v", f, err)
	}
	k, err := s.DescribeKeys(t.Context(), path, lake.KeyQuery{Keys: []string{"id"}})
	if err != nil || k.NullRows != 1 || k.DuplicateRows != 1 {
		t.Fatalf("keys: %+v, %v", k, err)
	}
	_, err = s.DescribeFile(t.Context(), path+".gone")
	if f := lake.AsFailure(err, lake.PhaseDescribe, ""); err == nil || f.Err.Code != "SLUICE-LOAD-FILE-GONE" || f.Class != lake.SecondLook {
		t.Fatalf("a missing file: %v", err)
	}
	if ok, err := r.open().TableExists(t.Context(), lake.Table{Schema: "nope", Name: "nope"}); ok || err != nil {
		t.Fatalf("an absent table: %v, %v", ok, err)
	}
}
