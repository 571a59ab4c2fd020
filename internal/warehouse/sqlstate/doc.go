// Package sqlstate turns any error of a session into what PostgreSQL clients understand: an SQLSTATE, a message, and where
// known detail, hint and position. The engine gives a class and a text; the one table that reads them is table.go, with a
// test for each row. Connection strings and keys are cut out of every text.
package sqlstate
