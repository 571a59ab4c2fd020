package delta

import (
	"strings"
	"testing"

	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

func s3Root(t testing.TB) root {
	t.Helper()
	at, err := objstore.ParseLocation("s3://b/lake/t")
	if err != nil {
		t.Fatal(err)
	}
	return rootOf(at)
}

// Cases 40 and 41: a path is decoded exactly once, and leads where it says and may.
func TestCase41_Paths(t *testing.T) {
	t.Parallel()
	file := rootOf(objstore.Location{Scheme: objstore.SchemeFile, Key: "data/t"})
	for _, c := range []struct {
		root       root
		path, want string // want is a URI; empty: refused
	}{
		{s3Root(t), "f.parquet", "s3://b/lake/t/f.parquet"},
		{s3Root(t), "_2=bar+%252521/f", "s3://b/lake/t/_2=bar+%2521/f"},
		{s3Root(t), "a%20b/%23%3F%5B%2A%C3%A4", "s3://b/lake/t/a b/#?[*ä"},
		{s3Root(t), "p=12:30/f", "s3://b/lake/t/p=12:30/f"},
		{s3Root(t), "s3://other/x/f%20g", "s3://other/x/f g"},
		{s3Root(t), "s3a://b/lake/t/f", "s3://b/lake/t/f"},
		{s3Root(t), "S3N://b/f", "s3://b/f"},
		{s3Root(t), "/x/f", "s3://b/x/f"},
		{s3Root(t), "file:/a", "/a"},
		{file, "file:///a", "/a"},
		{file, "file://localhost/a%25", "/a%"},
		{file, "/a", "/a"},
		{file, "f", "/data/t/f"},
		{s3Root(t), "http://h/f", ""},
		{s3Root(t), "abfss://c@h/f", ""},
		{s3Root(t), "../f", ""},
		{s3Root(t), "a/../../f", ""},
		{s3Root(t), "a/%2E%2E/f", ""},
		{s3Root(t), "s3://b/lake/../f", ""},
		{s3Root(t), "file://host/a", ""},
		{s3Root(t), "s3://b", ""},
		{s3Root(t), "s3:/b/f", ""},
		{s3Root(t), "", ""},
		{s3Root(t), "a%", ""},
		{s3Root(t), "a%2", ""},
		{s3Root(t), "a%zz", ""},
		{s3Root(t), "a%00", ""},
		{s3Root(t), "a..b/..c", "s3://b/lake/t/a..b/..c"},
	} {
		at, uri, err := c.root.resolve(c.path)
		switch {
		case c.want == "" && sluice.CodeOf(err) != CodePath:
			t.Errorf("%q: %q, %v", c.path, uri, err)
		case c.want != "" && (err != nil || uri != c.want || at.String() != c.want):
			t.Errorf("%q: %q, %q, %v; want %q", c.path, uri, at, err, c.want)
		}
	}
}

// Case 41: another bucket is read if it is allowed, with the store that is given for it.
func TestCase41_ForeignBuckets(t *testing.T) {
	t.Parallel()
	own, foreign := objstore.Store(objstore.Local{}), &objstore.Local{}
	table := &Table{store: own, root: s3Root(t), o: Options{Roots: []Root{{objstore.Location{Scheme: objstore.SchemeS3, Bucket: "shared", Key: "lake"}, foreign}}}}
	for uri, want := range map[string]objstore.Store{
		"s3://b/anything/f": own, "s3://shared/lake/f": foreign, "s3://shared/lakes/f": nil, "s3://shared/f": nil, "s3://other/lake/f": nil, "/lake/f": nil,
	} {
		at, err := objstore.ParseLocation(uri)
		if err != nil {
			t.Fatal(err)
		}
		got, err := table.storeOf(at)
		if got != want || (want == nil) != (sluice.CodeOf(err) == CodePath) {
			t.Errorf("%s: %v, %v", uri, got, err)
		}
	}
}

func TestRelativePathsAreShown(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"a%20b": "a b", "s3://b/lake/t/f": "f", "s3://b/lake/tt/f": "s3://b/lake/tt/f", "/x": "s3://b/x"} {
		at, _, err := s3Root(t).resolve(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := s3Root(t).relative(at); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// What a path gives is a location below no other than the one it names.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"a/b%20c", "file:/a", "s3a://b/c", "/x", "..", "%2e%2e/x", "http://x", "a:b/c", "s3://b/a?b#c"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		at, uri, err := s3Root(t).resolve(path)
		if err != nil {
			if sluice.CodeOf(err) != CodePath {
				t.Fatalf("%v has no code", err)
			}
			return
		}
		if at.String() != uri || climbs(at.Key) || strings.IndexByte(uri, 0) >= 0 {
			t.Fatalf("%q: %q, %+v", path, uri, at)
		}
		if scheme, _ := splitScheme(path); scheme == "" && !strings.HasPrefix(path, "/") && !strings.Contains(path, "%") && uri != "s3://b/lake/t/"+path {
			t.Fatalf("%q: %q", path, uri)
		}
	})
}
