package fanout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/sluice"
)

// Snapshot is one snapshot of the source lake, as its catalog describes it.
type Snapshot struct {
	ID int64
	// Changes is the catalog's text: a list of kind:table, separated by commas.
	Changes string
	// Rows that the snapshot has added to the source, as its files say.
	Rows int64
}

// SourceTableID names the source table by what never changes while it is the same table.
type SourceTableID struct {
	ID   int64
	UUID string
}

// Window is a stretch of snapshots that may be read at once, both ends included. Read is false where there is nothing to
// read in it.
type Window struct {
	From, To int64
	Read     bool
	Altered  bool // the table's columns changed in it: what was known of them is void
}

// Limits of a window.
const (
	WindowSnapshots = 100
	WindowRows      = 500_000
)

// kinds of changes of one table in one snapshot.
type kinds struct {
	inserted, deleted, inlined, flushed, merged, rewritten, altered, dropped bool
	unknown                                                                  string
}

// kindsOf reads what a snapshot did to a table.
func kindsOf(changes string, table int64) kinds {
	var k kinds
	id := strconv.FormatInt(table, 10)
	for _, c := range splitChanges(changes) {
		what, of, _ := strings.Cut(c, ":")
		if of != id {
			continue
		}
		switch what {
		case "inserted_into_table":
			k.inserted = true
		case "inlined_insert":
			k.inserted, k.inlined = true, true
		case "deleted_from_table":
			k.deleted = true
		case "inlined_delete":
			k.deleted, k.inlined = true, true
		case "inline_flush", "flushed_inlined":
			k.flushed = true
		case "merge_adjacent":
			k.merged = true
		case "rewrite_delete":
			k.rewritten = true
		case "altered_table":
			k.altered = true
		case "dropped_table":
			k.dropped = true
		default:
			k.unknown = what
		}
	}
	return k
}

// splitChanges splits at commas outside of quotes: names of new tables are quoted and may hold anything.
func splitChanges(s string) []string {
	var out []string
	quoted, begin := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, s[begin:i])
			begin = i + 1
		}
	}
	return append(out, s[begin:])
}

// NextWindow decides what is read after a position. list are the snapshots behind it, by id, up to the newest one. ok is false
// if there are none. An error halts: a gap the destinations that need it, the others the fan-out.
//
// Each snapshot behind the position must be there: of one that has expired nobody knows what it did.
func NextWindow(kind SourceKind, table SourceTableID, position int64, list []Snapshot) (w Window, ok bool, err error) {
	if len(list) == 0 {
		return Window{}, false, nil
	}
	for i, s := range list {
		if want := position + 1 + int64(i); s.ID != want {
			if i > 0 && w.To > 0 {
				break // what is before the gap can still be read; the gap is met next time
			}
			return Window{}, false, Gap(position, list[0].ID)
		}
		k := kindsOf(s.Changes, table.ID)
		read, wide, err := judge(kind, s, k)
		if err != nil {
			if i > 0 {
				break // what is before it is delivered first
			}
			return Window{}, false, err
		}
		if i == 0 {
			w = Window{From: s.ID, To: s.ID, Read: read, Altered: k.altered}
			if read && !wide {
				return w, true, nil
			}
			if read {
				w.To = s.ID
			}
			continue
		}
		if s.ID-w.From >= WindowSnapshots || read && !wide || k.altered && w.Read {
			break
		}
		if read && w.Read && rowsOf(list[:i])+s.Rows > WindowRows {
			break
		}
		w.To, w.Read, w.Altered = s.ID, w.Read || read, w.Altered || k.altered
	}
	return w, true, nil
}

func rowsOf(list []Snapshot) (n int64) {
	for _, s := range list {
		n += s.Rows
	}
	return n
}

// judge says whether a snapshot has changes to be read, and whether it may be read together with its neighbours.
func judge(kind SourceKind, s Snapshot, k kinds) (read, wide bool, err error) {
	doing := fmt.Sprintf("read snapshot %d of the source", s.ID)
	switch {
	case k.unknown != "":
		return false, false, sluice.E("SLUICE-FANOUT-FEED", doing, fmt.Sprintf("it holds a change of an unknown kind, %s", k.unknown),
			"this version does not know the engine that wrote it", nil)
	case k.dropped:
		return false, false, sluice.E("SLUICE-FANOUT-SOURCE-RECREATED", doing, "the source table was dropped or replaced",
			"look who did it; then `sluice fanout reseed` takes the new table", nil)
	case kind == SourceTable:
		// Pure rewrites show every row as changed to itself; there is nothing in them.
		return k.inserted || k.deleted, false, nil
	case k.rewritten, k.inserted && k.deleted:
		return false, false, sluice.E("SLUICE-FANOUT-NOT-INSERT-ONLY", doing, "rows of the changelog were updated or rewritten",
			"look who did it: a changelog's rows never change; then `sluice fanout reseed`", nil)
	case k.inserted:
		return true, !k.inlined && !k.flushed, nil
	}
	return false, true, nil // retention, compaction, other tables: nothing that a destination would have to follow
}

// Gap is the halt of destinations whose next snapshot has expired.
func Gap(position, oldest int64) *sluice.Error {
	return sluice.E("SLUICE-FANOUT-GAP", fmt.Sprintf("read the source after snapshot %d", position),
		fmt.Sprintf("the snapshots before %d have expired", oldest), "`sluice fanout reseed` builds the destination's table anew from the source", nil)
}

// Halts the whole fan-out, not only a destination.
func haltsFanout(code sluice.Code) bool {
	return slices.Contains([]sluice.Code{"SLUICE-FANOUT-SOURCE-RECREATED", "SLUICE-FANOUT-NOT-INSERT-ONLY", "SLUICE-FANOUT-FEED"}, code)
}
