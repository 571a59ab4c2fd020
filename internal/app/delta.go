package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/delta"
	"sluice/internal/delta/action"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// OpenDelta names a Delta table by what a person wrote: a path, or a file: or s3: URI. Nothing is read yet.
func OpenDelta(ctx context.Context, cfg *config.Config, uri string) (*delta.Table, error) {
	o, err := DeltaOptions(ctx, cfg)
	if err != nil {
		return nil, err
	}
	at, err := objstore.ParseLocation(uri)
	if err != nil {
		return nil, sluice.E("SLUICE-USAGE", "", err.Error(), "give a path, or a file: or s3: URI", err)
	}
	store, err := objstore.NewOpener(ObjectOptions(cfg)).Open(ctx, at)
	if err != nil {
		return nil, sluice.E("SLUICE-CONFIG", "open "+uri, err.Error(), "see store.endpoint, store.region and store.credentials", err)
	}
	return delta.Open(store, uri, o)
}

// DeltaOptions say how the configuration reads Delta tables.
func DeltaOptions(ctx context.Context, cfg *config.Config) (delta.Options, error) {
	zone, err := time.LoadLocation(cfg.Delta.PartitionTimezone)
	if err != nil {
		return delta.Options{}, fmt.Errorf("read delta.partition_timezone: %w", err)
	}
	o := delta.Options{
		Zone: zone, Lenient: !cfg.Delta.Strict,
		Keys: action.Keys{RunID: cfg.Delta.CommitKeys.RunID, BatchIndex: cfg.Delta.CommitKeys.BatchIndex},
	}
	for _, text := range cfg.Delta.AllowedRoots {
		root := config.ParseAllowedRoot(text)
		at, err := objstore.ParseLocation(root.URI)
		if err != nil {
			return delta.Options{}, fmt.Errorf("read delta.allowed_roots: %w", err)
		}
		access := ObjectOptions(cfg)
		if root.Profile != "" {
			access = profileAccess(root.Profile)
		}
		store, err := objstore.NewOpener(access).Open(ctx, at)
		if err != nil {
			return delta.Options{}, fmt.Errorf("open a root of delta.allowed_roots: %w", err)
		}
		o.Roots = append(o.Roots, delta.Root{At: at, Store: store})
	}
	return o, nil
}

// DeltaInfo is what `sluice delta info` tells of a table. What is not known is null.
type DeltaInfo struct {
	URI              string        `json:"uri"`
	Version          *int64        `json:"version"`
	NumFiles         *int64        `json:"num_files"`
	NumRows          *int64        `json:"num_rows"` // live rows
	MinReader        *int64        `json:"min_reader"`
	Features         []string      `json:"features"` // reader features, in the log's order
	Refused          []string      `json:"refused"`  // what keeps the table from being read
	SizeBytes        *int64        `json:"size_bytes"`
	DeletedRows      *int64        `json:"deleted_rows"`
	EarliestVersion  *int64        `json:"earliest_version"` // the oldest one that can be read
	PartitionColumns []string      `json:"partition_columns"`
	Schema           []DeltaColumn `json:"schema"`
	Warnings         []string      `json:"warnings"`
	Error            *DeltaError   `json:"error"`
}

// DeltaColumn is a column, its type as Delta's tools show it.
type DeltaColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// DeltaError is why a table cannot be read.
type DeltaError struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

// DescribeDelta tells all that is known of a version of a table. With footers it reads those of the files whose number of
// rows the log does not know. The error is the one in the description.
func DescribeDelta(ctx context.Context, t *delta.Table, version int64, footers bool) (DeltaInfo, error) {
	d := t.Describe(ctx, version)
	info := DeltaInfo{URI: t.URI(), Refused: []string{}, Warnings: []string{}}
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	info.Version, info.EarliestVersion = known(d.Version), known(d.Earliest)
	if d.Protocol != nil && d.Protocol.MinReader > 0 {
		info.MinReader, info.Features = &d.Protocol.MinReader, d.Protocol.Features()
		info.Refused = d.Refused
	}
	if d.Metadata != nil {
		info.PartitionColumns = append([]string{}, d.Metadata.PartitionColumns...)
	}
	err := d.Err
	if s := d.Snapshot; s != nil {
		info.Schema = []DeltaColumn{}
		for _, f := range s.Schema().Fields {
			info.Schema = append(info.Schema, DeltaColumn{f.Name, f.Type.String()})
		}
		info.Warnings = append(info.Warnings, s.Warnings()...)
		err = info.count(ctx, t, s, footers)
	}
	if err != nil {
		info.Error = &DeltaError{
			Code: sluice.CodeOf(err), Hint: sluice.HintOf(err),
			Message: strings.TrimSuffix(err.Error(), fmt.Sprintf(" (%s)", sluice.CodeOf(err))),
		}
		if info.Error.Code == "" {
			info.Error.Code = "SLUICE-INTERNAL"
		}
	}
	return info, err
}

// footerBatch is how many files' footers are asked for at a time, so that memory does not grow with the table.
const footerBatch = 512

// count walks the files.
func (i *DeltaInfo) count(ctx context.Context, t *delta.Table, s *delta.Snapshot, footers bool) error {
	var files, size, deleted, rows, unknown int64
	var batch []delta.File
	var missing error
	flush := func() error {
		if len(batch) == 0 || missing != nil {
			batch = batch[:0]
			return nil
		}
		read, err := t.Inspect(ctx, batch)
		batch = batch[:0]
		if delta.Gone(err) {
			missing = err
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range read {
			rows += f.Rows
		}
		return nil
	}
	for f, err := range s.Files(ctx) {
		if err != nil {
			return err
		}
		files, size, deleted = files+1, size+f.Size, deleted+f.Deleted()
		switch {
		case f.Records != delta.Unknown:
			rows += int64(f.Records)
		case footers:
			if batch = append(batch, f); len(batch) == footerBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		default:
			unknown++
		}
	}
	if err := flush(); err != nil {
		return err
	}
	i.NumFiles, i.SizeBytes, i.DeletedRows = &files, &size, &deleted
	switch {
	case missing != nil:
		var e *sluice.Error
		what := missing.Error()
		if errors.As(missing, &e) {
			what = e.What
		}
		i.Warnings = append(i.Warnings, "the number of rows is not known: "+what)
	case unknown > 0:
		i.Warnings = append(i.Warnings, fmt.Sprintf("the number of rows is not known: the log has none for %d files, and their footers were not read", unknown))
	default:
		live := rows - deleted
		i.NumRows = &live
	}
	return nil
}

// DeltaFile is one line of `sluice delta files`.
type DeltaFile struct {
	Path            string             `json:"path"` // decoded: below the table, or the whole location
	Size            int64              `json:"size"`
	NumRecords      delta.Count        `json:"num_records"` // physical rows
	LiveRows        delta.Count        `json:"live_rows"`
	PartitionValues map[string]*string `json:"partition_values"` // by logical name
	DV              *DeltaVector       `json:"dv"`
	BaseRowID       *int64             `json:"base_row_id"`
}

// DeltaVector says where the deleted rows of a file are written.
type DeltaVector struct {
	Storage     string `json:"storage"`
	Path        string `json:"path"`
	Offset      *int64 `json:"offset"`
	Size        int64  `json:"size"`
	Cardinality int64  `json:"cardinality"`
}

// DeltaFiles gives the files of a snapshot.
func DeltaFiles(ctx context.Context, s *delta.Snapshot) iter.Seq2[DeltaFile, error] {
	return func(yield func(DeltaFile, error) bool) {
		columns := s.Schema().PartitionFields()
		for f, err := range s.Files(ctx) {
			if err != nil {
				yield(DeltaFile{}, err)
				return
			}
			d := DeltaFile{
				Path: f.Path, Size: f.Size, NumRecords: f.Records, LiveRows: f.Live(), BaseRowID: f.BaseRowID, PartitionValues: map[string]*string{},
			}
			for i, c := range columns {
				d.PartitionValues[c.Name] = f.Partition[i]
			}
			if v := f.DV; v != nil {
				d.DV = &DeltaVector{v.Storage, v.Path, v.Offset, v.Size, v.Cardinality}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}
