// Package duck reads one DuckDB connection by the engine's C interface: statements are prepared without being run, results
// are streamed chunk by chunk, and values are read from the engine's vectors without a detour.
//
// The connection itself is opened, configured and owned by the engine's pool (database/sql); FromDriver only borrows it.
// database/sql is passed by for three reasons: it materialises a result before its first row, it loses values (JSON
// numbers, 24:00:00, infinity), and its Prepare executes all statements but the last of a string.
//
// A Conn serves one goroutine. Interrupts are sent only while a call is under way, and never after it has returned, so
// they cannot hit the next statement.
package duck
