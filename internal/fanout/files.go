package fanout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/sluice"
)

// Files moves side files from where the source's warehouse writes them to where a destination's may read. No warehouse sees
// another org's folder.
type Files interface {
	// Folder makes the folder that a file is to be written to.
	Folder(ctx context.Context, path string) error
	// Place gives the path under which the org's warehouse reads the file.
	Place(ctx context.Context, file string, org sluice.Org, name string) (string, error)
	// Remove removes a file or a folder with all that is in it; what is not there is no error.
	Remove(ctx context.Context, path string) error
	// Sweep removes what is older than an age among the files of dead processes.
	Sweep(ctx context.Context, folder string, age time.Duration) error
}

// LocalFiles is a file system that all warehouses see under the same paths.
type LocalFiles struct {
	// Org gives a folder that the org's warehouse may read.
	Org func(sluice.Org) string
}

// SpoolFolder is where, below a folder of an org, its side files lie.
const SpoolFolder = "_sluice/f"

// Folder implements Files.
func (LocalFiles) Folder(_ context.Context, path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make folder %s: %w", path, err)
	}
	return nil
}

// Place implements Files. A link costs nothing; only between file systems the bytes are copied.
func (l LocalFiles) Place(_ context.Context, file string, org sluice.Org, name string) (string, error) {
	to := filepath.Join(l.Org(org), SpoolFolder, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", fmt.Errorf("place file %s: %w", name, err)
	}
	err := os.Link(file, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = copyFile(file, to)
	}
	if err != nil {
		return "", fmt.Errorf("place file %s: %w", name, err)
	}
	return to, nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Remove implements Files.
func (LocalFiles) Remove(_ context.Context, path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Sweep implements Files.
func (LocalFiles) Sweep(_ context.Context, folder string, age time.Duration) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for old files in %s: %w", folder, err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > age {
			err = os.RemoveAll(filepath.Join(folder, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
