package delta

import (
	"strconv"
	"strings"
	"time"

	"sluice/internal/delta/action"
	"sluice/internal/delta/schema"
	"sluice/internal/sluice"
)

// File is a data file of a snapshot, with what is needed to read it later, in another process: it can be stored as JSON.
type File struct {
	Path      string                 `json:"path"` // decoded: below the table, or the whole location if it is elsewhere
	URI       string                 `json:"uri"`  // as the engine opens it, not escaped
	Size      int64                  `json:"size"`
	ETag      string                 `json:"etag,omitempty"` // seen first, see Inspect; empty where it is not known
	Records   Count                  `json:"num_records"`    // physical rows
	Partition []schema.Value         `json:"partition_values"`
	DV        *action.DeletionVector `json:"dv"`
	BaseRowID *int64                 `json:"base_row_id"`
}

// Deleted is the number of rows that the file's deletion vector takes away.
func (f *File) Deleted() int64 {
	if f.DV == nil {
		return 0
	}
	return f.DV.Cardinality
}

// Live is the number of rows that are left, Unknown without a number of records.
func (f *File) Live() Count {
	if f.Records == Unknown {
		return Unknown
	}
	return f.Records - Count(f.Deleted())
}

// Count is a number of rows, or Unknown. As JSON an unknown one is null.
type Count int64

// Unknown is the count that nobody wrote down.
const Unknown Count = action.Unknown

// MarshalJSON implements json.Marshaler.
func (c Count) MarshalJSON() ([]byte, error) {
	if c < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(text []byte) error {
	*c = Unknown
	if string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	*c = Count(n)
	return err
}

// fileOf makes a File of an add.
func (s *Snapshot) fileOf(a *action.Add, columns []partitionColumn, uri, path string) (File, error) {
	f := File{Path: path, URI: uri, Size: a.Size, Records: Count(a.NumRecords), DV: a.DV, BaseRowID: a.BaseRowID}
	if d := a.DV; d != nil {
		if d.Cardinality < 0 || f.Records != Unknown && int64(f.Records) < d.Cardinality {
			return File{}, sluice.E(CodeDVCorrupt, "", "the deletion vector of "+path+" has an impossible number of positions",
				"have the table's writer rewrite the data file", nil)
		}
	}
	if n := len(columns); n > 0 {
		f.Partition = make([]schema.Value, n)
		for i := range columns {
			v, err := columns[i].value(a.PartitionValues, s.table.o.zone())
			if err != nil {
				return File{}, during(err, "read the partition of %s", path)
			}
			f.Partition[i] = v
		}
	}
	return f, nil
}

// partitionColumn reads the values of a partition column. It keeps some: most files share theirs with others.
type partitionColumn struct {
	field schema.Field
	known map[string]schema.Value
}

// keptValues is how many values of a partition column are kept at most.
const keptValues = 1024

func (p *partitionColumn) value(values []action.PartitionValue, zone *time.Location) (schema.Value, error) {
	found, ok := lookUp(values, p.field)
	switch {
	case !ok:
		return nil, sluice.E(CodePartitionValue, "", "there is no value of partition column "+p.field.Name,
			"have the table's writer repair the partition", nil)
	case found.Null:
		return nil, nil
	}
	if v, ok := p.known[found.Value]; ok {
		return v, nil
	}
	v, err := schema.ParseValue(p.field.Type, found.Value, zone)
	if err != nil {
		return nil, err
	}
	if p.known == nil || len(p.known) == keptValues {
		p.known = map[string]schema.Value{}
	}
	p.known[found.Value] = v
	return v, nil
}

// lookUp finds a column's value by its physical name; some writers spell it in another case.
func lookUp(values []action.PartitionValue, field schema.Field) (action.PartitionValue, bool) {
	for _, v := range values {
		if v.Key == field.Physical {
			return v, true
		}
	}
	for _, v := range values {
		if strings.EqualFold(v.Key, field.Physical) {
			return v, true
		}
	}
	return action.PartitionValue{}, false
}
