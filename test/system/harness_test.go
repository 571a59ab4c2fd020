package system

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/jackc/pgx/v5"
)

// installation is a data directory with the configuration of its processes.
type installation struct {
	data string
	env  []string // beyond what every process gets
}

// environ is the environment of a process: nothing of ours but what the test says.
func (i *installation) environ(extensions string) []string {
	env := []string{"SLUICE_DATA=" + i.data, "SLUICE_WAREHOUSE__EXTENSIONS=" + extensions}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SLUICE_") {
			env = append(env, kv)
		}
	}
	return append(env, i.env...)
}

// try runs a command and gives its output and exit code.
func (i *installation) try(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env, cmd.Dir = i.environ(extensions(t)), filepath.Dir(i.data)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that has to work.
func (i *installation) must(t testing.TB, args ...string) string {
	t.Helper()
	stdout, stderr, code := i.try(t, args...)
	if code != 0 {
		t.Fatalf("sluice %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// answer runs a command with --json and reads what it prints.
func answer[T any](t testing.TB, i *installation, args ...string) (v T) {
	t.Helper()
	text := i.must(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("sluice %s: %v in %s", strings.Join(args, " "), err, text)
	}
	return v
}

// process is a server that runs.
type process struct {
	cmd       *exec.Cmd
	log       string // file
	http      string
	warehouse string
	done      chan struct{}
}

// start starts a server on free ports and waits until it is ready.
func (i *installation) start(ctx context.Context, extensions string, args ...string) (*process, error) {
	p := &process{log: i.data + ".log", done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(bin, append([]string{"serve", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, args...)...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = i.environ(extensions), filepath.Dir(i.data), log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		_ = log.Close()
		close(p.done)
	}()
	for deadline := time.Now().Add(30 * time.Second); !p.find(i.data) || !isReady(ctx, p.http); {
		select {
		case <-p.done:
			return nil, fmt.Errorf("the server ended at once:\n%s", p.tail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.kill()
			return nil, fmt.Errorf("the server is not ready:\n%s", p.tail())
		}
	}
	return p, nil
}

// serve is start for a test.
func (i *installation) serve(t testing.TB, args ...string) *process {
	t.Helper()
	p, err := i.start(t.Context(), extensions(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of process %d:\n%s", p.cmd.Process.Pid, p.tail())
		}
	})
	return p
}

// find reads the addresses of the process from serve.json.
func (p *process) find(data string) bool {
	text, err := os.ReadFile(filepath.Join(data, "serve.json"))
	if err != nil {
		return false
	}
	var f struct {
		PID             int
		HTTP, Warehouse string
	}
	if json.Unmarshal(text, &f) != nil || f.PID != p.cmd.Process.Pid {
		return false
	}
	p.http, p.warehouse = f.HTTP, f.Warehouse
	return true
}

func isReady(ctx context.Context, addr string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill ends the process at once and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process in order, within the time that is promised.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(45 * time.Second):
		return fmt.Errorf("the server did not stop within 45 s:\n%s", p.tail())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server stopped with exit code %d:\n%s", code, p.tail())
	}
	return nil
}

// tail is the end of the process's log.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// waitFor waits until a condition holds.
func waitFor(t testing.TB, most time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s until %s", most, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// query runs a query of one column and row as a reader.
func (p *process) query(org, query string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://reader@%s/%s?sslmode=disable&default_query_exec_mode=simple_protocol", p.warehouse, org))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var s *string
	if err := conn.QueryRow(ctx, "SELECT ("+query+")::VARCHAR").Scan(&s); err != nil || s == nil {
		return "NULL", err
	}
	return *s, nil
}

// text is query for a test.
func (p *process) text(t testing.TB, org, query string) string {
	t.Helper()
	s, err := p.query(org, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

// localQuery runs a query in an engine of the test's own.
func localQuery(query string) (string, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	var s string
	err = db.QueryRowContext(context.Background(), query).Scan(&s)
	return s, err
}

// local is localQuery for a test.
func local(t testing.TB, query string) string {
	t.Helper()
	s, err := localQuery(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

// parquet writes the rows of a query to a Parquet file.
func parquet(t testing.TB, path, query string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	local(t, fmt.Sprintf("COPY (%s) TO '%s' (FORMAT parquet)", query, path))
}
