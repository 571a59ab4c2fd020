package wire

import "testing"

func TestPGName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"count_star()": "count", "sum(x)": "sum", "max((a + b))": "max", "main.lower(x)": "lower", `"left"(x, 1)`: "left", "coalesce(a, 'it''s (')": "coalesce",
		"1": "?column?", "-1.5": "?column?", "'x'": "?column?", "NULL": "?column?", "(a + b)": "?column?", "(a) + (b)": "(a) + (b)",
		"CAST(x AS INTEGER)": "x", "CAST('1' AS INTEGER)": "int4", "CAST(sum(x) AS BIGINT)": "sum", "CAST('1' AS DECIMAL(10,2))": "numeric",
		`CAST('NaN' AS "DOUBLE")`: "float8", `CAST('2024-01-01' AS "TIMESTAMP WITH TIME ZONE")`: "timestamptz", "COALESCE(g, 'x')": "coalesce",
		"row_number() OVER (ORDER BY id DESC)": "row_number", "count_star() FILTER (WHERE (id > 2))": "count", "sum(x) OVER (PARTITION BY (a))": "sum",
		"CASE  WHEN (a) THEN (1) ELSE 2 END": "case", "plain": "plain", "With Space": "With Space", "": "", "a.b": "a.b",
	} {
		if got := pgName(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
