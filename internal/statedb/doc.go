// Package statedb opens the state DB (SQLite: one file on one machine; PostgreSQL: many processes) and runs named
// queries on it. It owns the connection, the transactions with their retries, the clock, the migrations and the wake-up
// channels. The packages that own tables write one set of queries for both; the few differences are named macros of this
// package (see Set). It knows nothing of what the tables mean.
//
// Promises: a transaction that loses to another one is run again, up to three times; every time comes from the state
// DB's own clock, read in the statement that uses it; a database with a newer schema than this binary's is refused.
package statedb
