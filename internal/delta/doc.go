// Package delta reads Delta tables exactly: the log of a table, the files and rows that make up a version of it, in which
// schema, and which batches that version holds. It never writes to a table, never lists its data, and refuses by name what
// it does not fully understand.
//
//	table, err := delta.Open(store, uri, delta.Options{Cache: cache}) // nothing is read yet
//	snapshot, err := table.Snapshot(ctx, delta.Latest)                // protocol, schema, and where the files are listed
//	for file, err := range snapshot.Files(ctx) { … }                  // streamed; good only if it ends without an error
//	covered, err := table.Covered(ctx, snapshot.Version())            // the batches that commits up to it name
//
// A File and the snapshot's Spec are plain data: they are stored as JSON with a chunk of a load and read by another
// process later. There:
//
//	footers, err := table.Inspect(ctx, version, files)  // Parquet footers: rows and columns; pins what had no ETag
//	plan, err := delta.NewPlan(spec, files, footers)    // groups of files that one statement reads; pure
//	vectors, err := table.Vectors(ctx, version, files)  // deleted rows, checked in all ways
//	plan.WriteFiles(w), plan.WriteDeleted(w, vectors)   // the two side files, as Parquet
//	group.Select(plan.Columns, sides)                 // SQL text of the engine: exactly the live rows, logical names and types
//
// The rows that the statement of a group gives must be group.Rows, or the load is rolled back.
//
// Pure parts, each its own package: segment (which files of the log make up a version), action (JSON of commits, replay,
// protocol), schema (types, mapping, partition values), dv (deletion vectors), footer (Parquet footers). checkpoint reads
// checkpoints in Parquet. What reads stores is here, in table.go, load.go, files.go, covered.go, inspect.go and vectors.go.
//
// Errors have the codes SLUICE-DELTA-…; Gone tells a snapshot that lost files, for which a newer version is planned.
// Source: PROTOCOL.md of delta-io/delta.
package delta
