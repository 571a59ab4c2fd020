// Package lake is the writer's side of an org's DuckLake warehouse, spoken over the PostgreSQL protocol: sessions, SQL
// building, the fence, the markers, and the outcome of a commit.
//
// It promises that a write whose outcome is Done is stored together with its marker, that a write whose outcome is
// NotDone has left nothing, and that anything it cannot tell is Unknown until Resolve has read it back. It never decides
// what is to be written: that is the caller's plan.
package lake
