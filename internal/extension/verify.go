package extension

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"sluice/internal/sluice"
)

const hint = "run make extensions, or sluice doctor to see where they are looked for"

// supported refuses platforms for which nothing is pinned.
func supported() error {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return nil
	}
	return sluice.E("SLUICE-EXTENSION-MISSING", "verify engine extensions",
		fmt.Sprintf("no extensions are pinned for %s/%s, only for linux/amd64", runtime.GOOS, runtime.GOARCH), "run sluice on linux/amd64", nil)
}

// Verify checks that each pinned extension is in dir and is the pinned file: SLUICE-EXTENSION-MISSING, -HASH.
func Verify(dir string) error { return verify(dir, Pinned) }

// verify checks some of the extensions.
func verify(dir string, exts []Extension) error {
	if err := supported(); err != nil {
		return err
	}
	for _, e := range exts {
		if err := verifyFile(e, e.Path(dir)); err != nil {
			return err
		}
	}
	return nil
}

// verifyFile checks one file.
func verifyFile(e Extension, path string) error {
	doing := "verify engine extension " + e.Name
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return sluice.E("SLUICE-EXTENSION-MISSING", doing, path+" does not exist", hint, err)
	}
	if err != nil {
		return sluice.E("SLUICE-EXTENSION-MISSING", doing, "", hint, err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return sluice.E("SLUICE-EXTENSION-MISSING", doing, "", hint, err)
	}
	if n != e.Size {
		return sluice.E("SLUICE-EXTENSION-HASH", doing, fmt.Sprintf("%s has %d bytes instead of %d", path, n, e.Size), hint, nil)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != e.SHA256 {
		return sluice.E("SLUICE-EXTENSION-HASH", doing, fmt.Sprintf("%s has SHA-256 %s instead of %s", path, sum, e.SHA256), hint, nil)
	}
	return nil
}

// once remembers what this process has verified, by file path.
var once = struct {
	mu sync.Mutex
	ok map[string]bool
}{ok: map[string]bool{}}

// VerifyOnce is Verify for the named extensions (none: all); a file that was right once in this process is not read
// again. The engine checks the signature at each LOAD.
func VerifyOnce(dir string, names ...string) error {
	once.mu.Lock()
	defer once.mu.Unlock()
	for _, e := range Pinned {
		if len(names) > 0 && !slices.Contains(names, e.Name) || once.ok[e.Path(dir)] {
			continue
		}
		if err := verify(dir, []Extension{e}); err != nil {
			return err
		}
		once.ok[e.Path(dir)] = true
	}
	return nil
}
