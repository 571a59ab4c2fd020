package load

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// The steps of a chunk run (backfill.md §5): create makes an empty staging table with the final schema; each insert or
// register adds a part of the history to it; replace verifies it and swaps it in. None of them moves the fence's pair.

// Events of chunks.
type (
	// Looked: the tables before a staging table is made or swapped in.
	Looked struct {
		Live, Staging lake.Layout
		SchemaExists  bool
		Written       int64         // rows that the run's chunks have written, by their markers
		Verified      lake.Verified // of the staging table, if it was asked for
		Covered       []lake.Marker // of batches whose rows the staging table holds
	}
	// Prepared: what the chunk's statements read.
	Prepared struct {
		Staging lake.Layout
		Parts   []lake.Part
	}
	// Mended: the staging table's layout is the live one's.
	Mended struct{}
)

func (Looked) event()   {}
func (Prepared) event() {}
func (Mended) event()   {}

// Actions of chunks.
type (
	// Look describes both tables; with Verify it counts what the staging table holds.
	Look struct {
		Live, Staging lake.Table
		Verify        *lake.Verify // nil: not asked
	}
	// Prepare writes what the chunk's statements need beside the source's own files. It may be repeated.
	Prepare struct {
		Staging lake.Table
		Source  json.RawMessage
	}
	// Mend brings the live table's partition, sort order, comments and options to the staging table.
	Mend struct {
		Staging  lake.Table
		Is, Like lake.Layout
	}
)

func (Look) action()    {}
func (Prepare) action() {}
func (Mend) action()    {}

// chunk is what the state keeps of a batch of a chunk run.
type chunk struct {
	is       bool
	spec     lake.Chunk
	err      error        // the spec cannot be read
	previous *lake.Marker // of the step before; nil: it is not applied
	looked   Looked
	mended   bool
}

func chunkOf(run sluice.Run, spec json.RawMessage) chunk {
	if run.Kind == "" || run.Kind == sluice.RunLive {
		return chunk{}
	}
	c := chunk{is: true}
	c.err = json.Unmarshal(spec, &c.spec)
	return c
}

func (s State) staging() lake.Table {
	return lake.StagingTable(s.stream.TargetSchema, s.stream.StreamID, s.chunk.spec.Generation)
}

// readControl reads the marker of the batch, and of a chunk also that of the step before it.
func (s State) readControl() Action {
	a := ReadControl{BatchID: s.work.Batch.BatchID}
	if b := s.work.Batch; s.chunk.is && b.BatchIndex > 0 {
		a.Previous = queue.BatchID(b.StreamID, b.RunID, b.BatchIndex-1)
	}
	return a
}

// verify looks for the data of a batch that has its marker.
func (s State) verify() Action {
	a := Verify{Marker: *s.control.Marker}
	if s.chunk.is && s.work.Batch.Op == sluice.OpReplace {
		a.Swap = s.target()
	}
	return a
}

// refusal says why a chunk that is executing must not be applied; nil: it may.
func (c chunk) refusal(b sluice.Batch) *lake.Failure {
	switch {
	case c.err != nil:
		return lake.Fail(lake.PhaseControl, lake.Permanent, sluice.E("SLUICE-INTERNAL", doing(b), "its plan cannot be read",
			"make a new plan with `sluice backfill replan`", c.err))
	case b.BatchIndex > 0 && c.previous == nil:
		return lake.Fail(lake.PhaseControl, lake.Permanent, sluice.E("SLUICE-LOAD-FENCE-AHEAD", doing(b),
			fmt.Sprintf("the lake does not have step %d of the run", b.BatchIndex-1),
			"was the lake or the state DB restored from a backup? make a new plan with `sluice backfill replan`", nil))
	}
	return nil
}

// chunkAction is the look before a chunk's transaction.
func (s State) chunkAction() Action {
	switch s.work.Batch.Op {
	case sluice.OpCreate:
		return Look{Live: s.target(), Staging: s.staging()}
	case sluice.OpReplace:
		v := s.chunk.spec.Verify
		if v == nil {
			v = &lake.Verify{}
		}
		return Look{Live: s.target(), Staging: s.staging(), Verify: v}
	default: // a chunk with rows
		return Prepare{Staging: s.staging(), Source: s.chunk.spec.Source}
	}
}

func (s State) chunkWrite(t lake.Table, tableID, rows int64, staged *lake.Staged) lake.Write {
	b := s.work.Batch
	return lake.Write{
		StreamID: s.stream.StreamID, Seq: s.control.Fence.Seq, RunSeq: b.RunSeq, BatchIndex: b.BatchIndex, RunID: b.RunID, BatchID: b.BatchID,
		TableID: tableID, RowsRead: rows, Change: lake.Change{Op: b.Op, Target: t, WantRows: -1, Staged: staged},
	}
}

// prepared goes on with a chunk whose sources are ready.
func (s State) prepared(e Prepared) (State, Action) {
	if !e.Staging.Exists {
		return s.fail(lake.Fail(lake.PhaseDescribe, lake.Permanent, sluice.E("SLUICE-BACKFILL-TARGET-CHANGED", doing(s.work.Batch),
			fmt.Sprintf("the staging table %s is gone", s.staging()), "make a new plan with `sluice backfill replan`", nil)))
	}
	rows := int64(0)
	for _, p := range e.Parts {
		rows += max(p.Rows, 0)
	}
	s.facts.File.Rows = rows
	s.choice.Change.Op = s.work.Batch.Op
	s.write = s.chunkWrite(s.staging(), e.Staging.TableID, rows, &lake.Staged{Layout: e.Staging, Parts: e.Parts})
	return s, Apply{s.write}
}

// looked goes on with the first or the last step of a run.
func (s State) looked(e Looked) (State, Action) {
	s.chunk.looked = e
	s.choice.Change.Op = s.work.Batch.Op
	if s.work.Batch.Op == sluice.OpCreate {
		layout := e.Live.On(s.finalColumns(e.Live))
		s.write = s.chunkWrite(s.staging(), 0, 0, &lake.Staged{Layout: layout})
		if !e.SchemaExists {
			return s, CreateSchema{s.stream.TargetSchema}
		}
		return s, Apply{s.write}
	}
	if f := s.judge(e); f != nil {
		return s.fail(f)
	}
	if e.Live.Exists && !s.chunk.mended {
		like := e.Live.On(e.Staging.Columns)
		if e.Staging.NeedsMending(s.staging(), like) {
			return s, Mend{Staging: s.staging(), Is: e.Staging, Like: like}
		}
	}
	return s.swap()
}

// finalColumns are the columns of the history, and, where that was asked for, those that only the live table has.
func (s State) finalColumns(live lake.Layout) lake.Columns {
	columns := append(lake.Columns{}, s.chunk.spec.Columns...)
	if s.chunk.spec.KeepExtra {
		for _, c := range live.Columns {
			if _, there := columns.Find(c.Name); !there {
				columns = append(columns, c)
			}
		}
	}
	return columns
}

// judge compares what is staged with what was planned: only what is right goes live.
func (s State) judge(e Looked) *lake.Failure {
	b, spec := s.work.Batch, s.chunk.spec
	refuse := func(code sluice.Code, what, hint string) *lake.Failure {
		return lake.Fail(lake.PhaseVerify, lake.Permanent, sluice.E(code, "verify the staged table of stream "+string(s.stream.StreamID), what, hint, nil))
	}
	if !e.Staging.Exists {
		return refuse("SLUICE-BACKFILL-TARGET-CHANGED", fmt.Sprintf("the staging table %s is gone", s.staging()), "make a new plan with `sluice backfill replan`")
	}
	if e.Live.TableID != spec.ExpectedTableID {
		return lake.Fail(lake.PhaseVerify, lake.Permanent, lake.TargetChanged(doing(b), s.target(), spec.ExpectedTableID, e.Live.TableID))
	}
	rows := spec.Rows
	if rows < 0 {
		rows = e.Written
	}
	differences := spec.Verify.Judge(rows, e.Verified)
	for _, want := range spec.Columns {
		is, there := e.Staging.Columns.Find(want.Name)
		if !there || !is.Type.Equal(want.Type) {
			differences = append(differences, lake.Difference{Check: "column " + want.Name, Expected: want.Type.String(), Observed: is.Type.String()})
		}
	}
	if len(differences) == 0 {
		return nil
	}
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return refuse("SLUICE-BACKFILL-VERIFY", strings.Join(texts, "; "),
		"the live table is as it was; look at the staged one, mend the source, and run `sluice backfill replan`")
}

// swap puts the staging table in the place of the live one.
func (s State) swap() (State, Action) {
	e := s.chunk.looked
	w := &lake.Swap{Staging: s.staging(), StagingID: e.Staging.TableID, LiveID: e.Live.TableID, Columns: e.Staging.Columns.Names(), Covered: e.Covered}
	w.Rewrite = s.chunk.spec.Rewrite && e.Live.Exists && sameShape(e.Live, e.Staging)
	id := w.StagingID
	if w.Rewrite {
		id = w.LiveID
	}
	s.facts.File.Rows = e.Verified.Rows
	s.write = s.chunkWrite(s.target(), id, e.Verified.Rows, &lake.Staged{Layout: e.Staging, Swap: w})
	return s, Apply{s.write}
}

// sameShape reports whether rows can go from one table to the other as they are.
func sameShape(a, b lake.Layout) bool {
	if len(a.Columns) != len(b.Columns) || strings.Join(a.Partition, ",") != strings.Join(b.Partition, ",") {
		return false
	}
	for i, c := range a.Columns {
		if !strings.EqualFold(c.Name, b.Columns[i].Name) || !c.Type.Equal(b.Columns[i].Type) {
			return false
		}
	}
	return true
}

// swapped is what the state DB is told of a swap beside its success: where the rows are from now on.
func (s State) swapped(snapshot int64) *stream.Target {
	if !s.chunk.is || s.work.Batch.Op != sluice.OpReplace {
		return nil
	}
	t := &stream.Target{LakeTableID: s.write.TableID, FromSnapshot: snapshot, Reason: "swap", BatchID: s.work.Batch.BatchID}
	if m := s.control.Marker; m != nil && s.write.BatchID == "" {
		t.LakeTableID = m.TableID
	}
	if staged := s.write.Change.Staged; staged != nil && staged.Swap != nil && staged.Swap.Rewrite {
		t.Reason = "rewrite"
	}
	return t
}

// ofChunk gives a failure its meaning for a chunk: a file of the pinned version that is not there any more is not the
// chunk's fault, and no attempt finds it again. The planner plans anew.
func ofChunk(b sluice.Batch, f *lake.Failure) *lake.Failure {
	switch f.Err.Code {
	case "SLUICE-LOAD-FILE-GONE", "SLUICE-LOAD-FILE-CHANGED":
		return &lake.Failure{Phase: f.Phase, Class: lake.Deferred, Outcome: f.Outcome, Err: sluice.E(codeGone, doing(b),
			"a file of the planned version is gone: "+f.Err.What, "a new plan is made by itself; keep the source's old files for longer than a load takes", f.Err)}
	}
	return f
}

// codeGone is what the planner looks for: the planned version can no longer be read.
const codeGone = "SLUICE-DELTA-SNAPSHOT-GONE"
