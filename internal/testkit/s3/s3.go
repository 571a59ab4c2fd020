// Package s3 gives tests a real S3 server (Versity's gateway over a directory, which checks signatures, conditions and
// ranges as S3 does): one server per test process, a bucket of its own per test, and a proxy that makes declared faults.
// The server ends with the test process, also when that is killed.
//
// `make s3` builds the server, from the module in tools/s3. It is a test helper and never reaches the
// binary.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/objstore"
	"sluice/internal/testkit/child"
)

// The server's only account.
const (
	AccessKey = "sluice-test"
	SecretKey = "sluice-test-secret"
	Region    = "us-east-1"
)

// EnvBinary names the server's program where it is neither in build/bin nor in PATH.
const EnvBinary = "SLUICE_TEST_VERSITYGW"

const (
	program      = "versitygw"
	dirPrefix    = "sluice-s3-"
	startTimeout = 60 * time.Second
)

// Server is an S3 server of this process.
type Server struct {
	Endpoint string // URL
	dir      string
	proc     *child.Process
}

var (
	shared    *Server
	sharedErr error
	once      sync.Once
	number    atomic.Int64
)

// Bucket is a bucket of a test's own.
type Bucket struct {
	Endpoint string // URL of the server, or of a proxy before it
	Name     string
	// Dir is where the server keeps the objects: a file below it is the object of that key.
	Dir string
}

// New makes a bucket, which is removed when the test ends. Where the server's program is missing the test is skipped, or
// fails if CI or SLUICE_REQUIRE_SERVICES is set.
func New(t testing.TB) Bucket {
	t.Helper()
	once.Do(func() { shared, sharedErr = start() })
	if sharedErr != nil {
		if errors.Is(sharedErr, errNoProgram) && os.Getenv("CI") == "" && os.Getenv("SLUICE_REQUIRE_SERVICES") != "1" {
			t.Skip(sharedErr)
		}
		t.Fatal(sharedErr)
	}
	b := Bucket{Endpoint: shared.Endpoint, Name: fmt.Sprintf("t-%d-%d", os.Getpid(), number.Add(1))}
	b.Dir = filepath.Join(shared.data(), b.Name)
	if err := os.Mkdir(b.Dir, 0o755); err != nil { // a directory is a bucket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(b.Dir) })
	return b
}

// URI names a key of the bucket.
func (b Bucket) URI(key string) string { return "s3://" + b.Name + "/" + key }

// Access is what a client needs for the bucket.
func (b Bucket) Access() objstore.S3Options {
	return objstore.S3Options{
		Endpoint: b.Endpoint, Region: Region, PathStyle: true,
		Credentials: objstore.Static(objstore.Credentials{AccessKey: AccessKey, SecretKey: SecretKey}),
	}
}

// Options open every bucket of the server, with retries that wait for milliseconds.
func (b Bucket) Options() objstore.Options {
	return objstore.Options{
		S3:    func(string) (objstore.S3Options, error) { return b.Access(), nil },
		Retry: objstore.Retry{Base: time.Millisecond, Cap: 10 * time.Millisecond},
	}
}

// Open opens the bucket.
func (b Bucket) Open(t testing.TB) objstore.Bucket {
	t.Helper()
	store, _, err := objstore.Open(t.Context(), b.URI(""), b.Options())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Upload writes every file below dir as the object prefix/<path below dir>.
func (b Bucket) Upload(t testing.TB, dir, prefix string) {
	t.Helper()
	store := b.Open(t)
	uploads, ctx := errgroup.WithContext(t.Context())
	uploads.SetLimit(8)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if prefix != "" {
			key = prefix + "/" + key
		}
		uploads.Go(func() error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = store.Put(ctx, key, f, objstore.PutOptions{})
			return err
		})
		return nil
	})
	if err := errors.Join(err, uploads.Wait()); err != nil {
		t.Fatal(err)
	}
}

// Shutdown ends the server of this process. A TestMain may call it after m.Run; a process that does not loses nothing but
// a temporary directory, which the next run removes.
func Shutdown() {
	if shared != nil {
		shared.proc.Stop(syscall.SIGKILL)
		_ = os.RemoveAll(shared.dir)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

var errNoProgram = errors.New("find the S3 server of the tests: no " + program + " in build/bin or PATH; `make s3` builds it")

// find looks for the server's program.
func find() (string, error) {
	if named := os.Getenv(EnvBinary); named != "" {
		return named, nil
	}
	dir, err := os.Getwd()
	for err == nil {
		candidate := filepath.Join(dir, "build", "bin", program)
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if p, err := exec.LookPath(program); err == nil {
		return p, nil
	}
	return "", errNoProgram
}

func start() (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	removeStale()
	s := &Server{}
	if s.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return nil, fmt.Errorf("make directory of the S3 server: %w", err)
	}
	if err := os.Mkdir(s.data(), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of the S3 server: %w", err)
	}
	// A port that was free a moment ago may be taken by now: then another one is tried.
	for range 5 {
		if err = s.startProcess(bin); err == nil {
			return s, nil
		}
	}
	_ = os.RemoveAll(s.dir)
	return nil, err
}

func (s *Server) startProcess(bin string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	logPath := filepath.Join(s.dir, "log")
	logFile, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("open log of the S3 server: %w", err)
	}
	defer logFile.Close()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := []string{"--quiet", "--keep-alive", "--health", "/healthz", "--region", Region, "--port", address, "posix"}
	if !hasAttributes(s.data()) {
		sidecar := filepath.Join(s.dir, "sidecar")
		if err := os.MkdirAll(sidecar, 0o755); err != nil {
			return fmt.Errorf("make directory of the S3 server: %w", err)
		}
		args = append(args, "--sidecar", sidecar)
	}
	cmd := exec.Command(bin, append(args, s.data())...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if s.proc, err = child.Start(cmd); err != nil {
		return fmt.Errorf("start the S3 server: %w", err)
	}
	s.Endpoint = "http://" + address
	if err := s.waitReady(); err != nil {
		s.proc.Stop(syscall.SIGKILL)
		out, _ := os.ReadFile(logPath)
		return fmt.Errorf("start the S3 server: %w: %s", err, out)
	}
	return nil
}

func (s *Server) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.proc.Done():
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-tick.C:
		}
	}
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
		if err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(d)
		}
	}
}
