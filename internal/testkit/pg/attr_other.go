//go:build !linux

package pg

import "syscall"

// procAttr cannot bind the server to this process here; its own directory is swept by the next run.
func procAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true}
}
