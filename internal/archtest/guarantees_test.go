package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// named is a test as docs/guarantees.md writes it: `folder.TestName`, with a case of it, or the path of a script.
var named = regexp.MustCompile("`([^`]+)`")

// Each row promises something, and names the tests that show it. A test that was renamed or deleted takes its promise
// along; this test says so.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	tests := testFunctions(t)
	promises := 0
	for i, line := range strings.Split(readFile(t, "docs/guarantees.md"), "\n") {
		cells := row(line)
		if cells == nil || cells[0] == "failure" {
			continue
		}
		if len(cells) != 4 {
			t.Errorf("line %d has %d columns, want failure, what happens, what is promised, test", i+1, len(cells))
			continue
		}
		promises++
		found := named.FindAllStringSubmatch(cells[3], -1)
		if len(found) == 0 {
			t.Errorf("line %d names no test: %s", i+1, cells[0])
		}
		for _, match := range found {
			name := match[1]
			if strings.Contains(name, "testdata/") {
				if _, err := os.Stat(filepath.Join(root(t), name)); err != nil {
					t.Errorf("line %d: %v", i+1, err)
				}
			} else if why := missing(t, tests, name); why != "" {
				t.Errorf("line %d: %s", i+1, why)
			}
		}
	}
	if promises == 0 {
		t.Error("docs/guarantees.md promises nothing")
	}
}

// missing says why there is no such test, `folder.TestName` or `folder.TestName/group/case`; empty if there is.
func missing(t *testing.T, tests map[string]bool, name string) string {
	t.Helper()
	folder, function, _ := strings.Cut(name, ".")
	function, cases, _ := strings.Cut(function, "/")
	if !tests[folder+"."+function] {
		return "there is no test " + name
	}
	if cases == "" {
		return ""
	}
	_, last, _ := strings.Cut(cases, "/")
	for _, file := range tree(t, ".go") {
		if strings.HasPrefix(file, folder+"/") && strings.Contains(readFile(t, file), strconv.Quote(last)+": ") {
			return ""
		}
	}
	return "there is no case " + name
}

// row splits a line of a Markdown table; nil for any other line and for the line under the head.
func row(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || strings.Trim(line, "|-: ") == "" {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// testFunctions are all tests and fuzz targets, `folder.TestName`.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, file := range tree(t, "_test.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, isFunc := decl.(*ast.FuncDecl)
			if isFunc && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				tests[path.Dir(file)+"."+f.Name.Name] = true
			}
		}
	}
	return tests
}
