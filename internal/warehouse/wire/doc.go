// Package wire speaks the PostgreSQL protocol, version 3.0, for one client connection: a Session from the startup packet to
// the last byte. There is one file per phase; frame.go reads and writes messages, session.go is the loop.
//
// What it promises:
//   - Lengths are checked before memory is taken for them, and a claimed length alone takes none.
//   - Describing a statement never runs it. Results are streamed: a session holds one chunk of rows.
//   - The transaction state is the server's own, not the engine's. After an error inside a block the engine is rolled back
//     at once and everything but the end of the block is refused, so the COMMIT of a failed transaction never reaches the
//     engine, which would answer OK.
//   - A cancel, a timeout and a lost client interrupt the running statement, never a COMMIT.
//
// It knows nothing of listening, of limits across sessions, or of how engines are opened.
package wire
