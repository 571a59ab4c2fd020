//go:build !linux

package lake

import "syscall"

// limitUnconfirmed does nothing: the system has no such limit per connection, and its own applies.
func limitUnconfirmed(string, string, syscall.RawConn) error { return nil }
