package lake

import "testing"

func TestParseType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"BIGINT":                    "BIGINT",
		"INT":                       "INTEGER",
		"DECIMAL(18,3)":             "DECIMAL(18,3)",
		"NUMERIC(5, 2)":             "DECIMAL(5,2)",
		"TIMESTAMP WITH TIME ZONE":  "TIMESTAMP WITH TIME ZONE",
		"TIMESTAMPTZ":               "TIMESTAMP WITH TIME ZONE",
		"VARCHAR[]":                 "VARCHAR[]",
		"INTEGER[][3]":              "INTEGER[][3]",
		"MAP(VARCHAR, BIGINT[])":    "MAP(VARCHAR, BIGINT[])",
		`STRUCT(a INTEGER, b TEXT)`: `STRUCT("a" INTEGER, "b" VARCHAR)`,
		`STRUCT("x, y)" DECIMAL(4,1), z STRUCT("q""r" DATE)[])`: `STRUCT("x, y)" DECIMAL(4,1), "z" STRUCT("q""r" DATE)[])`,
		`ENUM('a', 'it''s )')`: "ENUM",
		`"NULL"`:               `"NULL"`,
	} {
		got, err := ParseType(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got.String() != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		again, err := ParseType(got.String())
		if err != nil || !again.Equal(got) {
			t.Errorf("%s: %s does not parse back to itself: %v", in, got, err)
		}
	}
	for _, in := range []string{"", "DECIMAL(3", "STRUCT(a)", "INTEGER)", "MAP(VARCHAR)", "INTEGER[x]", `STRUCT("a`} {
		if got, err := ParseType(in); err == nil {
			t.Errorf("%q was read as %s", in, got)
		}
	}
}

func FuzzParseType(f *testing.F) {
	for _, s := range []string{"DECIMAL(18,3)", `STRUCT("a b" INTEGER[3], c MAP(VARCHAR, DATE))`, `ENUM('x')`, "UNION(a INTEGER)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, err := ParseType(s)
		if err != nil {
			return
		}
		again, err := ParseType(typ.String())
		if err != nil || !again.Equal(typ) {
			t.Errorf("%q: %s does not parse back to itself: %v", s, typ, err)
		}
	})
}
