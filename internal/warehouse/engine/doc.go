// Package engine owns the DuckDB instances of a process: at most one per org, each with the org's lake attached as
// "lake" and locked down, handed out as connections by a Registry.
//
// It promises that a lake whose catalog is a DuckDB file is open at most once in the process and in one process at a
// time (two instances on one file lose acknowledged commits without an error), that an instance is never closed under a
// connection, that an instance that has reported a fatal error gets no new connections, and that a catalog's password
// is in no error and in no answer of the engine.
//
// It never decides what may run (package gate), never downloads anything, and never opens a catalog file by itself.
package engine
