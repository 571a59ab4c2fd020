// Package queue keeps runs and batches, says which stream may be worked on, and records outcomes. It owns the tables
// run, batch, batch_spec, batch_status, batch_marker, stream_lease, batch_inbox, quarantine and sweep_lease.
//
// Work is claimed by stream, not by batch: order inside a stream is total, so only its head can be claimable. The head of
// each stream is kept on its stream_lease row by every transaction that can change it, so a claim costs as much as there
// are streams with work, whatever the length of backlogs or history.
//
// Promises: every transition is one statement guarded by the old state and, for a loader, by owner and epoch of an
// unexpired lease; what is terminal is never overwritten; a call that returns an error has changed nothing.
//
// It never touches a lake and never decides what a batch does to its table.
//
// Lock order: the stream_lease row of the stream first, then stream, run, batch. A claim takes org rows, then lease rows,
// and waits for neither.
package queue
