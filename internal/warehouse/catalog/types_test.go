package catalog

import (
	"database/sql"
	"strconv"
	"testing"

	driver "github.com/duckdb/duckdb-go/v2"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/value"
)

// The catalog must give columns the types that results are sent with.
func TestTypesAreThoseOfResults(t *testing.T) {
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
	names := []string{"DECIMAL(10,2)", "DECIMAL(4,1)[]", "ENUM('a','b')", "STRUCT(a INTEGER)", "MAP(INTEGER, INTEGER)", "INTEGER[3]", "INTEGER[][]", "STRUCT(a INTEGER)[]"}
	for _, p := range pgTypes {
		if p.engine != "" && p.engine != "ENUM" && p.engine != "DECIMAL" {
			names = append(names, p.engine, p.engine+"[]")
		}
	}
	for _, name := range names {
		if err := conn.Exec(t.Context(), "CREATE OR REPLACE TABLE t (v "+name+")"); err != nil {
			t.Error(err)
			continue
		}
		s, err := conn.Prepare(t.Context(), "SELECT v FROM t")
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := value.Describe(s.Columns()[0].Type)
		s.Close()
		got, err := conn.Text(t.Context(), "SELECT "+typeOID()+"::VARCHAR FROM duckdb_columns() WHERE table_name = 't'")
		if err != nil {
			t.Fatal(err)
		}
		if got[0] != strconv.Itoa(int(want)) {
			t.Errorf("%s: %s, results have %d", name, got[0], want)
		}
	}
}
