package load

import (
	"fmt"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// success is what the state DB is told about an applied batch.
func (s State) success(origin sluice.Origin, reason string, a lake.Applied) queue.Applied {
	note := ""
	if out := s.choice.LeftOut; len(out) > 0 {
		note = fmt.Sprintf("%d columns or fields are left out by the schema policy: %s", len(out), strings.Join(out, ", "))
	}
	return queue.Applied{
		Target: s.swapped(a.Snapshot), Note: note, BatchID: s.work.Batch.BatchID, Op: s.choice.Change.Op, RowsRead: s.facts.File.Rows, RowsWritten: a.RowsWritten,
		Deduplicated: s.deduplicated(a), LeftOut: len(s.choice.LeftOut), FenceSeq: a.FenceSeq, LakeSnapshot: a.Snapshot, Origin: origin, Reason: reason, Phases: a.Phases,
	}
}

// deduplicated is the number of rows that were left out for newer ones of their keys. A merge that nobody looked at before
// has written each row that is left.
func (s State) deduplicated(a lake.Applied) int64 {
	if s.choice.MergeCounts {
		return max(s.facts.File.Rows-a.RowsWritten, 0)
	}
	return s.choice.Deduplicated
}

func orCode(c, def sluice.Code) sluice.Code {
	if c == "" {
		return def
	}
	return c
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
