package fanout

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Admin is what operators do with fan-outs.
type Admin struct {
	Store     *Store
	Sessions  Sessions
	Files     Files
	Discovery Discovery
}

// NewFanout is a fan-out to be added.
type NewFanout struct {
	Name   string
	Lake   sluice.Org
	Source lake.Table
	Shards int
	Config []byte
	DryRun bool
}

// Planned is what an added fan-out does.
type Planned struct {
	Fanout       *Fanout
	Columns      lake.Columns
	Dropped      []string // source columns that nobody asked for
	Destinations []Destination
}

// Add looks at the source and registers a fan-out; what does not fit is refused now.
func (a *Admin) Add(ctx context.Context, n NewFanout, by By) (Planned, error) {
	var out Planned
	def, err := ParseDefinition(n.Config)
	if err != nil {
		return out, err
	}
	f := &Fanout{Name: n.Name, Lake: n.Lake, Source: n.Source, Def: def, Shards: n.Shards, Desired: Run}
	out.Fanout = f
	r := &reader{f: f, owner: "admin", sessions: a.Sessions, files: a.Files}
	defer r.close()
	s, err := r.session(ctx)
	if err != nil {
		return out, err
	}
	if err := r.look(ctx, s); err != nil {
		return out, err
	}
	if _, ok := r.columns.Find(def.Route); !ok {
		return out, refuseProjection("the source has no route column %s", def.Route)
	}
	script, err := r.script()
	if err != nil {
		return out, err
	}
	out.Columns, out.Dropped = script.Out.TableColumns(), script.Out.Dropped
	if a.Discovery != nil {
		answer, err := a.Discovery.Discovery(ctx)
		if err != nil {
			return out, err
		}
		for _, c := range Route(f, nil, &answer, 0).Changes {
			out.Destinations = append(out.Destinations, c.Destination)
		}
	}
	if n.DryRun {
		return out, nil
	}
	return out, a.Store.Insert(ctx, f, by)
}

// Selection says which destinations are meant; the zero value means all.
type Selection struct {
	Org  sluice.Org
	Team sluice.TeamID
}

// selected gives the fan-out and the destinations that are meant. A selection that meets none is an error.
func (a *Admin) selected(ctx context.Context, name string, sel Selection) (*Fanout, []Destination, error) {
	f, err := a.Store.Get(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := a.Store.Destinations(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	var out []Destination
	for _, d := range all {
		if (sel.Org == "" || d.Org == sel.Org) && (sel.Team == 0 || d.Team == sel.Team) {
			out = append(out, d)
		}
	}
	if len(out) == 0 && sel != (Selection{}) {
		return nil, nil, sluice.E("SLUICE-FANOUT-NOT-FOUND", fmt.Sprintf("find a destination of fan-out %s", name), fmt.Sprintf("it has none in org %s for team %d", sel.Org, sel.Team),
			"see `sluice fanout status`", nil)
	}
	return f, out, nil
}

// Pause stops a fan-out, or some of its destinations.
func (a *Admin) Pause(ctx context.Context, name string, sel Selection, by By) error {
	f, ds, err := a.selected(ctx, name, sel)
	if err != nil {
		return err
	}
	if sel == (Selection{}) {
		return a.Store.SetDesired(ctx, f, Pause, by)
	}
	return a.each(ctx, f, ds, EventPause, by)
}

// Resume ends pauses and halts: of a fan-out, or of some of its destinations.
func (a *Admin) Resume(ctx context.Context, name string, sel Selection, by By) error {
	f, ds, err := a.selected(ctx, name, sel)
	if err != nil {
		return err
	}
	if sel == (Selection{}) {
		return a.Store.Resume(ctx, f, by)
	}
	return a.each(ctx, f, ds, EventResume, by)
}

func (a *Admin) each(ctx context.Context, f *Fanout, ds []Destination, e Event, by By) error {
	for _, d := range ds {
		if err := a.Store.MoveBy(ctx, f, d, e, by); err != nil {
			return err
		}
	}
	return nil
}

// Reseed builds the tables of destinations anew from the source. Of the whole fan-out, it also ends its halt.
func (a *Admin) Reseed(ctx context.Context, name string, sel Selection, by By) error {
	f, ds, err := a.selected(ctx, name, sel)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if d.State == StateRemoved {
			continue
		}
		if err := a.Store.MoveBy(ctx, f, d, EventReseed, by); err != nil {
			return err
		}
	}
	if sel == (Selection{}) && f.Halt != nil {
		return a.Store.Resume(ctx, f, by)
	}
	return nil
}

// Rebind gives a destination the table that discovery names now, or one that the caller names.
func (a *Admin) Rebind(ctx context.Context, name string, sel Selection, to lake.Table, by By) (lake.Table, error) {
	f, ds, err := a.selected(ctx, name, sel)
	if err != nil {
		return to, err
	}
	if len(ds) != 1 {
		return to, sluice.E("SLUICE-USAGE", "rebind a destination of fan-out "+name, fmt.Sprintf("%d destinations are meant", len(ds)), "name org and team", nil)
	}
	d := ds[0]
	if to.Name == "" {
		answer, err := a.Discovery.Discovery(ctx)
		if err != nil {
			return to, err
		}
		for _, c := range Route(f, nil, &answer, 0).Changes {
			if c.Destination.ID == d.ID {
				to = c.Destination.Target
			}
		}
	}
	if to.Name == "" {
		return to, sluice.E("SLUICE-FANOUT-NOT-FOUND", "rebind "+d.text(), "discovery names no table for it", "name the table", nil)
	}
	d.Target = to
	return to, a.Store.Bind(ctx, f, d, by)
}

// Remove takes a fan-out away; what is in the lakes stays.
func (a *Admin) Remove(ctx context.Context, name string, by By) error {
	f, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	return a.Store.Delete(ctx, f, by)
}

// Lag is how far a destination is behind its source.
type Lag struct {
	Snapshots int64
	Seconds   float64 // age of the oldest snapshot of the source that is not applied; 0: none
}

// Overview is a fan-out with its destinations and how far they are behind.
type Overview struct {
	Fanout       *Fanout
	Head         int64 // newest snapshot of the source's lake
	Destinations []Destination
	Lags         map[string]Lag // by destination
	Problem      string         // why the source could not be looked at
}

// Status looks at a fan-out from the state DB and the source's lake alone.
func (a *Admin) Status(ctx context.Context, name string, sel Selection) (Overview, error) {
	out := Overview{Lags: map[string]Lag{}}
	var err error
	if out.Fanout, out.Destinations, err = a.selected(ctx, name, sel); err != nil {
		return out, err
	}
	r := &reader{f: out.Fanout, owner: "admin", sessions: a.Sessions, files: a.Files}
	defer r.close()
	if err := a.lags(ctx, r, &out); err != nil {
		out.Problem = err.Error()
	}
	return out, nil
}

// lags compares what each destination has reached with the source's snapshots that changed it.
func (a *Admin) lags(ctx context.Context, r *reader, out *Overview) error {
	s, err := r.session(ctx)
	if err != nil {
		return err
	}
	if err := r.look(ctx, s); err != nil {
		return err
	}
	if out.Head, err = r.head(ctx, s); err != nil {
		return err
	}
	// Only snapshots that touch the source count: a lake has others.
	type change struct {
		id  int64
		age float64
	}
	var changes []change
	if err := s.Read(ctx, "look at the newest snapshots of the source", fmt.Sprintf(`SELECT s.snapshot_id, greatest(epoch(now() - s.snapshot_time), 0)::DOUBLE FROM %[1]s.ducklake_snapshot s `+
		`JOIN %[1]s.ducklake_snapshot_changes c USING (snapshot_id) WHERE regexp_matches(c.changes_made, '(inserted_into_table|inlined_insert|deleted_from_table):%[2]d(,|$)') `+
		`ORDER BY 1 DESC LIMIT 10000`, metadata, r.table.ID), func(rows pgx.Rows) error {
		var c change
		err := rows.Scan(&c.id, &c.age)
		changes = append(changes, c)
		return err
	}); err != nil {
		return err
	}
	for _, d := range out.Destinations {
		reached := d.Cursor
		if d.Empty.From == d.Cursor && d.Cursor > 0 {
			reached = max(reached, d.Empty.Through)
		}
		var l Lag
		for _, c := range changes {
			if c.id <= reached {
				break
			}
			l.Snapshots++
			l.Seconds = c.age
		}
		out.Lags[d.ID] = l
	}
	return nil
}
