package sqlstate_test

import (
	"database/sql"
	"strings"
	"testing"

	driver "github.com/duckdb/duckdb-go/v2"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/sqlstate"
)

// texts are the engine's own words, one for each row of the table that no statement below brings about.
var texts = []struct {
	kind duck.ErrorType
	text string
	want string
}{
	{duck.ErrorInterrupt, "INTERRUPT Error: Interrupted!", "57014"},
	{duck.ErrorMemory, "Out of Memory Error: failed to pin block of size 256.0 KiB (9.2 MiB/9.5 MiB used)", "53200"},
	{duck.ErrorMemory, "Out of Memory Error: could not write block: max_temp_directory_size (1GB) reached", "53100"},
	{duck.ErrorFatal, "FATAL Error: Failed: database has been invalidated because of a previous fatal error", "XX000"},
	{duck.ErrorInternal, "INTERNAL Error: Assertion triggered", "XX000"},
	{duck.ErrorTransaction, "TransactionContext Error: Failed to commit: Failed to commit DuckLake transaction.\nTransaction conflict - attempting to delete from table with index \"1\" - but another transaction has deleted from it", "40001"},
	{duck.ErrorTransaction, "TransactionContext Error: Failed to commit: Exceeded the maximum retry count of 10 set by the ducklake_max_retry_count setting", "40001"},
	{duck.ErrorTransaction, "TransactionContext Error: Current transaction is aborted (please ROLLBACK)", "25P02"},
	{duck.ErrorTransaction, "TransactionContext Error: cannot commit - no transaction is active", "25P01"},
	{duck.ErrorTransaction, "TransactionContext Error: cannot start a transaction within a transaction", "25001"},
	{duck.ErrorTransaction, "TransactionContext Error: Cannot write to database \"x\" - transaction is launched in read-only mode", "25006"},
	{duck.ErrorTransaction, "TransactionContext Error: Conflict on update!", "40001"},
	{duck.ErrorIO, "IO Error: database is locked", "55P03"},
	{duck.ErrorIO, "IO Error: Unable to connect to Postgres at \"host=h user=u\": refused", "57P03"},
	{duck.ErrorIO, "IO Error: Could not write file: No space left on device", "53100"},
	{duck.ErrorIO, "IO Error: Could not write to temp directory", "53100"},
	{duck.ErrorPermission, "Permission Error: Cannot access file \"/etc/passwd\" - file system operations are disabled by configuration", "42501"},
	{duck.ErrorIO, "IO Error: No files found that match the pattern \"x\"", "58P01"},
	{duck.ErrorIO, "IO Error: Cannot open file \"x\": No such file or directory", "58P01"},
	{duck.ErrorHTTP, "HTTP Error: Unable to connect to URL \"x\": 404 (Not Found)", "58P01"},
	{duck.ErrorHTTP, "HTTP Error: HTTP GET error on 'x' (HTTP 403)", "58030"},
	{duck.ErrorHTTP, "HTTP Error: timeout", "58030"},
	{duck.ErrorNetwork, "Network Error: x", "58030"},
	{duck.ErrorConnection, "Connection Error: x", "58030"},
	{duck.ErrorIO, "IO Error: Extension \"x\" not found.", "58P01"},
	{duck.ErrorIO, "IO Error: something", "58030"},
	{duck.ErrorSyntax, "Syntax Error: x", "42601"},
	{duck.ErrorCatalog, "Catalog Error: Index with name x does not exist!", "42P01"},
	{duck.ErrorCatalog, "Catalog Error: Sequence with name x does not exist!", "42P01"},
	{duck.ErrorCatalog, "Catalog Error: View with name \"v\" already exists!", "42P07"},
	{duck.ErrorCatalog, "Catalog Error: Macro already exists", "42710"},
	{duck.ErrorCatalog, "Catalog Error: Something does not exist", "42704"},
	{duck.ErrorCatalog, "Catalog Error: anything", "42704"},
	{duck.ErrorBinder, "Binder Error: Schema with name nope does not exist!", "3F000"},
	{duck.ErrorBinder, "Binder Error: Catalog \"x\" does not exist!", "3D000"},
	{duck.ErrorDependency, "Dependency Error: Cannot drop entry", "2BP01"},
	{duck.ErrorBinder, "Binder Error: Cannot mix named and positional parameters", "42601"},
	{duck.ErrorBinder, "Binder Error: GROUP BY clause cannot contain aggregates!", "42803"},
	{duck.ErrorBinder, "Binder Error: Cannot write: database is attached in read-only mode", "25006"},
	{duck.ErrorBinder, "Binder Error: Referenced table \"x\" not found!", "42P01"},
	{duck.ErrorBinder, "Binder Error: Values list \"t\" does not have a column named \"x\"", "42703"},
	{duck.ErrorBinder, "Binder Error: Column with name x already exists!", "42701"},
	{duck.ErrorBinder, "Binder Error: Cannot compare values of type DATE and type INTEGER - an explicit cast is required", "42804"},
	{duck.ErrorBinder, "Binder Error: an explicit cast is required", "42804"},
	{duck.ErrorBinder, "Binder Error: Unexpected prepared parameter. This type of statement can't be prepared!", "0A000"},
	{duck.ErrorBinder, "Binder Error: x is not supported", "0A000"},
	{duck.ErrorBinder, "Binder Error: Prepared statement \"p\" does not exist", "26000"},
	{duck.ErrorBinder, "Binder Error: anything", "42000"},
	{duck.ErrorConversion, "Conversion Error: timestamp field value out of range: \"x\"", "22008"},
	{duck.ErrorConversion, "Conversion Error: time field value out of range: \"x\"", "22008"},
	{duck.ErrorConversion, "Conversion Error: Could not convert string 'x' to interval", "22007"},
	{duck.ErrorOutOfRange, "Out of Range Error: Overflow in date", "22008"},
	{duck.ErrorOutOfRange, "Out of Range Error: Overflow in timestamp", "22008"},
	{duck.ErrorDivide, "Divide by Zero Error: division by zero!", "22012"},
	{duck.ErrorMismatch, "Mismatch Type Error: x", "42804"},
	{duck.ErrorInvalidType, "Invalid type Error: x", "42804"},
	{duck.ErrorConstraint, "Constraint Error: Duplicate key \"a: 1\" violates unique constraint; duplicate key", "23505"},
	{duck.ErrorConstraint, "Constraint Error: Violates foreign key constraint", "23503"},
	{duck.ErrorConstraint, "Constraint Error: x", "23000"},
	{duck.ErrorNotImpl, "Not implemented Error: x", "0A000"},
	{duck.ErrorMissingExt, "Missing Extension Error: x", "0A000"},
	{duck.ErrorAutoload, "Extension Autoloading Error: x", "0A000"},
	{duck.ErrorParamResolve, "Parameter Not Resolved Error: x", "42P18"},
	{duck.ErrorParamAllowed, "Parameter Not Allowed Error: x", "22023"},
	{duck.ErrorConfig, "Invalid Configuration Error: x", "22023"},
	{duck.ErrorSettings, "Settings Error: x", "22023"},
	{duck.ErrorInvalidInput, "Invalid Input Error: Cannot prepare multiple statements at once!", "42601"},
	{duck.ErrorInvalidInput, "Invalid Input Error: Cannot execute statement of type \"INSERT\" on database \"x\" which is attached in read-only mode!", "25006"},
	{duck.ErrorInvalidInput, "Invalid Input Error: Cannot open file \"x.parquet\"", "58030"},
	{duck.ErrorObjectSize, "Object Size Error: x", "54000"},
	{duck.ErrorSequence, "Sequence Error: x", "55000"},
	{duck.ErrorSerialization, "Serialization Error: x", "58030"},
	{duck.ErrorInvalid, "who knows", "XX000"},
}

func TestTextsOfTheEngine(t *testing.T) {
	t.Parallel()
	for _, c := range texts {
		if got := sqlstate.From(&duck.Error{Type: c.kind, Msg: c.text}); got.Code != c.want {
			t.Errorf("%s: %s, want %s", c.text, got.Code, c.want)
		}
	}
}

// What the engine says to real statements.
func TestStatementsOfTheEngine(t *testing.T) {
	t.Parallel()
	c, err := driver.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	defer func() { _ = db.Close() }()
	sc, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sc.Close() }()
	var conn *duck.Conn
	if err := sc.Raw(func(dc any) (err error) { conn, err = duck.FromDriver(dc); return err }); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, small INTEGER NOT NULL CHECK (small < 100))", "CREATE VIEW v AS SELECT 1", "CREATE SCHEMA s"} {
		if err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ sql, want string }{
		{"SELEC 1", "42601"},
		{"SELECT 1 WHERE", "42601"},
		{"SELECT * FROM nowhere", "42P01"},
		{"SELECT nothing FROM t", "42703"},
		{"SELECT t.nothing FROM t", "42703"},
		{"SELECT nofunc(1)", "42883"},
		{"SELECT sum('a')", "42883"},
		{"SELECT 1::nope", "42704"},
		{"SELECT * FROM t a JOIN t b ON true WHERE id = 1", "42702"},
		{"CREATE TABLE t (a INT)", "42P07"},
		{"CREATE VIEW v AS SELECT 2", "42P07"},
		{"CREATE SCHEMA s", "42P06"},
		{"DROP TABLE nowhere", "42P01"},
		{"DROP SCHEMA nowhere", "3F000"},
		{"CREATE TABLE nowhere.t (a INT)", "3F000"},
		{"DROP SCHEMA main", "42501"},
		{"INSERT INTO t (nothing) VALUES (1)", "42703"},
		{"UPDATE t SET nothing = 1", "42703"},
		{"ALTER TABLE t DROP COLUMN nothing", "42703"},
		{"ALTER TABLE t ADD COLUMN id INT", "42701"},
		{"SELECT id FROM t GROUP BY small", "42803"},
		{"SELECT 1 LIMIT -1", "2201W"},
		{"SELECT CAST('x' AS INTEGER)", "22P02"},
		{"SELECT 'zz'::UUID", "22P02"},
		{"SELECT '{'::JSON", "22P02"},
		{"SELECT 9999999999::INTEGER", "22003"},
		{"SELECT 127::TINYINT + 1::TINYINT", "22003"},
		{"SELECT '2020-13-13'::DATE", "22008"},
		{"SELECT 'x'::DATE", "22007"},
		{"SELECT 'x'::TIMESTAMP", "22007"},
		{"SELECT DATE '2020-01-01' + INTERVAL 10000000 YEAR", "22008"},
		{"SELECT INTERVAL '1 foo'", "22007"},
		{"SELECT sqrt(-1)", "2201F"},
		{"SELECT (SELECT 1 UNION SELECT 2)", "21000"},
		{"INSERT INTO t VALUES (1, NULL)", "23502"},
		{"INSERT INTO t VALUES (1, 1), (1, 2)", "23505"},
		{"INSERT INTO t VALUES (1, 100)", "23514"},
		{"SELECT error('FATAL Error: database has been invalidated')", "22023"},
		{"SET nonsense = 1", "42704"},
		{"COMMIT", "25P01"},
	} {
		err := conn.Exec(t.Context(), c.sql)
		if got := sqlstate.From(err); got == nil || got.Code != c.want {
			t.Errorf("%s: %v, want %s", c.sql, got, c.want)
		}
	}
	e := sqlstate.From(conn.Exec(t.Context(), "SELECT 1, ünknown FROM t"))
	if e.Position != 11 || strings.Contains(e.Message, "LINE") || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		`Unable to connect to Postgres at "host=h.example port=5432 dbname=d user=u password=hunter2"`,
		`Unable to connect to Postgres at "dbname='d x' user=u password='hunter2 x'": refused`,
		"connect to postgres://u:hunter2@h/d: refused", "SECRET = 'hunter2'", `secret_access_key: "hunter2"`, "GET https://b/x?X-Amz-Signature=hunter2&a=b",
	} {
		if got := sqlstate.Scrub(s); strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s", s, got)
		}
	}
	for _, s := range []string{"Referenced column \"password\" not found", "syntax error at or near \"secret\"", "Table with name tokens does not exist!"} {
		if got := sqlstate.Scrub(s); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
}
