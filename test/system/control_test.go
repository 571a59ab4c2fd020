package system

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pg"
)

// All vectors under both policies, as the binary answers them.
func TestNamesOfTheBinary(t *testing.T) {
	t.Parallel()
	i := &installation{data: filepath.Join(t.TempDir(), "data")}
	p := i.serve(t, "--roles", "api")
	text, err := os.ReadFile(filepath.Join(root, "internal", "naming", "testdata", "naming_vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []map[string]*string
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 50 {
		t.Fatal(len(vectors), err)
	}
	for n, v := range vectors {
		for _, policy := range []string{"copy_v1", "legacy_batch_v1"} {
			q := map[string]string{"policy": policy, "source_type": *v["source_type"], "name": *v["name"]}
			if v["prefix"] != nil {
				q["prefix"] = *v["prefix"]
			}
			var got struct{ Name string }
			p.get(t, "/api/v1/names/preview", q, &got)
			if got.Name != *v[policy] {
				t.Errorf("%v: %q, want %q", q, got.Name, *v[policy])
			}
			if n < 3 { // the command derives by itself
				args := []string{"name", "--policy", policy, "--source-type", q["source_type"], "--name", q["name"], "--prefix", q["prefix"]}
				if got := answer[struct{ Name string }](t, i, args...); got.Name != *v[policy] {
					t.Errorf("sluice %v: %q, want %q", args, got.Name, *v[policy])
				}
			}
		}
	}
}

// get reads an answer of the API.
func (p *process) get(t testing.TB, path string, query map[string]string, answer any) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := r.URL.Query()
	for k, v := range query {
		q.Set(k, v)
	}
	r.URL.RawQuery = q.Encode()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
			t.Fatal(err)
		}
	}
	return resp
}

// twoServers are two processes of one installation, over PostgreSQL.
func twoServers(t *testing.T, roles string) (a, b *installation, pa, pb *process) {
	t.Helper()
	server := pg.Start(t, pg.Options{})
	state, err := server.CreateDatabase(t.Context(), "sluice_state")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	install := func(name string) *installation {
		return &installation{data: filepath.Join(dir, name), env: []string{
			"SLUICE_STATE_DSN=" + state, "SLUICE_CATALOG__KIND=postgres", "SLUICE_CATALOG__DSN=" + server.DSN("postgres"),
			"SLUICE_CATALOG__ROLE_KEY=a key of the test", "SLUICE_STORE__URL=" + filepath.Join(dir, "lake"), "SLUICE_ROLES=" + roles,
			"SLUICE_CATALOG__POOL_PER_ORG=2", "SLUICE_WAREHOUSE__THREADS=1",
		}}
	}
	a, b = install("a"), install("b")
	pa, pb = a.serve(t, "--migrate"), b.serve(t)
	return a, b, pa, pb
}

// Two streams whose names are cut to the same 63 bytes get two tables, also when two processes bind them at once.
func TestTwoProcessesBindCollidingNames(t *testing.T) {
	t.Parallel()
	a, _, pa, pb := twoServers(t, "api")
	a.must(t, "org", "create", "acme", "--no-wait")
	a.must(t, "team", "create", "1", "--org", "acme")
	long := strings.Repeat("orders_of_the_year_", 4)
	for round := range 10 {
		var ids [2]string
		for n := range ids {
			var added struct {
				StreamID string `json:"stream_id"`
			}
			name := fmt.Sprintf("r%d_%s%d", round, long, n)
			pa.post(t, "/api/v1/orgs/acme/streams", map[string]any{"team_id": 1, "source_type": "pg", "name": name, "sync_type": "append"}, &added)
			ids[n] = added.StreamID
		}
		var bound [2]struct {
			TargetTable string `json:"target_table"`
			Cut         bool
			Collided    bool
		}
		var wg sync.WaitGroup
		for n, p := range []*process{pa, pb} {
			wg.Go(func() { p.post(t, "/api/v1/streams/"+ids[n]+"/bind", map[string]any{}, &bound[n]) })
		}
		wg.Wait()
		one, two := bound[0], bound[1]
		if one.TargetTable == two.TargetTable || !one.Cut || !two.Cut || one.Collided == two.Collided || len(one.TargetTable) > 63 || len(two.TargetTable) > 63 {
			t.Errorf("%+v and %+v", one, two)
		}
		for n, p := range []*process{pb, pa} { // asked again, and by the other process: the same
			var s struct {
				TargetTable string `json:"target_table"`
			}
			p.get(t, "/api/v1/streams/"+ids[n], nil, &s)
			if s.TargetTable != bound[n].TargetTable {
				t.Errorf("%s, want %s", s.TargetTable, bound[n].TargetTable)
			}
		}
	}
}

// A team moves while loaders of two processes have cached sessions to its old warehouse and a producer goes on. Once the
// transfer is answered, nothing is written through the old warehouse; the new one is filled by the next full refresh.
func TestTransferWithCachedSessions(t *testing.T) {
	t.Parallel()
	a, _, pa, pb := twoServers(t, "all")
	files := filepath.Join(filepath.Dir(a.data), "files")
	file := filepath.Join(files, "a.parquet")
	parquet(t, file, "SELECT i AS id FROM range(100) t(i)")
	for _, org := range []string{"old", "new"} {
		a.must(t, "org", "create", org, "--extract-prefix", files, "--max-streams", "8")
	}
	a.must(t, "team", "create", "1", "--org", "old")
	var streams []string
	for n := range 6 {
		var added struct {
			StreamID string `json:"stream_id"`
		}
		pa.post(t, "/api/v1/orgs/old/streams", map[string]any{"team_id": 1, "source_type": "k", "name": fmt.Sprintf("s%d", n), "sync_type": "full_refresh"}, &added)
		streams = append(streams, added.StreamID)
	}
	enqueue := func(stream, run string, index int) {
		pa.post(t, fmt.Sprintf("/api/v1/streams/%s/runs/%s/batches", stream, run), map[string]any{"batches": []map[string]any{{"batch_index": index, "path": file}}}, nil)
	}
	for _, s := range streams {
		enqueue(s, "r1", 0)
	}
	waitFor(t, 2*time.Minute, "all tables are there and sessions are cached", func() bool { return open(t, a) == 0 })

	// A producer goes on all the while, in the runs that have begun in the old warehouse.
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for index := 1; ; index++ {
			for _, s := range streams[:3] {
				enqueue(s, "r1", index)
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	applied := func() int64 {
		return answer[status](t, a, "status").Server.Loader.Batches
	}
	first := applied()
	waitFor(t, time.Minute, "the producer's batches are applied", func() bool {
		return applied() > first || pb.text(t, "old", "SELECT count(*) FROM team_1_data_imports.k_s0") != "100"
	})
	var moved struct {
		Streams []struct {
			LeftTable string `json:"left_table"`
		}
	}
	pa.post(t, "/api/v1/orgs/old/teams/1/transfer", map[string]any{"to_org": "new"}, &moved)
	snapshot := func(p *process, org string) string {
		return p.text(t, org, "SELECT max(snapshot_id) FROM lake.snapshots()")
	}
	after := snapshot(pa, "old")
	if len(moved.Streams) != len(streams) {
		t.Errorf("%+v", moved)
	}
	time.Sleep(2 * time.Second) // what the cached sessions could do, they would do now: the producer goes on
	close(stop)
	<-done
	for _, s := range streams {
		enqueue(s, "r2", 0)
	}
	waitFor(t, 2*time.Minute, "the new warehouse has the refresh", func() bool {
		for n := range streams {
			if got, err := pb.query("new", fmt.Sprintf("SELECT count(*) FROM team_1_data_imports.k_s%d", n)); err != nil || got != "100" {
				return false
			}
		}
		return true
	})
	if now := snapshot(pb, "old"); now != after {
		t.Errorf("the old warehouse is at snapshot %s, at the transfer it was at %s", now, after)
	}
	for _, p := range []*process{pa, pb} {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

// What a credential may do ends with it: an expired, revoked or unknown one, or one of another org, lets nobody in, and a
// session that a revoked one has let in ends within 5 s.
func TestCredentialsAtTheWarehouse(t *testing.T) {
	t.Parallel()
	i := &installation{data: filepath.Join(t.TempDir(), "data")}
	p := i.serve(t)
	i.must(t, "org", "create", "acme")
	i.must(t, "org", "create", "other")
	type credential struct {
		CredentialID string `json:"credential_id"`
		Secret       string
	}
	connect := func(org string, c credential) (*pgx.Conn, error) {
		return pgx.Connect(t.Context(), fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable&default_query_exec_mode=simple_protocol", c.CredentialID, c.Secret, p.warehouse, org))
	}
	refused := func(what, org string, c credential) {
		t.Helper()
		conn, err := connect(org, c)
		if err == nil {
			_ = conn.Close(t.Context())
			t.Errorf("%s lets somebody in", what)
		} else if !strings.Contains(err.Error(), "28P01") || c.Secret != "" && strings.Contains(err.Error(), c.Secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := answer[credential](t, i, "credential", "issue", "--org", "acme", "--principal", "bi")
	conn, err := connect("acme", c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE stolen (a int)"); err == nil {
		t.Error("a reader's credential writes")
	}
	refused("a foreign credential", "other", c)
	refused("a wrong secret", "acme", credential{c.CredentialID, "x"})
	refused("an unknown credential", "acme", credential{"svc_000000000000000000000000", c.Secret})
	fresh := answer[credential](t, i, "credential", "refresh", c.CredentialID, "--org", "acme")
	refused("a secret of before a refresh", "acme", c)
	if _, _, code := i.try(t, "credential", "refresh", c.CredentialID, "--org", "other"); code != 3 {
		t.Errorf("another org refreshes it: exit code %d", code)
	}
	i.must(t, "credential", "revoke", c.CredentialID, "--org", "acme")
	refused("a revoked credential", "acme", fresh)
	if _, stderr, code := i.try(t, "credential", "refresh", c.CredentialID, "--org", "acme"); code != 4 || !strings.Contains(stderr, "SLUICE-CONTROL-REVOKED") {
		t.Errorf("refresh of a revoked credential: %d %s", code, stderr)
	}
	begin := time.Now()
	waitFor(t, 20*time.Second, "the open session is ended", func() bool {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		return err != nil
	})
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the session of a revoked credential went on for %s", took)
	}
	if os.Getenv("SLUICE_CHAOS") == "full" { // the shortest lifetime is a minute; package control has it with a clock of its own
		short := answer[credential](t, i, "credential", "issue", "--org", "acme", "--principal", "bi", "--ttl", "1m")
		time.Sleep(61 * time.Second)
		refused("an expired credential", "acme", short)
	}
}
