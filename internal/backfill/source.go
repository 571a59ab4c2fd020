package backfill

import (
	"context"
	"encoding/json"
	"iter"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Source opens the store that holds a stream's history. It may be asked by many goroutines.
type Source interface {
	// Pin reads what a version is made of; nil is the newest. What is pinned never changes, whatever is written meanwhile. A
	// store that has no such table is SLUICE-DELTA-NOT-A-TABLE; any other error means that nothing is known.
	Pin(ctx context.Context, s sluice.Stream, uri string, version *int64) (Pinned, error)
}

// Pinned is one version of a source.
type Pinned struct {
	URI       string
	Version   int64
	Head      bool // it was the newest when it was read
	TableID   string
	Columns   lake.Columns // in the types that the lake keeps
	Partition []string     // columns by which files are laid out
	Spec      json.RawMessage
	// Files gives the data files; only a walk that ends without an error has given all of them.
	Files func(ctx context.Context) iter.Seq2[File, error]
	// Commits gives the batches that commits up to the version name.
	Commits func(ctx context.Context) (Commits, error)
}

// Part is what a chunk keeps of its source: the version, and its own files.
type Part struct {
	Spec  json.RawMessage   `json:"spec"`
	Files []json.RawMessage `json:"files"`
}

// Lakes looks into the lakes of orgs. It never changes them.
type Lakes interface {
	// Layout describes a table; one that does not exist is no error.
	Layout(ctx context.Context, org sluice.Org, t lake.Table) (lake.Layout, error)
	// Exists asks the catalog for a table.
	Exists(ctx context.Context, org sluice.Org, t lake.Table) (bool, error)
	// Applied tells whether a stream's lake has the marker of a batch.
	Applied(ctx context.Context, org sluice.Org, id sluice.StreamID, batch sluice.BatchID) (bool, error)
	// Verify counts what a table holds.
	Verify(ctx context.Context, org sluice.Org, t lake.Table, v *lake.Verify) (lake.Verified, error)
}

// Dialed makes Lakes of sessions to the warehouses.
func Dialed(d *lake.Dialer) Lakes { return dialed{d} }

type dialed struct{ d *lake.Dialer }

// with runs fn on a session of its own: what is asked here is asked rarely, and must not be an old snapshot's answer.
func with[T any](ctx context.Context, d dialed, org sluice.Org, fn func(*lake.Session) (T, error)) (out T, err error) {
	s, err := d.d.Open(ctx, org)
	if err != nil {
		return out, err
	}
	defer func() { _ = s.Close() }()
	return fn(s)
}

func (d dialed) Layout(ctx context.Context, org sluice.Org, t lake.Table) (lake.Layout, error) {
	return with(ctx, d, org, func(s *lake.Session) (lake.Layout, error) { return s.DescribeLayout(ctx, t) })
}

func (d dialed) Exists(ctx context.Context, org sluice.Org, t lake.Table) (bool, error) {
	return with(ctx, d, org, func(s *lake.Session) (bool, error) { return s.TableExists(ctx, t) })
}

func (d dialed) Applied(ctx context.Context, org sluice.Org, id sluice.StreamID, batch sluice.BatchID) (bool, error) {
	return with(ctx, d, org, func(s *lake.Session) (bool, error) {
		c, err := s.ReadControl(ctx, id, batch)
		return c.Marker != nil, ignoreAbsent(err)
	})
}

func (d dialed) Verify(ctx context.Context, org sluice.Org, t lake.Table, v *lake.Verify) (lake.Verified, error) {
	return with(ctx, d, org, func(s *lake.Session) (lake.Verified, error) { return s.VerifyTable(ctx, t, v) })
}
