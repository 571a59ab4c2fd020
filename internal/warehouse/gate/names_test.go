package gate

import (
	"testing"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/gate/token"
)

// TestTablesMayBeCalledLikeAFamily shows that a table of a source of type Postgres is not taken for one of the engine's
// functions on other databases, and that those functions stay refused.
func TestTablesMayBeCalledLikeAFamily(t *testing.T) {
	t.Parallel()
	who := auth.Principal{Org: "acme", Name: "olga", Role: auth.Owner}
	for sql, ok := range map[string]bool{
		"SELECT * FROM team_1_data_imports.postgres_flights":                      true,
		`SELECT count(*) FROM "sqlite_things" JOIN parquet_files USING (id)`:      true,
		"INSERT INTO s.postgres_x (a, b) VALUES (1, 2)":                           true,
		"CREATE TABLE IF NOT EXISTS s.mysql_orders (id INTEGER)":                  true,
		"CREATE TABLE postgres_x (id INTEGER)":                                    true,
		"SELECT * FROM postgres_query('x', 'SELECT 1')":                           false,
		"SELECT * FROM POSTGRES_SCAN ('x', 's', 't')":                             false,
		`SELECT * FROM "postgres_query"('x', 'SELECT 1')`:                         false,
		"INSERT INTO t SELECT * FROM postgres_query('x', 'SELECT 1')":             false,
		"CREATE TABLE x AS SELECT * FROM ducklake_list_files('lake', 't')":        false,
		"SELECT * FROM __ducklake_metadata_lake.ducklake_snapshot":                false,
		"SELECT * FROM s.postgres_execute /* x */ ('x', 'DROP TABLE ducklake_t')": false,
	} {
		tokens := token.Scan(sql)
		if err := Check(who, tokens); (err == nil) != ok {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
