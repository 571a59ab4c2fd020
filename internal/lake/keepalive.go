package lake

import (
	"net"
	"time"
)

// keepalive finds connections whose other end is gone without a word, in half a minute: probes while the loader waits for
// an answer, and a limit for what it has sent and nobody has confirmed.
const (
	keepaliveEvery = 10 * time.Second
	keepaliveTries = 3
)

func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveEvery, Interval: keepaliveEvery, Count: keepaliveTries},
		Control:         limitUnconfirmed,
	}
}
