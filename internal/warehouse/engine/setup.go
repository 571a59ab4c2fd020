package engine

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/extension"
	"sluice/internal/sluice"
)

// Versions that this binary knows (lake.md §2): the engine and its extensions are one pinned set, and a lake's catalog
// must have the version that the set writes.
const catalogVersion = "1.0"

// catalogSecret is the name of the secret that holds the catalog's password.
const catalogSecret = "sluice_catalog"

// metadata is the name under which the ducklake extension attaches the catalog of "lake".
const metadata = "__ducklake_metadata_lake"

// step is one statement of opening an instance; name is what an error says.
type step struct{ name, sql string }

// setUp runs the steps of opening in the one order that works: settings, extensions, secrets, pool, ATTACH, versions,
// lock-down.
func (i *instance) setUp(ctx context.Context, create bool) error {
	conn, err := i.db.Conn(ctx)
	if err != nil {
		return openError(i.cfg.Org, "start engine", err)
	}
	defer func() { _ = conn.Close() }()
	for _, s := range i.steps() {
		if err := i.exec(ctx, conn, s); err != nil {
			return err
		}
	}
	if err := i.exec(ctx, conn, step{"attach lake", attachSQL(i.cfg, create)}); err != nil {
		return err
	}
	if err := i.checkPool(ctx, conn); err != nil {
		return err
	}
	if err := i.checkVersions(ctx, conn); err != nil {
		return err
	}
	for _, s := range lockDown(i.cfg) {
		if err := i.exec(ctx, conn, s); err != nil {
			return err
		}
	}
	return nil
}

// exec runs one step under its own deadline.
func (i *instance) exec(ctx context.Context, conn *sql.Conn, s step) error {
	ctx, cancel := context.WithTimeout(ctx, i.reg.opt.StepTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, s.sql); err != nil {
		return openError(i.cfg.Org, s.name, i.scrub(err))
	}
	return nil
}

// steps are the statements before ATTACH.
func (i *instance) steps() []step {
	cfg := i.cfg
	set := func(name, value string) step { return step{"set " + name, "SET GLOBAL " + name + " = " + value} }
	out := []step{
		set("extension_directory", quoteLiteral(cfg.Extensions)),
		set("autoinstall_known_extensions", "false"),
		set("autoload_known_extensions", "false"),
		set("allow_community_extensions", "false"),
		set("allow_persistent_secrets", "false"),
		set("memory_limit", quoteLiteral(fmt.Sprintf("%dB", cfg.MemoryBytes))),
		set("temp_directory", quoteLiteral(i.spill.path)),
		set("TimeZone", "'UTC'"),
		// This optimizer corrupts memory where a MERGE reads the newest row of a key from a file (docs/adr/0006).
		set("disabled_optimizers", "'top_n_window_elimination'"),
	}
	if cfg.SpillBytes > 0 {
		out = append(out, set("max_temp_directory_size", quoteLiteral(fmt.Sprintf("%dB", cfg.SpillBytes))))
	}
	if cfg.Threads > 0 {
		out = append(out, set("threads", fmt.Sprint(cfg.Threads)))
	}
	for _, name := range needed(cfg) {
		out = append(out, step{"load extension " + name, "LOAD " + name})
	}
	// Commits of one lake race for the next snapshot id, and the loser tries again. The default waits half as long again each
	// time: the twentieth wait would be minutes (docs/adr/0009).
	out = append(out, set("ducklake_max_retry_count", "50"), set("ducklake_retry_wait_ms", "50"), set("ducklake_retry_backoff", "1.1"))
	if cfg.remote() {
		out = append(out, set("http_retries", "10"), set("http_retry_wait_ms", "500"), set("http_retry_backoff", "2"))
	}
	if cfg.Lake.Kind == LakePostgres {
		out = append(out, set("pg_pool_max_connections", fmt.Sprint(cfg.PoolSize)))
		if cfg.Lake.Password != "" {
			out = append(out, step{"store the catalog's credential", fmt.Sprintf("CREATE SECRET %s (TYPE postgres, PASSWORD %s)", catalogSecret, quoteLiteral(cfg.Lake.Password))})
		}
	}
	return out
}

// needed lists the extensions that cfg's lake needs; loading costs 50 to 180 ms each.
func needed(cfg Config) []string {
	names := []string{"ducklake"}
	if cfg.Lake.Kind == LakePostgres {
		names = append(names, "postgres_scanner")
	}
	if cfg.remote() {
		names = append(names, "httpfs")
	}
	return names
}

// verifyExtensions checks the files that cfg needs, once per process.
func verifyExtensions(cfg Config) error {
	if err := extension.VerifyOnce(cfg.Extensions, needed(cfg)...); err != nil {
		return fmt.Errorf("open engine of org %s: %w", cfg.Org, err)
	}
	return nil
}

// attachSQL is the ATTACH statement of cfg's lake.
func attachSQL(cfg Config, create bool) string {
	target := "ducklake:" + cfg.Lake.Catalog
	opts := []string{
		"DATA_PATH " + quoteLiteral(cfg.Lake.DataPath),
		fmt.Sprintf("CREATE_IF_NOT_EXISTS %t", create),
	}
	if cfg.Lake.Kind == LakePostgres {
		kv, err := parseDSN(cfg.Lake.Catalog)
		if err != nil {
			kv = keywords{} // withDefaults has parsed it before
		}
		for _, d := range [][2]string{
			{"connect_timeout", "10"},
			{"keepalives", "1"},
			{"keepalives_idle", "30"},
			{"keepalives_interval", "10"},
			{"keepalives_count", "3"},
			{"application_name", "sluice"},
		} {
			kv.setDefault(d[0], d[1])
		}
		target = "ducklake:postgres:" + kv.String()
		if cfg.Lake.Password != "" {
			opts = append(opts, "META_SECRET "+quoteLiteral(catalogSecret))
		}
	}
	return fmt.Sprintf("ATTACH %s AS lake (%s)", quoteLiteral(target), strings.Join(opts, ", "))
}

// checkPool makes sure that the pool setting took effect: the engine takes it up at ATTACH and at no other time. It is the
// number of connections that are kept, not a limit: a transaction may need several, and with the engine's waiting mode
// transactions that each hold one wait for each other.
func (i *instance) checkPool(ctx context.Context, conn *sql.Conn) error {
	if i.cfg.Lake.Kind != LakePostgres {
		return nil
	}
	var n int
	err := conn.QueryRowContext(ctx, "SELECT max_connections FROM postgres_configure_pool(catalog_name = ?)", metadata).Scan(&n)
	if err != nil {
		return openError(i.cfg.Org, "check the pool size", i.scrub(err))
	}
	if n != i.cfg.PoolSize {
		return openError(i.cfg.Org, "check the pool size", fmt.Errorf("it is %d instead of %d", n, i.cfg.PoolSize))
	}
	return nil
}

// checkVersions refuses an extension or a catalog of another version than the pinned set.
func (i *instance) checkVersions(ctx context.Context, conn *sql.Conn) error {
	doing := fmt.Sprintf("open engine of org %s: check versions", i.cfg.Org)
	refuse := func(what string) error {
		return sluice.E("SLUICE-LAKE-VERSION", doing, what, "use the release of sluice that fits the lake, or run sluice migrate after a backup", nil)
	}
	for _, name := range needed(i.cfg) {
		var v string
		if err := conn.QueryRowContext(ctx, "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = ? AND loaded", name).Scan(&v); err != nil {
			return openError(i.cfg.Org, "check versions", i.scrub(err))
		}
		if want := extension.Version(name); v != want {
			return refuse(fmt.Sprintf("extension %s has version %s, known is %s", name, v, want))
		}
	}
	var v string
	if err := conn.QueryRowContext(ctx, "SELECT value FROM "+metadata+".ducklake_metadata WHERE key = 'version' AND scope IS NULL").Scan(&v); err != nil {
		return openError(i.cfg.Org, "check versions", i.scrub(err))
	}
	if v != catalogVersion {
		return refuse(fmt.Sprintf("the lake's catalog has version %s, known is %s", v, catalogVersion))
	}
	return nil
}

// lockDown are the statements that shut the engine off from everything but the lake and the org's prefixes. Neither can be
// undone while the instance lives.
func lockDown(cfg Config) []step {
	dirs := append([]string{cfg.Lake.DataPath}, cfg.ReadPrefixes...)
	return []step{
		{"set allowed_directories", "SET GLOBAL allowed_directories = " + quoteList(dirs)},
		{"set enable_external_access", "SET GLOBAL enable_external_access = false"},
	}
}

// checkCatalog says plainly that a catalog file is missing; the engine would name it in a longer way.
func checkCatalog(cfg Config) error {
	if cfg.Lake.Kind != LakeDuckDB {
		return nil
	}
	if _, err := os.Stat(cfg.Lake.Catalog); err != nil {
		return sluice.E("SLUICE-ENGINE-OPEN", fmt.Sprintf("open engine of org %s", cfg.Org), "",
			"provision the org's warehouse first, or restore its catalog from a backup", err)
	}
	return nil
}

func parent(path string) string { return filepath.Dir(path) }
