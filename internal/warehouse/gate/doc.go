// Package gate decides what a principal may send to the engine: from a statement's tokens before the engine sees it, and
// from the engine's own classification after. It also reads the statements that the server answers itself (transaction
// control, SET, SHOW), because there is no parser of this dialect in Go.
//
// It is the second of three layers (warehouse.md §5). The engine's lock-down keeps files and networks shut whatever passes
// here; the gate keeps a tenant from what a locked engine still does: the lake's catalog, SQL in strings, settings, secrets,
// maintenance. It refuses too much rather than too little: a word in its lists is refused wherever it stands as a name.
package gate
