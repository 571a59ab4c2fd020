package changelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// LocalFiles is a store on a file system that the warehouse sees under the same paths.
type LocalFiles struct{}

// Create implements Files.
func (LocalFiles) Create(_ context.Context, path string) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make file %s: %w", path, err)
	}
	return f, nil
}

// Folder implements Files.
func (LocalFiles) Folder(_ context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", path, err)
	}
	return nil
}

// Remove implements Files. The folder of the file goes with it: it holds nothing else.
func (LocalFiles) Remove(_ context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove file %s: %w", path, err)
	}
	_ = os.Remove(filepath.Dir(path)) // if something else is in it after all, it stays
	return nil
}
