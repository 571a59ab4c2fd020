// Package describe tells what a version of a Delta table is made of, in the shapes that `sluice delta info` and `sluice delta
// files` print as JSON. It also tells of tables that cannot be read, and why.
package describe
