// Package stream is the registry of streams and their lifecycle: which source table belongs to which team, which lake
// table it is bound to, and whether its live batches may be applied. It owns the tables stream, reserved_name, plan,
// covered_batch and stream_target_history.
//
// Promises: a stream's table name is bound once and never changes by itself; two streams of an org never share a table;
// every change of lifecycle is one conditional statement in the transaction of what it goes with.
package stream
