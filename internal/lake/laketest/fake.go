package laketest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Record is one row of a table or a file, by column name.
type Record map[string]any

// Fault is what befalls one call of a fake session.
type Fault int

// The faults. The commit faults befall Apply only; elsewhere they are a lost connection.
const (
	NoFault    Fault = iota
	LoseConn         // the connection is lost before anything was done
	LoseReply        // COMMIT was carried out, its reply is lost
	LoseCommit       // COMMIT never arrived, and the client cannot know
	LateCommit       // COMMIT arrives later, at the next Settle
	Conflict         // another transaction was in the way, and the client was told before it sent COMMIT
)

// ErrLost is the cause of a fault.
var ErrLost = errors.New("the connection was lost")

// Fake is a lake in memory. Its transactions are as a DuckLake's where it matters here: a snapshot at the first use, the
// fence as the only conflict, and a COMMIT whose reply may be lost.
type Fake struct {
	// Before is asked before each call of a session, by its name; nil: no faults.
	Before func(ctx context.Context, call string) Fault

	mu      sync.Mutex
	files   map[string]fakeFile
	tables  map[lake.Table]*fakeTable
	schemas map[string]bool
	control map[sluice.StreamID]*fakeControl
	nextID  int64
	late    []func()
	Commits int // transactions that changed something
}

type fakeFile struct {
	columns lake.Columns
	rows    []Record
}

type fakeTable struct {
	id      int64
	columns lake.Columns
	rows    []Record
}

type fakeControl struct {
	fence   lake.Fence
	markers map[sluice.BatchID]lake.Marker
}

// NewFake makes an empty lake.
func NewFake() *Fake {
	return &Fake{
		files: map[string]fakeFile{}, tables: map[lake.Table]*fakeTable{}, schemas: map[string]bool{},
		control: map[sluice.StreamID]*fakeControl{}, nextID: 1,
	}
}

// File puts a file into the fake's store.
func (f *Fake) File(path string, columns lake.Columns, rows []Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = fakeFile{columns, rows}
}

// Rows gives the rows of a table, nil if it does not exist.
func (f *Fake) Rows(t lake.Table) []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tab := f.tables[t]; tab != nil {
		return slices.Clone(tab.rows)
	}
	return nil
}

// Markers gives the markers of a stream, in the order of their fence values.
func (f *Fake) Markers(id sluice.StreamID) []lake.Marker {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.control[id]
	if c == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(c.markers), func(a, b lake.Marker) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Settle lets COMMITs that are late arrive.
func (f *Fake) Settle() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, commit := range late {
		commit()
	}
}

// Open opens a session.
func (f *Fake) Open(ctx context.Context) (*FakeSession, error) {
	if f.fault(ctx, "open") != NoFault {
		return nil, lost(lake.PhaseConnect)
	}
	return &FakeSession{lake: f}, nil
}

func (f *Fake) fault(ctx context.Context, call string) Fault {
	if ctx.Err() != nil {
		return LoseConn
	}
	if f.Before == nil {
		return NoFault
	}
	return f.Before(ctx, call)
}

func lost(phase lake.Phase) *lake.Failure {
	return lake.Fail(phase, lake.Deferred, sluice.E("SLUICE-LOAD-CONNECT", "talk to the lake", "the connection was lost", "it is tried again by itself", ErrLost))
}

func conflict(phase lake.Phase) *lake.Failure {
	return lake.Fail(phase, lake.Conflict, sluice.E("SLUICE-LAKE-CONFLICT", "use the lake", "Transaction conflict", "it is redone by itself", nil))
}

// FakeSession is a session to a Fake.
type FakeSession struct {
	lake   *Fake
	broken bool
}

func (s *FakeSession) begin(ctx context.Context, call string, phase lake.Phase) error {
	if s.broken {
		return lost(phase)
	}
	switch s.lake.fault(ctx, call) {
	case NoFault:
		return nil
	case Conflict:
		s.broken = true
		return conflict(phase)
	case LoseConn, LoseReply, LoseCommit, LateCommit:
	}
	s.broken = true
	return lost(phase)
}

// Broken reports whether the session has seen an error.
func (s *FakeSession) Broken() bool { return s.broken }

// Close ends the session.
func (s *FakeSession) Close() error { return nil }

// EnsureControl makes the control table of a stream.
func (s *FakeSession) EnsureControl(ctx context.Context, id sluice.StreamID) error {
	if err := s.begin(ctx, "ensure control", lake.PhaseControl); err != nil {
		return err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	if s.lake.control[id] != nil {
		s.broken = true
		return lake.Fail(lake.PhaseControl, lake.Conflict, sluice.E("SLUICE-LAKE-CONFLICT", "make the control table", "it exists", "", nil))
	}
	s.lake.control[id] = &fakeControl{
		fence:   lake.Fence{RunSeq: -1, BatchIndex: -1, At: time.Unix(0, 0)},
		markers: map[sluice.BatchID]lake.Marker{},
	}
	return nil
}

// ReadControl reads fence and marker.
func (s *FakeSession) ReadControl(ctx context.Context, id sluice.StreamID, batch sluice.BatchID) (lake.Control, error) {
	if err := s.begin(ctx, "read control", lake.PhaseControl); err != nil {
		return lake.Control{}, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	c := s.lake.control[id]
	if c == nil {
		return lake.Control{}, lake.ErrNoControl
	}
	out := lake.Control{Fence: c.fence}
	if m, ok := c.markers[batch]; ok {
		out.Marker = &m
	}
	return out, nil
}

// DescribeFile looks at a file.
func (s *FakeSession) DescribeFile(ctx context.Context, path string) (lake.File, error) {
	files, err := s.DescribeFiles(ctx, []string{path})
	return files[path], err
}

// DescribeFiles looks at several files. One of several that is missing leaves the session as it was.
func (s *FakeSession) DescribeFiles(ctx context.Context, paths []string) (map[string]lake.File, error) {
	if err := s.begin(ctx, "describe file", lake.PhaseDescribe); err != nil {
		return nil, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	out := map[string]lake.File{}
	for _, path := range paths {
		f, ok := s.lake.files[path]
		if !ok {
			s.broken = s.broken || len(paths) == 1
			return nil, lake.Fail(lake.PhaseDescribe, lake.SecondLook,
				sluice.E("SLUICE-LOAD-FILE-GONE", "describe file "+path, "the file does not exist", "put it back", nil))
		}
		out[path] = lake.File{Columns: f.columns, Rows: int64(len(f.rows)), SizeBytes: int64(len(f.rows))}
	}
	return out, nil
}

// DescribeTarget looks at a table.
func (s *FakeSession) DescribeTarget(ctx context.Context, t lake.Table) (lake.Target, error) {
	if err := s.begin(ctx, "describe target", lake.PhaseDescribe); err != nil {
		return lake.Target{}, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	tab := s.lake.tables[t]
	if tab == nil {
		return lake.Target{SchemaExists: s.lake.schemas[t.Schema]}, nil
	}
	return lake.Target{Exists: true, SchemaExists: true, TableID: tab.id, Columns: slices.Clone(tab.columns)}, nil
}

// DescribeKeys counts NULL and duplicate keys.
func (s *FakeSession) DescribeKeys(ctx context.Context, path string, ask lake.KeyQuery) (lake.KeyFacts, error) {
	var k lake.KeyFacts
	if err := s.begin(ctx, "describe keys", lake.PhaseDescribe); err != nil {
		return k, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	seen := map[string]bool{}
	for _, r := range s.lake.files[path].rows {
		id := keyOf(r, ask.Keys)
		if seen[id] {
			k.DuplicateRows++
		}
		seen[id] = true
		for _, key := range ask.Keys {
			if r[key] == nil {
				k.NullRows++
				break
			}
		}
	}
	return k, nil
}

func keyOf(r Record, keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("%T:%v", r[k], r[k])
	}
	return strings.Join(parts, "\x00")
}

// FirstMisfit finds nothing: the fake has no values of a wrong type.
func (s *FakeSession) FirstMisfit(ctx context.Context, _, _ string, _ lake.Type) (string, bool, error) {
	return "", false, s.begin(ctx, "first misfit", lake.PhaseDescribe)
}

// TableExists looks for a table.
func (s *FakeSession) TableExists(ctx context.Context, t lake.Table) (bool, error) {
	if err := s.begin(ctx, "table exists", lake.PhaseDescribe); err != nil {
		return false, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	return s.lake.tables[t] != nil, nil
}

// CreateSchema makes a schema.
func (s *FakeSession) CreateSchema(ctx context.Context, schema string) error {
	if err := s.begin(ctx, "create schema", lake.PhaseDescribe); err != nil {
		return err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	s.lake.schemas[schema] = true
	return nil
}

// Apply runs the transaction of a write.
func (s *FakeSession) Apply(ctx context.Context, w lake.Write) (lake.Applied, error) {
	f := s.lake
	if s.broken {
		return lake.Applied{}, lost(lake.PhaseData)
	}
	// The transaction's snapshot is taken first; the fault befalls it afterwards, so that others may commit in between.
	f.mu.Lock()
	c := f.control[w.StreamID]
	ours := c != nil && c.fence.Seq == w.Seq
	f.mu.Unlock()
	if !ours {
		s.broken = true
		return lake.Applied{}, lake.Fail(lake.PhaseData, lake.NotOurs,
			sluice.E("SLUICE-LOAD-FENCE-LOST", "apply", fmt.Sprintf("the fence is no longer at %d", w.Seq), "", nil))
	}
	fault := f.fault(ctx, "apply")
	unknown := lost(lake.PhaseCommit)
	unknown.Outcome = sluice.Unknown
	var rows int64
	commit := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.fence.Seq != w.Seq {
			return false // another transaction moved the fence: this COMMIT fails
		}
		rows = f.change(w.Change)
		c.fence = lake.Fence{
			Seq: w.Seq + 1, RunSeq: w.RunSeq, BatchIndex: w.BatchIndex, RunID: w.RunID, BatchID: w.BatchID, Op: w.Change.Op,
			Target: w.Change.Target, TargetTableID: w.TableID, At: time.Unix(w.Seq+1, 0),
		}
		c.markers[w.BatchID] = lake.Marker{
			Seq: w.Seq + 1, RunSeq: w.RunSeq, BatchIndex: w.BatchIndex, RunID: w.RunID, BatchID: w.BatchID, Op: w.Change.Op, Rows: rows,
		}
		f.Commits++
		return true
	}
	switch fault {
	case NoFault:
		if commit() {
			return lake.Applied{FenceSeq: w.Seq + 1, RowsWritten: rows}, nil
		}
		unknown.Class, unknown.Err = lake.Conflict, sluice.E("SLUICE-LAKE-CONFLICT", "commit", "Transaction conflict", "", nil)
	case LoseConn:
		s.broken = true
		return lake.Applied{}, lost(lake.PhaseData)
	case Conflict:
		s.broken = true
		return lake.Applied{}, conflict(lake.PhaseData)
	case LoseReply:
		commit()
	case LoseCommit:
	case LateCommit:
		f.mu.Lock()
		f.late = append(f.late, func() { commit() })
		f.mu.Unlock()
	}
	s.broken = true
	return lake.Applied{}, unknown
}

// Resolve reads back what became of a write.
func (s *FakeSession) Resolve(ctx context.Context, w lake.Write) (sluice.Outcome, lake.Control, error) {
	c, err := s.ReadControl(ctx, w.StreamID, w.BatchID)
	return lake.OutcomeOf(w, c, err)
}

// MissingFiles finds none: what a fake lake has committed stays.
func (s *FakeSession) MissingFiles(ctx context.Context, _ sluice.StreamID, _ sluice.BatchID, _ int64) ([]string, error) {
	return nil, s.begin(ctx, "missing files", lake.PhaseResolve)
}

// Repair is never needed.
func (s *FakeSession) Repair(context.Context, sluice.StreamID, lake.Table, lake.Marker) (lake.Control, error) {
	return lake.Control{}, lost(lake.PhaseResolve)
}

// change carries the change out; the caller holds the lock.
func (f *Fake) change(c lake.Change) int64 {
	tab := f.tables[c.Target]
	if c.Op == sluice.OpNothing {
		return 0
	}
	if c.Path == "" {
		tab.rows = nil
		return 0
	}
	if c.Op == sluice.OpCreate || c.Op == sluice.OpReplace && !c.Rewrite {
		tab = &fakeTable{id: f.nextID, columns: c.Columns}
		f.nextID++
		f.tables[c.Target] = tab
		f.schemas[c.Target.Schema] = true
	}
	if c.Op == sluice.OpReplace {
		tab.rows = nil
	}
	tab.columns = append(tab.columns, c.Add...)
	rows := f.source(c)
	if c.Op != sluice.OpMerge {
		tab.rows = append(tab.rows, rows...)
		return int64(len(rows))
	}
	at := map[string]int{}
	for i, r := range tab.rows {
		at[keyOf(r, c.Keys)] = i
	}
	for _, r := range rows {
		if i, ok := at[keyOf(r, c.Keys)]; ok {
			merged := maps.Clone(tab.rows[i])
			maps.Copy(merged, r)
			tab.rows[i] = merged
			continue
		}
		tab.rows = append(tab.rows, r)
	}
	return int64(len(rows))
}

// source gives the file's rows under their target names, the last of each key.
func (f *Fake) source(c lake.Change) []Record {
	var out []Record
	at := map[string]int{}
	for _, r := range f.files[c.Path].rows {
		n := Record{}
		for _, a := range c.Assign {
			n[a.To.Name] = r[a.From]
		}
		if len(c.Keys) > 0 {
			k := keyOf(n, c.Keys)
			if i, ok := at[k]; ok {
				out[i] = n
				continue
			}
			at[k] = len(out)
		}
		out = append(out, n)
	}
	return out
}

// DescribeLayout describes a table without what a fake does not keep.
func (s *FakeSession) DescribeLayout(ctx context.Context, t lake.Table) (lake.Layout, error) {
	if err := s.begin(ctx, "describe layout", lake.PhaseDescribe); err != nil {
		return lake.Layout{}, err
	}
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	tab := s.lake.tables[t]
	if tab == nil {
		return lake.Layout{}, nil
	}
	return lake.Layout{Exists: true, TableID: tab.id, Columns: tab.columns}, nil
}

// RowsOfRun sums up the markers of a run.
func (s *FakeSession) RowsOfRun(ctx context.Context, id sluice.StreamID, run sluice.RunID) (int64, error) {
	if err := s.begin(ctx, "rows of run", lake.PhaseControl); err != nil {
		return 0, err
	}
	rows := int64(0)
	for _, m := range s.lake.Markers(id) {
		if m.RunID == run {
			rows += m.Rows
		}
	}
	return rows, nil
}

// VerifyTable counts a table's rows.
func (s *FakeSession) VerifyTable(ctx context.Context, t lake.Table, _ *lake.Verify) (lake.Verified, error) {
	if err := s.begin(ctx, "verify table", lake.PhaseVerify); err != nil {
		return lake.Verified{}, err
	}
	return lake.Verified{Rows: int64(len(s.lake.Rows(t)))}, nil
}

// Mend does nothing: a fake's tables have no layout.
func (s *FakeSession) Mend(ctx context.Context, _ lake.Table, _, _ lake.Layout) error {
	return s.begin(ctx, "mend", lake.PhaseDescribe)
}

// Since is not kept by a fake.
func (s *FakeSession) Since(ctx context.Context, _ lake.Table) (int64, error) {
	return 0, s.begin(ctx, "since", lake.PhaseResolve)
}
