package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options of a server. The zero value is what nearly all tests want.
type Options struct {
	Fsync    bool              // keep what is committed through a kill of the machine; off by default, for speed
	Settings map[string]string // further settings, as in postgresql.conf
}

// Server is a PostgreSQL server of this process.
type Server struct {
	bin  string
	dir  string
	port int
	opts Options
	cred *syscall.Credential

	mu   sync.Mutex
	proc *os.Process
	done chan struct{} // closed once proc has ended
}

const (
	superuser    = "postgres"
	startTimeout = 60 * time.Second
	dirPrefix    = "sluice-pg-"
)

// DSN is the URL of a database of the server for its superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, s.port, database)
}

// Port is the loopback port; a restart keeps it.
func (s *Server) Port() int { return s.port }

// findBin looks for the directory with initdb and postgres, newest version first.
func findBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return versionOf(b) - versionOf(a) })
	if p, err := exec.LookPath("initdb"); err == nil {
		found = append(found, p)
	}
	for _, p := range found {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dir := filepath.Dir(real)
			if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
				return dir, nil
			}
		}
	}
	return "", errors.New("find PostgreSQL: no initdb under /usr/lib/postgresql/*/bin or in PATH; install the Debian package postgresql-15")
}

func versionOf(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// start makes a data directory and starts a server on it.
func start(opts Options) (*Server, error) {
	bin, err := findBin()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, opts: opts}
	removeStale()
	if s.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return nil, fmt.Errorf("make directory of the PostgreSQL server: %w", err)
	}
	if os.Geteuid() == 0 { // initdb and postgres refuse to run as root
		if s.cred, err = credentialOf(superuser); err != nil {
			return nil, err
		}
		if err := os.Chown(s.dir, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return nil, fmt.Errorf("give %s to %s: %w", s.dir, superuser, err)
		}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", superuser, "--auth=trust", "--no-sync",
		"--no-instructions", "--encoding=UTF8", "--locale=C")
	initdb.Dir = s.dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run initdb: %w: %s", err, out)
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := s.startProcess(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) remove() { _ = os.RemoveAll(s.dir) }

func (s *Server) args() []string {
	set := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"port":                       strconv.Itoa(s.port),
		"unix_socket_directories":    "",
		"max_connections":            "200",
		"shared_buffers":             "64MB",
		"lc_messages":                "C",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"fsync":                      "off",
		"synchronous_commit":         "off",
		"full_page_writes":           "off",
		"max_prepared_transactions":  "10",
		"shared_preload_libraries":   "",
		"log_min_messages":           "warning",
		"dynamic_shared_memory_type": "mmap", // /dev/shm can be tiny in containers
	}
	if s.opts.Fsync {
		set["fsync"], set["synchronous_commit"], set["full_page_writes"] = "on", "on", "on"
	}
	for k, v := range s.opts.Settings {
		set[k] = v
	}
	args := []string{"-D", s.data()}
	for k, v := range set {
		args = append(args, "-c", k+"="+v)
	}
	return args
}

// startProcess starts postgres and waits until it answers. The parent-death signal is bound to the thread that forks,
// so that thread stays locked to a goroutine that lives as long as the server.
func (s *Server) startProcess() error {
	logFile, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of the PostgreSQL server: %w", err)
	}
	defer logFile.Close()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.args()...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = procAttr(s.cred)
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, after the server
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.mu.Lock()
	s.proc, s.done = cmd.Process, done
	s.mu.Unlock()
	if err := s.waitReady(done); err != nil {
		s.signal(syscall.SIGQUIT)
		return err
	}
	return nil
}

func (s *Server) waitReady(done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-done:
			out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("start postgres: it ended at once: %s", out)
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres: %w", err)
		case <-tick.C:
		}
	}
}

// signal sends sig and waits for the end of the process.
func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	proc, done := s.proc, s.done
	s.proc = nil
	s.mu.Unlock()
	if proc == nil {
		return
	}
	_ = proc.Signal(sig)
	<-done
}

// Stop ends the server in order; open connections are cut, transactions rolled back. Its data stay.
func (s *Server) Stop() { s.signal(syscall.SIGINT) }

// Kill ends the server like a crash: nothing is flushed, the next start recovers from the log. Its data stay.
func (s *Server) Kill() { s.signal(syscall.SIGQUIT) }

// Restart starts the server again on the same port and data, after Stop or Kill or by itself.
func (s *Server) Restart() error {
	s.Stop()
	return s.startProcess()
}

// CreateDatabase makes an empty database and gives its DSN.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	if err := createDatabase(ctx, s.DSN("postgres"), name); err != nil {
		return "", err
	}
	return s.DSN(name), nil
}

func createDatabase(ctx context.Context, admin, name string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0"); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

func dropDatabase(ctx context.Context, admin, name string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// credentialOf looks a system user up.
func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("run PostgreSQL as root: it needs the system user %s: %w", name, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read uid of %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read gid of %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{uint32(gid)}}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// removeStale removes directories of test processes that were killed before they could clean up.
func removeStale() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, d := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), dirPrefix), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || n <= 0 {
			continue
		}
		if errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(d)
		}
	}
}
