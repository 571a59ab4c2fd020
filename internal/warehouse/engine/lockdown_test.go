package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/warehouse/engine"
)

// What the engine itself refuses, whatever the gate lets through.
func TestLockedDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := fileLake("acme", dir)
	other := fileLake("other", dir)
	r, _ := setup(t, engine.Options{}, cfg, other)
	write := func(path string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("a\n1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside, outside := write("acme/extracts/x.csv"), write("x.csv")
	sibling, foreign := write("acme/extracts2/x.csv"), write("other/extracts/x.csv")
	c := connect(t, r, "acme")
	run(t, c, "CREATE TABLE t AS SELECT 1 AS i")

	if got := text(t, c, "SELECT count(*) FROM '"+inside+"'"); got != "1" {
		t.Error("own extract:", got)
	}
	run(t, c, "COPY t TO '"+filepath.Join(cfg.Lake.DataPath, "w.parquet")+"'")
	for name, q := range map[string]string{
		"file outside":           "SELECT * FROM '" + outside + "'",
		"sibling of the prefix":  "SELECT * FROM '" + sibling + "'",
		"other org's extract":    "SELECT * FROM '" + foreign + "'",
		"other org's catalog":    "SELECT * FROM read_blob('" + other.Lake.Catalog + "')",
		"dots":                   "SELECT * FROM read_text('" + filepath.Dir(inside) + "/../../x.csv')",
		"dots into the sibling":  "SELECT * FROM read_text('" + filepath.Dir(inside) + "/../extracts2/x.csv')",
		"system file":            "SELECT * FROM read_text('/etc/passwd')",
		"process":                "SELECT * FROM read_text('/proc/self/environ')",
		"glob":                   "SELECT * FROM glob('" + dir + "/*')",
		"http":                   "SELECT * FROM 'http://127.0.0.1:1/x.csv'",
		"s3":                     "SELECT * FROM 's3://bucket/x.csv'",
		"copy outside":           "COPY t TO '" + filepath.Join(dir, "y.csv") + "'",
		"export":                 "EXPORT DATABASE '" + filepath.Join(dir, "export") + "'",
		"import":                 "IMPORT DATABASE '" + dir + "'",
		"attach a file":          "ATTACH '" + filepath.Join(dir, "y.db") + "' AS y",
		"attach another catalog": "ATTACH 'ducklake:" + other.Lake.Catalog + "' AS y",
		"attach postgres":        "ATTACH 'host=127.0.0.1' AS y (TYPE postgres)",
		"load":                   "LOAD httpfs",
		"load a file":            "LOAD '" + filepath.Join(dir, "y.duckdb_extension") + "'",
		"install":                "INSTALL httpfs",
		"external access":        "SET enable_external_access = true",
		"external access, reset": "RESET enable_external_access",
		"allowed directories":    "SET allowed_directories = ['/']",
		"allowed paths":          "SET allowed_paths = ['/etc/passwd']",
		"spill directory":        "SET temp_directory = '/tmp'",
		"unsigned extensions":    "SET allow_unsigned_extensions = true",
		"unredacted secrets":     "SET allow_unredacted_secrets = true",
		"secrets in clear":       "SELECT * FROM duckdb_secrets(redact = false)",
		"secret on disk":         "CREATE PERSISTENT SECRET s (TYPE ducklake, METADATA_PATH 'x')",
		"query log":              "SET log_query_path = '" + filepath.Join(dir, "log") + "'",
	} {
		_, err := c.ExecContext(t.Context(), q)
		if err == nil {
			t.Errorf("%s was let through: %s", name, q)
		} else if strings.Contains(err.Error(), "Parser Error") {
			t.Errorf("%s: the test is wrong: %v", name, err)
		}
	}
	for _, p := range []string{"y.csv", "y.db", "export", "log"} {
		if _, err := os.Stat(filepath.Join(dir, p)); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	// All that leaves the connection and the instance in order.
	if got := text(t, c, "SELECT count(*) FROM t"); got != "1" {
		t.Error(got)
	}
	if st := r.Status(); st.Closing != 0 {
		t.Errorf("%+v", st)
	}
}

// A remote prefix loads the object store extension, and opens nothing beyond that prefix.
func TestRemotePrefix(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	cfg.ReadPrefixes = append(cfg.ReadPrefixes, "s3://bucket/extracts")
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	if got := text(t, c, "concat_ws(' ', current_setting('http_retries'), current_setting('http_retry_wait_ms'), current_setting('http_retry_backoff'))"); got != "10 500 2.0" {
		t.Error(got)
	}
	for _, path := range []string{
		"s3://bucket/x.csv", "s3://bucket/extracts2/x.csv", "s3://other/extracts/x.csv",
		"http://127.0.0.1:1/x.csv", "https://127.0.0.1:1/x.csv", "hf://datasets/x/y.csv", "gcs://bucket/extracts/x.csv", "r2://bucket/extracts/x.csv",
	} {
		if _, err := c.ExecContext(t.Context(), "SELECT * FROM '"+path+"'"); err == nil || !strings.Contains(err.Error(), "Permission Error") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
