package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/sluice"
)

// extract is a file that is handed in.
type extract struct {
	from string // absolute path of the argument
	path string // what the server is told
	sum  string // SHA-256 of its contents in hex; empty with --as-is
}

func (e extract) copied() bool { return e.path != e.from }

// inspect looks at the files before anything is changed: each must be there.
func inspect(names []string, asIs bool) ([]extract, error) {
	var out []extract
	for _, name := range names {
		if asIs {
			out = append(out, extract{from: name, path: name})
			continue
		}
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		sum, err := hash(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, sluice.E("SLUICE-NOT-FOUND", "read "+name, "there is no such file", "check the path; nothing was enqueued", err)
		case err != nil:
			return nil, sluice.E("SLUICE-USAGE", "read "+name, "", "name Parquet files that can be read; nothing was enqueued", err)
		}
		out = append(out, extract{from: abs, path: abs, sum: sum})
	}
	return out, nil
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// runIDOf names a run after its contents (paths, with --as-is), so that the same command always means the same run.
func runIDOf(files []extract) string {
	h := sha256.New()
	for _, f := range files {
		if f.sum == "" {
			fmt.Fprintf(h, "path %s\n", f.path)
		} else {
			fmt.Fprintf(h, "sha256 %s\n", f.sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// place decides under which path the server reads the file: its own if that is below one of the org's prefixes, else a
// copy below the first one.
func (e *extract) place(prefixes []string, stream sluice.StreamID, run string, index int, dry bool) error {
	if e.sum == "" {
		return nil
	}
	for _, p := range prefixes {
		if strings.HasPrefix(e.path, strings.TrimRight(p, "/")+"/") {
			return nil
		}
	}
	if len(prefixes) == 0 || !filepath.IsAbs(prefixes[0]) {
		return sluice.E("SLUICE-LOAD-PATH-REFUSED", "copy "+e.from, "the org has no local extract directory", "put the file where the org may read it", nil)
	}
	e.path = filepath.Join(prefixes[0], string(stream), fileName(run), fmt.Sprintf("%d-%s.parquet", index, e.sum[:16]))
	if dry {
		return nil
	}
	if err := copyFile(e.from, e.path); err != nil {
		return sluice.E("SLUICE-LOAD-DISK", "copy "+e.from+" to "+e.path, "", "check space and rights of the data directory; nothing was enqueued", err)
	}
	return nil
}

// fileName makes one path element of a run id, which may hold any character.
func fileName(run string) string {
	var b strings.Builder
	for i := range len(run) {
		c := run[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > 200 { // most file systems end at 255 bytes
		sum := sha256.Sum256([]byte(run))
		return hex.EncodeToString(sum[:])
	}
	return b.String()
}

// copyFile copies a file so that the new name appears with all of its contents or not at all. What is there already has
// the same contents: they are in the name.
func copyFile(from, to string) (err error) {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("make its directory: %w", err)
	}
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = src.Close() }()
	tmp, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return fmt.Errorf("make a file beside it: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err := io.Copy(tmp, src); err != nil {
		return fmt.Errorf("write it: %w", err)
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write it: %w", err)
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		return fmt.Errorf("name it: %w", err)
	}
	dir, err := os.Open(filepath.Dir(to)) // the name is safe once its directory is
	if err != nil {
		return fmt.Errorf("open its directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
