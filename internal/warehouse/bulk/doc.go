// Package bulk reads and writes the three formats of COPY as PostgreSQL documents them: text, CSV and binary. A Reader takes
// bytes as they come in and gives rows of raw fields; the Append functions make lines of raw fields. What a field means is
// for package value.
//
// It promises to read what PostgreSQL writes and the other way round, and to hold no more than one row beside the bytes
// that it was given. It knows no types, no connection and no engine.
package bulk
