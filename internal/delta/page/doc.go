// Package page reads the values of a column of a Parquet file, one after the other, from its pages: all encodings and
// codecs that writers of checkpoints use, for integers and texts.
//
// It is made for bytes that nobody can be trusted to have written well. Runs are counted down, never laid out; a page is
// held once, as it was decompressed, and all pages at hand together are within a Budget. A general library would be asked
// by 20 bytes for gigabytes. Source: Encodings.md and the Thrift definition of apache/parquet-format.
package page
