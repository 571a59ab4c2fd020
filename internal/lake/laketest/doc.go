// Package laketest holds the contract of a session to a lake as a test suite, and a fake lake in memory that passes it.
// The suite runs on the fake and on real DuckLake catalogs; the fake serves fault sweeps and simulations.
package laketest
