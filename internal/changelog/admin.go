package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Admin is what an operator does with changelogs, wherever they run: it works from the state DB, the lakes and Kafka alone.
type Admin struct {
	Store    *Store
	Sessions Sessions
	Files    Files
	Cluster  Cluster
	Log      *slog.Logger
}

// DefaultCluster is the name of the one cluster that is configured.
const DefaultCluster = "default"

// NewChangelog is what `add` says.
type NewChangelog struct {
	Name   string
	Lake   sluice.Org
	Schema string // default: changelog
	Table  string // default: the name
	Topic  string
	Slots  int
	Config []byte // YAML or JSON; see Definition
	DryRun bool
}

// Preview is what a look at the first messages of a topic shows.
type Preview struct {
	Partitions int               `json:"partitions"`
	Messages   int64             `json:"messages"`
	Poison     map[string]int64  `json:"poison"`
	Filtered   int64             `json:"filtered"`
	Columns    [][2]string       `json:"columns"` // name and type
	Others     map[string]string `json:"others"`  // names that get no column, and why
}

// Bounds of a preview.
const (
	previewMessages = 1000
	previewWait     = 10 * time.Second
)

// Add looks at the topic, makes the tables and registers the changelog.
func (a *Admin) Add(ctx context.Context, n NewChangelog, by By) (*Changelog, Preview, error) {
	doing := fmt.Sprintf("add changelog %s", n.Name)
	if !ValidName(n.Name) {
		return nil, Preview{}, sluice.E("SLUICE-CHANGELOG-INVALID", doing, "a name is a lower-case letter, then up to 47 letters, digits and underscores", "choose another name", nil)
	}
	d, err := ParseDefinition(n.Config)
	if err != nil {
		return nil, Preview{}, err
	}
	c := &Changelog{ID: uuid.NewString(), Name: n.Name, Lake: n.Lake, Cluster: DefaultCluster, Topic: n.Topic, Slots: max(n.Slots, 1), Def: d}
	c.Table = lake.Table{Schema: n.Schema, Name: n.Table}
	if c.Table.Schema == "" {
		c.Table.Schema = "changelog"
	}
	if c.Table.Name == "" {
		c.Table.Name = n.Name
	}
	switch {
	case n.Topic == "":
		return nil, Preview{}, sluice.E("SLUICE-CHANGELOG-INVALID", doing, "no topic is named", "give --topic", nil)
	case c.Slots > 64:
		return nil, Preview{}, sluice.E("SLUICE-CHANGELOG-INVALID", doing, "there are at most 64 slots", "give --slots 1 to 64", nil)
	case c.Table.Schema == lake.ControlSchema:
		return nil, Preview{}, sluice.E("SLUICE-CHANGELOG-INVALID", doing, "schema "+lake.ControlSchema+" is Sluice's own", "choose another schema", nil)
	}
	adm, err := a.Cluster.admin()
	if err != nil {
		return nil, Preview{}, err
	}
	defer adm.Close()
	topic, err := describe(ctx, adm, c.Topic)
	if err != nil {
		return nil, Preview{}, err
	}
	c.TopicID = topic.ID
	next, err := startOffsets(ctx, adm, c.Topic, d.Start, topic)
	if err != nil {
		return nil, Preview{}, err
	}
	var cursors []Cursor
	for p, o := range next {
		cursors = append(cursors, Cursor{TopicID: topic.ID, Partition: p, Next: o, LeaderEpoch: -1, Timestamp: -1})
	}
	slices.SortFunc(cursors, func(x, y Cursor) int { return int(x.Partition - y.Partition) })
	s, err := a.Sessions.Open(ctx, c.Lake)
	if err != nil {
		return nil, Preview{}, err
	}
	defer func() { _ = s.Close() }()
	preview, err := a.preview(ctx, s, c, cursors, topic)
	if err != nil || n.DryRun {
		return c, preview, err
	}
	if ok, err := s.TableExists(ctx, c.Table); err != nil || ok {
		if err == nil {
			err = sluice.E("SLUICE-CHANGELOG-EXISTS", doing, fmt.Sprintf("table %s is there already", c.Table), "choose another name with --table", nil)
		}
		return nil, preview, err
	}
	if err := a.Store.Insert(ctx, c, by); err != nil {
		return nil, preview, err
	}
	if err := Provision(ctx, s, c, cursors); err != nil {
		if derr := a.Store.Delete(context.WithoutCancel(ctx), c, by); derr != nil {
			a.Log.WarnContext(ctx, "changelog without tables stays registered: drop it", "changelog", c.Name, "error", derr)
		}
		return nil, preview, err
	}
	return c, preview, a.Store.Start(ctx, c)
}

// preview reads the first messages, and says what would become of them.
func (a *Admin) preview(ctx context.Context, s *lake.Session, c *Changelog, cursors []Cursor, topic Topic) (Preview, error) {
	out := Preview{Partitions: len(topic.Partitions), Poison: map[string]int64{}, Others: map[string]string{}}
	for _, col := range c.Def.TableColumns() {
		out.Columns = append(out.Columns, [2]string{col.Name, col.Type.String()})
	}
	b := NewBuffer(Limits{c.Def.MaxMessageBytes}, (SlotState{Cursors: cursors}).Next())
	if err := a.sample(ctx, c, cursors, topic, b); err != nil || b.Rows() == 0 {
		return out, err
	}
	path := newKey(s, c, 0, 0, "preview.parquet")
	w, err := a.Files.Create(ctx, path)
	if err != nil {
		return out, err
	}
	defer func() { _ = a.Files.Remove(context.WithoutCancel(ctx), path) }()
	if err := b.write(w); err != nil {
		_ = w.Close()
		return out, err
	}
	if err := w.Close(); err != nil {
		return out, fmt.Errorf("write a sample of topic %s: %w", c.Topic, err)
	}
	src := Source{Path: path, Def: c.Def}
	if c.Def.Filter != nil {
		src.Values = &c.Def.Filter.Values
	}
	survey, err := look(ctx, s, src)
	if err != nil {
		return out, err
	}
	out.Messages, out.Poison, out.Filtered = survey.Rows, survey.Poison, survey.Filtered
	plan := Decide(c.Def.TableColumns(), c.Def, survey.Seen)
	for _, col := range plan.Add {
		out.Columns = append(out.Columns, [2]string{col.Name, col.Type.String()})
	}
	for _, o := range plan.Others {
		out.Others[o.Name] = o.Why
	}
	return out, nil
}

// sample fills a buffer with the first messages that are there.
func (a *Admin) sample(ctx context.Context, c *Changelog, cursors []Cursor, topic Topic, b *Buffer) error {
	client, err := a.Cluster.consumer(c, cursors, Fetching{MaxBytes: 4 << 20, MaxPartitionBytes: 1 << 20, MinBytes: 1, MaxWait: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	for ctx.Err() == nil && b.Rows() < previewMessages && !passed(b, topic) {
		fetches := client.PollRecords(ctx, previewMessages)
		fetches.EachRecord(func(r *kgo.Record) { take(b, r) })
	}
	return nil
}

// passed reports whether a buffer holds everything up to the stable ends of the log.
func passed(b *Buffer, topic Topic) bool {
	for p, r := range b.ranges {
		if r.Next < topic.Partitions[p].Stable {
			return false
		}
	}
	return true
}

// Status is what a changelog's lake and topic say about it.
type Status struct {
	*Changelog
	Partitions []PartitionStatus
	Open       map[string]int64 // messages in quarantine, by reason
	Error      string           // what could not be looked at
}

// PartitionStatus is one partition of a changelog.
type PartitionStatus struct {
	Partition  int32
	Slot       int
	Epoch      int32
	Next       int64
	End        int64 // the last stable offset
	LagRecords int64
	LagSeconds float64
	LastFlush  time.Time
	Owner      string
}

// Status looks at a changelog. What cannot be reached is said in Error; the rest is filled in.
func (a *Admin) Status(ctx context.Context, name string) (Status, error) {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return Status{}, err
	}
	out := Status{Changelog: c, Open: map[string]int64{}}
	leases, err := a.Store.SlotsOf(ctx, c)
	if err != nil {
		return out, err
	}
	owners := map[int]string{}
	for _, l := range leases {
		if l.Live {
			owners[l.Slot] = l.Owner
		}
	}
	s, err := a.Sessions.Open(ctx, c.Lake)
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	defer func() { _ = s.Close() }()
	var cursors []Cursor
	flushed := map[int]time.Time{}
	for slot := range c.Slots {
		st, err := ReadSlot(ctx, s, c.ID, slot)
		if err != nil {
			return out, err
		}
		flushed[slot] = st.At
		cursors = append(cursors, st.Cursors...)
	}
	err = s.Read(ctx, "count the quarantine", fmt.Sprintf("SELECT reason, count(*) FROM %s AS q WHERE %s GROUP BY 1", QuarantineTable(c.ID).SQL(), Selection{}.where(c, -1)),
		func(r pgx.Rows) error {
			var reason string
			var n int64
			err := r.Scan(&reason, &n)
			out.Open[reason] = n
			return err
		})
	if err != nil {
		return out, err
	}
	topic, kerr := a.topic(ctx, c.Topic)
	if kerr != nil {
		out.Error = kerr.Error()
	}
	oldest := a.oldest(ctx, c, cursors, topic)
	for _, cur := range cursors {
		slot := int(cur.Partition) % c.Slots
		p := PartitionStatus{Partition: cur.Partition, Slot: slot, Epoch: cur.Epoch, Next: cur.Next, LastFlush: flushed[slot], Owner: owners[slot]}
		if b, ok := topic.Partitions[cur.Partition]; ok {
			p.End = b.Stable
			if first, ok := oldest[cur.Partition]; ok {
				p.LagRecords = max(b.Stable-cur.Next, 0)
				p.LagSeconds = max(time.Since(time.UnixMilli(first)).Seconds(), 0)
			}
		}
		out.Partitions = append(out.Partitions, p)
	}
	slices.SortFunc(out.Partitions, func(x, y PartitionStatus) int { return int(x.Partition - y.Partition) })
	return out, nil
}

func (a *Admin) topic(ctx context.Context, name string) (Topic, error) {
	adm, err := a.Cluster.admin()
	if err != nil {
		return Topic{}, err
	}
	defer adm.Close()
	return describe(ctx, adm, name)
}

// oldestWait bounds the look at the first messages that are not in the lake.
const oldestWait = 3 * time.Second

// oldest gives, for each partition that is behind, the timestamp of the first message that is not in the lake. A partition with
// nothing but control records behind its offset is not behind.
func (a *Admin) oldest(ctx context.Context, c *Changelog, cursors []Cursor, topic Topic) map[int32]int64 {
	out := map[int32]int64{}
	var behind []Cursor
	for _, cur := range cursors {
		if b, ok := topic.Partitions[cur.Partition]; ok && cur.Next < b.Stable {
			behind = append(behind, cur)
		}
	}
	if len(behind) == 0 {
		return out
	}
	client, err := a.Cluster.consumer(c, behind, Fetching{MaxBytes: 4 << 20, MaxPartitionBytes: 256 << 10, MinBytes: 1, MaxWait: 100 * time.Millisecond})
	if err != nil {
		return out
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, oldestWait)
	defer cancel()
	open := map[int32]bool{}
	for _, cur := range behind {
		open[cur.Partition] = true
	}
	for len(open) > 0 && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			switch {
			case !open[r.Partition]:
			case !r.Attrs.IsControl():
				out[r.Partition] = r.Timestamp.UnixMilli()
				delete(open, r.Partition)
			case r.Offset+1 >= topic.Partitions[r.Partition].Stable:
				delete(open, r.Partition)
			}
		})
		var gone bool
		fetches.EachError(func(_ string, p int32, _ error) { gone = gone || open[p] })
		if gone && ctx.Err() == nil {
			break // out of range: the status says it by other means
		}
	}
	for p := range open { // it could not be looked at: behind by the numbers
		for _, cur := range behind {
			if cur.Partition == p {
				out[p] = max(cur.Timestamp, 0)
			}
		}
	}
	return out
}

// Pause stops a changelog in order.
func (a *Admin) Pause(ctx context.Context, name string, by By) error {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	return a.Store.SetDesired(ctx, c, Pause, by)
}

// Configure replaces the definition of a changelog; what the table is made of stays as it is.
func (a *Admin) Configure(ctx context.Context, name string, config []byte, by By) error {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	d, err := ParseDefinition(config)
	if err != nil {
		return err
	}
	refuse := func(key string) error {
		return sluice.E("SLUICE-CHANGELOG-STATE", fmt.Sprintf("configure changelog %s", name), key+" is fixed at creation", "leave it as it is, or add another changelog", nil)
	}
	switch {
	case d.Decoder != c.Def.Decoder:
		return refuse("decoder")
	case d.Partition != c.Def.Partition:
		return refuse("partition")
	case d.Headers != c.Def.Headers:
		return refuse("headers")
	case d.Debezium != c.Def.Debezium:
		return refuse("debezium.version")
	}
	return a.Store.SetConfig(ctx, c, d, by)
}

// Accept is what an operator accepts by resuming.
type Accept string

// What can be accepted.
const (
	AcceptNothing    Accept = ""
	AcceptGap        Accept = "accept_gap"
	AcceptTruncation Accept = "accept_truncation"
	AcceptNewEpoch   Accept = "new_epoch"
)

// Resume ends a pause or a halt. A halt for lost messages needs the right acceptance; it is audited.
func (a *Admin) Resume(ctx context.Context, name string, accept Accept, by By) error {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	doing := fmt.Sprintf("resume changelog %s", name)
	needs := map[sluice.Code]Accept{
		"SLUICE-CHANGELOG-GAP": AcceptGap, "SLUICE-CHANGELOG-TRUNCATED": AcceptTruncation, "SLUICE-CHANGELOG-TOPIC-RECREATED": AcceptNewEpoch,
	}
	switch {
	case accept == AcceptNothing:
		return a.Store.Resume(ctx, c, "", "resume", by)
	case c.Halt == nil || needs[c.Halt.Code] != accept:
		return sluice.E("SLUICE-CHANGELOG-STATE", doing, fmt.Sprintf("the changelog is not halted for what %s accepts", accept), "see `sluice changelog status`", nil)
	}
	topic, err := a.topic(ctx, c.Topic)
	if err != nil {
		return err
	}
	if err := a.accept(ctx, c, accept, topic); err != nil {
		return err
	}
	return a.Store.Resume(ctx, c, topic.ID, string(accept), by)
}

// accept moves the offsets of all slots, under the fence of each.
func (a *Admin) accept(ctx context.Context, c *Changelog, accept Accept, topic Topic) error {
	sinks := make([]*sink, c.Slots)
	states := make([]SlotState, c.Slots)
	newest, oldest := int32(0), int32(1<<30)
	for slot := range c.Slots {
		k := a.sink(c, slot)
		defer k.close()
		st, err := k.take(ctx) // a former owner can commit nothing from here on
		if err != nil {
			return err
		}
		sinks[slot], states[slot] = k, st
		if e, _ := st.Epoch(); len(st.Cursors) > 0 {
			newest, oldest = max(newest, e), min(oldest, e)
		}
	}
	target := newest
	if newest == min(oldest, newest) {
		target++ // else an earlier call has died between two slots: the rest follows it
	}
	for slot, k := range sinks {
		st := states[slot]
		if accept == AcceptGap {
			skipping := *c
			skipping.Def.OnGap = GapSkip
			if gaps := Judge(&skipping, slot, st, topic).Gaps; len(gaps) > 0 {
				if err := k.skipGaps(ctx, st, gaps); err != nil {
					return err
				}
			}
			continue
		}
		if e, _ := st.Epoch(); e == target {
			continue
		}
		var cursors []Cursor
		for p, b := range topic.Partitions {
			if int(p)%c.Slots != slot {
				continue
			}
			cur := Cursor{Epoch: target, TopicID: topic.ID, Partition: p, LeaderEpoch: -1, Timestamp: -1, Next: b.Start}
			if accept == AcceptTruncation {
				if next, ok := st.Next()[p]; ok {
					cur.Next = min(next, b.End)
				}
			}
			cursors = append(cursors, cur)
		}
		if len(cursors) == 0 {
			continue
		}
		slices.SortFunc(cursors, func(x, y Cursor) int { return int(x.Partition - y.Partition) })
		if err := k.addCursors(ctx, "begin an epoch", cursors); err != nil {
			return err
		}
	}
	return nil
}

// sink makes a writer of a slot for an operator.
func (a *Admin) sink(c *Changelog, slot int) *sink {
	log := a.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &sink{c: c, slot: slot, owner: "operator-" + uuid.NewString(), sessions: a.Sessions, files: a.Files, log: log, now: a.Store.Now, stop: make(chan struct{})}
}

// Replay decodes messages of the quarantine again with today's definition.
func (a *Admin) Replay(ctx context.Context, name string, sel Selection) (Replayed, error) {
	var out Replayed
	return out, a.eachSlot(ctx, name, func(k *sink) error {
		if k.c.Def.Filter != nil {
			k.filter = func() (*[]string, int64) { return &k.c.Def.Filter.Values, 0 }
		} else if k.c.Values != nil {
			k.filter = func() (*[]string, int64) { return &k.c.Values.Values, k.c.Values.Version }
		}
		return k.replay(ctx, sel, &out)
	})
}

// Discard settles messages of the quarantine without making rows of them.
func (a *Admin) Discard(ctx context.Context, name string, sel Selection) (n int64, err error) {
	err = a.eachSlot(ctx, name, func(k *sink) error {
		m, err := k.discard(ctx, sel)
		n += m
		return err
	})
	return n, err
}

func (a *Admin) eachSlot(ctx context.Context, name string, do func(*sink) error) error {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	for slot := range c.Slots {
		k := a.sink(c, slot)
		err := do(k)
		k.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Quarantine lists open messages, at most limit; with the bytes of each if asked for.
func (a *Admin) Quarantine(ctx context.Context, name string, sel Selection, limit int, bytes bool) ([]Poisoned, error) {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := a.Sessions.Open(ctx, c.Lake)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	key, value := "CAST(NULL AS BLOB)", "CAST(NULL AS BLOB)"
	if bytes {
		key, value = "key", "value"
	}
	var out []Poisoned
	err = s.Read(ctx, "list the quarantine of changelog "+name, fmt.Sprintf("SELECT topic_epoch, kafka_partition, kafka_offset, ts, reason, coalesce(detail, ''), \"at\", state, coalesce(octet_length(value), 0), %s, %s "+
		"FROM %s AS q WHERE %s ORDER BY 1, 2, 3 LIMIT %d", key, value, QuarantineTable(c.ID).SQL(), sel.where(c, -1), limit), func(r pgx.Rows) error {
		var p Poisoned
		err := r.Scan(&p.Epoch, &p.Partition, &p.Offset, &p.Timestamp, &p.Reason, &p.Detail, &p.At, &p.State, &p.Bytes, &p.Key, &p.Value)
		out = append(out, p)
		return err
	})
	return out, err
}

// Drop takes a changelog away: from the registry, then its control tables and, unless it is to be kept, its table. Its slots
// are fenced off before.
func (a *Admin) Drop(ctx context.Context, name string, keepTable bool, by By) error {
	c, err := a.Store.Get(ctx, name)
	if err != nil {
		return err
	}
	if c.Desired != Pause && c.Halt == nil {
		return sluice.E("SLUICE-CHANGELOG-STATE", fmt.Sprintf("drop changelog %s", name), "it runs", "`sluice changelog pause` first", nil)
	}
	s, err := a.Sessions.Open(ctx, c.Lake)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var drops []string
	for slot := range c.Slots {
		drops = append(drops, "DROP TABLE IF EXISTS "+ControlTable(c.ID, slot).SQL())
	}
	if !keepTable {
		drops = append(drops, "DROP TABLE IF EXISTS "+QuarantineTable(c.ID).SQL(), "DROP TABLE IF EXISTS "+c.Table.SQL())
	}
	if err := alone(ctx, s, "drop changelog "+name, drops...); err != nil {
		return err
	}
	return a.Store.Delete(ctx, c, by)
}
