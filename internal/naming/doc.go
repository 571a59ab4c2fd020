// Package naming turns the name of a source into the name of its table in a lake. It owns the naming policies, the rule
// for names that collide, and the list of reserved names. Everything here is a pure function: no context, no clock, no IO.
//
// Nobody else derives a table name. A stream's name is derived once, at its first bind, and stored; afterwards the
// stored name is the only one, whatever happens to the org's policy.
package naming
