// Package dv decodes deletion vectors, the sets of deleted rows of a Delta table's files: the text forms in the log, the
// frame in a file, and the bitmap.
//
// It is pure, and made for bytes that nobody can be trusted to have written well: it allocates nothing in proportion to
// what the bytes claim, and what is wrong in any way is SLUICE-DELTA-DV-CORRUPT, never a set that is nearly right.
// Source: PROTOCOL.md of delta-io/delta, "Deletion Vector Format", and RoaringFormatSpec of RoaringBitmap.
package dv
