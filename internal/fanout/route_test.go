package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// answer builds an answer of discovery from "org[!] team team …"; ! is not writable.
func answerOf(generation int64, warehouses ...string) *control.Discovery {
	d := &control.Discovery{ConfigGeneration: generation}
	for _, w := range warehouses {
		parts := strings.Fields(w)
		org, locked := strings.CutSuffix(parts[0], "!")
		wh := control.Warehouse{OrgID: sluice.Org(org), Writable: !locked}
		for _, p := range parts[1:] {
			var t control.ServedTeam
			_, _ = fmt.Sscan(p, &t.TeamID)
			t.SchemaName = "team_" + p
			t.Tables = control.Tables{Events: t.SchemaName + ".events"}
			wh.Teams = append(wh.Teams, t)
		}
		d.Warehouses = append(d.Warehouses, wh)
	}
	return d
}

// keeper plays the state DB.
type keeper struct {
	f          *Fanout
	have       map[string]Destination
	generation int64
	poisoned   string
}

func (k *keeper) poll(a *control.Discovery) {
	list := make([]Destination, 0, len(k.have))
	for _, d := range k.have {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Destination) int { return strings.Compare(a.ID, b.ID) })
	p := Route(k.f, list, a, k.generation)
	k.generation, k.poisoned = p.Generation, p.Poisoned
	for _, c := range p.Changes {
		k.have[c.Destination.ID] = Moved(c.Destination, c.Event, c.Code, c.Detail, 0)
	}
}

func (k *keeper) state(org sluice.Org, team sluice.TeamID) string {
	d, ok := k.have[DestinationID(k.f.ID, org, team)]
	if !ok {
		return "none"
	}
	return strings.TrimSuffix(string(d.State)+" "+string(d.Code), " ")
}

func (k *keeper) follow(org sluice.Org, team sluice.TeamID) {
	id := DestinationID(k.f.ID, org, team)
	k.have[id] = Moved(k.have[id], EventFollow, "", "", 0)
}

func newKeeper(static ...StaticEntry) *keeper {
	return &keeper{
		f:    &Fanout{ID: "11111111-1111-4111-8111-111111111111", Def: Definition{TableField: "events_table", Static: static}},
		have: map[string]Destination{},
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	want := func(t *testing.T, k *keeper, org sluice.Org, team sluice.TeamID, state string) {
		t.Helper()
		if got := k.state(org, team); got != state {
			t.Errorf("team %d of %s is %q, want %q", team, org, got, state)
		}
	}
	t.Run("three good polls without it remove a destination, and being listed brings it back", func(t *testing.T) {
		t.Parallel()
		k := newKeeper()
		k.poll(answerOf(1, "a 1 2 3", "b 4"))
		k.follow("b", 4)
		for range 2 {
			k.poll(answerOf(2, "a 1 2 3"))
		}
		want(t, k, "b", 4, "following")
		k.poll(answerOf(2, "a 1 2 3", "b 4")) // counting begins anew
		k.poll(answerOf(2, "a 1 2 3"))
		k.poll(answerOf(2, "a 1 2 3"))
		want(t, k, "b", 4, "following")
		k.poll(answerOf(2, "a 1 2 3"))
		want(t, k, "b", 4, "removed")
		k.poll(answerOf(3, "a 1 2 3", "b 4"))
		want(t, k, "b", 4, "new")
	})
	t.Run("bad answers remove nothing", func(t *testing.T) {
		t.Parallel()
		for name, bad := range map[string]*control.Discovery{
			"down": nil, "empty": answerOf(9), "more than half gone": answerOf(9, "a 1"), "older": answerOf(1, "a 1 2 3"), "team in two orgs": answerOf(9, "a 1 2 3", "b 1"),
		} {
			k := newKeeper()
			k.poll(answerOf(5, "a 1 2 3", "b 4"))
			for range 5 {
				k.poll(bad)
			}
			if k.poisoned == "" {
				t.Errorf("%s: the answer was taken for good", name)
			}
			want(t, k, "b", 4, "new")
		}
	})
	t.Run("a team in two orgs stays where it is", func(t *testing.T) {
		t.Parallel()
		k := newKeeper()
		k.poll(answerOf(1, "a 1", "b 2"))
		k.follow("a", 1)
		k.poll(answerOf(2, "a 1", "b 1 2", "c 3"))
		want(t, k, "a", 1, "following")
		want(t, k, "b", 1, "halted SLUICE-FANOUT-AMBIGUOUS")
		want(t, k, "c", 3, "new") // what is clear still counts
		for range 3 {
			k.poll(answerOf(3, "b 1 2", "c 3"))
		}
		want(t, k, "b", 1, "new")
		want(t, k, "a", 1, "removed")
	})
	t.Run("a team moves", func(t *testing.T) {
		t.Parallel()
		k := newKeeper()
		k.poll(answerOf(1, "a 1 2 3", "b 4"))
		k.follow("a", 1)
		for range 3 {
			k.poll(answerOf(2, "a 2 3", "b 1 4"))
		}
		want(t, k, "a", 1, "removed")
		want(t, k, "b", 1, "new")
	})
	t.Run("not writable is not gone", func(t *testing.T) {
		t.Parallel()
		k := newKeeper()
		k.poll(answerOf(1, "a 1", "b! 2"))
		k.follow("a", 1)
		want(t, k, "b", 2, "waiting")
		for range 5 {
			k.poll(answerOf(2, "a! 1", "b 2"))
		}
		want(t, k, "a", 1, "waiting")
		want(t, k, "b", 2, "new")
		k.poll(answerOf(3, "a 1", "b 2"))
		want(t, k, "a", 1, "following")
	})
	t.Run("the definition's own win and stay", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(StaticEntry{Org: "z", Team: 1, Schema: "s", Table: "t"})
		for range 4 {
			k.poll(answerOf(1, "a 1 2"))
		}
		want(t, k, "z", 1, "new")
		want(t, k, "a", 1, "none")
		k.poll(nil)
		want(t, k, "z", 1, "new")
	})
	t.Run("another table name halts", func(t *testing.T) {
		t.Parallel()
		k := newKeeper()
		k.poll(answerOf(1, "a 1"))
		k.follow("a", 1)
		a := answerOf(2, "a 1")
		a.Warehouses[0].Teams[0].Events = "team_1.clicks"
		k.poll(a)
		want(t, k, "a", 1, "halted SLUICE-FANOUT-TARGET-CHANGED")
		d := k.have[DestinationID(k.f.ID, "a", 1)]
		if d.Target != (lake.Table{Schema: "team_1", Name: "events"}) {
			t.Errorf("it is bound to %s", d.Target)
		}
	})
}
