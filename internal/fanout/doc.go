// Package fanout keeps one table per destination in step with a source table of another lake: rows of a team go to the
// team's table in its org's warehouse.
//
// The rules are pure and have a file each: window.go (which snapshots may be read together, and what ends the reading),
// project.go (columns and casts), resolve.go (which row of a key wins), route.go (who the destinations are), state.go
// (what becomes of a destination). What acts on them is thin: read.go, apply.go, seed.go, keep.go, run.go.
//
// It promises that each change of the source takes effect exactly once per destination, because the cursor moves in the
// transaction of the rows; that a row never goes back to an older version; and that a destination that cannot be written
// delays no other. It never skips a change: what it cannot read or apply halts with a code.
package fanout
