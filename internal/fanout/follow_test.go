package fanout

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testkit/house"
)

func TestFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.org("blue")
	r.team("acme", 1)
	r.team("acme", 2)
	r.team("blue", 3)
	r.changelog(personColumns)
	r.put(`1, 'a', 3, 0, '{"x":3}'`, `1, 'a', 5, 0, '{"x":5}'`, `1, 'a', 4, 0, '{"x":4}'`, `2, 'b', 1, 1, NULL`, `9, 'z', 1, 0, NULL`)
	r.add(personsDef)
	r.follow()
	r.want(1, `a|5|f|{"x":5}`)
	r.want(2, `b|1|t|∅`)
	r.want(3)

	// Afterwards: late, newer, deleted, and new keys, in windows of their own.
	r.put(`1, 'a', 4, 0, '{"x":"late"}'`, `3, 'c', 1, 0, '{}'`)
	r.put(`1, 'b', 1, 0, '{"n":1}'`, `1, 'b', 2, 1, '{"n":2}'`, `1, 'b', 3, 0, '{"n":3}'`)
	r.put(`2, 'b', 2, 0, '{"back":1}'`)
	r.follow()
	r.want(1, `a|5|f|{"x":5}`, `b|3|f|{"n":3}`)
	r.want(2, `b|2|f|{"back":1}`)
	r.want(3, `c|1|f|{}`)

	// Equal version, other content: the later one wins. Deleted, then an older live one: it stays deleted.
	r.put(`1, 'a', 5, 0, '{"x":"other"}'`)
	r.follow()
	r.put(`1, 'a', 6, 1, NULL`)
	r.follow()
	r.put(`1, 'a', 5, 0, '{"x":"back?"}'`)
	r.follow()
	r.want(1, `a|6|t|∅`, `b|3|f|{"n":3}`)

	// What the source says is compared row by row, and a row that somebody else has written is found by its key.
	admin := &Admin{Store: r.store, Sessions: r.down, Files: r.files()}
	equal := func() (out []string) {
		list, err := admin.Verify(t.Context(), r.f.Name, Selection{Org: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			out = append(out, fmt.Sprintf("%d: %d rows, %d missing, %d more %v", v.Destination.Team, v.Rows, v.Missing, v.Surplus, v.Keys))
		}
		return out
	}
	if got := strings.Join(equal(), "; "); got != "1: 2 rows, 0 missing, 0 more []; 2: 1 rows, 0 missing, 0 more []" {
		t.Errorf("the verdict is %s", got)
	}
	if _, err := r.h.Service("acme").Exec(t.Context(), "UPDATE lake.team_1.persons SET props = 'changed' WHERE id = 'b'"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(equal(), "; "); got != "1: 2 rows, 1 missing, 1 more [1/b]; 2: 1 rows, 0 missing, 0 more []" {
		t.Errorf("the verdict is %s", got)
	}
	o, err := admin.Status(t.Context(), r.f.Name, Selection{})
	if err != nil || o.Problem != "" || len(o.Destinations) != 3 {
		t.Errorf("the status is %+v, %v", o, err)
	}
}
