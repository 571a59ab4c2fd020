package fanout

import (
	"fmt"
	"strings"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// goodPolls is how many good answers in a row must be without a destination before it is removed.
const goodPolls = 3

// Change is what a poll of discovery does to one destination.
type Change struct {
	Destination Destination
	Event       Event       // empty: only the counting changes
	New         bool        // it is not stored yet
	Code        sluice.Code // of EventHalt
	Detail      string
}

// Poll is what one answer of discovery means.
type Poll struct {
	Changes    []Change
	Poisoned   string // why nothing is removed because of this answer; empty: it is good
	Generation int64
}

// listed is a destination that an answer or the definition names.
type listed struct {
	org      sluice.Org
	team     sluice.TeamID
	target   lake.Table
	writable bool
	origin   Origin
}

// Route compares an answer of discovery with the destinations that are there, and says what changes. answer nil: discovery is
// down, and only the definition's own destinations are looked at. generation is the one of the last good answer.
func Route(f *Fanout, have []Destination, answer *control.Discovery, generation int64) Poll {
	poll := Poll{Generation: generation}
	var named []listed
	writable := map[sluice.Org]bool{}
	if answer != nil {
		if answer.ConfigGeneration < generation {
			poll.Poisoned = fmt.Sprintf("its generation %d is smaller than %d", answer.ConfigGeneration, generation)
		} else {
			poll.Generation = answer.ConfigGeneration
		}
		for _, w := range answer.Warehouses {
			writable[w.OrgID] = w.Writable
			for _, t := range w.Teams {
				if table, ok := tableOf(t, f.Def.TableField); ok {
					named = append(named, listed{w.OrgID, t.TeamID, table, w.Writable, Discovered})
				}
			}
		}
	}
	for _, s := range f.Def.Static {
		w, known := writable[s.Org]
		named = append(named, listed{s.Org, s.Team, lake.Table{Schema: s.Schema, Name: s.Table}, w || !known, Static})
	}
	named, ambiguous := settle(f, named, have)
	if len(ambiguous) > 0 && poll.Poisoned == "" {
		poll.Poisoned = fmt.Sprintf("team %d is in two orgs", ambiguous[0].team)
	}
	kept := map[string]bool{}
	byID := map[string]*Destination{}
	live := 0
	for i := range have {
		byID[have[i].ID] = &have[i]
	}
	for _, n := range named {
		kept[DestinationID(f.ID, n.org, n.team)] = true
	}
	gone := 0
	for i := range have {
		if have[i].Origin == Discovered && have[i].State != StateRemoved {
			live++
			if !kept[have[i].ID] {
				gone++
			}
		}
	}
	switch {
	case answer == nil:
		poll.Poisoned = "discovery does not answer"
	case poll.Poisoned != "":
	case live > 0 && gone == live && len(answer.Warehouses) == 0:
		poll.Poisoned = "it is empty"
	case gone*2 > live && live > 1:
		poll.Poisoned = fmt.Sprintf("it drops %d of %d destinations", gone, live)
	}
	for _, n := range named {
		poll.Changes = append(poll.Changes, present(f, n, byID[DestinationID(f.ID, n.org, n.team)])...)
	}
	for _, n := range ambiguous {
		if have := byID[DestinationID(f.ID, n.org, n.team)]; have == nil {
			c := n.fresh(f)
			c.Event, c.Code = EventHalt, "SLUICE-FANOUT-AMBIGUOUS"
			c.Detail = fmt.Sprintf("team %d is in two orgs; nothing is written to this one", n.team)
			poll.Changes = append(poll.Changes, c)
		}
		kept[DestinationID(f.ID, n.org, n.team)] = true
	}
	for _, d := range have {
		if kept[d.ID] || d.State == StateRemoved || poll.Poisoned != "" {
			continue
		}
		d.MissingPolls++
		c := Change{Destination: d}
		// A definition is no poll: what it no longer names is gone at once.
		if d.MissingPolls >= goodPolls || d.Origin == Static {
			c.Event = EventRemove
		}
		poll.Changes = append(poll.Changes, c)
	}
	return poll
}

// tableOf gives the table that a field of discovery names for a team.
func tableOf(t control.ServedTeam, field string) (lake.Table, bool) {
	var name string
	switch field {
	case "events_table":
		name = t.Events
	case "persons_table":
		name = t.Persons
	case "persons_raw_table":
		name = t.PersonsRaw
	case "persons_distinct_ids_raw_table":
		name = t.PersonsDistinctIDsRaw
	}
	schema, table, ok := strings.Cut(name, ".")
	return lake.Table{Schema: schema, Name: table}, ok && name != ""
}

// settle leaves one destination per team: a static one wins; else, of a team in two orgs, the one that has it already.
func settle(f *Fanout, named []listed, have []Destination) (out, ambiguous []listed) {
	teams := map[sluice.TeamID][]listed{}
	var order []sluice.TeamID
	for _, n := range named {
		if len(teams[n.team]) == 0 {
			order = append(order, n.team)
		}
		teams[n.team] = append(teams[n.team], n)
	}
	owns := func(n listed) bool {
		id := DestinationID(f.ID, n.org, n.team)
		for _, d := range have {
			if d.ID == id && d.State != StateRemoved && d.Code != "SLUICE-FANOUT-AMBIGUOUS" {
				return true
			}
		}
		return false
	}
	for _, team := range order {
		var static, owner *listed
		all := teams[team]
		orgs := map[sluice.Org]bool{}
		for i := range all {
			if all[i].origin == Static {
				static = &all[i]
			}
			if owns(all[i]) && owner == nil {
				owner = &all[i]
			}
			orgs[all[i].org] = true
		}
		switch {
		case static != nil:
			out = append(out, *static)
		case len(orgs) == 1:
			out = append(out, all[0])
		default:
			for i := range all {
				if owner != nil && all[i].org == owner.org {
					out = append(out, all[i])
				} else {
					ambiguous = append(ambiguous, all[i])
				}
			}
		}
	}
	return out, ambiguous
}

// fresh is a destination that is seen for the first time. Its table name is bound now.
func (n listed) fresh(f *Fanout) Change {
	return Change{New: true, Destination: Destination{
		ID: DestinationID(f.ID, n.org, n.team), Fanout: f.ID, Org: n.org, Team: n.team, Route: fmt.Sprint(n.team), Origin: n.origin,
		Target: n.target, State: StateNew,
	}}
}

// present says what being listed means for a destination.
func present(f *Fanout, n listed, d *Destination) []Change {
	if d == nil {
		c := n.fresh(f)
		if !n.writable {
			c.Event = EventUnwritable
		}
		return []Change{c}
	}
	c := Change{Destination: *d}
	c.Destination.MissingPolls = 0
	c.Destination.Origin = n.origin
	switch {
	case d.State == StateRemoved:
		c.Event = EventReturn
	case d.Target != n.target:
		if d.State == StateHalted {
			return nil
		}
		c.Event, c.Code = EventHalt, "SLUICE-FANOUT-TARGET-CHANGED"
		c.Detail = fmt.Sprintf("it is now to be %s, and is bound to %s", n.target, d.Target)
	case d.Code == "SLUICE-FANOUT-AMBIGUOUS": // it is in one org only by now
		c.Event = EventReseed
	case !n.writable && d.State != StateWaiting:
		c.Event = EventUnwritable
	case n.writable && d.State == StateWaiting:
		c.Event = EventWritable
	case d.MissingPolls == 0:
		return nil
	}
	return []Change{c}
}
