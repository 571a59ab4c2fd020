package objstore

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// The schemes of a Location.
const (
	SchemeFile = "file"
	SchemeS3   = "s3"
)

// Location names an object or a prefix: scheme, bucket, and the decoded key.
type Location struct {
	Scheme string // SchemeFile or SchemeS3
	Bucket string // empty for files
	Key    string // of a file: its absolute path without the leading slash
}

// ParseLocation reads what a person writes: a path, relative to the working directory or absolute; file:/a, file:///a or
// file://localhost/a, which are URLs and are percent-decoded once; s3://bucket/key, and s3a or s3n for s3, whose key is
// taken as it stands, as the engine and other tools for S3 do. A trailing slash is cut.
func ParseLocation(uri string) (Location, error) {
	scheme, rest, hasScheme := strings.Cut(uri, ":")
	switch {
	case uri == "":
		return Location{}, fmt.Errorf("read the location: it is empty")
	case strings.ContainsRune(uri, 0):
		return Location{}, fmt.Errorf("read the location %q: there is a NUL in it", uri)
	case hasScheme && strings.EqualFold(scheme, SchemeFile):
		return parseFile(uri)
	case hasScheme && isS3(scheme) && strings.HasPrefix(rest, "//"):
		bucket, key, _ := strings.Cut(rest[2:], "/")
		if !validBucket(bucket) {
			return Location{}, fmt.Errorf("read the location %q: it has no bucket: write it like s3://bucket/folder", uri)
		}
		return Location{SchemeS3, bucket, strings.TrimRight(key, "/")}, nil
	case hasScheme && strings.HasPrefix(rest, "//"):
		return Location{}, fmt.Errorf("read the location %q: the scheme %s is not supported: a path, file: or s3: is", uri, scheme)
	}
	abs, err := filepath.Abs(uri)
	if err != nil {
		return Location{}, fmt.Errorf("read the location %q: %w", uri, err)
	}
	return Location{Scheme: SchemeFile, Key: strings.TrimPrefix(filepath.ToSlash(abs), "/")}, nil
}

func isS3(scheme string) bool {
	switch strings.ToLower(scheme) {
	case "s3", "s3a", "s3n":
		return true
	}
	return false
}

// validBucket keeps out what would change the request's meaning: parameters, credentials, ports.
func validBucket(name string) bool {
	return name != "" && !strings.ContainsAny(name, "?#@:%\\ ")
}

func parseFile(uri string) (Location, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return Location{}, fmt.Errorf("read the location %q: not a URL", uri)
	}
	if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") {
		return Location{}, fmt.Errorf("read the location %q: write it like file:///folder, with ?, # and %% encoded", uri)
	}
	return Location{Scheme: SchemeFile, Key: strings.TrimPrefix(filepath.ToSlash(filepath.Clean(u.Path)), "/")}, nil
}

// String writes the location as the engine reads it: an absolute path, or s3://bucket/key with the key as it is.
func (l Location) String() string {
	if l.Scheme == SchemeFile {
		return "/" + l.Key
	}
	return l.Scheme + "://" + l.Bucket + "/" + l.Key
}

// Join gives the location of a key below this one.
func (l Location) Join(rest string) Location {
	switch {
	case l.Key == "":
		l.Key = rest
	case rest != "":
		l.Key += "/" + rest
	}
	return l
}
