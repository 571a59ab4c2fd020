// Package backfill plans how the history of a stream gets into its table: it pins a version of the source, cuts it into
// chunks, knows which live batches that version holds already, and stores all of it as a run in the queue. Copies of a Delta
// table and registrations of prepared Parquet are plans of the same kind.
//
// It promises that a run is complete before any of it can be applied, that a plan moves only with a slot, and that no batch
// is taken for covered without a proof. It never writes to a lake: the loader applies the chunks and swaps the tables.
//
// What is decided is in plan.go, plan_cover.go and plan_slot.go, without clock or IO; store.go has the transactions, pass.go
// what a planner process does again and again.
package backfill
