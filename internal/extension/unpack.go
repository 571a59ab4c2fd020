package extension

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/sluice"
)

// carried holds the extensions inside a release binary as "<name>.duckdb_extension.gz"; nil in other builds. Build tag
// embed_extensions sets it.
var carried fs.FS

// Unpack writes the extensions that this binary carries into dir, where they are not right already, and reports whether
// it carries any. A crash at any point leaves whole files or none; several processes may do it at once.
func Unpack(dir string) (bool, error) {
	if carried == nil {
		return false, nil
	}
	if err := supported(); err != nil {
		return true, err
	}
	return true, unpack(carried, dir, Pinned)
}

func unpack(from fs.FS, dir string, exts []Extension) error {
	for _, e := range exts {
		target := e.Path(dir)
		if verifyFile(e, target) == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("unpack engine extension %s: %w", e.Name, err)
		}
		if err := unpackOne(from, e, target); err != nil {
			return err
		}
	}
	return nil
}

// unpackOne writes one file beside its target and moves it into place once its hash is right.
func unpackOne(from fs.FS, e Extension, target string) (err error) {
	doing := "unpack engine extension " + e.Name
	src, err := from.Open(e.Name + ".duckdb_extension.gz")
	if err != nil {
		return sluice.E("SLUICE-EXTENSION-MISSING", doing, "", "this binary was built wrongly: get the release again", err)
	}
	defer func() { _ = src.Close() }()
	z, err := gzip.NewReader(src)
	if err != nil {
		return sluice.E("SLUICE-EXTENSION-HASH", doing, "", "this binary is damaged: get the release again", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), "."+e.Name+"-*.tmp")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone by then if all went well
	_, err = io.Copy(tmp, io.LimitReader(z, e.Size+1))
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := verifyFile(e, tmp.Name()); err != nil {
		return err
	}
	return publish(e, tmp.Name(), target)
}

// Pack writes the files of dir, which must be the pinned ones, compressed into to: what a release build embeds.
func Pack(dir, to string) error {
	return pack(dir, to, Pinned)
}

func pack(dir, to string, exts []Extension) error {
	if err := verify(dir, exts); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("pack engine extensions: %w", err)
	}
	for _, e := range exts {
		if err := packOne(e.Path(dir), filepath.Join(to, e.Name+".duckdb_extension.gz")); err != nil {
			return fmt.Errorf("pack engine extension %s: %w", e.Name, err)
		}
	}
	return nil
}

func packOne(file, to string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close(), out.Close())
}
