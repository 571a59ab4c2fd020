package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"sluice/internal/sluice"
)

// fileLock is our own lock on a lake whose catalog is a DuckDB file: flock on "<catalog>.lock", held for as long as the
// instance lives. The engine's own lock does not protect against a second instance in one process, and is lost when
// anything in the process closes the catalog file.
type fileLock struct{ f *os.File }

// lockCatalog takes the lock of the catalog file at path, or says which process holds it (SLUICE-LAKE-IN-USE).
func lockCatalog(org sluice.Org, path string) (*fileLock, error) {
	doing := fmt.Sprintf("open lake of org %s", org)
	path, err := canonicalPath(path)
	if err != nil {
		return nil, sluice.E("SLUICE-ENGINE-OPEN", doing, "", "check the catalog's path", err)
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, sluice.E("SLUICE-ENGINE-OPEN", doing, "", "check that the directory of the catalog exists and can be written", err)
	}
	if err := flock(f); err != nil {
		holder := holder(f)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, sluice.E("SLUICE-LAKE-IN-USE", doing, fmt.Sprintf("%s is in use by %s", path, holder),
				"use that process's warehouse port, or stop it first", nil)
		}
		return nil, sluice.E("SLUICE-ENGINE-OPEN", doing, "", "the file system of the catalog must support flock", fmt.Errorf("lock %s: %w", path, err))
	}
	// The pid is only for the message above: the lock itself goes with the process, whatever the file says.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &fileLock{f}, nil
}

// flock takes the exclusive lock of f without waiting.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder names the process that a lock file speaks of.
func holder(f *os.File) string {
	b, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid := strings.TrimSpace(string(b))
	switch pid {
	case "":
		return "another process"
	case strconv.Itoa(os.Getpid()):
		return "this process (pid " + pid + ")"
	}
	return "process " + pid
}

// unlock gives the lock back. The lock file stays: removing it would let two processes lock two files of one name.
func (l *fileLock) unlock() {
	if l != nil {
		_ = l.f.Close()
	}
}
