package describe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"sluice/internal/delta"
	"sluice/internal/sluice"
)

// Info is what `sluice delta info` tells of a version of a table. What is not known is null.
type Info struct {
	URI              string   `json:"uri"`
	Version          *int64   `json:"version"`
	NumFiles         *int64   `json:"num_files"`
	NumRows          *int64   `json:"num_rows"` // live rows
	MinReader        *int64   `json:"min_reader"`
	Features         []string `json:"features"` // reader features, in the log's order
	Refused          []string `json:"refused"`  // what keeps the table from being read
	SizeBytes        *int64   `json:"size_bytes"`
	DeletedRows      *int64   `json:"deleted_rows"`
	EarliestVersion  *int64   `json:"earliest_version"` // the oldest one that can be read
	PartitionColumns []string `json:"partition_columns"`
	Schema           []Column `json:"schema"`
	Warnings         []string `json:"warnings"`
	Error            *Error   `json:"error"`
}

// Column is a column, its type as Delta's tools show it.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Error is why a table cannot be read.
type Error struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint"`
}

// Version tells all that is known of a version of a table. With footers it reads those of the files whose number of
// rows the log does not know. The error is the one in the description.
func Version(ctx context.Context, t *delta.Table, version int64, footers bool) (Info, error) {
	d := t.Describe(ctx, version)
	info := Info{URI: t.URI(), Refused: []string{}, Warnings: []string{}}
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	info.Version, info.EarliestVersion = known(d.Version), known(d.Earliest)
	if d.Protocol != nil && d.Protocol.MinReader > 0 {
		info.MinReader, info.Features = &d.Protocol.MinReader, d.Protocol.Features()
		info.Refused = append(info.Refused, d.Refused...)
	}
	if d.Metadata != nil {
		info.PartitionColumns = append([]string{}, d.Metadata.PartitionColumns...)
	}
	err := d.Err
	if s := d.Snapshot; s != nil {
		info.Schema = []Column{}
		for _, f := range s.Schema().Fields {
			info.Schema = append(info.Schema, Column{f.Name, f.Type.String()})
		}
		info.Warnings = append(info.Warnings, s.Warnings()...)
		err = info.count(ctx, t, s, footers)
	}
	if err != nil {
		info.Error = &Error{
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
func (i *Info) count(ctx context.Context, t *delta.Table, s *delta.Snapshot, footers bool) error {
	var files, size, deleted, rows, unknown int64
	var batch []delta.File
	var missing error
	flush := func() error {
		if len(batch) == 0 || missing != nil {
			batch = batch[:0]
			return nil
		}
		read, err := t.Inspect(ctx, s.Version(), batch)
		if delta.Gone(err) {
			missing = firstMissing(ctx, t, s.Version(), batch)
			return nil
		}
		batch = batch[:0]
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

// firstMissing looks at one file after the other, so that the same table always gives the same answer.
func firstMissing(ctx context.Context, t *delta.Table, version int64, files []delta.File) error {
	for i := range files {
		if _, err := t.Inspect(ctx, version, files[i:i+1]); err != nil {
			return err
		}
	}
	return errors.New("a data file was missing for a moment")
}

// File is one line of `sluice delta files`.
type File struct {
	Path            string             `json:"path"` // decoded: below the table, or the whole location
	Size            int64              `json:"size"`
	NumRecords      delta.Count        `json:"num_records"` // physical rows
	LiveRows        delta.Count        `json:"live_rows"`
	PartitionValues map[string]*string `json:"partition_values"` // by logical name
	DV              *Vector            `json:"dv"`
	BaseRowID       *int64             `json:"base_row_id"`
}

// Vector says where the deleted rows of a file are written.
type Vector struct {
	Storage     string `json:"storage"`
	Path        string `json:"path"`
	Offset      *int64 `json:"offset"`
	Size        int64  `json:"size"`
	Cardinality int64  `json:"cardinality"`
}

// Files gives the files of a snapshot.
func Files(ctx context.Context, s *delta.Snapshot) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		columns := s.Schema().PartitionFields()
		for f, err := range s.Files(ctx) {
			if err != nil {
				yield(File{}, err)
				return
			}
			d := File{
				Path: f.Path, Size: f.Size, NumRecords: f.Records, LiveRows: f.Live(), BaseRowID: f.BaseRowID, PartitionValues: map[string]*string{},
			}
			for i, c := range columns {
				d.PartitionValues[c.Name] = f.Partition[i]
			}
			if v := f.DV; v != nil {
				d.DV = &Vector{v.Storage, v.Path, v.Offset, v.Size, v.Cardinality}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}
