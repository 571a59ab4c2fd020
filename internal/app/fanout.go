package app

import (
	"context"

	"sluice/internal/api"
	"sluice/internal/control"
	"sluice/internal/fanout"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// fanoutFiles links side files into the folders that the orgs' engines read.
func (a *App) fanoutFiles() fanout.LocalFiles {
	return fanout.LocalFiles{Org: func(org sluice.Org) string { return ExtractDir(a.cfg, org) }}
}

// newFanoutAdmin makes what operators use; it works in every process that serves the API.
func (a *App) newFanoutAdmin() *fanout.Admin {
	return &fanout.Admin{Store: fanout.NewStore(a.db), Sessions: a.newDialer(), Files: a.fanoutFiles(), Discovery: a.orgs}
}

// newFanouts makes the runner of fan-outs.
func (a *App) newFanouts() *fanout.Runner {
	c := a.cfg.Fanout
	return fanout.New(fanout.Config{
		Owner: ownerID(), Poll: c.Poll.D(), FlushRows: int64(c.FlushRows), FlushInterval: c.FlushInterval.D(), Discovery: c.Discovery.D(),
		Concurrency: c.Concurrency, Seeds: c.Seeds, LeaseTTL: c.LeaseTTL.D(), Spool: int64(c.SpoolLimit),
	}, fanout.Deps{
		Store: fanout.NewStore(a.db), Sessions: a.newDialer(), Files: a.fanoutFiles(), Discovery: a.orgs, Meter: a.metrics.fanout, Log: a.log.With("component", "fanout"),
	})
}

// fanouts answers the API.
type fanouts struct {
	admin  *fanout.Admin
	runner *fanout.Runner // nil without the role
}

func wireFanout(f *fanout.Fanout) api.Fanout {
	out := api.Fanout{
		FanoutID: f.ID, Name: f.Name, Lake: string(f.Lake), Schema: f.Source.Schema, Table: f.Source.Name, SourceKind: string(f.Def.Kind), Mode: string(f.Def.Mode),
		Desired: f.Desired, CreatedAt: f.Created,
	}
	if f.Halt != nil {
		out.HaltCode, out.HaltDetail, out.HaltedAt = f.Halt.Code, f.Halt.Detail, &f.Halt.At
	}
	return out
}

func wireDestination(d fanout.Destination, l fanout.Lag) api.FanoutDestination {
	return api.FanoutDestination{
		DestinationID: d.ID, Org: string(d.Org), TeamID: int64(d.Team), Table: d.Target.String(), Origin: string(d.Origin), State: string(d.State), Code: d.Code,
		Detail: d.Detail, FailedSince: d.Since, RetryAt: d.RetryAt, CursorSnapshot: d.Cursor, LagSnapshots: l.Snapshots, LagSeconds: l.Seconds,
	}
}

func destinations(s api.FanoutSelection) fanout.Selection {
	return fanout.Selection{Org: sluice.Org(s.Org), Team: sluice.TeamID(s.TeamID)}
}

// Add implements api.Fanouts.
func (f *fanouts) Add(ctx context.Context, n api.NewFanout, by control.By) (api.AddedFanout, error) {
	p, err := f.admin.Add(ctx, fanout.NewFanout{
		Name: n.Name, Lake: sluice.Org(n.Lake), Source: lake.Table{Schema: n.Schema, Name: n.Table}, Shards: n.Shards, Config: []byte(n.Config), DryRun: n.DryRun,
	}, by)
	if err != nil {
		return api.AddedFanout{}, err
	}
	out := api.AddedFanout{Fanout: wireFanout(p.Fanout), Columns: []api.ChangelogColumn{}, Dropped: append([]string{}, p.Dropped...), Destinations: []api.FanoutDestination{}, DryRun: n.DryRun}
	for _, c := range p.Columns {
		out.Columns = append(out.Columns, api.ChangelogColumn{Name: c.Name, Type: c.Type.String()})
	}
	for _, d := range p.Destinations {
		out.Destinations = append(out.Destinations, wireDestination(d, fanout.Lag{}))
	}
	return out, nil
}

// List implements api.Fanouts.
func (f *fanouts) List(ctx context.Context) ([]api.Fanout, error) {
	list, err := f.admin.Store.List(ctx)
	out := make([]api.Fanout, len(list))
	for i, l := range list {
		out[i] = wireFanout(l)
	}
	return out, err
}

// Status implements api.Fanouts.
func (f *fanouts) Status(ctx context.Context, name string, sel api.FanoutSelection) (api.FanoutStatus, error) {
	o, err := f.admin.Status(ctx, name, destinations(sel))
	if err != nil {
		return api.FanoutStatus{}, err
	}
	out := api.FanoutStatus{Fanout: wireFanout(o.Fanout), HeadSnapshot: o.Head, Destinations: []api.FanoutDestination{}, Problem: o.Problem}
	for _, d := range o.Destinations {
		out.Destinations = append(out.Destinations, wireDestination(d, o.Lags[d.ID]))
	}
	if f.runner != nil {
		out.Unrouted = f.runner.Unrouted(name)
	}
	return out, nil
}

// Pause implements api.Fanouts.
func (f *fanouts) Pause(ctx context.Context, name string, sel api.FanoutSelection, by control.By) error {
	return f.admin.Pause(ctx, name, destinations(sel), by)
}

// Resume implements api.Fanouts.
func (f *fanouts) Resume(ctx context.Context, name string, sel api.FanoutSelection, by control.By) error {
	return f.admin.Resume(ctx, name, destinations(sel), by)
}

// Reseed implements api.Fanouts.
func (f *fanouts) Reseed(ctx context.Context, name string, sel api.FanoutSelection, by control.By) error {
	return f.admin.Reseed(ctx, name, destinations(sel), by)
}

// Rebind implements api.Fanouts.
func (f *fanouts) Rebind(ctx context.Context, name string, sel api.FanoutSelection, schema, table string, by control.By) (string, error) {
	t, err := f.admin.Rebind(ctx, name, destinations(sel), lake.Table{Schema: schema, Name: table}, by)
	return t.String(), err
}

// Verify implements api.Fanouts.
func (f *fanouts) Verify(ctx context.Context, name string, sel api.FanoutSelection) ([]api.FanoutVerdict, error) {
	list, err := f.admin.Verify(ctx, name, destinations(sel))
	out := make([]api.FanoutVerdict, len(list))
	for i, v := range list {
		out[i] = api.FanoutVerdict{
			DestinationID: v.Destination.ID, Org: string(v.Destination.Org), TeamID: int64(v.Destination.Team), Snapshot: v.Snapshot, Rows: v.Rows, Missing: v.Missing,
			Surplus: v.Surplus, Keys: append([]string{}, v.Keys...), Equal: v.Equal(),
		}
	}
	return out, err
}

// Remove implements api.Fanouts.
func (f *fanouts) Remove(ctx context.Context, name string, by control.By) error {
	return f.admin.Remove(ctx, name, by)
}
