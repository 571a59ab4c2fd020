package queue

// Queries is the package's set, for the test that prepares it.
var Queries = queries
