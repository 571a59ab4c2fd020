package delta

import (
	"context"
	"time"

	"sluice/internal/delta/action"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// Options say how tables are read. The zero value is the default.
type Options struct {
	// Zone is the one that writers' timestamps without a zone are in, in partition values; nil: UTC.
	Zone *time.Location
	// Lenient lets commits name a file in two adds, or have two protocols or metadata.
	Lenient bool
	// Keys name what producers write into commitInfo; zero: run_id and batch_index.
	Keys action.Keys
	// Roots are places outside the table's bucket that its log may name. The credentials are those of the root's store:
	// the text of a log never picks any.
	Roots []Root
	// Cache keeps what is known of commits and checkpoints; nil: nothing is kept. Share one over all tables.
	Cache *Cache
}

// Root is a place that logs may name.
type Root struct {
	At    objstore.Location
	Store objstore.Store
}

func (o *Options) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

// Latest asks for the newest version.
const Latest int64 = -1

// Table is a Delta table. It is safe for concurrent use, and holds nothing that is worth keeping.
type Table struct {
	store objstore.Store
	root  root
	uri   string
	o     Options
}

// Open names a table; nothing is read yet. store is that of the URI, as objstore.Open gives it.
func Open(store objstore.Store, uri string, o Options) (*Table, error) {
	at, err := objstore.ParseLocation(uri)
	if err != nil {
		return nil, sluice.E("SLUICE-USAGE", "", err.Error(), "give a path, or a file: or s3: URI", err)
	}
	if o.Keys == (action.Keys{}) {
		o.Keys = action.DefaultKeys
	}
	return &Table{store: store, root: rootOf(at), uri: at.String(), o: o}, nil
}

// URI is the table's location as the engine writes it.
func (t *Table) URI() string { return t.uri }

// Snapshot reads what version is made of: its protocol, schema and files. Latest takes the newest version. The snapshot
// never changes, whatever is committed meanwhile.
func (t *Table) Snapshot(ctx context.Context, version int64) (*Snapshot, error) {
	s, err := t.state(ctx, version)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, during(err, "read %s of %s", versionText(version), t.uri)
	}
	return s, nil
}

// Description is what is known of a version, also of one that cannot be read.
type Description struct {
	Version  int64 // -1 if not even that is known
	Protocol *action.Protocol
	Metadata *action.Metadata
	Earliest int64 // the oldest version that can be read; -1 if not known
	Refused  []string
	Snapshot *Snapshot // nil if the version cannot be read
	Err      error     // why
}

// Describe says all that is known of a version. Its error is in the description.
func (t *Table) Describe(ctx context.Context, version int64) Description {
	d := Description{Version: -1, Earliest: -1}
	log, err := t.list(ctx, 0)
	if err == nil && !log.Empty() {
		d.Earliest = log.Earliest()
	}
	s, err := t.state(ctx, version)
	if s != nil {
		d.Version = s.version
		if s.protocol.MinReader > 0 {
			d.Protocol, d.Refused = &s.protocol, s.protocol.Refused()
		}
		if s.metadata.ID != "" {
			d.Metadata = &s.metadata
		}
	}
	if err == nil {
		d.Protocol, d.Metadata = &s.protocol, &s.metadata
		err = s.open()
	}
	if err != nil {
		d.Err = during(err, "read %s of %s", versionText(version), t.uri)
		return d
	}
	d.Snapshot = s
	return d
}
