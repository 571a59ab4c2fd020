// Package footer reads the footers of Parquet files: rows, columns with their types and field ids, and nothing of the
// data. It also finds, in any footer, what a general Parquet library could be made to trip over (Check).
//
// It is pure and allocates nothing in proportion to what a footer claims rather than holds. Source: the Thrift definition
// of apache/parquet-format, and the compact protocol of apache/thrift.
package footer
