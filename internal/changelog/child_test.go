package changelog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// childEnv makes this binary a process that works on changelogs until it is told to end, or killed.
const childEnv = "CHANGELOG_TEST_CHILD"

// childConfig is what a child is told.
type childConfig struct {
	State     string // DSN
	Warehouse string
	User      string
	Password  string
	Brokers   []string
	FlushRows int64
	LeaseTTL  time.Duration
}

type fixedCredentials struct{ user, password string }

func (f fixedCredentials) Credential(context.Context, sluice.Org) (lake.Credential, error) {
	return lake.Credential{User: f.user, Password: f.password, Expires: time.Now().Add(time.Hour)}, nil
}

func child() int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := statedb.Open(ctx, cfg.State)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = db.Close() }()
	r := NewRunner(Config{
		Cluster: Cluster{Brokers: cfg.Brokers}, LeaseTTL: cfg.LeaseTTL, Heartbeat: cfg.LeaseTTL / 4, Poll: 200 * time.Millisecond,
		Slot: SlotConfig{
			Thresholds: Thresholds{Rows: cfg.FlushRows, Interval: 500 * time.Millisecond, MaxInterval: time.Nanosecond}, Check: time.Second,
			Fetching: Fetching{MinBytes: 1, MaxWait: 100 * time.Millisecond, MaxPartitionBytes: 256 << 10}, GiveUp: 5 * time.Second,
		},
	}, Deps{
		Store: NewStore(db), Files: LocalFiles{}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Sessions: &lake.Dialer{Addr: func() string { return cfg.Warehouse }, Credentials: fixedCredentials{cfg.User, cfg.Password}},
	})
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
