package control

// Queries is the package's set, for the test that prepares it.
var Queries = queries

// The states of orgs, and those that are not discovered.
var (
	OrgStates    = orgStates
	AbsentStates = absentStates
)
