package objstore_test

import (
	"os"
	"testing"

	"sluice/internal/objstore"
)

func TestLocationsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"/a/b":                    "/a/b",
		"/a/b/":                   "/a/b",
		"/a/./c/../b%20c":         "/a/b%20c", // a path is no URL
		"rel/x":                   here + "/rel/x",
		"file:/a/b%20c":           "/a/b c",
		"file:///a/b%2520c":       "/a/b%20c", // decoded once
		"FILE:///a/b+c/":          "/a/b+c",
		"file://localhost/a":      "/a",
		"s3://b/k":                "s3://b/k",
		"s3a://b/k/":              "s3://b/k",
		"S3N://b/a b%20c+d?e#f/ü": "s3://b/a b%20c+d?e#f/ü",
		"s3://b":                  "s3://b/",
	} {
		l, err := objstore.ParseLocation(uri)
		if err != nil || l.String() != want {
			t.Errorf("%s: got %s, %v; want %s", uri, l, err, want)
		}
	}
	for _, uri := range []string{
		"", "s3://", "s3:///k", "s3://user:word@b/k", "s3://b?x=y/k", "http://h/k", "gs://b/k", "file://host/a", "file:a",
		"file:///a?b", "file:///a%zz", "/a\x00b",
	} {
		if l, err := objstore.ParseLocation(uri); err == nil {
			t.Errorf("%q was accepted as %s", uri, l)
		}
	}
}
