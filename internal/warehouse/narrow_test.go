package warehouse_test

import (
	"strings"
	"testing"

	"sluice/internal/warehouse"
)

// Drivers that declare the smallest type of each number, as psycopg does: the column is wider, and the value still fits.
func TestDeclaredTypesNarrowerThanColumns(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	r := hijack(t, srv, "olga")
	r.talk(query("CREATE TABLE t (i INTEGER, d DECIMAL(10,2), l INTEGER[], j JSON, ts TIMESTAMP, f DOUBLE)"))
	r.expect("1 t[21 1700 1005 3802 1184 700] n 2 C:INSERT_0_1 Z:I", parse("", "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)", 21, 1700, 1005, 3802, 1184, 700),
		describe('S', ""), bind("", "", "1", "1.50", "{1,NULL}", `{"a": 1}`, "2024-01-02 03:04:05.5+00", "1.5"), execute("", 0), sync_)
	got := r.talk(query("SELECT * FROM t"))
	if !strings.Contains(got, `D(1)(1.50)({1,NULL})({"a": 1})(2024-01-02 03:04:05.5)(1.5)`) {
		t.Error(got)
	}
	r.expect("1 2 D({1,2}) C:SELECT_1 Z:I", parse("", "SELECT $1::int[]", 1005), bind("", "", "{1,2}"), execute("", 0), sync_)
}
