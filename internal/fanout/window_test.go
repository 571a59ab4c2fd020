package fanout

import (
	"fmt"
	"testing"

	"sluice/internal/sluice"
)

func TestNextWindow(t *testing.T) {
	t.Parallel()
	at := func(from int64, changes ...string) []Snapshot {
		var out []Snapshot
		for i, c := range changes {
			out = append(out, Snapshot{ID: from + int64(i), Changes: c, Rows: 10})
		}
		return out
	}
	const ins, del, other = "inserted_into_table:7", "deleted_from_table:7", `created_table:"a,inserted_into_table:7"."b"`
	for _, c := range []struct {
		name string
		kind SourceKind
		list []Snapshot
		want string // of a position at 4
		code sluice.Code
	}{
		{"nothing new", SourceChangelog, nil, "none", ""},
		{"inserts are read together", SourceChangelog, at(5, ins, ins, "inserted_into_table:70"), "5-7 read", ""},
		{"a quoted name is no change", SourceChangelog, at(5, other), "5-5 skip", ""},
		{"compaction is passed", SourceChangelog, at(5, "merge_adjacent:7", ins), "5-6 read", ""},
		{"retention is passed", SourceChangelog, at(5, del, ins), "5-6 read", ""},
		{"inlined rows are read alone", SourceChangelog, at(5, ins, "inlined_insert:7"), "5-5 read", ""},
		{"inlined rows first", SourceChangelog, at(5, "inlined_insert:7", ins), "5-5 read", ""},
		{"a flush beside inserts is read alone", SourceChangelog, at(5, "inserted_into_table:7,inline_flush:7", ins), "5-5 read", ""},
		{"columns change: what is before is read with the old ones", SourceChangelog, at(5, ins, ins+",altered_table:7"), "5-5 read", ""},
		{"columns change in a window of its own", SourceChangelog, at(5, ins+",altered_table:7", ins), "5-6 read altered", ""},
		{"a rewrite halts", SourceChangelog, at(5, "rewrite_delete:7"), "", "SLUICE-FANOUT-NOT-INSERT-ONLY"},
		{"an update halts", SourceChangelog, at(5, ins+","+del), "", "SLUICE-FANOUT-NOT-INSERT-ONLY"},
		{"what is before an update is delivered first", SourceChangelog, at(5, ins, ins+","+del), "5-5 read", ""},
		{"a drop halts", SourceChangelog, at(5, "dropped_table:7"), "", "SLUICE-FANOUT-SOURCE-RECREATED"},
		{"another table's drop does not", SourceChangelog, at(5, "dropped_table:8"), "5-5 skip", ""},
		{"an unknown kind halts", SourceChangelog, at(5, "reshaped_table:7"), "", "SLUICE-FANOUT-FEED"},
		{"expired", SourceChangelog, at(6, ins), "", "SLUICE-FANOUT-GAP"},
		{"a gap further on", SourceChangelog, append(at(5, ins), at(7, ins)...), "5-5 read", ""},
		{"a table is read snapshot by snapshot", SourceTable, at(5, ins, ins), "5-5 read", ""},
		{"a table's update is read", SourceTable, at(5, ins+","+del), "5-5 read", ""},
		{"a table's rewrite is passed", SourceTable, at(5, "rewrite_delete:7"), "5-5 skip", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, ok, err := NextWindow(c.kind, SourceTableID{ID: 7}, 4, c.list)
			if code := sluice.CodeOf(err); code != c.code {
				t.Fatalf("the error is %v, want %s", err, c.code)
			}
			got := ""
			switch {
			case err != nil:
			case !ok:
				got = "none"
			default:
				got = fmt.Sprintf("%d-%d ", w.From, w.To) + map[bool]string{true: "read", false: "skip"}[w.Read]
				if w.Altered {
					got += " altered"
				}
			}
			if got != c.want {
				t.Errorf("the window is %q, want %q", got, c.want)
			}
		})
	}
	var many []Snapshot
	for i := range 300 {
		many = append(many, Snapshot{ID: 5 + int64(i), Changes: ins, Rows: 10})
	}
	if w, _, _ := NextWindow(SourceChangelog, SourceTableID{ID: 7}, 4, many); w.To-w.From+1 != WindowSnapshots {
		t.Errorf("a window has %d snapshots, want %d", w.To-w.From+1, WindowSnapshots)
	}
	many[1].Rows = WindowRows
	if w, _, _ := NextWindow(SourceChangelog, SourceTableID{ID: 7}, 4, many); w.To != 5 {
		t.Errorf("a window ends at %d although the next snapshot is too large", w.To)
	}
}
