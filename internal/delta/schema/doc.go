// Package schema is what a Delta table's metadata says about its columns: names, types, the engine's types for them,
// column mapping, type widening, and what the texts of partition values mean.
//
// It is pure. What it does not fully understand it refuses with SLUICE-DELTA-SCHEMA. Source: PROTOCOL.md of
// delta-io/delta, "Schema Serialization Format", "Column Mapping", "Type Widening" and "Partition Value Serialization".
package schema
