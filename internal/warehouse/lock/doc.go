// Package lock lets one transaction at a time change or delete rows of a table of a lake. The engine loses track of a data
// file's deleted rows when two do (docs/adr/0008), so this is its guard, not a convenience.
//
// It promises first come, first served, that a deadlock is refused at once, and that nobody changes a table on the base of
// a snapshot from before the last change. It knows nothing of the engine, and nothing of other processes.
package lock
