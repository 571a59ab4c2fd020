package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"sluice/internal/config"
	"sluice/internal/sluice"
)

// listen opens an address, or says who has it and what to do.
func listen(ctx context.Context, cfg *config.Config, key, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, listenError(cfg, key, addr, err)
	}
	return l, nil
}

// listenError says why an address cannot be opened.
func listenError(cfg *config.Config, key, addr string, err error) error {
	what, hint := "", "choose another address with --"+key
	if errors.Is(err, syscall.EADDRINUSE) {
		what = "another program listens there already"
		hint = fmt.Sprintf("stop it, or choose another address with --%s 127.0.0.1:PORT", key)
		if f, found := readServeFile(cfg); found && (f.HTTP == addr || f.Warehouse == addr) {
			what = fmt.Sprintf("a sluice server of the same data directory (pid %d) listens there already", f.PID)
			hint = "use that one, or stop it first"
		}
	}
	return sluice.E("SLUICE-WAREHOUSE-LISTEN", "listen on "+addr, what, hint, err)
}
