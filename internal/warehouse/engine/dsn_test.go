package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/duckdb/duckdb-go/v2"
	"pgregory.net/rapid"

	"sluice/internal/sluice"
)

func TestParseDSN(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                       "",
		"host=a port=1 dbname=b":                 "dbname=b host=a port=1",
		" host = a  user='x y' ":                 "host=a user='x y'",
		`password='a\'b\\c' user=d`:              `password='a\'b\\c' user=d`,
		`password=a\ b`:                          `password='a b'`,
		"host='' port=1":                         "host='' port=1",
		"postgres://u:p%40x@h:5/d?sslmode=no":    "dbname=d host=h password=p@x port=5 sslmode=no user=u",
		"postgresql://h":                         "host=h",
		"postgres:///d?host=/run/postgresql":     "dbname=d host=/run/postgresql",
		"postgres://[::1]:5/d":                   "dbname=d host=::1 port=5",
		"host=/run/postgresql\tdbname=d\nport=1": "dbname=d host=/run/postgresql port=1",
	} {
		kv, err := parseDSN(in)
		if err != nil || kv.String() != want {
			t.Errorf("%q: got %q, %v; want %q", in, kv, err, want)
		}
	}
	for _, in := range []string{"secret", "host=a secret", "password='secret", "=secret", "postgres://u:secret@h:x y/", `a'b=c`} {
		if kv, err := parseDSN(in); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %v", in, kv, err)
		}
	}
}

func TestDSNRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kv := keywords{}
		for _, k := range []string{"host", "password", "user"} {
			kv[k] = rapid.String().Draw(t, k)
		}
		back, err := parseDSN(kv.String())
		if err != nil {
			t.Fatalf("%q: %v", kv, err)
		}
		for k, v := range kv {
			if back[k] != v {
				t.Fatalf("%s: got %q, want %q, through %q", k, back[k], v, kv)
			}
		}
	})
}

func TestLakeKey(t *testing.T) {
	t.Parallel()
	key := func(l Lake) string {
		k, err := l.Key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a := key(Lake{Kind: LakePostgres, Catalog: "host=DB port=5432 dbname=x user=u sslmode=disable"})
	if b := key(Lake{Kind: LakePostgres, Catalog: "dbname=x host=db user=v"}); a != b {
		t.Error(a, b)
	}
	if b := key(Lake{Kind: LakePostgres, Catalog: "dbname=y host=db"}); a == b {
		t.Error(a, b)
	}
	dir := t.TempDir()
	if a, b := key(Lake{Kind: LakeDuckDB, Catalog: dir + "/x/../y"}), key(Lake{Kind: LakeDuckDB, Catalog: dir + "/y"}); a != b {
		t.Error(a, b)
	}
	if _, err := (Lake{Kind: LakeDuckDB, Catalog: "y"}).Key(); err == nil {
		t.Error("a relative path has a key")
	}
}

func TestCatalogName(t *testing.T) {
	t.Parallel()
	if got := CatalogName("acme-eu-1"); got != "sluice_acme_eu_1" {
		t.Error(got)
	}
	seen := map[string]sluice.Org{}
	for _, org := range []sluice.Org{
		sluice.Org(strings.Repeat("a", 56)), sluice.Org(strings.Repeat("a", 57)), sluice.Org(strings.Repeat("a", 62) + "b"), sluice.Org(strings.Repeat("a", 63)),
	} {
		n := CatalogName(org)
		if len(n) > 63 || seen[n] != "" {
			t.Errorf("%s: %s, also of %s", org, n, seen[n])
		}
		seen[n] = org
	}
}

func TestScrubberLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newScrubber("", `p'w\d`)
	plain := errors.New("x")
	if got := s.clean(plain); !errors.Is(got, plain) || s.clean(nil) != nil {
		t.Error(got)
	}
	de := &duckdb.Error{Type: duckdb.ErrorTypeIO, Msg: `IO Error: p'w\d and p''w\d and p\'w\\d`}
	got := s.clean(errors.Join(errors.New(`first p'w\d`), de))
	if got.Error() != "first ***\nIO Error: *** and *** and ***" || errorType(got) != duckdb.ErrorTypeIO || errors.Is(got, de) {
		t.Error(got)
	}
	var out *duckdb.Error
	if !errors.As(got, &out) || strings.Contains(out.Msg, "p'") {
		t.Error(out)
	}
}
