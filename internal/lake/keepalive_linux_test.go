package lake

import (
	"net"
	"syscall"
	"testing"
)

// TestHalfOpenConnectionsAreFound shows that the kernel is told to find, within 30 seconds, that the other end is gone,
// whether the loader waits for an answer or has sent something. That it then does so is the kernel's promise.
func TestHalfOpenConnectionsAreFound(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]struct{ level, option, want int }{
		"keepalive":           {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		"first probe after":   {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 10},
		"probes every":        {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10},
		"probes":              {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
		"unconfirmed at most": {syscall.IPPROTO_TCP, tcpUserTimeout, 30_000},
	} {
		err := raw.Control(func(fd uintptr) {
			if got, err := syscall.GetsockoptInt(int(fd), o.level, o.option); err != nil || got != o.want {
				t.Errorf("%s: got %d, %v, want %d", name, got, err, o.want)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
