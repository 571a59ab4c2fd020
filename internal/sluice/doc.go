// Package sluice holds the words of the project as types: orgs, teams, streams, runs, batches, leases and outcomes, and
// the one error type that people see. It owns no behaviour beyond questions that a word can answer about itself, and it
// imports only the standard library, so that every other package may import it.
//
// The same spelling is used in SQL columns, JSON keys, metrics, flags and documentation.
package sluice
