package extension

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/sluice"
)

// Find returns the extension directory to use, verified once per process. An explicit directory must be right. Otherwise
// the first place that holds any of the files counts: "extensions" below dataDir, then "extensions", "../build/extensions"
// and "build/extensions" next to the executable; if none does, the binary's own copies are unpacked below dataDir. A
// place whose files are wrong is an error and never skipped: it would hide an attack or a damaged disk.
func Find(explicit, dataDir string) (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		exe = ""
	}
	return find(explicit, dataDir, exe, Unpack)
}

func find(explicit, dataDir, exe string, unpack func(string) (bool, error)) (string, error) {
	if explicit != "" {
		dir, err := filepath.Abs(explicit)
		if err != nil {
			return "", fmt.Errorf("find engine extensions: %w", err)
		}
		return dir, VerifyOnce(dir)
	}
	own, err := filepath.Abs(filepath.Join(dataDir, "extensions"))
	if err != nil {
		return "", fmt.Errorf("find engine extensions: %w", err)
	}
	places := []string{own}
	if exe != "" {
		at := filepath.Dir(exe)
		places = append(places, filepath.Join(at, "extensions"), filepath.Join(at, "..", "build", "extensions"), filepath.Join(at, "build", "extensions"))
	}
	for _, dir := range places {
		if !holdsAny(dir) {
			continue
		}
		err := VerifyOnce(dir)
		if dir != own || err == nil {
			return dir, err
		}
		// An unpacking that was cut short, or files of an earlier release: the binary's own copies mend it.
		if did, uerr := unpack(own); did {
			if uerr == nil {
				uerr = VerifyOnce(own)
			}
			return own, uerr
		}
		return dir, err
	}
	did, err := unpack(own)
	if err != nil {
		return "", err
	}
	if !did {
		return "", sluice.E("SLUICE-EXTENSION-MISSING", "find engine extensions",
			"there are none in "+strings.Join(places, ", ")+", and this binary carries none", "run make extensions, or give their directory", nil)
	}
	return own, VerifyOnce(own)
}

// holdsAny reports whether any pinned extension's file is in dir.
func holdsAny(dir string) bool {
	for _, e := range Pinned {
		if _, err := os.Stat(e.Path(dir)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
