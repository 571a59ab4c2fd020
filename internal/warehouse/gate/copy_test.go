package gate_test

import (
	"errors"
	"fmt"
	"testing"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

func TestReadCopy(t *testing.T) {
	t.Parallel()
	owner := auth.Principal{Org: "acme", Name: "olga", Role: auth.Owner}
	reader := auth.Principal{Org: "acme", Name: "rita", Role: auth.Reader}
	for _, c := range []struct{ sql, want string }{
		{"COPY t FROM STDIN", `in "SELECT * FROM t" text "\t" "\\N"`},
		{`copy s."T x" (a, "B") to stdout`, `out "SELECT \"a\", \"B\" FROM s.\"T x\"" text "\t" "\\N"`},
		{"COPY (SELECT 1, 2) TO STDOUT (FORMAT csv, HEADER, NULL 'x', FORCE_QUOTE *)", `out "SELECT 1, 2" csv "," "x" header force`},
		{"COPY t FROM STDIN WITH (FORMAT 'binary')", `in "SELECT * FROM t" binary "\t" "\\N"`},
		{"COPY BINARY t FROM STDIN", `in "SELECT * FROM t" binary "\t" "\\N"`},
		{"COPY binary FROM STDIN", `in "SELECT * FROM binary" text "\t" "\\N"`},
		{"COPY t FROM STDIN WITH CSV HEADER DELIMITER AS ';' NULL AS '' QUOTE '''' FORCE NOT NULL a, b", `in "SELECT * FROM t" csv ";" "" header`},
		{"COPY t FROM STDIN DELIMITERS '|'", `in "SELECT * FROM t" text "|" "\\N"`},
		{"COPY t FROM STDIN (HEADER match, FORMAT csv, DELIMITER E'\\t')", `in "SELECT * FROM t" csv "\t" "" header match`},
		{"COPY t FROM '/etc/passwd'", "none"},
		{"COPY t FROM PROGRAM 'id'", "none"},
		{"COPY (SELECT 1) TO '/tmp/x'", "none"},
		{"COPY t FROM STDIN (FORMAT json)", "22023"},
		{"COPY t FROM STDIN (DELIMITER 'ab')", "0A000"},
		{"COPY t FROM STDIN (FORMAT csv) WHERE a > 1", "0A000"},
		{"COPY t FROM STDIN (QUOTE 'x')", "0A000"},
		{"COPY t FROM STDIN (FORMAT csv, FORMAT csv)", "42601"},
		{"COPY t FROM STDIN (NOPE 1)", "42601"},
		{"COPY t TO STDOUT (FORMAT csv, HEADER match)", "0A000"},
		{`COPY "/etc/passwd" TO STDOUT`, "42501"},
		{"COPY (SELECT * FROM read_csv('/etc/passwd')) TO STDOUT", "42501"},
		{"COPY (DELETE FROM t RETURNING *) TO STDOUT", "0A000"},
		{"COPY () TO STDOUT", "42601"},
		{"COPY _sluice.ctl FROM STDIN", "42501"},
		{"COPY __ducklake_metadata_lake.ducklake_table TO STDOUT", "42501"},
	} {
		if got := describeCopy(owner, c.sql); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.sql, got, c.want)
		}
	}
	if got := describeCopy(reader, "COPY t FROM STDIN"); got != "42501" {
		t.Error(got)
	}
	if got := describeCopy(reader, "COPY t TO STDOUT"); got != `out "SELECT * FROM t" text "\t" "\\N"` {
		t.Error(got)
	}
}

func describeCopy(who auth.Principal, sql string) string {
	c := gate.ReadCopy(sql, token.Scan(sql))
	if c == nil {
		return "none"
	}
	if err := gate.CheckCopy(who, c, sql); err != nil {
		var e *sqlstate.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return err.Error()
	}
	way := "in"
	if c.Out {
		way = "out"
	}
	o := c.Options
	out := fmt.Sprintf("%s %q %s %q %q", way, c.Statement(sql), []string{"text", "csv", "binary"}[o.Format], string(o.Delimiter), o.Null)
	for _, f := range []struct {
		on   bool
		name string
	}{{o.Header, " header"}, {o.Match, " match"}, {o.ForceQuote.All, " force"}} {
		if f.on {
			out += f.name
		}
	}
	return out
}
