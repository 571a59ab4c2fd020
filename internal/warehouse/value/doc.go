// Package value translates between the engine's values and PostgreSQL's, in text and binary format: which type a column
// has for a client, how a value is written, and how a parameter is read. warehouse.md §3 has the table.
//
// Encoders read the engine's vectors and append to a buffer; for common types they allocate nothing. Values that
// PostgreSQL cannot hold are errors (ErrRange), never cut silently; the one exception is TIMESTAMP_NS and TIME_NS, which
// lose their nanoseconds.
package value
