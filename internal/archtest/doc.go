// Package archtest tests what no compiler sees: that imports go one way, that each guarantee names a test that exists,
// that each error code is documented, and that the documentation points at files that are there. It has tests only.
package archtest
