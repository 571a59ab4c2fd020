package archtest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/sluice"
)

var (
	entryHead = regexp.MustCompile(`(?m)^### (SLUICE-[A-Z-]+)$`)
	codeText  = regexp.MustCompile(`SLUICE-[A-Z]+(-[A-Z]+)*`)
)

// Each code has an entry in docs/errors.md that says what it means and what to do, and the entry's figures are the
// registry's; no entry is about a code that does not exist.
func TestErrorsAreDocumented(t *testing.T) {
	t.Parallel()
	doc := readFile(t, "docs/errors.md")
	entries := map[sluice.Code]string{}
	heads := entryHead.FindAllStringSubmatchIndex(doc, -1)
	for i, at := range heads {
		end := len(doc)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		code := sluice.Code(doc[at[2]:at[3]])
		if _, twice := entries[code]; twice {
			t.Errorf("%s has two entries", code)
		}
		entries[code] = doc[at[1]:end]
	}
	known := map[sluice.Code]bool{}
	for _, info := range sluice.Codes {
		if known[info.Code] {
			t.Errorf("%s is registered twice", info.Code)
		}
		known[info.Code] = true
		entry, documented := entries[info.Code]
		if !documented {
			t.Errorf("%s has no entry in docs/errors.md", info.Code)
			continue
		}
		exit := sluice.ExitCode(sluice.E(info.Code, "", info.Summary, "", nil))
		first := fmt.Sprintf("%s (exit %d, HTTP %d)", upperFirst(info.Summary), exit, info.Status)
		if !strings.Contains(entry, first) {
			t.Errorf("%s: the entry does not begin with %q", info.Code, first)
		}
		if _, advice, found := strings.Cut(entry, "**What to do:**"); !found || strings.TrimSpace(advice) == "" {
			t.Errorf("%s: the entry does not say what to do", info.Code)
		}
	}
	for code := range entries {
		if !known[code] {
			t.Errorf("%s has an entry but is not in the registry", code)
		}
	}
}

// Nobody invents a code: what the source calls a code is in the registry.
func TestCodesAreRegistered(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, info := range sluice.Codes {
		known[string(info.Code)] = true
	}
	quoted := regexp.MustCompile("[\"`]" + codeText.String() + "[\"`]")
	for _, file := range tree(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, literal := range quoted.FindAllString(readFile(t, file), -1) {
			if code := strings.Trim(literal, "\"`"); !known[code] {
				t.Errorf("%s: %s is not in the registry", file, code)
			}
		}
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
