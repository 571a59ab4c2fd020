// Package child runs the servers that tests start, as processes that end with the test process, whatever ends it.
//
// It is a test helper and never reaches the binary.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Process is a running server.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	once sync.Once
}

// Start starts cmd. The parent-death signal is bound to the thread that forks, so that thread stays locked to a goroutine
// that lives as long as the process.
func Start(cmd *exec.Cmd) (*Process, error) {
	bind(cmd)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, after the process
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends a signal, once, and waits for the end.
func (p *Process) Stop(sig syscall.Signal) {
	p.once.Do(func() { _ = p.cmd.Process.Signal(sig) })
	<-p.done
}
