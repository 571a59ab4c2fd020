// Package pg gives tests a real PostgreSQL: one server per test process, one empty database per test, and, for tests
// that kill and restart it, private servers. It owns the server processes and their temporary directories; servers end
// with the test process, also when that is killed. It never touches a server that it did not start, except to create
// and drop its own databases on the one named by SLUICE_TEST_POSTGRES_DSN.
//
// It is a test helper and never reaches the binary.
package pg
