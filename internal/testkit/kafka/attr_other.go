//go:build !linux

package kafka

import "syscall"

// procAttr cannot bind the broker to this process here.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
