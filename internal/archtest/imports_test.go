package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// rule is an import rule of .golangci.yml (linters.settings.depguard.rules), the one table of them. The linter enforces
// it too; here it holds without the linter. What depguard knows and the table does not use is refused.
type rule struct {
	ListMode string   `yaml:"list-mode"` // strict: only what Allow lists; else anything but what Deny lists
	Files    []string `yaml:"files"`
	Allow    []string `yaml:"allow"`
	Deny     []denied `yaml:"deny"`
}

type denied struct {
	Pkg  string `yaml:"pkg"`
	Desc string `yaml:"desc"`
}

// applies reports whether the rule is about file, a slash-separated path from the repository's root.
func (r rule) applies(file string) bool {
	matched := false
	for _, pattern := range r.Files {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !matches(pattern, file) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// violation says why file may not import pkg, or is empty.
func (r rule) violation(file, pkg string) string {
	if !r.applies(file) {
		return ""
	}
	if r.ListMode == "strict" {
		for _, allowed := range r.Allow {
			if allowed == "$gostd" && isStandard(pkg) || allowed != "$gostd" && strings.HasPrefix(pkg, allowed) {
				return ""
			}
		}
		return "may import only " + strings.Join(r.Allow, ", ")
	}
	for _, d := range r.Deny {
		if strings.HasPrefix(pkg, d.Pkg) {
			return d.Desc
		}
	}
	return ""
}

// isStandard: a path of the standard library has no dot in its first segment, and this module is called sluice.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return first != "sluice" && !strings.Contains(first, ".")
}

func matches(pattern, file string) bool {
	switch pattern {
	case "$all":
		return true
	case "$test":
		return strings.HasSuffix(file, "_test.go")
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, `\*\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\*`, `[^/]*`)
	return regexp.MustCompile(`^` + quoted + `$`).MatchString("/" + file)
}

func readRules(t *testing.T) map[string]rule {
	t.Helper()
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]yaml.Node `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, ".golangci.yml")), &config); err != nil {
		t.Fatal(err)
	}
	rules := map[string]rule{}
	for name, node := range config.Linters.Settings.Depguard.Rules {
		var r rule
		text, err := yaml.Marshal(&node)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewDecoder(strings.NewReader(string(text)))
		decoder.KnownFields(true)
		if err := decoder.Decode(&r); err != nil {
			t.Fatalf("import rule %s: %v", name, err)
		}
		if strict := r.ListMode == "strict"; len(r.Files) == 0 || strict != (len(r.Allow) > 0) || strict != (len(r.Deny) == 0) ||
			!strict && r.ListMode != "" {
			t.Fatalf("import rule %s: list files, and either deny, or list-mode strict and allow", name)
		}
		for _, d := range r.Deny {
			if d.Desc == "" {
				t.Errorf("import rule %s: %s has no reason", name, d.Pkg)
			}
		}
		rules[name] = r
	}
	return rules
}

// imports are the import paths of a Go file.
func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	if len(rules) < 10 {
		t.Fatalf("only %d import rules were read", len(rules))
	}
	for _, file := range tree(t, ".go") {
		for _, pkg := range imports(t, file) {
			for name, r := range rules {
				if why := r.violation(file, pkg); why != "" {
					t.Errorf("%s imports %s, against rule %s: %s", file, pkg, name, why)
				}
			}
		}
	}
}

// A rule that matches nothing any more guards nothing; these cases say what each must catch, and what it must let pass.
func TestImportRulesCatch(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	for _, c := range []struct {
		file, pkg string
		caught    []string
	}{
		{"internal/sluice/words.go", "time", nil},
		{"internal/sluice/words.go", "sluice/internal/queue", []string{"words"}},
		{"internal/sluice/words.go", "github.com/google/uuid", []string{"words"}},
		{"internal/naming/copy.go", "sluice/internal/queue", []string{"names"}},
		{"internal/naming/copy.go", "os", []string{"pure"}},
		{"internal/naming/naming_test.go", "os", nil},
		{"internal/load/step.go", "context", []string{"pure"}},
		{"internal/load/step.go", "database/sql", []string{"pure"}},
		{"internal/load/loader.go", "context", nil},
		{"internal/delta/plan.go", "os", []string{"pure"}},
		{"internal/delta/dv/bitmap.go", "context", []string{"pure"}},
		{"internal/delta/files.go", "context", nil},
		{"internal/load/loader.go", "sluice/internal/warehouse/wire", []string{"warehouse"}},
		{"internal/load/loader.go", "sluice/internal/queue", nil},
		{"internal/load/loader.go", "sluice/internal/load/script", nil},
		{"internal/load/loader_test.go", "sluice/internal/warehouse", nil},
		{"internal/warehouse/session.go", "sluice/internal/load", []string{"load"}},
		{"internal/queue/store.go", "sluice/internal/load", []string{"load"}},
		{"internal/queue/store.go", "sluice/internal/api", []string{"api"}},
		{"internal/queue/store.go", "sluice/internal/app", []string{"app"}},
		{"internal/fanout/route.go", "sluice/internal/changelog", []string{"changelog"}},
		{"internal/changelog/ingest.go", "sluice/internal/fanout/persons", []string{"fanout"}},
		{"internal/api/routes.go", "sluice/internal/dashboard", []string{"dashboard"}},
		{"internal/dashboard/pages.go", "sluice/internal/backfill", []string{"backfill"}},
		{"internal/dashboard/pages.go", "sluice/internal/maintain", []string{"maintain"}},
		{"internal/app/app.go", "sluice/internal/load", nil},
		{"cmd/sluice/serve.go", "sluice/internal/app", nil},
		{"cmd/sluice/load.go", "sluice/internal/load", []string{"load"}},
		{"internal/app/app.go", "sluice/internal/testkit/pg", []string{"helpers"}},
		{"internal/lake/tx.go", "testing", []string{"helpers"}},
		{"internal/lake/laketest/run.go", "testing", nil},
		{"internal/objstore/s3.go", "sluice/internal/lake", []string{"objects"}},
		{"internal/objstore/s3.go", "github.com/aws/aws-sdk-go-v2/aws", nil},
		{"internal/objstore/objstoretest/run.go", "testing", nil},
		{"internal/testkit/pg/pg.go", "testing", nil},
	} {
		var caught []string
		for name, r := range rules {
			if r.violation(c.file, c.pkg) != "" {
				caught = append(caught, name)
			}
		}
		slices.Sort(caught)
		if !slices.Equal(caught, c.caught) {
			t.Errorf("%s imports %s: caught by %v, want %v", c.file, c.pkg, caught, c.caught)
		}
	}
}

// Whatever path it came by: what only tests need is not in the binary.
func TestBinaryHasNoTestHelpers(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/sluice")
	list.Dir = root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("list the binary's packages: %w", err))
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if pkg == "testing" || strings.Contains(pkg, "testkit") || strings.HasSuffix(pkg, "queuetest") ||
			strings.HasSuffix(pkg, "laketest") || strings.HasSuffix(pkg, "objstoretest") {
			t.Errorf("the binary contains %s", pkg)
		}
	}
}
