package warehouse_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/warehouse"
	"sluice/internal/warehouse/wire"
)

// strict bans an address after two failures.
type strict struct {
	mu     sync.Mutex
	failed int
}

func (s *strict) Banned(string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed >= 2 {
		return time.Minute
	}
	return 0
}

func (s *strict) Failed(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
}

// An address whose logins fail is kept away, also with the right password; what is not a wrong password does not count.
func TestFailedLoginsAreBanned(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{Bans: &strict{}})
	login := func(password, want string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://olga:%s@%s/acme?sslmode=disable", password, srv.Addr()))
		if err == nil {
			_ = conn.Close(t.Context())
		}
		if got := code(err); got != want {
			t.Errorf("%s: %q, want %q", password, got, want)
		}
	}
	login("pw-olga", "")
	login("wrong", "28P01")
	login("pw-olga", "")
	login("wrong", "28P01")
	login("pw-olga", "28000")
}

// A session whose login has ended is told so; those of others go on.
func TestSessionsEndWithTheirLogin(t *testing.T) {
	t.Parallel()
	srv, _ := start(t, warehouse.Config{})
	gone, stays := connect(t, srv, "olga"), connect(t, srv, "rita")
	srv.End(func(s wire.Info) (end, idle bool) { return s.Principal.Name == "olga", false })
	var err error
	for err == nil { // it is told in between two statements, or in one
		_, err = gone.Exec(t.Context(), "SELECT 1")
	}
	if got := code(err); got != "57P01" && !gone.IsClosed() {
		t.Errorf("%q", got)
	}
	if _, err := stays.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}
