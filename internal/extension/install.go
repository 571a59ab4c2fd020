package extension

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"

	"sluice/internal/sluice"
)

// Install puts the pinned extensions into dir; files that are right already stay. Each comes from the Python package
// index by pip, so that the user's mirrors and certificates are respected, or else from DuckDB's own repository. Whatever
// the way, only a file with the pinned hash is put in place. The build calls it, a running Sluice never does. progress
// may be nil; it gets one short line per step.
func Install(ctx context.Context, dir string, progress func(line string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	return install(ctx, dir, Pinned, []way{{"pip", fromPip}, {"duckdb", fromDuckDB}}, progress)
}

// way is one source of extensions: get leaves e's file, unverified, at the path it returns, below tmp.
type way struct {
	name string
	get  func(ctx context.Context, e Extension, tmp string) (file string, err error)
}

func install(ctx context.Context, dir string, exts []Extension, ways []way, progress func(string)) error {
	if err := supported(); err != nil {
		return err
	}
	for _, e := range exts {
		if verifyFile(e, e.Path(dir)) == nil {
			progress(e.Name + ": in place")
			continue
		}
		if err := installOne(ctx, dir, e, ways, progress); err != nil {
			return err
		}
	}
	return nil
}

// installOne tries the ways in order.
func installOne(ctx context.Context, dir string, e Extension, ways []way, progress func(string)) error {
	target := e.Path(dir)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("install engine extension %s: %w", e.Name, err)
	}
	// Beside the target, because a rename must stay within one file system.
	tmp, err := os.MkdirTemp(dir, ".install-")
	if err != nil {
		return fmt.Errorf("install engine extension %s: %w", e.Name, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	var causes []string
	for _, w := range ways {
		progress(e.Name + ": from " + w.name)
		file, err := w.get(ctx, e, tmp)
		if err == nil {
			if err = verifyFile(e, file); err == nil {
				return publish(e, file, target)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("install engine extension %s: %w", e.Name, context.Cause(ctx))
		}
		causes = append(causes, w.name+": "+err.Error())
	}
	return sluice.E("SLUICE-EXTENSION-MISSING", "install engine extension "+e.Name, strings.Join(causes, "; "),
		fmt.Sprintf("get %s==%s (wheel SHA-256 %s) by hand, unpack the .duckdb_extension file to %s", e.Wheel, Engine, e.WheelSHA256, target), nil)
}

// publish moves a verified file into place: synced first, so that a crash leaves the whole file or none.
func publish(e Extension, file, target string) error {
	doing := "put engine extension " + e.Name + " in place"
	if err := os.Chmod(file, 0o644); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := syncFile(file); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := os.Rename(file, target); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := syncFile(filepath.Dir(target)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// syncFile flushes a file or directory to disk.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

// fromPip downloads e's wheel with pip and unpacks the one file.
func fromPip(ctx context.Context, e Extension, tmp string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
		"--platform", "manylinux2014_x86_64", "--dest", tmp, e.Wheel+"=="+Engine)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLine(out))
	}
	wheels, err := filepath.Glob(filepath.Join(tmp, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("%d wheels downloaded instead of 1", len(wheels))
	}
	return unpackWheel(e, wheels[0], tmp)
}

// unpackWheel checks the wheel's hash and writes e's file below tmp.
func unpackWheel(e Extension, wheel, tmp string) (string, error) {
	sum, err := fileSHA256(wheel)
	if err != nil {
		return "", err
	}
	if sum != e.WheelSHA256 {
		return "", fmt.Errorf("%s has SHA-256 %s instead of %s", filepath.Base(wheel), sum, e.WheelSHA256)
	}
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(wheel), err)
	}
	defer func() { _ = z.Close() }()
	want := path.Join("extensions", "v"+Engine, e.Name+".duckdb_extension")
	for _, member := range z.File {
		if !strings.HasSuffix(member.Name, "/"+want) {
			continue
		}
		r, err := member.Open()
		if err != nil {
			return "", fmt.Errorf("read %s: %w", member.Name, err)
		}
		defer func() { _ = r.Close() }()
		file := filepath.Join(tmp, e.Name+".unpacked")
		return file, writeFile(file, io.LimitReader(r, e.Size+1))
	}
	return "", fmt.Errorf("%s has no %s", filepath.Base(wheel), want)
}

// fromDuckDB lets the engine install e from its own repository.
func fromDuckDB(ctx context.Context, e Extension, tmp string) (_ string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, q := range []string{
		"SET GLOBAL extension_directory = '" + strings.ReplaceAll(tmp, "'", "''") + "'",
		"INSTALL " + e.Name,
	} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return "", err
		}
	}
	return e.Path(tmp), nil
}

// writeFile writes r to a new file.
func writeFile(name string, r io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// fileSHA256 is the hash of a file, in hex.
func fileSHA256(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lastLine is the last line of a command's output: pip's reason.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if l := strings.TrimSpace(lines[i]); l != "" && !strings.Contains(l, "notice") {
			return l
		}
	}
	return "no output"
}
