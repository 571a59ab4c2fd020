package changelog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/kafka"
	"sluice/internal/testkit/pg"
	"sluice/internal/testkit/pgproxy"
)

// crew is a number of processes of this binary that work on changelogs.
type crew struct {
	t   testing.TB
	cfg childConfig

	mu  sync.Mutex
	log bytes.Buffer
}

type proc struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Write implements io.Writer: what the processes log, together.
func (c *crew) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *crew) logged(pattern string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(regexp.MustCompile(pattern).FindAll(c.log.Bytes(), -1))
}

func (c *crew) start() *proc {
	c.t.Helper()
	text, err := json.Marshal(c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GOMAXPROCS=2")
	cmd.Stderr = c
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	p := &proc{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p
}

func (p *proc) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	if sig == syscall.SIGTERM {
		select {
		case <-p.done:
			return
		case <-time.After(30 * time.Second):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// TestChaos: processes are killed, ended and stopped past their leases at random, slots move between them, COMMITs of the
// catalog are lost before and after they are carried out, the topic gets more partitions; each message is a row once.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	partitions, each, kills, lose, flushRows := int32(4), 5_000, 6, int64(12), int64(500)
	if full() {
		partitions, each, kills, lose, flushRows = 8, 250_000, 20, 50, 5_000
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	k := kafka.New(t)
	var proxy *pgproxy.Proxy
	h := house.New(t, house.Options{Postgres: true, Route: func(addr string) string {
		if proxy == nil {
			proxy = pgproxy.Start(t, addr)
		}
		return proxy.Addr()
	}})
	h.Org(rigOrg)
	state := pg.New(t)
	db, err := statedb.Open(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := control.New(db).CreateOrg(t.Context(), control.NewOrg{Org: rigOrg, State: sluice.OrgReady}, tester); err != nil {
		t.Fatal(err)
	}
	admin := &Admin{Store: NewStore(db), Sessions: h.Dialer(), Files: LocalFiles{}, Cluster: Cluster{Brokers: []string{k.Addr()}}, Log: slog.New(slog.DiscardHandler)}
	topic := k.Topic(t, partitions, nil)
	k.Produce(t, topic, 0, message(0, 0))
	c, _, err := admin.Add(t.Context(), NewChangelog{Name: "events", Lake: rigOrg, Topic: topic, Slots: 4}, tester)
	if err != nil {
		t.Fatal(err)
	}
	cred, _ := h.Credential(t.Context(), rigOrg)
	team := &crew{t: t, cfg: childConfig{State: state, Warehouse: h.Addr, User: cred.User, Password: cred.Password, Brokers: []string{k.Addr()}, FlushRows: flushRows, LeaseTTL: 3 * time.Second}}
	proxy.Decide(func(n int64) pgproxy.Fate {
		switch {
		case n%lose != 0:
			return pgproxy.Pass
		case n/lose%2 == 0:
			return pgproxy.LoseBefore
		}
		return pgproxy.LoseAfter
	})
	// The producer works all the time; half way the topic gets one more partition.
	var produced atomic.Bool
	go func() {
		defer produced.Store(true)
		chunk := each / 50
		for i := 0; i < each && t.Context().Err() == nil; i += chunk {
			produceSome(t, k, topic, partitions, i, i+chunk)
			if full() {
				time.Sleep(time.Second) // the load is spread over the kills
			} else {
				time.Sleep(300 * time.Millisecond)
			}
		}
		k.AddPartitions(t, topic, int(partitions)+1)
		for i := range 100 {
			k.Produce(t, topic, partitions, message(partitions, i))
		}
	}()
	procs := []*proc{team.start(), team.start(), team.start()}
	defer func() {
		for _, p := range procs {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			p.end(syscall.SIGKILL)
		}
	}()
	fates := map[string]int{}
	for n := 0; n < kills; n++ {
		time.Sleep(time.Duration(500+rng.IntN(2500)) * time.Millisecond) // a random moment, by the seed
		i := rng.IntN(len(procs))
		switch fate := rng.IntN(10); {
		case fate < 7:
			fates["killed"]++
			procs[i].end(syscall.SIGKILL)
			procs[i] = team.start()
		case fate < 9: // a rebalance in order
			fates["ended"]++
			procs[i].end(syscall.SIGTERM)
			procs[i] = team.start()
			n-- // what counts is kills
		default: // a zombie: it goes on when its slots have other owners
			fates["stopped"]++
			_ = procs[i].cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * team.cfg.LeaseTTL)
			_ = procs[i].cmd.Process.Signal(syscall.SIGCONT)
			n--
		}
	}
	total := int(partitions)*each + 100
	conn := h.Service(rigOrg)
	deadline := time.Now().Add(4 * time.Minute)
	for {
		got := ask(t.Context(), conn, "SELECT count(*) FROM "+c.Table.SQL())
		if produced.Load() && got >= fmt.Sprint(total) && len(got) >= len(fmt.Sprint(total)) {
			break
		}
		if st, err := admin.Store.Get(t.Context(), "events"); err == nil && st.Halt != nil {
			t.Fatalf("halted: %+v\n%s", st.Halt, tail(team))
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s of %d rows, produced %t\n%s", got, total, produced.Load(), tail(team))
		}
		time.Sleep(100 * time.Millisecond) // a poll of a condition
	}
	proxy.Decide(nil)
	before, after := proxy.Lost()
	t.Logf("%d messages; processes %v; %d COMMITs of the catalog, lost before %d, after %d; fenced %d, flushes %d", total, fates, proxy.Commits(), before, after,
		team.logged("CHANGELOG-FENCED"), team.logged("msg=flushed"))
	if before == 0 || after == 0 || fates["killed"] == 0 {
		t.Errorf("a fault did not fire: lost %d and %d, %v", before, after, fates)
	}
	want := fmt.Sprintf("%d|%d|%d|%d", total, total, total, total)
	if got := ask(t.Context(), conn, fmt.Sprintf(`SELECT count(*), count(DISTINCT (_topic_epoch, _partition, _offset)),
		count(*) FILTER (WHERE id = _partition * 10000000 + n AND team_id = n %% 7 AND value = n %% 1000 + 0.5 AND ok = (n %% 2 = 0) AND s = 'abc' || n %% 99 AND event = 'page view' AND _extra IS NULL),
		(SELECT sum(m) FROM (SELECT max(_offset) + 1 AS m FROM %[1]s GROUP BY _partition))
		FROM (SELECT *, _offset AS n FROM %[1]s)`, c.Table.SQL())); got != want {
		t.Errorf("rows, identities, rows with the right content, offsets: %s, want %s\n%s", got, want, tail(team))
	}
}

func produceSome(t testing.TB, k *kafka.Server, topic string, partitions int32, from, below int) {
	for p := range partitions {
		var values []string
		for i := from; i < below; i++ {
			if p == 0 && i == 0 {
				continue // it was there from the beginning
			}
			values = append(values, message(p, i))
		}
		k.Produce(t, topic, p, values...)
	}
}

func tail(c *crew) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.log.Bytes()
	return string(b[max(0, len(b)-6000):])
}
