package system

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script. Beside the usual commands there are:
//
//	code N PROGRAM ARGS…          runs a program that must end with exit code N
//	serve [ARGS…]                 starts a server on free ports and waits until it is ready
//	stop, kill9                   end it, in order or at once
//	until PATTERN PROGRAM ARGS…   repeats a command until its output matches
//	sql ORG QUERY WANT            runs a query through the warehouse and compares its one value
//	parquet FILE QUERY            writes a Parquet file
//	listen NAME                   takes a free port and puts its address into $NAME
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("SLUICE_UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("SLUICE_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("EXTENSIONS", filepath.Join(root, "build", "extensions"))
			e.Setenv("FLIGHTS", filepath.Join(root, "examples", "flights", "batches"))
			e.Values[scriptKey{}] = &script{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": codeCommand, "serve": serveCommand, "stop": stopCommand((*process).stop), "kill9": stopCommand(killed), "until": untilCommand,
			"sql": sqlCommand, "parquet": parquetCommand, "listen": listenCommand,
		},
	})
}

type scriptKey struct{}

// script is what the commands of one script share.
type script struct{ server *process }

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var code int
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // testscript gives it as it is
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", code, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func serveCommand(ts *testscript.TestScript, _ bool, args []string) {
	i := &installation{data: ts.Getenv("SLUICE_DATA")}
	p, err := i.start(context.Background(), extensions(skipper{ts}), args...)
	ts.Check(err)
	ts.Defer(p.kill)
	scriptOf(ts).server = p
	ts.Setenv("HTTP", p.http)
	ts.Setenv("WAREHOUSE", p.warehouse)
	ts.Setenv("SERVER_PID", strconv.Itoa(p.cmd.Process.Pid))
}

// skipper lets extensions() skip a script.
type skipper struct{ ts *testscript.TestScript }

func (s skipper) Skip(args ...any)  { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s skipper) Fatal(args ...any) { s.ts.Fatalf("%s", fmt.Sprint(args...)) }

func stopCommand(end func(*process) error) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		p := scriptOf(ts).server
		if p == nil {
			ts.Fatalf("no server runs")
		}
		scriptOf(ts).server = nil
		ts.Check(end(p))
	}
}

func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARGS…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q never came: %v\n%s%s", args[0], err, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

func sqlCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sql ORG QUERY WANT")
	}
	got, err := scriptOf(ts).server.query(args[0], args[1])
	ts.Check(err)
	if got != args[2] {
		ts.Fatalf("%s: got %s, want %s", args[1], got, args[2])
	}
}

func parquetCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: parquet FILE QUERY")
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	_, err := localQuery(fmt.Sprintf("COPY (%s) TO '%s' (FORMAT parquet)", args[1], strings.ReplaceAll(path, "'", "''")))
	ts.Check(err)
}

func listenCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func killed(p *process) error {
	p.kill()
	return nil
}
