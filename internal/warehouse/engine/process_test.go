package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/engine"
)

// process is this test binary in another role, see child.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, role string, cfg engine.Config, args ...string) *process {
	t.Helper()
	b, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(), "SLUICE_ENGINE_TEST_CHILD="+role, "SLUICE_ENGINE_TEST_CONFIG="+string(b), "SLUICE_ENGINE_TEST_ARGS="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// next is the next line that the process prints.
func (p *process) next(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the process ended: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// end lets the process end by itself.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.in.Close()
	for p.lines.Scan() {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// child is what the test binary does in another process:
//
//	hold            opens the lake, says "ready", waits for the end of its input
//	commit TAG      as hold, then commits one row per transaction until killed, and says the number of each one
//	commits TAG N   as hold, then commits N rows
func child(role string) int {
	var cfg engine.Config
	if err := json.Unmarshal([]byte(os.Getenv("SLUICE_ENGINE_TEST_CONFIG")), &cfg); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	r, _ := newRegistry(engine.Options{}, cfg)
	args := strings.Fields(os.Getenv("SLUICE_ENGINE_TEST_ARGS"))
	err := func() error {
		c, err := r.Connect(ctx, cfg.Org)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		fmt.Println("ready")
		n := 0
		switch role {
		case "commit":
			n = 1 << 30
		case "commits":
			if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
				return err
			}
			if n, err = strconv.Atoi(args[1]); err != nil {
				return err
			}
		}
		for i := range n {
			if _, err := c.ExecContext(ctx, "INSERT INTO t VALUES (?, ?)", args[0], i); err != nil {
				return err
			}
			fmt.Println(i)
		}
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}()
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Printf("%s: %v\n", sluice.CodeOf(err), err)
		return 1
	}
	return 0
}

func TestOneProcessPerFileLake(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	p := start(t, "hold", cfg)
	if got := p.next(t); got != "ready" {
		t.Fatal(got)
	}
	_, err := r.Connect(t.Context(), "acme")
	wantCode(t, err, "SLUICE-LAKE-IN-USE", fmt.Sprintf("process %d", p.cmd.Process.Pid), cfg.Lake.Catalog, "stop it")
	wantCode(t, r.Provision(t.Context(), cfg), "SLUICE-LAKE-IN-USE", fmt.Sprintf("process %d", p.cmd.Process.Pid))
	p.end(t)
	c := connect(t, r, "acme")

	q := start(t, "hold", cfg)
	if got := q.next(t); !strings.HasPrefix(got, "SLUICE-LAKE-IN-USE: ") || !strings.Contains(got, fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatal(got)
	}
	if got := text(t, c, "SELECT 1"); got != "1" {
		t.Error(got)
	}
}

// By another path, a link, a second registry, or under another org: it is one lake.
func TestOneInstancePerFileLake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := fileLake("acme", dir)
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	if err := os.Symlink(filepath.Join(dir, "acme"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	linked := cfg
	linked.Lake.Catalog = filepath.Join(dir, "linked", "catalog.ducklake")
	a, errA := cfg.Lake.Key()
	b, errB := linked.Lake.Key()
	if errA != nil || errB != nil || a != b {
		t.Errorf("keys %s and %s, %v, %v", a, b, errA, errB)
	}
	renamed := linked
	renamed.Org = "other"
	for _, cfg := range []engine.Config{cfg, linked, renamed} {
		second, _ := newRegistry(engine.Options{}, cfg)
		_, err := second.Connect(t.Context(), cfg.Org)
		wantCode(t, err, "SLUICE-LAKE-IN-USE", "this process")
	}
	another := connect(t, r, "acme") // the registry's own is shared
	run(t, another, "CREATE TABLE t AS SELECT 1 AS i")
	if got := text(t, c, "SELECT count(*) FROM t"); got != "1" {
		t.Error(got)
	}
}

// Closing any handle of the catalog file in the process drops the engine's own lock on it; ours stays.
func TestTheLockSurvivesACopyOfTheCatalog(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	connect(t, r, "acme")
	if _, err := os.ReadFile(cfg.Lake.Catalog); err != nil {
		t.Fatal(err)
	}
	p := start(t, "hold", cfg)
	if got := p.next(t); !strings.HasPrefix(got, "SLUICE-LAKE-IN-USE: ") {
		t.Fatal(got)
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	run(t, c, "CREATE TABLE t (tag VARCHAR, i INTEGER)")
	_ = c.Close()
	r.Recycle("acme")

	for round := range 3 {
		p := start(t, "commit", cfg, "k"+strconv.Itoa(round))
		for p.next(t) != "9" {
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		last := 9
		for p.lines.Scan() { // acknowledged before the kill
			n, err := strconv.Atoi(p.lines.Text())
			if err != nil {
				break
			}
			last = n
		}
		_ = p.cmd.Wait()
		c := connect(t, r, "acme")
		acked := text(t, c, fmt.Sprintf("SELECT count(*) FROM t WHERE tag = 'k%d' AND i <= %d", round, last))
		if acked != strconv.Itoa(last+1) {
			t.Errorf("%s of %d acknowledged rows", acked, last+1)
		}
		if got := text(t, c, fmt.Sprintf("SELECT count(*) BETWEEN %d AND %d FROM t WHERE tag = 'k%d'", last+1, last+2, round)); got != "true" {
			t.Errorf("more rows than were begun after %d", last)
		}
		if left, err := os.ReadDir(cfg.TempDir); err != nil || len(left) != 1 {
			t.Errorf("spill directories: %v, %v", left, err)
		}
		_ = c.Close()
		r.Recycle("acme")
	}
}
