package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/internal/sluice"
)

// spillDir is an instance's own directory for what does not fit into memory. It is locked while the instance lives, so
// that the next one of the same org can tell leftovers of a killed process and remove them.
type spillDir struct {
	path string
	f    *os.File
}

// newSpillDir makes a spill directory below dir and removes leftovers of org.
func newSpillDir(dir string, org sluice.Org) (*spillDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	name := fmt.Sprintf("sluice-spill-%s.", org) // a dot is in no org's id: "acme." is no prefix of another org's names
	if entries, err := os.ReadDir(dir); err == nil {
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), name) {
				removeIfDead(filepath.Join(dir, e.Name()))
			}
		}
	}
	for {
		path, err := os.MkdirTemp(dir, name)
		if err != nil {
			return nil, fmt.Errorf("make spill directory: %w", err)
		}
		f, err := os.Open(path)
		if err == nil {
			if err = flock(f); err == nil {
				if _, err = os.Stat(path); err == nil {
					return &spillDir{path, f}, nil
				}
			}
			_ = f.Close()
		}
		// Another process may take the new directory for a leftover in the moment before it is locked: make another.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock spill directory %s: %w", path, err)
		}
	}
}

// removeIfDead removes the spill directory at path unless a living instance holds it.
func removeIfDead(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if flock(f) == nil {
		_ = os.RemoveAll(path)
	}
}

// remove deletes the directory.
func (s *spillDir) remove() {
	if s != nil {
		_ = os.RemoveAll(s.path)
		_ = s.f.Close()
	}
}
