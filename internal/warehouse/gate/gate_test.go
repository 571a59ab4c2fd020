package gate_test

import (
	"testing"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

func verdict(role auth.Role, sql string) string {
	err := gate.Check(auth.Principal{Org: "acme", Name: "x", Role: role}, token.Scan(sql))
	if err == nil {
		return ""
	}
	return sqlstate.From(err).Code
}

func TestTenantsMay(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"SELECT 1", "select * from t where name = '/etc/passwd'", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM t SELECT a", "VALUES (1)",
		"SELECT 'read_csv(''x'')', \"read me\" FROM t", "SELECT a AS \"Sum of a/b\", 'x.csv' FROM t", "SELECT count(*) FROM \"Table 1\"",
		"SELECT query FROM logs WHERE query = 'x'", "SELECT glob, options, snapshots FROM t", "INSERT INTO t VALUES ('a/b', 'x.parquet')",
		"INSERT INTO t (a) SELECT b FROM u, v WHERE c IN ('x', 'y')", "UPDATE t SET a = 'x.csv', b = 'y/z' WHERE c = 'd/e'",
		"DELETE FROM t WHERE a = 'x'", "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = 'x'",
		"CREATE TABLE t (a VARCHAR DEFAULT 'x/y')", "CREATE TEMP TABLE t AS SELECT 1", "CREATE OR REPLACE VIEW v AS SELECT * FROM t",
		"CREATE MACRO f(a) AS a + 1", "CREATE SCHEMA s", "DROP TABLE t", "ALTER TABLE t ADD COLUMN a INT", "COMMENT ON TABLE t IS 'x.csv'",
		"TRUNCATE t", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "EXPLAIN (FORMAT json) SELECT 1", "DESCRIBE t", "SHOW TABLES", "SUMMARIZE t",
		"PREPARE p AS SELECT $1", "EXECUTE p('a/b')", "PIVOT t ON a USING sum(b)", "SELECT * FROM range(10), unnest(['a', 'b'])",
		"SELECT substring('abc' FROM 2), extract(year FROM d), trim(BOTH 'x' FROM s), position('a' IN b) FROM t", "SELECT * FROM lake.snapshots()",
		"SELECT * FROM t AT (VERSION => 3)", "SELECT a FROM t ORDER BY 1 LIMIT 5 OFFSET 2", "SELECT [1,2], {'a': 1}, MAP {'x': 'y'}",
		"SELECT interval '1 day', date '2020-01-01', x -> 'a' ->> 'b'", "SELECT CASE WHEN a = 'x' THEN 'y/z' END", "SELECT f(a => 'x.csv') FROM t",
		"SELECT * FROM (VALUES ('a/b.csv', 1)) v(x, y)", "SELECT * FROM t JOIN u USING (id) WHERE a LIKE '%.csv'", "SELECT DISTINCT ON (a) * FROM t",
		"SELECT count(*) FILTER (WHERE a = 'x.csv') FROM t", "INSERT INTO t BY NAME SELECT 1 AS a ON CONFLICT DO NOTHING",
	} {
		if v := verdict(auth.Owner, sql); v != "" {
			t.Errorf("%s: %s", sql, v)
		}
	}
}

// What a locked engine would still do for a tenant, and disguises of it.
func TestTenantsMayNot(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"ATTACH ':memory:' AS x", "attach/**/'x' (TYPE postgres)", "DETACH lake", "LOAD httpfs", "INSTALL httpfs", "FORCE INSTALL x", "PRAGMA version",
		"CALL pragma_version()", "CREATE SECRET s (TYPE s3)", "CREATE OR REPLACE PERSISTENT SECRET s (TYPE s3)", "DROP SECRET s", "EXPORT DATABASE 'x'", "IMPORT DATABASE 'x'",
		"CHECKPOINT", "FORCE CHECKPOINT lake", "VACUUM", "USE memory", "COPY t TO 'x.csv'", "COPY t FROM 's3://x'", "COPY (SELECT 1) TO 'x'", "COPY FROM DATABASE a TO b",
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM READ_CSV('/etc/passwd')", "SELECT * FROM \"read_csv\"('/etc/passwd')", "SELECT * FROM read_csv /* x */ -- y\n ('/etc/passwd')",
		"SELECT * FROM U&\"re\\0061d_csv\"('/etc/passwd')", "SELECT * FROM main.read_text('x')", "SELECT * FROM system.main.\"glob\"('*')", "SELECT * FROM read_parquet\u00a0('x')", "SELECT * FROM read_blob\u200b('x')",
		"SELECT * FROM '/etc/passwd'", "SELECT * FROM 'x.parquet' t", "FROM 'x.parquet'", "SELECT * FROM t, 'x.parquet'", "SELECT * FROM t JOIN 'x.parquet' ON true", "SELECT * FROM (t CROSS JOIN 'x.csv')",
		"SELECT * FROM \"/etc/passwd\"", "SELECT * FROM \"x.parquet\"", "SELECT * FROM \"s3://b/x\"", "SELECT * FROM a, \"x.CSV\"", "SELECT * FROM U&\"x\\002Ecsv\"", "SELECT * FROM E'x.csv'", "SELECT * FROM $$x.csv$$",
		"DESCRIBE 'x.csv'", "SUMMARIZE 'x.csv'", "PIVOT 'x.csv' ON a", "TABLE 'x.csv'", "INSERT INTO t SELECT * FROM 'x.csv'", "INSERT INTO t FROM 'x.csv'", "CREATE TABLE t AS FROM 'x.csv'", "CREATE VIEW v AS SELECT * FROM 'x.csv'",
		"SELECT (SELECT count(*) FROM 'x.csv')", "SELECT * FROM t WHERE a IN (FROM 'x.csv')", "WITH a AS (FROM 'x.csv') SELECT * FROM a", "MERGE INTO t USING 'x.csv' u ON true WHEN MATCHED THEN DELETE", "UPDATE t SET a = 1 FROM 'x.csv'", "DELETE FROM t USING 'x.csv' u",
		"SELECT 1=1FROM 'x.csv'", "SELECT * FROM t WHERE 1=1UNION FROM 'x.csv'",
		"SELECT * FROM __ducklake_metadata_lake.ducklake_table", "DELETE FROM \"__DUCKLAKE_metadata_lake\".main.ducklake_data_file", "SELECT * FROM U&\"\\005f\\005fducklake_metadata_lake\".x.y",
		"SELECT * FROM postgres_query('x', 'SELECT 1')", "SELECT * FROM postgres_scan('x', 'y', 'z')", "CALL postgres_execute('x', 'DROP TABLE y')", "SELECT * FROM sqlite_scan('x', 'y')",
		"SELECT * FROM query('SELECT 1')", "SELECT * FROM query_table('t')", "SELECT * FROM \"query\" ('FROM ''x''')", "SELECT * FROM json_execute_serialized_sql('x')",
		"SELECT * FROM ducklake_expire_snapshots('lake')", "SELECT * FROM ducklake_merge_adjacent_files('lake')", "CALL lake.set_commit_message('a', 'b')", "SELECT * FROM lake.merge_adjacent_files()", "CALL ducklake_add_data_files('lake', 't', 'x')",
		"SELECT * FROM duckdb_secrets()", "FROM duckdb_databases", "SELECT * FROM duckdb_databases()", "SELECT * FROM duckdb_settings()", "SELECT getenv('HOME')", "SELECT 'HOME'.getenv()",
		"PREPARE p AS ATTACH 'x'", "PREPARE p AS SELECT * FROM read_csv('x')", "PREPARE p AS COMMIT", "EXPLAIN ANALYZE ATTACH 'x'", "EXPLAIN COPY t TO 'x'", "EXPLAIN CREATE SECRET s (TYPE s3)",
		"CREATE MACRO f() AS TABLE SELECT * FROM read_csv('x')", "CREATE VIEW v AS FROM query('x')", "ALTER DATABASE lake SET ALIAS TO x", "SHOW DATABASES", "SET VARIABLE a = 1",
		"GRANT ALL ON t TO x", "DO $$ x $$", "SELECT parquet_bloom_probe('x', 'y', 1)", "SELECT * FROM sniff_csv('x')",
	} {
		for _, role := range []auth.Role{auth.Owner, auth.Writer, auth.Reader} {
			if v := verdict(role, sql); v != "42501" && gate.ReadLocal(token.Scan(sql)) == nil {
				t.Errorf("%s as %s: %q", sql, role, v)
			}
		}
	}
}

func TestReadersOnlyRead(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE t (a INT)", "PREPARE p AS DELETE FROM t", "EXECUTE p", "TRUNCATE t", "COMMENT ON TABLE t IS 'x'", "EXPLAIN ANALYZE CREATE TABLE t (a INT)"} {
		if v := verdict(auth.Reader, sql); v != "42501" {
			t.Errorf("%s: %q", sql, v)
		}
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	loader := []string{
		"SELECT * FROM read_parquet(['s3://b/a.parquet'])", "DESCRIBE SELECT * FROM read_parquet('x')", "COPY (SELECT 1) TO 's3://b/_sluice/w/x.parquet' (FORMAT parquet)",
		"CALL ducklake_add_data_files('lake', 't', 'x')", "CALL lake.set_commit_message('a', 'b', extra_info => 'c')", "SELECT * FROM lake.snapshots()", "SELECT * FROM ducklake_list_files('lake', 't')",
		"CREATE TABLE _sluice.fence (a INT)", "UPDATE _sluice.fence SET seq = 1", "SELECT * FROM parquet_schema('x')", "SELECT * FROM ducklake_table_info('lake')",
	}
	for _, sql := range loader {
		if v := verdict(auth.Loader, sql); v != "" {
			t.Errorf("loader: %s: %s", sql, v)
		}
	}
	for _, sql := range []string{
		"ATTACH 'x'", "LOAD httpfs", "CREATE SECRET s (TYPE s3)", "SELECT * FROM read_csv('x')",
		"SELECT * FROM postgres_query('x', 'y')", "CALL ducklake_expire_snapshots('lake')", "SELECT * FROM duckdb_secrets()", "PRAGMA version", "SELECT getenv('x')",
	} {
		if v := verdict(auth.Loader, sql); v != "42501" {
			t.Errorf("loader: %s: %q", sql, v)
		}
	}
	for _, sql := range []string{"CALL ducklake_expire_snapshots('lake', dry_run => true)", "CALL lake.merge_adjacent_files()", "CHECKPOINT lake"} {
		if v := verdict(auth.Maintainer, sql); v != "" {
			t.Errorf("maintainer: %s: %s", sql, v)
		}
	}
	for _, sql := range []string{"ATTACH 'x'", "LOAD x", "DROP SECRET s"} {
		if v := verdict(auth.Maintainer, sql); v != "42501" {
			t.Errorf("maintainer: %s: %q", sql, v)
		}
	}
}

func TestNoEndIsASyntaxError(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"SELECT 'x", "SELECT \"x", "SELECT /* x", "SELECT $a$ x", "SELEC 1", "foo"} {
		if v := verdict(auth.Owner, sql); v != "42601" {
			t.Errorf("%s: %q", sql, v)
		}
	}
}

func TestReadControl(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]gate.Verb{
		"BEGIN": gate.Begin, "begin transaction": gate.Begin, "START TRANSACTION READ ONLY": gate.Begin, "COMMIT": gate.Commit, "end work": gate.Commit,
		"ROLLBACK": gate.Rollback, "abort": gate.Rollback, "SAVEPOINT a": gate.Savepoint, "RELEASE a": gate.Release, "ROLLBACK TO a": gate.RollbackTo,
		"rollback work to savepoint a": gate.RollbackTo, "COMMIT PREPARED 'x'": gate.TwoPhase, "PREPARE TRANSACTION 'x'": gate.TwoPhase,
		"PREPARE x AS SELECT 1": 0, "SELECT 1": 0, "\"begin\"": 0, "start": 0,
	} {
		c := gate.ReadControl(token.Scan(sql))
		if got := c; (got == nil) != (want == 0) || got != nil && got.Verb != want {
			t.Errorf("%s: %+v", sql, c)
		}
	}
}

func TestReadLocal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql, name, value string
		verb             gate.LocalVerb
	}{
		{"SET a = 1", "a", "1", gate.Set},
		{"SET a TO -1", "a", "-1", gate.Set},
		{"set session TimeZone = 'x'", "timezone", "x", gate.Set},
		{"SET TIME ZONE 'x'", "timezone", "x", gate.Set},
		{"SET TIME ZONE LOCAL", "timezone", "", gate.Set},
		{"SET a.b = c", "a.b", "c", gate.Set},
		{"SET NAMES 'utf8'", "client_encoding", "utf8", gate.Set},
		{"SET search_path TO a, \"B\"", "search_path", "a", gate.Set},
		{"SET a TO DEFAULT", "a", "", gate.Set},
		{"RESET ALL", "all", "", gate.Reset},
		{"SHOW TIME ZONE", "timezone", "", gate.Show},
		{"SHOW transaction isolation level", "transaction_isolation", "", gate.Show},
		{"DEALLOCATE PREPARE x", "x", "", gate.Deallocate},
		{"DISCARD ALL", "all", "", gate.Discard},
		{"SET ROLE NONE", "", "", gate.Ignore},
		{"SET ROLE x", "role", "x", gate.Set},
	} {
		l := gate.ReadLocal(token.Scan(c.sql))
		if l == nil || l.Verb != c.verb || c.name != l.Name || c.value != "" && l.Values[0] != c.value {
			t.Errorf("%s: %+v", c.sql, l)
		}
	}
	for _, sql := range []string{"SHOW TABLES", "SHOW ALL TABLES", "SELECT 1", "\"set\" x"} {
		if l := gate.ReadLocal(token.Scan(sql)); l != nil {
			t.Errorf("%s: %+v", sql, l)
		}
	}
}
