package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// newLake says where the lake of a new org is. A PostgreSQL catalog is named once it is provisioned.
func newLake(cfg *config.Config, org sluice.Org, extra []string) (control.Lake, error) {
	l := control.Lake{
		Kind: cfg.Catalog.Kind, DataPath: filepath.Join(cfg.Store.URL, string(org)),
		ExtractPrefixes: append([]string{ExtractDir(cfg, org)}, cfg.Loader.ExtractPrefixes...),
	}
	if cfg.Catalog.Kind == config.CatalogDuckDB {
		l.Catalog = cfg.Path("catalogs", string(org)+".ducklake")
	} else {
		l.SecretRef = "catalog.role_key"
	}
	for _, p := range extra {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			return l, sluice.E("SLUICE-CONTROL-INVALID", fmt.Sprintf("create org %s", org), fmt.Sprintf("extract prefix %q is not an absolute directory below the root", p),
				"give a directory like /srv/extracts/acme", nil)
		}
		l.ExtractPrefixes = append(l.ExtractPrefixes, filepath.Clean(p))
	}
	return l, nil
}

// ExtractDir is the org's own directory of extracts: what `sluice enqueue` copies files to.
func ExtractDir(cfg *config.Config, org sluice.Org) string {
	return cfg.Path("extracts", string(org))
}

// pathPolicy refuses batches outside of the org's extract prefixes: the warehouse reads with its own rights, so a free
// path would leak any file of the machine.
func pathPolicy(orgs *control.Store) queue.PathPolicy {
	return func(ctx context.Context, org sluice.Org, path string) error {
		o, err := orgs.Org(ctx, org)
		if err != nil {
			return err
		}
		return allowed(path, o.Lake.ExtractPrefixes)
	}
}

// allowed says why path may not be read under prefixes, or nil.
func allowed(path string, prefixes []string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is not an absolute path of a local file", path)
	}
	if filepath.Clean(path) != path {
		return fmt.Errorf("%s is not in its shortest form, %s", path, filepath.Clean(path))
	}
	target, err := resolve(path)
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		if !below(path, filepath.Clean(prefix)) {
			continue
		}
		// A symbolic link below the prefix must not lead out of it.
		root, err := resolve(prefix)
		if err != nil {
			return err
		}
		if !below(target, root) {
			return fmt.Errorf("%s leads to %s, outside of %s", path, target, prefix)
		}
		return nil
	}
	return fmt.Errorf("%s is below none of %s", path, strings.Join(prefixes, ", "))
}

func below(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// resolve follows the symbolic links of a path whose last parts may not exist yet.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	if info, lerr := os.Lstat(path); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link to nothing", path)
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path, nil
	}
	parent, err := resolve(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// pin looks at a local file when its batch is enqueued. One that is not there (yet) is found by the loader.
func pin(_ context.Context, _ sluice.Org, path string) (queue.Pin, bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return queue.Pin{}, false, nil
	}
	if err != nil {
		return queue.Pin{}, false, fmt.Errorf("look at %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return queue.Pin{}, false, sluice.E("SLUICE-LOAD-PATH-REFUSED", "look at "+path, "it is not a file", "name the Parquet file itself", nil)
	}
	return queue.Pin{ByteSize: info.Size()}, true, nil
}
