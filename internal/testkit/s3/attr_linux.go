package s3

import "syscall"

// hasAttributes reports whether the server can keep its notes (ETags) beside the files.
func hasAttributes(dir string) bool {
	return syscall.Setxattr(dir, "user.sluice", []byte("x"), 0) == nil
}
