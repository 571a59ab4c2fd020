// Package checkpoint reads the Parquet form of a checkpoint, whole files, parts and sidecars alike: bytes in, actions out,
// one row at a time, whatever columns the writer left out.
//
// The bytes are not trusted, see package page. Memory is that of a few pages.
package checkpoint
