package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/sluice"
)

// LakeKind says where a lake keeps its catalog.
type LakeKind string

// The kinds of lakes.
const (
	LakeDuckDB   LakeKind = "duckdb"   // a DuckDB file: one process, cheapest commits
	LakePostgres LakeKind = "postgres" // a PostgreSQL database of its own: many processes
)

// Lake is one DuckLake catalog with its data path.
type Lake struct {
	Kind LakeKind
	// Catalog is the absolute path of the catalog file, or a libpq keyword string without a password
	// ("host=… port=… dbname=… user=…").
	Catalog string
	// Password of the catalog's role; PostgreSQL only. It reaches the engine as a secret and is shown nowhere.
	Password string
	// DataPath is where the Parquet files are: an absolute local directory or an s3:// prefix.
	DataPath string
}

// Config is what an instance is opened with. Apart from Org, Lake and Extensions the zero value is the default.
type Config struct {
	Org  sluice.Org
	Lake Lake
	// Extensions is the engine's extension directory, see extension.Find.
	Extensions string
	// ReadPrefixes are the directories and s3:// prefixes, beside the data path, that statements may read and write:
	// the org's extract and staging prefixes. Nothing else outside the lake can be reached.
	ReadPrefixes []string
	// MemoryBytes is the engine's memory limit; 0 is DefaultMemoryBytes.
	MemoryBytes int64
	// SpillBytes limits the spill directory; 0 leaves it to the engine (90 % of the free disk).
	SpillBytes int64
	// Threads of the engine; 0 is one per CPU.
	Threads int
	// TempDir is the directory in which each instance makes its own spill directory; empty is the system's.
	TempDir string
	// PoolSize is how many connections to a PostgreSQL catalog the instance keeps; 0 is DefaultPoolSize.
	PoolSize int
}

// Defaults of Config.
const (
	DefaultMemoryBytes int64 = 2 << 30
	DefaultPoolSize          = 8
)

// Source says how an org's instance is to be opened. Registry asks it once per opening, not per connection.
type Source interface {
	// Warehouse returns the configuration of org, or SLUICE-CONTROL-NO-ORG, or SLUICE-CONTROL-NOT-READY.
	Warehouse(ctx context.Context, org sluice.Org) (Config, error)
}

// Key names the lake itself, whatever way its catalog was written down: two configurations with one key are one lake.
func (l Lake) Key() (string, error) {
	if l.Kind == LakePostgres {
		kv, err := parseDSN(l.Catalog)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("postgres:%s:%s/%s", strings.ToLower(kv.get("host", "localhost")), kv.get("port", "5432"), kv.get("dbname", kv.get("user", ""))), nil
	}
	p, err := canonicalPath(l.Catalog)
	if err != nil {
		return "", err
	}
	return "duckdb:" + p, nil
}

// canonicalPath resolves symbolic links in path, whose last parts may not exist yet.
func canonicalPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("canonical path of %s: not absolute", path)
	}
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	} else if !os.IsNotExist(err) {
		return "", fmt.Errorf("canonical path of %s: %w", path, err)
	}
	if path == filepath.Dir(path) {
		return path, nil
	}
	dir, err := canonicalPath(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// withDefaults fills in the defaults and normalises paths; it refuses what cannot be opened.
func (c Config) withDefaults() (Config, error) {
	bad := func(what string) error {
		return sluice.E("SLUICE-CONFIG", fmt.Sprintf("open engine of org %s", c.Org), what, "check the org's warehouse configuration", nil)
	}
	switch c.Lake.Kind {
	case LakeDuckDB:
		if !filepath.IsAbs(c.Lake.Catalog) {
			return c, bad("the catalog path is not absolute")
		}
		c.Lake.Catalog = filepath.Clean(c.Lake.Catalog)
	case LakePostgres:
		kv, err := parseDSN(c.Lake.Catalog)
		if err != nil {
			return c, bad("the catalog is not a libpq keyword string")
		}
		if kv.get("password", "") != "" {
			return c, bad("the catalog string contains a password")
		}
	default:
		return c, bad(fmt.Sprintf("lake kind %q is unknown", c.Lake.Kind))
	}
	var err error
	if c.Lake.DataPath, err = prefix(c.Lake.DataPath); err != nil {
		return c, bad("data path: " + err.Error())
	}
	if strings.Contains(c.Lake.DataPath, "=") {
		return c, bad("data path: the extension takes a = in it for a partition (duckdb/ducklake#1027)")
	}
	prefixes := make([]string, 0, len(c.ReadPrefixes))
	for _, p := range c.ReadPrefixes {
		if p, err = prefix(p); err != nil {
			return c, bad("read prefix: " + err.Error())
		}
		prefixes = append(prefixes, p)
	}
	c.ReadPrefixes = prefixes
	if c.MemoryBytes <= 0 {
		c.MemoryBytes = DefaultMemoryBytes
	}
	if c.PoolSize <= 0 {
		c.PoolSize = DefaultPoolSize
	}
	if c.TempDir == "" {
		c.TempDir = os.TempDir()
	}
	return c, nil
}

// prefix normalises a directory or object prefix to end with one slash, so that "a/data" never allows "a/data2".
func prefix(p string) (string, error) {
	if isRemote(p) {
		if strings.Contains(p, "?") || slices.Contains(strings.Split(p, "/"), "..") {
			return "", fmt.Errorf("%q has parameters or .. in it", p) // the engine would follow them to other places
		}
		return strings.TrimRight(p, "/") + "/", nil
	}
	if !filepath.IsAbs(p) {
		return "", fmt.Errorf("%q is not absolute", p)
	}
	p = filepath.Clean(p)
	if p == "/" {
		return "", errors.New("the root directory is not a prefix")
	}
	return p + "/", nil
}

// isRemote reports whether p is an object store prefix.
func isRemote(p string) bool { return strings.HasPrefix(p, "s3://") }

// remote reports whether any path of c needs the object store extension.
func (c Config) remote() bool {
	if isRemote(c.Lake.DataPath) {
		return true
	}
	for _, p := range c.ReadPrefixes {
		if isRemote(p) {
			return true
		}
	}
	return false
}
