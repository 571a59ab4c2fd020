package lake

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

func limitUnconfirmed(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(keepaliveTries*keepaliveEvery.Milliseconds()))
	}); cerr != nil {
		return cerr
	}
	return err
}
