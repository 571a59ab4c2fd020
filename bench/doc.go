// Package bench measures the marks that the design sets, each against a baseline of the same run: the same work as SQL
// typed by hand into the same engine. `make bench` runs it and prints ratios; absolute figures vary with the machine.
package bench
