package archtest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/licences.md instead of comparing with it")

// phrases tell licences by words that only they have. Spaces stand for any white space.
var phrases = []struct {
	licence, phrase string
	allowed         bool
}{
	{"Apache-2.0", "Apache License,? Version 2.0", true},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", true},
	{"BSD", "Redistributions of source code must retain the above copyright notice", true},
	{"ISC", "Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee", true},
	{"MPL-2.0", "Mozilla Public License,? Version 2.0", true},
	{"Unlicense", "This is free and unencumbered software released into the public domain", true},
	{"CC0-1.0", "CC0 1.0 Universal", true},
	{"GPL", "GNU GENERAL PUBLIC LICENSE", false},
	{"LGPL", "GNU LESSER GENERAL PUBLIC LICENSE", false},
	{"AGPL", "GNU AFFERO GENERAL PUBLIC LICENSE", false},
	{"SSPL", "Server Side Public License", false},
	{"BUSL", "Business Source License", false},
	{"Elastic", "Elastic License", false},
	{"Commons Clause", "Commons Clause", false},
}

// licencesOf names the licences in a text, and says which of them may not be part of the binary.
func licencesOf(text string) (found, refused []string) {
	for _, p := range phrases {
		pattern := strings.ReplaceAll(p.phrase, " ", `[\s*/#]+`)
		if !regexp.MustCompile(`(?i)` + pattern).MatchString(text) {
			continue
		}
		found = append(found, p.licence)
		if !p.allowed {
			refused = append(refused, p.licence)
		}
	}
	return found, refused
}

// Every module that the project's packages are made of (tests apart) has a licence that may be combined with
// Apache-2.0 and asks nothing of whoever runs a server. docs/licences.md is the list.
func TestLicences(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("# Licences\n\nSluice is under Apache-2.0 (`LICENSE`). What its packages are made of beside Go's standard library, and the\n" +
		"licences of each; `make licences` writes this list, and a test compares it. Further parts: SQLite inside\n" +
		"go-sqlite3 (public domain), DuckDB inside its bindings and the DuckDB extensions that the build fetches (MIT), and the\n" +
		"flights sample (CC0-1.0).\n\n| module | licences |\n|---|---|\n")
	for _, m := range modules(t) {
		var texts strings.Builder
		for _, file := range licenceFiles(t, m.Dir) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts.Write(content)
		}
		found, refused := licencesOf(texts.String())
		switch {
		case len(refused) > 0:
			t.Errorf("%s is under %s", m.Path, strings.Join(refused, ", "))
		case len(found) == 0:
			t.Errorf("%s: no licence was recognised in %s", m.Path, m.Dir)
		}
		fmt.Fprintf(&table, "| %s | %s |\n", m.Path, strings.Join(found, ", "))
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root(t), "docs/licences.md"), []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readFile(t, "docs/licences.md") != table.String() {
		t.Error("docs/licences.md is not the list of what the packages are made of: run make licences")
	}
}

func TestLicencesAreTold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                        "[Apache-2.0] []",
		"                   GNU AFFERO GENERAL PUBLIC LICENSE":                                "[AGPL] [AGPL]",
		"Redistributions of source code must retain\nthe above copyright notice":              "[BSD] []",
		"// Permission is hereby granted, free of charge, to any\n// person obtaining a copy": "[MIT] []",
		"Business Source License 1.1":                                                         "[BUSL] [BUSL]",
		"all rights reserved":                                                                 "[] []",
	} {
		found, refused := licencesOf(text)
		if got := fmt.Sprint(found, refused); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

type module struct {
	Path string
	Dir  string
	Main bool
}

// modules are the modules of the packages that the project's packages depend on, in order of their paths.
func modules(t *testing.T) []module {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./...")
	list.Dir = root(t)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1") // the same list on any machine
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("list the packages' modules: %w", err))
	}
	seen := map[string]module{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct{ Module *module }
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if pkg.Module != nil && !pkg.Module.Main {
			seen[pkg.Module.Path] = *pkg.Module
		}
	}
	var sorted []module
	for _, m := range seen {
		sorted = append(sorted, m)
	}
	slices.SortFunc(sorted, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}

// licenceFiles are the files at a module's root that hold its licence.
func licenceFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if !e.IsDir() && (strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "COPYING") || strings.HasPrefix(name, "UNLICENSE")) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}
