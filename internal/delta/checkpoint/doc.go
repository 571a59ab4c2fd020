// Package checkpoint reads the Parquet form of a checkpoint, whole files, parts and sidecars alike: bytes in, actions out,
// one row at a time, whatever columns the writer left out.
//
// The bytes are not trusted. Before the Parquet library sees a footer or a page, what they claim is checked against what
// is there (guard.go); whatever the library still trips over is an error of the file. Memory is that of a few pages.
package checkpoint
