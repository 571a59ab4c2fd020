package delta

import "sluice/internal/delta/schema"

// Spec is what a plan needs to know of a version of a table. It can be stored as JSON.
type Spec struct {
	URI              string         `json:"uri"`
	Version          int64          `json:"version"`
	TableID          string         `json:"table_id"`
	Schema           string         `json:"schema"` // schemaString of the metadata
	PartitionColumns []string       `json:"partition_columns"`
	Mapping          schema.Mapping `json:"mapping"`
}

// Columns are the table's columns.
func (s Spec) Columns() (*schema.Schema, error) {
	return schema.Parse(s.Schema, s.PartitionColumns, s.Mapping)
}
