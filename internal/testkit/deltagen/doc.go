// Package deltagen writes Delta tables for tests: commits, checkpoints of every kind, deletion vectors of every storage
// type, data files with and without field ids, and all the ways in which a log can be broken. It knows what the rows of
// each version are, and it checks nothing: what a reader must refuse can be written as easily as what it must read.
//
// It is a test helper and never reaches the binary. It shares no code with the reader, so that a misunderstanding of the
// format is not made twice.
package deltagen
