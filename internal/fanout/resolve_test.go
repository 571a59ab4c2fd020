package fanout

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func v(n int64) *int64 { return &n }

// The vectors of versions: a row never goes back.
func TestResolveAndGuard(t *testing.T) {
	t.Parallel()
	row := func(version *int64, offset int64, content string) Row {
		return Row{Version: version, Offset: offset, Content: content}
	}
	gone := func(version, offset int64) Row { return Row{Version: v(version), Offset: offset, Deleted: true} }
	for _, c := range []struct {
		name   string
		table  *Row
		rows   []Row
		winner int64 // offset
		effect Effect
	}{
		{"newest of one window", nil, []Row{row(v(3), 10, ""), row(v(5), 9, ""), row(v(4), 11, "")}, 9, Insert},
		{"an older version comes late", ptr(row(v(5), 9, "")), []Row{row(v(4), 12, "x")}, 12, Stale},
		{"the same version with other content", ptr(row(v(5), 9, "a")), []Row{row(v(5), 13, "b")}, 13, Update},
		{"the same row again", ptr(row(v(5), 9, "a")), []Row{row(v(5), 9, "a")}, 9, Same},
		{"deleted, then an older live row", ptr(gone(6, 14)), []Row{row(v(5), 15, "")}, 15, Stale},
		{"deleted, then a newer live row", ptr(gone(6, 14)), []Row{row(v(7), 16, "")}, 16, Update},
		{"deleted and back in one window", nil, []Row{row(v(1), 1, ""), gone(2, 2), row(v(3), 3, "")}, 3, Insert},
		{"no versions: the later one", ptr(row(nil, 1, "a")), []Row{row(nil, 5, "b")}, 5, Update},
		{"a version over none", ptr(row(nil, 1, "a")), []Row{row(v(1), 6, "b")}, 6, Update},
		{"none over a version", ptr(row(v(1), 1, "a")), []Row{row(nil, 6, "b")}, 6, Stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := Resolve(c.rows...)
			if w.Offset != c.winner {
				t.Errorf("the winner is at offset %d, want %d", w.Offset, c.winner)
			}
			if e := Guard(c.table, w); e != c.effect {
				t.Errorf("the effect is %s, want %s", e, c.effect)
			}
		})
	}
}

func ptr[T any](x T) *T { return &x }

// Windows, cut anywhere and some of them applied again, end at the same row as the whole history at once.
func TestWindowsAgreeWithTheWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed(t), 2))
	for round := range 2000 {
		var all []Row
		for i := range 1 + rng.IntN(12) {
			r := Row{Offset: int64(i), Deleted: rng.IntN(4) == 0, Content: fmt.Sprint(rng.IntN(3))}
			if rng.IntN(5) > 0 {
				r.Version = v(rng.Int64N(4))
			}
			all = append(all, r)
		}
		var table *Row
		apply := func(rows []Row) {
			w := Resolve(rows...)
			switch Guard(table, w) {
			case Insert, Update:
				table = &w
			case Same, Stale:
			}
		}
		for i := 0; i < len(all); {
			n := 1 + rng.IntN(len(all)-i)
			apply(all[i : i+n])
			if i += n; rng.IntN(3) == 0 {
				apply(all[:i]) // a seed, or a repair, over everything so far
			}
		}
		want := Resolve(all...)
		if table.Content != want.Content || table.Deleted != want.Deleted || compareVersion(table.Version, want.Version) != 0 {
			t.Fatalf("round %d: %+v ended as %+v, want %+v", round, all, *table, want)
		}
	}
}
