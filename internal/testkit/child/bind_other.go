//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

// bind cannot tie the process to this one here; its directory is swept by the next run.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
