package kafka

import "syscall"

// procAttr makes the broker end with this process, whatever ends it.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
