package fanout

import "cmp"

// Row is what decides between two rows of one key. The order is total and comes from the row alone, so a window, the union of
// several, and the whole history agree on the winner; the order of arrival in the lake says nothing: an old version that is
// delivered again arrives last.
type Row struct {
	Version *int64 // NULL is the lowest
	Epoch   int64
	Offset  int64
	Part    int64
	Deleted bool
	Content string
}

// Compare orders two rows of a key; the higher one wins.
func Compare(a, b Row) int {
	return cmp.Or(compareVersion(a.Version, b.Version), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Part, b.Part))
}

func compareVersion(a, b *int64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// Resolve gives the winner of the rows of one key.
func Resolve(rows ...Row) Row {
	best := rows[0]
	for _, r := range rows[1:] {
		if Compare(r, best) > 0 {
			best = r
		}
	}
	return best
}

// Effect is what a winner does to the row of its key in the table.
type Effect string

// The effects.
const (
	Insert Effect = "insert"
	Update Effect = "update"
	Same   Effect = "same"  // the row is there already
	Stale  Effect = "stale" // the table has a newer version: a row never goes back
)

// Guard decides what a winner does to the table's row; nil: the key is not there. Equal versions: the later window wins, which
// is the source's order for a key.
func Guard(table *Row, s Row) Effect {
	switch {
	case table == nil:
		return Insert
	case compareVersion(s.Version, table.Version) < 0:
		return Stale
	case compareVersion(s.Version, table.Version) == 0 && s.Content == table.Content && s.Deleted == table.Deleted:
		return Same
	}
	return Update
}
