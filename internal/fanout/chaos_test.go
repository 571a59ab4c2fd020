package fanout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/pgproxy"
)

// lockedBuffer is what several processes write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// scale of the chaos: small where it runs each time, SLUICE_CHAOS=full for the whole of it.
type scale struct {
	events, batches, teams, orgs, keys, kills int
}

func chaosScale() scale {
	if os.Getenv("SLUICE_CHAOS") == "full" {
		return scale{events: 1_000_000, batches: 200, teams: 50, orgs: 10, keys: 2000, kills: 20}
	}
	return scale{events: 12_000, batches: 24, teams: 8, orgs: 3, keys: 60, kills: 5}
}

func seed(t testing.TB) uint64 {
	t.Helper()
	s := rand.Uint64()
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &s); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_SEED=%d", s)
	return s
}

// history inserts one batch of events, out of order and repeated, into the changelog.
func (r *rig) history(rng *rand.Rand, sc scale) {
	r.Helper()
	n := sc.events / sc.batches
	first := r.offset + 1
	r.offset += int64(n)
	s := rng.Int64N(1 << 40)
	// A version is drawn at random, so most arrive out of order; a tenth of the events repeats what came before it.
	r.exec(`INSERT INTO lake.feeds.ev SELECT 0, 0, %[1]d + i, make_timestamptz(1700000000000000 + %[1]d + i), NULL, false, NULL, now(), DATE '2026-01-01',
		1 + hash(j, %[2]d) %% %[3]d, 'k' || (hash(j, %[2]d, 1) %% %[4]d), hash(j, %[2]d, 2) %% 40, CASE WHEN hash(j, %[2]d, 3) %% 10 = 0 THEN 1 ELSE 0 END,
		'{"s":' || (hash(j, %[2]d, 4) %% 1000) || '}' FROM (SELECT i, CASE WHEN hash(i, %[2]d, 5) %% 10 = 0 THEN greatest(i - 1, 0) ELSE i END AS j FROM range(%[5]d) AS t(i))`,
		first, s, sc.teams, sc.keys, n)
}

// compare compares each destination with plain SQL over the changelog, rows and sums of hashes.
func (r *rig) compare() (rows int64) {
	r.Helper()
	const sum = "count(*), coalesce(sum(hash(id, version::BIGINT, is_deleted::BOOLEAN, props::VARCHAR, epoch_us(_timestamp)))::VARCHAR, '0')"
	bad := 0
	for team, org := range r.teams {
		var wantRows, gotRows int64
		var want, got string
		if err := r.src.QueryRowContext(r.Context(), fmt.Sprintf(`SELECT %s FROM (SELECT * FROM lake.feeds.ev WHERE team_id = %d
			QUALIFY row_number() OVER (PARTITION BY id ORDER BY version DESC NULLS LAST, _offset DESC) = 1)`, sum, team)).Scan(&wantRows, &want); err != nil {
			r.Fatal(err)
		}
		if err := r.h.Engine(org).QueryRowContext(r.Context(), fmt.Sprintf("SELECT %s FROM lake.team_%d.persons", sum, team)).Scan(&gotRows, &got); err != nil {
			r.Fatal(err)
		}
		if wantRows != gotRows || want != got {
			r.Errorf("team %d of %s: %d rows with sum %s, want %d with %s", team, org, gotRows, got, wantRows, want)
			bad++
		}
		rows += gotRows
	}
	if bad > 0 {
		r.Logf("what the processes said:\n%s", tail(r.childLog.b.String(), 6000))
	}
	return rows
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (r *rig) chaosTeams(sc scale) {
	for i := range sc.orgs {
		r.org(sluice.Org(fmt.Sprintf("org-%d", i)))
	}
	for i := range sc.teams {
		r.team(sluice.Org(fmt.Sprintf("org-%d", i%sc.orgs)), sluice.TeamID(i+1))
	}
}

// Processes are killed in the middle of whatever they do, while the source grows. Afterwards every destination is what plain
// SQL says, by rows and by content.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		pg   bool
	}{{"duckdb", false}, {"postgres", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed(t), 1))
			sc := chaosScale()
			var proxy *pgproxy.Proxy
			opts := house.Options{Postgres: c.pg}
			if c.pg {
				source := true
				opts.Route = func(addr string) string {
					if source { // what writes the source is the test itself
						source = false
						return addr
					}
					if proxy == nil {
						proxy = pgproxy.Start(t, addr)
					}
					return proxy.Addr()
				}
				sc.orgs, sc.teams = min(sc.orgs, 3), min(sc.teams, 6)
			}
			r := newRig(t, opts)
			r.chaosTeams(sc)
			r.changelog(personColumns)
			r.history(rng, sc)
			r.add(personsDef)
			if proxy != nil {
				proxy.Decide(func(n int64) pgproxy.Fate {
					if n%20 == 0 {
						return pgproxy.LoseAfter
					}
					return pgproxy.Pass
				})
			}
			kills := 0
			for b := 1; b < sc.batches; {
				cmd := r.spawn(fmt.Sprintf("p%d", kills))
				life := time.Duration(300+rng.Int64N(2500)) * time.Millisecond
				for end := time.Now().Add(life); time.Now().Before(end) && b < sc.batches; b++ {
					r.history(rng, sc)
					time.Sleep(life / time.Duration(1+sc.batches/sc.kills))
				}
				if kills < sc.kills {
					_ = cmd.Process.Signal(syscall.SIGKILL)
					kills++
				} else {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
				_ = cmd.Wait()
			}
			for ; kills < sc.kills; kills++ { // the source has been written to its end before all had died
				cmd := r.spawn(fmt.Sprintf("p%d", kills))
				time.Sleep(time.Duration(300+rng.Int64N(2500)) * time.Millisecond)
				_ = cmd.Process.Signal(syscall.SIGKILL)
				_ = cmd.Wait()
			}
			if proxy != nil { // the last events do not get through without a lost reply, if there was none among the kills
				proxy.Decide(func(int64) pgproxy.Fate {
					if _, after := proxy.Lost(); after == 0 {
						return pgproxy.LoseAfter
					}
					return pgproxy.Pass
				})
				r.history(rng, sc)
			}
			r.followTo(StateFollowing)
			rows := r.compare()
			t.Logf("%d events, %d kills, %d rows in %d destinations", r.offset, kills, rows, len(r.teams))
			if proxy != nil {
				before, after := proxy.Lost()
				t.Logf("COMMITs lost: %d before, %d after they were carried out; tables built anew: %d", before, after, r.childLog.count("built anew"))
				if after == 0 {
					t.Errorf("of %d COMMITs no reply was lost", proxy.Commits())
				}
			}
		})
	}
}

// Two processes share the shards; one stands still for longer than its leases live and then goes on. Nothing is doubled or lost.
func TestProcessThatStoodStill(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed(t), 4))
	sc := chaosScale()
	sc.events, sc.batches = 12_000, 24
	r := newRig(t, house.Options{})
	r.chaosTeams(scale{teams: 6, orgs: 2})
	sc.teams = 6
	r.changelog(personColumns)
	r.history(rng, sc)
	r.add(personsDef)
	a, b := r.spawn("still"), r.spawn("other")
	for i := 1; i < sc.batches; i++ {
		switch i {
		case 8:
			_ = a.Process.Signal(syscall.SIGSTOP)
		case 20:
			_ = a.Process.Signal(syscall.SIGCONT)
		}
		r.history(rng, sc)
		time.Sleep(time.Duration(100+rng.Int64N(300)) * time.Millisecond) // the processes are to be met anywhere
	}
	for _, p := range []interface{ Wait() error }{a, b} {
		_ = a.Process.Signal(syscall.SIGTERM)
		_ = b.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}
	r.followTo(StateFollowing)
	t.Logf("%d rows; overtaken %d times", r.compare(), r.childLog.count("another process has written"))
}

// A process that does not know that another one has written loses at the fence, reads the cursor again, and goes on from there.
func TestOvertakenAtTheFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{})
	r.org("acme")
	r.team("acme", 1)
	r.changelog(personColumns)
	r.put(`1, 'a', 1, 0, '1'`)
	r.add(personsDef)
	r.follow()
	w := r.runner.all()[0]
	for _, x := range w.dests {
		if _, err := w.applier().apply(t.Context(), x.d, x.ctl, nil, x.pos+1, w.reader.columns); err != nil { // the other one
			t.Fatal(err)
		}
		if _, err := w.applier().apply(t.Context(), x.d, x.ctl, nil, x.pos+1, w.reader.columns); sluice.CodeOf(err) != "SLUICE-FANOUT-FENCED" || !isFenced(err) {
			t.Errorf("writing over another one's cursor: %v", err)
		}
	}
	r.put(`1, 'passed over', 1, 0, '1'`) // the snapshot that the other one says it has applied
	r.put(`1, 'b', 1, 0, '1'`)
	r.followTo(StateFollowing)
	r.want(1, `a|1|f|1`, `b|1|f|1`)
}
