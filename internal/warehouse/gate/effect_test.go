package gate_test

import (
	"testing"

	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
)

func TestReadEffect(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]gate.Effect{
		"SELECT 1":                       {},
		"INSERT INTO t VALUES (1)":       {Verb: "insert"},
		"DELETE FROM t WHERE i = 1":      {Verb: "delete", Table: "t"},
		`delete from Lake.S."T x"`:       {Verb: "delete", Table: "t x"},
		"UPDATE s.t AS a SET i = 1":      {Verb: "update", Table: "t"},
		"UPDATE ONLY t SET i = 1":        {Verb: "update", Table: "t"},
		"MERGE INTO s.t USING u ON true": {Verb: "merge", Table: "t"},
		"TRUNCATE t":                     {Verb: "truncate", Table: "t"},
		"TRUNCATE TABLE s.t":             {Verb: "truncate", Table: "t"},
		"CREATE TABLE x AS SELECT 1":     {Verb: "create"},
		"EXPLAIN DELETE FROM t":          {},
		"EXPLAIN ANALYZE DELETE FROM t":  {Verb: "delete", Table: "t"},
		"PREPARE p AS DELETE FROM t":     {},
		"WITH a AS (SELECT 1) SELECT 1":  {},
		"(SELECT 1)":                     {},
		"COPY t FROM STDIN":              {Verb: "copy"},
		"WITH d AS (SELECT 1) UPDATE t SET i = 1 WHERE i IN (FROM d)":  {Verb: "update", Table: "t"},
		"WITH a AS (DELETE FROM x RETURNING i) INSERT INTO t SELECT 1": {Verb: "insert"},
	} {
		if got := gate.ReadEffect(token.Scan(sql)); got != want {
			t.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
	if name, st := gate.Prepared(token.Scan("PREPARE P (int) AS DELETE FROM t")); name != "p" || gate.ReadEffect(st).Table != "t" {
		t.Error(name, st)
	}
	if name := gate.Executed(token.Scan("EXECUTE P(1)")); name != "p" {
		t.Error(name)
	}
}
