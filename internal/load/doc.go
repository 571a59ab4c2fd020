// Package load applies batches: it claims streams, applies their batches in order to the lake, and records the outcomes.
// It holds no state of its own; any loader may die at any instant and another goes on.
//
// Whether and how a batch may be applied is decided in step.go (the order of things, and what follows from an error),
// choose.go (the op) and columns.go (the columns): pure functions without clock or IO. loader.go and work.go do what they
// say.
package load
