package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"sluice/internal/sluice"
)

// target is the file to be written. Until it is whole, all is in a directory beside it, which one process at a time owns.
type target struct {
	path  string
	force bool
	dir   string
	lock  *os.File
}

// openTarget takes the target. What a run that died has left is removed.
func openTarget(path string, force bool) (*target, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(abs); err == nil && !force {
		return nil, exists(abs)
	}
	t := &target{path: abs, force: force, dir: partsOf(abs)}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory beside the file: %w", err)
	}
	// The lock is on the directory itself: it goes away with it.
	if t.lock, err = os.Open(t.dir); err != nil {
		return nil, fmt.Errorf("lock the file: %w", err)
	}
	if err := syscall.Flock(int(t.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.lock.Close()
		return nil, sluice.E(CodeTarget, "", fmt.Sprintf("another process is writing %s", abs), "wait for it, or write to another file", err)
	}
	left, err := os.ReadDir(t.dir)
	for _, e := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(t.dir, e.Name())))
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("remove what another run has left: %w", err)
	}
	return t, nil
}

func exists(path string) error {
	return sluice.E(CodeTarget, "", fmt.Sprintf("%s exists already", path), "name another file, or add --force", nil)
}

// data is where the engine writes.
func (t *target) data() string { return filepath.Join(t.dir, "data.parquet") }

// side names a side file.
func (t *target) side(kind string, n int) string {
	return filepath.Join(t.dir, fmt.Sprintf("%s-%d.parquet", kind, n))
}

// publish gives the finished file its name and tells its size.
func (t *target) publish() (int64, error) {
	f, err := os.Open(t.data())
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	if t.force {
		err = os.Rename(t.data(), t.path)
	} else {
		err = os.Link(t.data(), t.path) // a rename would replace what has come meanwhile
	}
	if errors.Is(err, fs.ErrExist) {
		return 0, exists(t.path)
	}
	if err != nil {
		return 0, err
	}
	dir, err := os.Open(filepath.Dir(t.path)) // the name is safe once its directory is
	if err != nil {
		return 0, err
	}
	return info.Size(), errors.Join(dir.Sync(), dir.Close())
}

// close removes what is beside the target.
func (t *target) close() {
	_ = os.RemoveAll(t.dir)
	t.lock.Close()
}
