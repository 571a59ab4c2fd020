package archtest

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// codePath is a path in backquotes that is meant as one of ours: it starts with one of the root's folders.
	codePath = regexp.MustCompile("`((?:cmd|internal|docs|examples|deploy|bench|test|tools)/[^`\\s]*)`")
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
)

// What the documentation links to, and the paths that it names in README.md and ARCHITECTURE.md, are there.
func TestDocsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	for _, doc := range tree(t, ".md") {
		text := fence.ReplaceAllString(readFile(t, doc), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, err := url.Parse(match[1])
			if err != nil {
				t.Errorf("%s: %v", doc, err)
				continue
			}
			if target.Scheme != "" || target.Path == "" {
				continue // elsewhere, or a heading of the same page
			}
			mustExist(t, doc, path.Join(path.Dir(doc), target.Path))
		}
		if doc != "README.md" && doc != "ARCHITECTURE.md" {
			continue
		}
		for _, match := range codePath.FindAllStringSubmatch(text, -1) {
			mustExist(t, doc, match[1])
		}
	}
}

// mustExist checks a path from the root; it may have wildcards.
func mustExist(t *testing.T, doc, name string) {
	t.Helper()
	if strings.HasPrefix(name, "../") {
		t.Errorf("%s: %s is outside the repository", doc, name)
		return
	}
	full := filepath.Join(root(t), filepath.FromSlash(name))
	if found, err := filepath.Glob(full); err == nil && len(found) > 0 {
		return
	}
	if _, err := os.Stat(full); err != nil {
		t.Errorf("%s names %s, which does not exist", doc, name)
	}
}
