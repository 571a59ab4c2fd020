package backfill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"sluice/internal/delta"
	"sluice/internal/lake"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// Delta makes a Source of Delta tables, and gets their chunks ready for the loader: it is the other side of what a chunk
// keeps of its source. It never writes to a table.
type Delta struct {
	// Table opens the table at an address.
	Table func(ctx context.Context, uri string) (*delta.Table, error)
	// Side gives the place below an org's data path where side files go, with the bucket it is in.
	Side func(ctx context.Context, org sluice.Org) (objstore.Bucket, objstore.Location, error)
	// Allowed says why an org may not read from an address; nil: it may.
	Allowed func(ctx context.Context, org sluice.Org, uri string) error
}

// SideFolder is where, below a lake's data path, side files of chunks lie.
const SideFolder = "_sluice/side"

func (d *Delta) table(ctx context.Context, org sluice.Org, uri string) (*delta.Table, error) {
	if d.Allowed != nil {
		if err := d.Allowed(ctx, org, uri); err != nil {
			return nil, sluice.E("SLUICE-LOAD-PATH-REFUSED", "read the Delta table "+uri, err.Error(), "let the org read from there, or move the table", err)
		}
	}
	return d.Table(ctx, uri)
}

// Pin reads a version of the stream's table.
func (d *Delta) Pin(ctx context.Context, s sluice.Stream, uri string, version *int64) (Pinned, error) {
	t, err := d.table(ctx, s.Org, uri)
	if err != nil {
		return Pinned{}, err
	}
	v := delta.Latest
	if version != nil {
		v = *version
	}
	snapshot, err := t.Snapshot(ctx, v)
	if err != nil {
		return Pinned{}, err
	}
	spec := snapshot.Spec()
	out := Pinned{URI: uri, Version: snapshot.Version(), Head: version == nil, TableID: snapshot.TableID()}
	if out.Spec, err = json.Marshal(spec); err != nil {
		return out, fmt.Errorf("encode version %d of %s: %w", out.Version, uri, err)
	}
	for _, f := range snapshot.Schema().Fields {
		typ, err := lake.ParseType(f.Type.SQL())
		if err != nil {
			return out, sluice.E("SLUICE-BACKFILL-SCHEMA", "plan the columns of "+uri, fmt.Sprintf("column %s: %v", f.Name, err), "leave the column out of the table", err)
		}
		out.Columns = append(out.Columns, lake.Column{Name: f.Name, Type: typ})
	}
	for _, f := range snapshot.Schema().PartitionFields() {
		out.Partition = append(out.Partition, f.Name)
	}
	out.Files = func(ctx context.Context) iter.Seq2[File, error] { return files(ctx, snapshot) }
	out.Commits = func(ctx context.Context) (Commits, error) {
		c, err := t.Covered(ctx, snapshot.Version())
		if err != nil {
			return Commits{}, err
		}
		named := Commits{Named: make(map[Key]int64, len(c.Batches)), Earliest: c.Earliest}
		for b := range c.Batches {
			named.Named[Key{sluice.RunID(b.RunID), b.Index}] = c.UpTo
		}
		return named, nil
	}
	return out, nil
}

func files(ctx context.Context, s *delta.Snapshot) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for f, err := range s.Files(ctx) {
			if err != nil {
				yield(File{}, err)
				return
			}
			raw, err := json.Marshal(f)
			if err != nil {
				yield(File{}, fmt.Errorf("encode file %s: %w", f.Path, err))
				return
			}
			out := File{Path: f.Path, Size: f.Size, Rows: int64(f.Live()), Deleted: f.Deleted(), Raw: raw}
			for _, v := range f.Partition {
				out.Partition = append(out.Partition, v)
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// Prepare writes the side files of a chunk and gives the statements that read it. The files' names hold the hash of what
// they are made of: a try that finds them there has made them before.
func (d *Delta) Prepare(ctx context.Context, s sluice.Stream, run sluice.RunID, index int64, source json.RawMessage) ([]lake.Part, error) {
	doing := fmt.Sprintf("prepare step %d of run %s", index, run)
	var part Part
	var spec delta.Spec
	if err := errors.Join(json.Unmarshal(source, &part), json.Unmarshal(part.Spec, &spec)); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	list := make([]delta.File, len(part.Files))
	for i, raw := range part.Files {
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	t, err := d.table(ctx, s.Org, spec.URI)
	if err != nil {
		return nil, err
	}
	footers, err := t.Inspect(ctx, spec.Version, list)
	if err != nil {
		return nil, err
	}
	plan, err := delta.NewPlan(spec, list, footers)
	if err != nil {
		return nil, err
	}
	sides, err := d.sides(ctx, t, s, run, index, source, spec, plan, list)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range plan.Columns.Fields {
		names = append(names, f.Name)
	}
	var out []lake.Part
	for i := range plan.Groups {
		out = append(out, lake.Part{SQL: plan.Groups[i].Select(plan.Columns, sides), Columns: names, Rows: plan.Groups[i].Rows})
	}
	return out, nil
}

func (d *Delta) sides(ctx context.Context, t *delta.Table, s sluice.Stream, run sluice.RunID, index int64, source json.RawMessage,
	spec delta.Spec, plan *delta.Plan, list []delta.File,
) (delta.Sides, error) {
	var sides delta.Sides
	if !plan.Partitioned() && plan.Deleted() == 0 {
		return sides, nil
	}
	bucket, at, err := d.Side(ctx, s.Org)
	if err != nil {
		return sides, err
	}
	place := func(what string) objstore.Location {
		return at.Join(fmt.Sprintf("%s/%s/%s/c%05d-%s.%s.parquet", SideFolder, strings.ReplaceAll(string(s.StreamID), "-", ""), run, index, short(source), what))
	}
	put := func(what string, fill func(io.Writer) error) (string, error) {
		var b bytes.Buffer
		if err := fill(&b); err != nil {
			return "", err
		}
		to := place(what)
		_, err := bucket.Put(ctx, to.Key, bytes.NewReader(b.Bytes()), objstore.PutOptions{IfAbsent: true})
		if errors.Is(err, objstore.ErrPrecondition) { // a former try has written the same bytes
			err = nil
		}
		if err != nil {
			return "", sluice.E("SLUICE-DELTA-STORE", "write "+to.String(), err.Error(), "it is tried again by itself", err)
		}
		return to.String(), nil
	}
	if plan.Partitioned() {
		if sides.Files, err = put("files", plan.WriteFiles); err != nil {
			return sides, err
		}
	}
	if plan.Deleted() > 0 {
		vectors, err := t.Vectors(ctx, spec.Version, list)
		if err != nil {
			return sides, err
		}
		if sides.Deleted, err = put("dv", func(w io.Writer) error { return plan.WriteDeleted(w, vectors) }); err != nil {
			return sides, err
		}
	}
	return sides, nil
}
