package delta

import (
	"fmt"
	"strings"

	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// root is where a table is. It gives the paths in its log their meaning.
type root struct {
	at    objstore.Location
	uri   string // of what is below it, up to and with the slash
	depth int    // where in such a URI the key begins
}

func rootOf(at objstore.Location) root {
	uri := at.String()
	if at.Key != "" {
		uri += "/"
	}
	return root{at, uri, len(at.String()) - len(at.Key)}
}

func badPath(path, why string) error {
	return sluice.E(CodePath, "", fmt.Sprintf("the path %q of the log %s", path, why),
		"allow the place by delta.allowed_roots if it is meant to be read, or have the table's writer repair the path", nil)
}

// resolve gives the object that a path of the log names: percent-decoded exactly once, relative to the table or absolute.
// Beside the location it gives its text.
func (r root) resolve(path string) (objstore.Location, string, error) {
	decoded, err := unescape(path)
	if err != nil {
		return objstore.Location{}, "", err
	}
	if scheme, _ := splitScheme(decoded); scheme == "" && decoded != "" && decoded[0] != '/' && !climbs(decoded) &&
		strings.IndexByte(decoded, 0) < 0 {
		// By far the most: one text holds both.
		uri := r.uri + decoded
		return objstore.Location{Scheme: r.at.Scheme, Bucket: r.at.Bucket, Key: uri[r.depth:]}, uri, nil
	}
	at, err := r.absolute(path, decoded)
	return at, at.String(), err
}

func (r root) absolute(path, decoded string) (objstore.Location, error) {
	scheme, rest := splitScheme(decoded)
	var at objstore.Location
	switch {
	case decoded == "":
		return at, badPath(path, "is empty")
	case strings.IndexByte(decoded, 0) >= 0:
		return at, badPath(path, "has a NUL in it")
	case scheme == "file":
		if host, behind, ok := strings.Cut(strings.TrimPrefix(rest, "//"), "/"); strings.HasPrefix(rest, "//") && ok {
			if host != "" && host != "localhost" {
				return at, badPath(path, "is on another host")
			}
			rest = "/" + behind
		}
		at = objstore.Location{Scheme: objstore.SchemeFile, Key: strings.TrimLeft(rest, "/")}
	case scheme == "s3", scheme == "s3a", scheme == "s3n":
		bucket, key, ok := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
		if !strings.HasPrefix(rest, "//") || bucket == "" || !ok {
			return at, badPath(path, "has no bucket")
		}
		at = objstore.Location{Scheme: objstore.SchemeS3, Bucket: bucket, Key: key}
	case scheme != "":
		return at, badPath(path, "has a scheme that is not read")
	case decoded[0] == '/':
		at = objstore.Location{Scheme: r.at.Scheme, Bucket: r.at.Bucket, Key: strings.TrimLeft(decoded, "/")}
	}
	if climbs(decoded) {
		return objstore.Location{}, badPath(path, "leads out of its folder")
	}
	return at, nil
}

// relative gives the key of an object below the table, or its whole location if it is elsewhere.
func (r root) relative(at objstore.Location) string {
	if at.Scheme == r.at.Scheme && at.Bucket == r.at.Bucket {
		if rest, ok := strings.CutPrefix(at.Key, r.at.Key); ok && r.at.Key != "" && strings.HasPrefix(rest, "/") {
			return rest[1:]
		} else if ok && r.at.Key == "" {
			return rest
		}
	}
	return at.String()
}

// below reports whether an object lies in a folder.
func below(at, folder objstore.Location) bool {
	if at.Scheme != folder.Scheme || at.Bucket != folder.Bucket {
		return false
	}
	return folder.Key == "" || at.Key == folder.Key || strings.HasPrefix(at.Key, strings.TrimSuffix(folder.Key, "/")+"/")
}

// splitScheme cuts a scheme off. A colon alone makes none: relative paths may have one.
func splitScheme(path string) (scheme, rest string) {
	for i, c := range []byte(path) {
		switch {
		case c == ':' && i > 0 && strings.HasPrefix(path[i+1:], "/"):
			return strings.ToLower(path[:i]), path[i+1:]
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return "", path
		}
	}
	return "", path
}

func climbs(path string) bool {
	if !strings.Contains(path, "..") {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// unescape decodes %XX, once, and nothing else: a plus is a plus.
func unescape(path string) (string, error) {
	i := strings.IndexByte(path, '%')
	if i < 0 {
		return path, nil
	}
	out := append(make([]byte, 0, len(path)), path[:i]...)
	for ; i < len(path); i++ {
		if path[i] != '%' {
			out = append(out, path[i])
			continue
		}
		if i+2 >= len(path) {
			return "", badPath(path, "has a percent sign that encodes nothing")
		}
		hi, lo := hexDigit(path[i+1]), hexDigit(path[i+2])
		if hi < 0 || lo < 0 {
			return "", badPath(path, "has a percent sign that encodes nothing")
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
