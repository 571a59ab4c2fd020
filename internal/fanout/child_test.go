package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// childEnv makes this binary one process of a fan-out.
const childEnv = "SLUICE_TEST_FANOUT"

type childConfig struct {
	DSN, Addr, Dir, Owner string
}

type password struct{}

func (password) Credential(context.Context, sluice.Org) (lake.Credential, error) {
	return lake.Credential{User: "svc_loader", Password: "house-loader", Expires: time.Now().Add(time.Hour)}, nil
}

func child() int {
	var c childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := statedb.Open(ctx, c.DSN)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := New(Config{
		Owner: c.Owner, Poll: 20 * time.Millisecond, FlushInterval: 30 * time.Millisecond, Discovery: time.Hour, LeaseTTL: 2 * time.Second,
		Persist: 100 * time.Millisecond,
	}, Deps{
		Store: NewStore(db), Sessions: &lake.Dialer{Addr: func() string { return c.Addr }, Credentials: password{}},
		Files:     LocalFiles{Org: func(org sluice.Org) string { return filepath.Join(c.Dir, "extracts", string(org)) }},
		Discovery: control.New(db), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// spawn starts a process that follows.
func (r *rig) spawn(owner string) *exec.Cmd {
	r.Helper()
	text, err := json.Marshal(childConfig{DSN: r.dsn, Addr: r.h.Addr, Dir: r.h.Dir, Owner: owner})
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = &r.childLog
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	return cmd
}
