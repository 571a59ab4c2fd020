//go:build !linux

package demo

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
