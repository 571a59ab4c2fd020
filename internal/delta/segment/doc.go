// Package segment decides which files of a Delta log make up a version: the names that mean something, and the choice of
// a checkpoint and commits. It is pure; what it is given is a listing.
//
// Source: PROTOCOL.md of delta-io/delta, "Delta Log Entries" and "Checkpoints".
package segment
