// Package action reads the actions of a Delta log: bytes in, actions out. It knows the JSON of commits, what a checksum
// file says, which protocols can be read, and how the actions of many commits make one state (Replay).
//
// It does no IO beyond reading from the stream it is given, and holds one action at a time. Keys match by exact case;
// unknown actions and fields are skipped; anything else that is not as the protocol says is SLUICE-DELTA-LOG-CORRUPT.
// Source: PROTOCOL.md of delta-io/delta, "Actions" and "Action Reconciliation".
package action
