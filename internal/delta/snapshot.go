package delta

import (
	"fmt"

	"sluice/internal/delta/action"
	"sluice/internal/delta/schema"
	"sluice/internal/sluice"
)

// Snapshot is one version of a table. It never changes and is safe for concurrent use.
type Snapshot struct {
	table     *Table
	version   int64
	log       *logListing
	part      logPart
	base      *base // of the checkpoint, if there is one
	protocol  action.Protocol
	metadata  action.Metadata
	schema    *schema.Schema
	partition []partitionColumn
	warnings  []string
}

// open checks that the version can be read, and reads its schema.
func (s *Snapshot) open() error {
	if err := action.Gate(s.protocol, s.metadata); err != nil {
		return err
	}
	mapping := schema.ByLogical
	if s.protocol.MapsColumns() {
		switch mode := s.metadata.Configuration["delta.columnMapping.mode"]; mode {
		case "", "none":
		case "name", "id":
			mapping = schema.Mapping(mode)
		default:
			return sluice.E(CodeUnsupported, "", "the table maps its columns in the unknown way "+mode, "read the table with another tool", nil)
		}
	}
	columns, err := schema.Parse(s.metadata.Schema, s.metadata.PartitionColumns, mapping)
	if err != nil {
		return err
	}
	s.schema = columns
	for _, f := range columns.PartitionFields() {
		s.partition = append(s.partition, partitionColumn{field: f})
	}
	return nil
}

func (s *Snapshot) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// Version is the snapshot's version.
func (s *Snapshot) Version() int64 { return s.version }

// TableID is the table's own id. A table that was dropped and made again has another one.
func (s *Snapshot) TableID() string { return s.metadata.ID }

// Protocol is what the table asks of its readers.
func (s *Snapshot) Protocol() action.Protocol { return s.protocol }

// Metadata is the table's metadata action as of the version.
func (s *Snapshot) Metadata() action.Metadata { return s.metadata }

// Schema is the table's columns; without fields if the table has no schema yet.
func (s *Snapshot) Schema() *schema.Schema { return s.schema }

// Earliest is the oldest version that can be read, as far as the part of the log is known that was listed.
func (s *Snapshot) Earliest() int64 { return s.log.Earliest() }

// Warnings are what was wrong and could be done without.
func (s *Snapshot) Warnings() []string { return s.warnings }

// Spec is what a plan needs to know of the version. It can be stored as JSON.
func (s *Snapshot) Spec() Spec {
	return Spec{
		URI: s.table.uri, Version: s.version, TableID: s.metadata.ID,
		Schema: s.metadata.Schema, PartitionColumns: s.metadata.PartitionColumns, Mapping: s.schema.Mapping,
	}
}
