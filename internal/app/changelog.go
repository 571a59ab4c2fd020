package app

import (
	"context"
	"strconv"

	"sluice/internal/api"
	"sluice/internal/changelog"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// newDialer opens sessions to warehouses: a process reaches its own over the wire, like any other.
func (a *App) newDialer() *lake.Dialer {
	return &lake.Dialer{
		Addr: func() string {
			if own := a.WarehouseAddr(); own != "" {
				return own
			}
			return a.cfg.Loader.Warehouse
		},
		Credentials: a.credentials,
	}
}

// kafkaCluster is the cluster of the configuration.
func kafkaCluster(c config.Kafka) changelog.Cluster {
	return changelog.Cluster{
		Brokers: c.Brokers,
		TLS:     changelog.TLS{Enabled: c.TLS.Mode == "on", CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, ServerName: c.TLS.ServerName},
		SASL:    changelog.SASL{Mechanism: c.SASL.Mechanism, User: c.SASL.User, Password: c.SASL.Password.Read},
	}
}

// newChangelogAdmin makes what operators use; it works in every process that serves the API.
func (a *App) newChangelogAdmin() *changelog.Admin {
	return &changelog.Admin{
		Store: changelog.NewStore(a.db), Sessions: a.newDialer(), Files: changelog.LocalFiles{}, Cluster: kafkaCluster(a.cfg.Kafka), Log: a.log,
	}
}

// newChangelogs makes the runner of slots.
func (a *App) newChangelogs() *changelog.Runner {
	c := a.cfg.Changelog
	var only []int
	for _, s := range c.Slots {
		if n, err := strconv.Atoi(s); err == nil { // the configuration has been checked
			only = append(only, n)
		}
	}
	return changelog.NewRunner(changelog.Config{
		Owner: ownerID(), Cluster: kafkaCluster(a.cfg.Kafka), MemoryLimit: int64(c.MemoryLimit), LeaseTTL: c.Lease.TTL.D(), Heartbeat: c.Lease.Heartbeat.D(),
		Poll: c.Poll.D(), Only: only,
		Slot: changelog.SlotConfig{
			Thresholds: changelog.Thresholds{Bytes: int64(c.FlushBytes), Rows: int64(c.FlushRows), Interval: c.FlushInterval.D(), MaxInterval: c.MaxFlushInterval.D()},
			Fetching:   changelog.Fetching{MaxBytes: int32(c.FetchMaxBytes)}, //nolint:gosec // the configuration bounds it
			Check:      c.Check.D(),
		},
	}, changelog.Deps{Store: changelog.NewStore(a.db), Sessions: a.newDialer(), Files: changelog.LocalFiles{}, Meter: a.metrics.changelog, Log: a.log})
}

// changelogs answers the API.
type changelogs struct {
	admin  *changelog.Admin
	runner *changelog.Runner // nil without the role
}

func wireChangelog(c *changelog.Changelog) api.Changelog {
	out := api.Changelog{
		ChangelogID: c.ID, Name: c.Name, Lake: string(c.Lake), Schema: c.Table.Schema, Table: c.Table.Name, Topic: c.Topic, Slots: c.Slots,
		Desired: c.Desired, Status: c.Status, CreatedAt: c.Created,
	}
	if c.Halt != nil {
		out.HaltCode, out.HaltDetail, out.HaltedAt = c.Halt.Code, c.Halt.Detail, &c.Halt.At
	}
	return out
}

// Add implements api.Changelogs.
func (c *changelogs) Add(ctx context.Context, n api.NewChangelog, by control.By) (api.AddedChangelog, error) {
	added, p, err := c.admin.Add(ctx, changelog.NewChangelog{
		Name: n.Name, Lake: sluice.Org(n.Lake), Schema: n.Schema, Table: n.Table, Topic: n.Topic, Slots: n.Slots, Config: []byte(n.Config), DryRun: n.DryRun,
	}, by)
	if err != nil {
		return api.AddedChangelog{}, err
	}
	out := api.AddedChangelog{DryRun: n.DryRun, Changelog: wireChangelog(added), Preview: api.ChangelogPreview{
		Partitions: p.Partitions, Messages: p.Messages, Filtered: p.Filtered, Poison: p.Poison, Others: p.Others,
	}}
	for _, col := range p.Columns {
		out.Preview.Columns = append(out.Preview.Columns, api.ChangelogColumn{Name: col[0], Type: col[1]})
	}
	return out, nil
}

// List implements api.Changelogs.
func (c *changelogs) List(ctx context.Context) ([]api.Changelog, error) {
	list, err := c.admin.Store.List(ctx)
	out := make([]api.Changelog, len(list))
	for i, l := range list {
		out[i] = wireChangelog(l)
	}
	return out, err
}

// Status implements api.Changelogs.
func (c *changelogs) Status(ctx context.Context, name string) (api.ChangelogStatus, error) {
	st, err := c.admin.Status(ctx, name)
	if err != nil {
		return api.ChangelogStatus{}, err
	}
	out := api.ChangelogStatus{Changelog: wireChangelog(st.Changelog), Partitions: []api.ChangelogPartition{}, Quarantine: st.Open, Problem: st.Error}
	for _, p := range st.Partitions {
		w := api.ChangelogPartition{
			Partition: p.Partition, Slot: p.Slot, TopicEpoch: p.Epoch, NextOffset: p.Next, EndOffset: p.End, LagRecords: p.LagRecords, LagSeconds: p.LagSeconds, Owner: p.Owner,
		}
		if !p.LastFlush.IsZero() {
			w.LastFlush = &p.LastFlush
		}
		out.LagRecords += p.LagRecords
		out.LagSeconds = max(out.LagSeconds, p.LagSeconds)
		out.Partitions = append(out.Partitions, w)
	}
	if c.runner != nil {
		for _, s := range c.runner.Status() {
			if s.Changelog == name {
				out.Running = append(out.Running, api.ChangelogSlot{Slot: s.Slot, Buffered: s.Buffered, HeldBytes: s.Held, Paused: s.Paused, RowsPerSecond: s.Rate, Error: s.Error})
			}
		}
	}
	return out, nil
}

// Pause implements api.Changelogs.
func (c *changelogs) Pause(ctx context.Context, name string, by control.By) error {
	return c.admin.Pause(ctx, name, by)
}

// Configure implements api.Changelogs.
func (c *changelogs) Configure(ctx context.Context, name, config string, by control.By) error {
	return c.admin.Configure(ctx, name, []byte(config), by)
}

// Resume implements api.Changelogs.
func (c *changelogs) Resume(ctx context.Context, name, accept string, by control.By) error {
	return c.admin.Resume(ctx, name, changelog.Accept(accept), by)
}

func selection(s api.ChangelogSelection) changelog.Selection {
	return changelog.Selection{Reason: s.Reason, Partition: s.Partition, From: s.From, To: s.To}
}

// Replay implements api.Changelogs.
func (c *changelogs) Replay(ctx context.Context, name string, sel api.ChangelogSelection) (api.ChangelogReplay, error) {
	r, err := c.admin.Replay(ctx, name, selection(sel))
	return api.ChangelogReplay{Rows: r.Rows, Still: r.Still}, err
}

// Quarantine implements api.Changelogs.
func (c *changelogs) Quarantine(ctx context.Context, name string, sel api.ChangelogSelection, limit int, bytes bool) ([]api.PoisonedMessage, error) {
	list, err := c.admin.Quarantine(ctx, name, selection(sel), limit, bytes)
	out := make([]api.PoisonedMessage, len(list))
	for i, p := range list {
		out[i] = api.PoisonedMessage{
			TopicEpoch: p.Epoch, Partition: p.Partition, Offset: p.Offset, Timestamp: p.Timestamp, Reason: p.Reason, Detail: p.Detail, At: p.At,
			SizeBytes: p.Bytes, Key: p.Key, Value: p.Value,
		}
	}
	return out, err
}

// Discard implements api.Changelogs.
func (c *changelogs) Discard(ctx context.Context, name string, sel api.ChangelogSelection) (int64, error) {
	return c.admin.Discard(ctx, name, selection(sel))
}

// Drop implements api.Changelogs.
func (c *changelogs) Drop(ctx context.Context, name string, keepTable bool, by control.By) error {
	return c.admin.Drop(ctx, name, keepTable, by)
}
