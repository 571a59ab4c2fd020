package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit/kafka"
	"sluice/internal/testkit/pg"
)

// bin is the binary under test, built once; root is the repository.
var bin, root string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-system-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		defer pg.Shutdown()
		defer kafka.Shutdown()
		if err := build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func build(dir string) error {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	root = filepath.Dir(strings.TrimSpace(string(out)))
	bin = filepath.Join(dir, "sluice")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/sluice")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return nil
}

// extensions is where the engine's extensions are; a test that needs them is skipped where they are missing, and fails in
// CI.
func extensions(t interface {
	Skip(args ...any)
	Fatal(args ...any)
},
) string {
	dir := filepath.Join(root, "build", "extensions")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("SLUICE_REQUIRE_SERVICES") == "1" {
			t.Fatal("there are no engine extensions: run make extensions")
		}
		t.Skip("there are no engine extensions: run make extensions")
	}
	return dir
}
