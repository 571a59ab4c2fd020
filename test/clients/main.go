package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checks are the columns of the table.
var checks = []string{
	"types, text", "types, binary", "prepared statements", "cursors", "errors", "transactions", "cancel", "COPY in", "COPY out", "catalog",
}

// outcome is what a client says of one check.
type outcome struct {
	client, check, note string
	ok                  bool
}

// client is a row of the table.
type client struct {
	name string
	run  func(ctx context.Context, t target) ([]outcome, error)
}

// target is where the server is.
type target struct{ host, port, user, database, deps, scripts string }

func (t target) dsn() string {
	return fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable", t.user, t.host, t.port, t.database)
}

func (t target) env() []string {
	return append(os.Environ(), "PGHOST="+t.host, "PGPORT="+t.port, "PGUSER="+t.user, "PGDATABASE="+t.database, "PGSSLMODE=disable", "PGCONNECT_TIMEOUT=20",
		"NODE_PATH="+filepath.Join(t.deps, "node", "node_modules"))
}

func main() {
	bin := flag.String("bin", "bin/sluice", "the built server")
	deps := flag.String("deps", "build/clients", "where the clients are installed")
	scripts := flag.String("scripts", "test/clients", "where the scripts are")
	out := flag.String("out", "docs/clients.md", "the table to write")
	flag.Parse()
	if err := run(*bin, *deps, *scripts, *out); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(bin, deps, scripts, out string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	for _, p := range []*string{&bin, &deps, &scripts} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	dir, err := os.MkdirTemp("", "sluice-clients-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, t, err := serve(ctx, bin, dir)
	if err != nil {
		return err
	}
	defer stop()
	t.deps, t.scripts = deps, scripts
	var all []outcome
	versions := map[string]string{}
	for _, c := range clients() {
		fmt.Println("==", c.name)
		got, err := c.run(ctx, t)
		if err != nil {
			got = append(got, outcome{check: "run", note: err.Error()})
		}
		for _, o := range got {
			if o.check == "version" {
				versions[c.name] = o.note
				continue
			}
			o.client = c.name
			all = append(all, o)
			fmt.Printf("%-6s %s %s\n", map[bool]string{true: "ok", false: "FAIL"}[o.ok], o.check, o.note)
		}
	}
	if err := os.WriteFile(out, table(all, versions), 0o644); err != nil {
		return err
	}
	if failed := slices.IndexFunc(all, func(o outcome) bool { return !o.ok }); failed >= 0 {
		return errors.New("some checks fail, see above")
	}
	return nil
}

// serve starts a server of its own, with one org.
func serve(ctx context.Context, bin, dir string) (stop func(), t target, err error) {
	var listen net.ListenConfig
	ports := make([]string, 2)
	for i := range ports {
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, t, err
		}
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		_ = l.Close()
	}
	var log bytes.Buffer
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, bin, "serve", "--data", data, "--listen", "127.0.0.1:"+ports[0], "--http", "127.0.0.1:"+ports[1])
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return nil, t, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	defer func() {
		if err != nil {
			stop()
			err = fmt.Errorf("%w\n%s", err, log.String())
		}
	}()
	if err := waitFor(ctx, "127.0.0.1:"+ports[0]); err != nil {
		return nil, t, err
	}
	if msg, err := exec.CommandContext(ctx, bin, "org", "create", "acme", "--data", data).CombinedOutput(); err != nil {
		return nil, t, fmt.Errorf("make an org: %w: %s", err, msg)
	}
	return stop, target{host: "127.0.0.1", port: ports[0], user: "olga", database: "acme"}, nil
}

func waitFor(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the server: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// script runs a client that is a program of its own.
func script(name ...string) func(context.Context, target) ([]outcome, error) {
	return func(ctx context.Context, t target) ([]outcome, error) {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
		defer cancel()
		args := make([]string, len(name))
		for i, a := range name {
			args[i] = strings.NewReplacer("{deps}", t.deps, "{scripts}", t.scripts).Replace(a)
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = t.env()
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		got := read(string(out))
		if err != nil {
			return got, fmt.Errorf("run %s: %w", filepath.Base(args[0]), err)
		}
		return got, nil
	}
}

// read takes the lines of a client apart.
func read(out string) []outcome {
	var got []outcome
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(f) == 3 {
			got = append(got, outcome{check: f[0], ok: f[1] == "ok", note: f[2]})
		}
	}
	return got
}

// table writes the outcomes as Markdown.
func table(all []outcome, versions map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("# Clients\n\nWhat real clients do with a warehouse, as `make clients` found it with the built server: it runs each of them and writes this page.\n" +
		"An empty field is something that the client has not, or that is the same for another one in the table.\n\n| client |")
	for _, c := range checks {
		b.WriteString(" " + c + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(checks)) + "\n")
	var notes []string
	for _, c := range clients() {
		b.WriteString("| " + strings.TrimSpace(c.name+" "+versions[c.name]) + " |")
		for _, check := range checks {
			cell := ""
			for _, o := range all {
				if o.client != c.name || o.check != check {
					continue
				}
				cell = map[bool]string{true: "✓", false: "✗"}[o.ok]
				if o.note != "" {
					notes = append(notes, fmt.Sprintf("%s, %s: %s", c.name, check, o.note))
				}
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## What was looked at\n\n")
	for _, n := range notes {
		b.WriteString("* " + n + "\n")
	}
	b.WriteString("\nThe queries of tools are in `test/clients/catalog`. `docs/postgres-differences.md` has what differs from PostgreSQL.\n")
	return b.Bytes()
}

// npmVersion reads the version of a package that npm has installed.
func npmVersion(deps, name string) string {
	raw, err := os.ReadFile(filepath.Join(deps, "node", "node_modules", name, "package.json"))
	var p struct{ Version string }
	if err != nil || json.Unmarshal(raw, &p) != nil {
		return ""
	}
	return p.Version
}
