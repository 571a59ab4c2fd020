// Package export writes one version of a Delta table as one Parquet file: exactly its live rows, under the table's names and
// types, in no order.
//
// The target is whole or absent, whenever the process dies: everything is written into a directory beside it, checked, and
// renamed. Data files are read as the objects that they were when their footers were read; if one was removed or replaced,
// nothing is written. Memory does not grow with the table. The package runs SQL but opens no engine: that is its caller's.
package export
