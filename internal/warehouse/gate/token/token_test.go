package token_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/warehouse/gate/token"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{"", nil},
		{" ;; -- nothing\n;", nil},
		{"SELECT 1", []string{"SELECT 1"}},
		{"SELECT 1;", []string{"SELECT 1"}},
		{"SELECT 1; SELECT 2 -- x;\n;SELECT 3", []string{"SELECT 1", "SELECT 2", "SELECT 3"}},
		{"SELECT ';'; SELECT ';;'';'", []string{"SELECT ';'", "SELECT ';;'';'"}},
		{`SELECT E'\';'; SELECT '\'`, []string{`SELECT E'\';'`, `SELECT '\'`}},
		{`SELECT ";""";SELECT 2`, []string{`SELECT ";"""`, "SELECT 2"}},
		{"SELECT $$;$$; SELECT $a$ ; $$ ; $b$ $a$; SELECT $1;", []string{"SELECT $$;$$", "SELECT $a$ ; $$ ; $b$ $a$", "SELECT $1"}},
		{"SELECT /* ; /* ; */ ; */ 1; SELECT 2", []string{"SELECT /* ; /* ; */ ; */ 1", "SELECT 2"}},
		{"/* a */ SELECT 1 /* b */; -- c", []string{"SELECT 1"}},
		{"SELECT 'no end; SELECT 2", []string{"SELECT 'no end; SELECT 2"}},
		{"SELECT 1 /* no end; SELECT 2", []string{"SELECT 1 /* no end; SELECT 2"}},
		{"SELECT 1--;\r\n;SELECT 2", []string{"SELECT 1", "SELECT 2"}},
		{"SELECT a$b$c; SELECT 2; $b$", []string{"SELECT a$b$c", "SELECT 2", "$b$"}},
		{"SELECT U&';\\003B'; SELECT 2", []string{"SELECT U&';\\003B'", "SELECT 2"}},
	} {
		var got []string
		for _, s := range token.Split(c.sql) {
			got = append(got, s.Text)
			if c.sql[s.Offset:s.Offset+len(s.Text)] != s.Text {
				t.Errorf("%q: offset %d is wrong", c.sql, s.Offset)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.sql, got, c.want)
		}
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, want string }{
		{`SELECT "A""b", Foo."Bar"`, `w:select q:A"b o:, w:foo o:. q:Bar`},
		{"read_csv/**/('x')", "w:read_csv o:( s:x o:)"},
		{"read_csv\u00a0('x')", "w:read_csv o:( s:x o:)"},
		{"read_csv\u200b('x')", "w:read_csv o:( s:x o:)"},
		{`U&"\0072ead" U&"\+000072ead" U&'a\\b'`, `q:read q:read s:a\b`},
		{`E'\x41\102\u0043\n' b'01' x'ff'`, "s:ABC\n s:01 s:ff"},
		{"$1 $2::int ? $name $$a$$", "p:1 p:2 o::: w:int p: p:name s:a"},
		{"1.5e-3+.5 1_000 a1", "n:1.5e-3 o:+ n:.5 n:1_000 w:a1"},
		{"1=1JOIN 0xffg 1e5 1ex 1_a", "n:1 o:= n:1 w:join n:0xff w:g n:1e5 n:1 w:ex n:1 w:_a"},
		{"a->>'b' a--c\n-1 a<=b", "w:a o:->> s:b w:a o:- n:1 w:a o:<= w:b"},
		{"grün ÄB", "w:grün w:äb"},
	} {
		var got []string
		for _, k := range token.Scan(c.sql) {
			got = append(got, string("?wqsnpox"[k.Kind])+":"+k.Text)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.sql, s, c.want)
		}
	}
}

// FuzzSplit checks that no text is lost, that it ends, and that splitting a statement again gives the same one.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"SELECT 1; SELECT 2", "'a''b", `E'\'`, "$a$ $b$ $a$", "/*/**/", `U&"\00`, "--", "$", "\xff\xfe;", "a$$b$$", "1e+",
		"\u00a0;\u3000", `"`, "::", ":=", "? ?|",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		for _, s := range token.Split(sql) {
			again := token.Split(s.Text)
			if len(again) != 1 || again[0].Text != s.Text {
				t.Fatalf("%q in %q is not one statement: %+v", s.Text, sql, again)
			}
		}
		last := 0
		for _, k := range token.Scan(sql) {
			if k.Pos < last || k.End <= k.Pos || k.End > len(sql) {
				t.Fatalf("token %+v after %d in %q", k, last, sql)
			}
			last = k.End
		}
	})
}
