package pg

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// EnvDSN names a running server (a URL of a superuser) to use instead of starting one per package.
const EnvDSN = "SLUICE_TEST_POSTGRES_DSN"

var (
	shared    *Server
	sharedErr error
	once      sync.Once
	number    atomic.Int64
)

// New gives the DSN of an empty database of the test's own, dropped when the test ends. Where PostgreSQL is not
// installed the test is skipped, or fails if CI or SLUICE_REQUIRE_SERVICES is set.
func New(t testing.TB) string {
	t.Helper()
	admin := os.Getenv(EnvDSN)
	if admin == "" {
		once.Do(func() { shared, sharedErr = start(Options{}) })
		if sharedErr != nil {
			missing(t, sharedErr)
		}
		admin = shared.DSN("postgres")
	}
	name := fmt.Sprintf("t_%d_%d", os.Getpid(), number.Add(1))
	if err := createDatabase(t.Context(), admin, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := dropDatabase(ctx, admin, name); err != nil {
			t.Log(err)
		}
	})
	dsn, err := withDatabase(admin, name)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// Start gives a server of the test's own, for tests that stop, kill or restart it. It ends with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := start(opts)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(func() {
		s.Kill()
		s.remove()
	})
	return s
}

// Shutdown ends the shared server of this process and removes its directory. A TestMain may call it after m.Run; a
// process that does not loses nothing but a temporary directory, which the next run removes.
func Shutdown() {
	if shared != nil {
		shared.Kill()
		shared.remove()
	}
}

func missing(t testing.TB, err error) {
	t.Helper()
	if _, ferr := findBin(); ferr == nil || os.Getenv("CI") != "" || os.Getenv("SLUICE_REQUIRE_SERVICES") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return "", fmt.Errorf("read %s: it must be a postgres:// URL", EnvDSN)
	}
	u.Path = "/" + name
	return u.String(), nil
}
