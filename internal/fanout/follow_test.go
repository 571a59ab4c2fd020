package fanout

import (
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
}
