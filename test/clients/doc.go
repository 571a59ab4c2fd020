// Command clients runs real clients against the built server, and writes what works as a table to docs/clients.md: psql,
// pgx, psycopg, SQLAlchemy, ADBC, node-postgres and pgjdbc, and the catalog queries of tools. `make clients` installs what
// it needs into build/clients.
//
// Each client is a script of its own here that prints a line per check: name, ok or fail, and a note. A client that fails
// a check makes the command fail; what a client has not is left empty.
package main
