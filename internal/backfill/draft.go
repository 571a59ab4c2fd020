package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Draft is a plan before anything of it is stored: what a dry run shows, and what planning stores.
type Draft struct {
	Stream   sluice.Stream
	Kind     sluice.RunKind
	Options  stream.PlanOptions
	Pinned   Pinned
	Target   lake.Table
	Live     lake.Layout
	Keys     []string // as the history spells them
	Chunks   [][]File
	Hash     string
	Sums     Sums
	Coverage Coverage
	Ending   []string // columns that only the live table has, and that end with the swap
	Warnings []string
	Fallback string // why files are read and not registered
}

// ask is what a draft is made of.
type ask struct {
	stream  sluice.Stream
	kind    sluice.RunKind
	uri     string
	version *int64
	answer  string
	options stream.PlanOptions
	dryRun  bool
}

// draft reads everything that a plan depends on, in the order that coverage needs: first the queue, then the source.
func (p *Planner) draft(ctx context.Context, a ask) (Draft, error) {
	d := Draft{Stream: a.stream, Kind: a.kind, Options: a.options}
	doing := fmt.Sprintf("plan the %s of stream %s", a.kind, a.stream.StreamID)
	answer, err := ParseAnswer(a.answer)
	if err != nil {
		return d, sluice.E("SLUICE-USAGE", doing, "--covered: "+err.Error(), "give RUN:INDEX,…, all or none", err)
	}
	if a.uri == "" {
		return d, sluice.E("SLUICE-BACKFILL-NO-SOURCE", doing, "the stream has no Delta table", "give the table's address with --uri", nil)
	}
	open, err := p.deps.Queue.OpenBatches(ctx, a.stream.StreamID)
	if err != nil {
		return d, err
	}
	if d.Pinned, err = p.deps.Source.Pin(ctx, a.stream, a.uri, a.version); err != nil {
		return d, fmt.Errorf("%s: %w", doing, err)
	}
	if len(d.Pinned.Columns) == 0 {
		return d, sluice.E("SLUICE-BACKFILL-SCHEMA", doing, "the history has no columns", "write the table's schema first", nil)
	}
	applied, err := p.deps.Queue.AppliedBatches(ctx, a.stream.StreamID, !d.Pinned.Head)
	if err != nil {
		return d, err
	}
	if err := d.cover(ctx, open, applied, answer); err != nil {
		return d, err
	}
	var files []File
	for f, err := range d.Pinned.Files(ctx) {
		if err != nil {
			return d, fmt.Errorf("%s: %w", doing, err)
		}
		files = append(files, f)
	}
	limits := InsertLimits
	limits.Bytes = p.cfg.ChunkBytes
	d.Chunks = Cut(files, limits)
	d.Hash, d.Sums, d.Warnings = Hash(d.Chunks), Sum(files), Warnings(d.Chunks)
	if d.Keys, err = keysOf(a.stream, d.Pinned.Columns, doing); err != nil {
		return d, err
	}
	if err := p.bind(ctx, &d, a.dryRun); err != nil {
		return d, err
	}
	if d.Live, err = p.deps.Lakes.Layout(ctx, a.stream.Org, d.Target); err != nil {
		return d, fmt.Errorf("%s: look at table %s: %w", doing, d.Target, err)
	}
	for _, c := range d.Live.Columns {
		if _, there := d.Pinned.Columns.Find(c.Name); !there && !a.options.KeepExtraColumns {
			d.Ending = append(d.Ending, c.Name)
		}
	}
	return d, nil
}

func (d *Draft) cover(ctx context.Context, open, applied []queue.PlanBatch, answer Answer) error {
	commits, err := d.Pinned.Commits(ctx)
	if err != nil {
		return err
	}
	f := CoverFacts{
		Head: d.Pinned.Head, Version: d.Pinned.Version, Commits: commits, Answer: answer, Append: d.Stream.SyncType == sluice.Append,
	}
	for _, b := range open {
		f.Batches = append(f.Batches, Batch{Key: Key{b.RunID, b.BatchIndex}, Upstream: b.Upstream})
	}
	for _, b := range applied {
		f.Batches = append(f.Batches, Batch{Key: Key{b.RunID, b.BatchIndex}, Upstream: b.Upstream, Applied: true})
	}
	d.Coverage = Cover(f)
	return nil
}

// refusal is why the draft must not become a plan; nil: it may. A deferral is one that passes by itself.
func (d *Draft) refusal() error {
	if e := d.Coverage.Refusal(fmt.Sprintf("plan the %s of stream %s", d.Kind, d.Stream.StreamID)); e != nil {
		return e
	}
	if len(d.Coverage.Waiting) > 0 {
		return fmt.Errorf("batch %s has not been reported: %w", d.Coverage.Waiting[0], &deferral{deferWaiting, waitReport})
	}
	return nil
}

// keysOf are the stream's key columns as the history spells them.
func keysOf(s sluice.Stream, columns lake.Columns, doing string) ([]string, error) {
	if s.SyncType != sluice.Incremental && s.SyncType != sluice.CDC {
		return nil, nil
	}
	var out []string
	for _, k := range s.Options.PrimaryKeys {
		c, there := columns.Find(k)
		if !there {
			return nil, sluice.E("SLUICE-BACKFILL-SCHEMA", doing, fmt.Sprintf("the history has no key column %q, only %s", k, strings.Join(columns.Names(), ", ")),
				"correct the stream's primary_keys, or load from another table", nil)
		}
		out = append(out, c.Name)
	}
	return out, nil
}

// bind gives the stream its table's name, as its first batch would.
func (p *Planner) bind(ctx context.Context, d *Draft, dryRun bool) error {
	s := d.Stream
	if s.TargetTable == "" {
		b, err := p.deps.Streams.Bind(ctx, s.StreamID, stream.BindOptions{DryRun: dryRun, Exists: func(ctx context.Context, schema, table string) (bool, error) {
			return p.deps.Lakes.Exists(ctx, s.Org, lake.Table{Schema: schema, Name: table})
		}}, stream.By{Who: "planner"})
		if err != nil {
			return err
		}
		s.TargetSchema, s.TargetTable = b.TargetSchema, b.TargetTable
		d.Stream = s
	}
	d.Target = lake.Table{Schema: s.TargetSchema, Name: s.TargetTable}
	return nil
}

// steps are the batches of the plan's run: create, one for each chunk, and the swap.
func (d *Draft) steps(generation int64) ([]queue.Chunk, error) {
	base := lake.Chunk{Generation: generation, PlanHash: d.Hash, Rows: -1}
	op := sluice.OpInsert
	if d.Kind == sluice.RunRegister && d.Fallback == "" {
		op = sluice.OpRegister
	}
	var out []queue.Chunk
	add := func(op sluice.Op, c lake.Chunk, bytes, rows *int64, final bool) error {
		spec, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode a step: %w", err)
		}
		out = append(out, queue.Chunk{BatchIndex: int64(len(out)), Op: op, Spec: spec, ByteSize: bytes, RowCount: rows, IsFinal: final})
		return nil
	}
	create := base
	create.Columns, create.KeepExtra = d.Pinned.Columns, d.Options.KeepExtraColumns
	if err := add(sluice.OpCreate, create, nil, nil, false); err != nil {
		return nil, err
	}
	for _, files := range d.Chunks {
		part, sums, c := Part{Spec: d.Pinned.Spec}, Sum(files), base
		for _, f := range files {
			part.Files = append(part.Files, f.Raw)
		}
		var err error
		if c.Source, err = json.Marshal(part); err != nil {
			return nil, fmt.Errorf("encode a chunk: %w", err)
		}
		c.Rows = sums.Rows
		if err := add(op, c, &sums.Bytes, known(sums.Rows), false); err != nil {
			return nil, err
		}
	}
	swap := base
	swap.Columns, swap.KeepExtra, swap.Rows, swap.ExpectedTableID = d.Pinned.Columns, d.Options.KeepExtraColumns, d.Sums.Rows, d.Live.TableID
	swap.Verify = d.verify()
	return out, errors.Join(add(sluice.OpReplace, swap, nil, known(d.Sums.Rows), true))
}

func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// verify is what the staged table is checked for before it goes live.
func (d *Draft) verify() *lake.Verify {
	v := &lake.Verify{Keys: d.Keys, NullsMatch: d.Stream.Options.NullKeys == sluice.NullKeysMatch, Partitions: d.partitions()}
	for _, c := range d.Options.Checks {
		v.Checks = append(v.Checks, lake.Check{Name: c.Name, SQL: c.SQL, Expected: c.Expected, Tolerance: c.Tolerance})
	}
	return v
}

// mostPartitions that are compared one by one.
const mostPartitions = 10_000

// partitions are the rows of each partition, where the history knows them and values are written alike everywhere.
func (d *Draft) partitions() *lake.Partitions {
	if len(d.Pinned.Partition) == 0 || d.Sums.Rows < 0 {
		return nil
	}
	alike := []string{"VARCHAR", "DATE", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
	for _, name := range d.Pinned.Partition {
		if c, _ := d.Pinned.Columns.Find(name); !slices.Contains(alike, c.Type.Base) {
			return nil
		}
	}
	out := &lake.Partitions{Columns: d.Pinned.Partition}
	index := map[string]int{}
	for _, chunk := range d.Chunks {
		for _, f := range chunk {
			k := key(f.Partition)
			i, seen := index[k]
			if !seen {
				i = len(out.Rows)
				index[k], out.Rows = i, append(out.Rows, lake.PartitionCount{Values: f.Partition})
			}
			out.Rows[i].Rows += f.Rows
		}
	}
	if len(out.Rows) > mostPartitions {
		return nil
	}
	return out
}
