package engine_test

import (
	"testing"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/warehouse/engine"
)

// breakCatalog makes the engine put the attached catalog out of use, as a full disk at a checkpoint does.
func breakCatalog(t *testing.T, c *engine.Conn) {
	t.Helper()
	run(t, c, "CREATE OR REPLACE TABLE broken AS SELECT 1 AS i", "SET debug_checkpoint_abort = 'before_header'")
	if _, err := c.SQL().ExecContext(t.Context(), "CHECKPOINT __ducklake_metadata_lake"); err == nil {
		t.Fatal("the checkpoint worked")
	}
}

func TestBrokenCatalogRetiresTheInstance(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c, other := connect(t, r, "acme"), connect(t, r, "acme")
	run(t, c, "CREATE TABLE t AS SELECT 1 AS i")
	breakCatalog(t, c)
	if _, err := other.ExecContext(t.Context(), "SELECT * FROM t"); err == nil {
		t.Fatal("a broken catalog was read")
	}
	<-c.Retired()
	<-other.Retired()
	if st := r.Status(); st.Retired["catalog"] != 1 || st.Closing != 1 || st.Open != 0 {
		t.Fatalf("%+v", st)
	}
	// The next instance waits for the connections of this one: two on one file would lose commits.
	got := make(chan error, 1)
	go func() {
		d, err := r.Connect(t.Context(), "acme")
		if err == nil {
			_, err = d.ExecContext(t.Context(), "INSERT INTO t VALUES (2)")
			_ = d.Close()
		}
		got <- err
	}()
	eventually(t, "a new instance is asked for", func() bool { return r.Status().Open == 1 })
	select {
	case err := <-got:
		t.Fatalf("opened beside the old instance: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = c.Close()
	_ = other.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if n := text(t, connect(t, r, "acme"), "SELECT count(*) FROM t"); n != "2" {
		t.Errorf("%s rows", n)
	}
}

// A catalog that broke unnoticed is noticed by the next connect, whose caller gets a fresh instance.
func TestConnectReplacesABrokenInstance(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	breakCatalog(t, c)
	_ = c.Close()
	if got := text(t, connect(t, r, "acme"), "SELECT i FROM broken"); got != "1" {
		t.Error(got)
	}
	if st := r.Status(); st.Opened != 2 || st.Retired["catalog"] != 1 {
		t.Errorf("%+v", st)
	}
}

func TestStuckConnectionsOfARetiredInstance(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{OpenTimeout: 2 * time.Second}, fileLake("acme", t.TempDir()))
	c := connect(t, r, "acme")
	breakCatalog(t, c)
	if err := r.Probe(t.Context()); err == nil {
		t.Fatal("the probe saw nothing")
	}
	_, err := r.Connect(t.Context(), "acme")
	wantCode(t, err, "SLUICE-ENGINE-OPEN", "still in use", "close the org's sessions")
	_ = c.Close()
}

func TestProbeOfSoundInstances(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{}, fileLake("acme", t.TempDir()))
	_ = connect(t, r, "acme").Close()
	if err := r.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.Status(); st.Open != 1 || st.Connections != 0 {
		t.Fatalf("%+v", st)
	}
}

// Text that a user can put into an error retires nothing.
func TestUsersCannotRetireAnInstance(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, _ := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	for _, q := range []string{
		"SELECT error('FATAL Error: the database has been invalidated')",
		"SELECT error('INTERNAL Error: x')",
		"SELECT CAST('FATAL Error: x' AS INTEGER)",
		`SELECT "FATAL Error: x"`,
		"SELECT * FROM 'FATAL Error: database has been invalidated'",
		"SELECT * FROM read_csv('" + cfg.Lake.DataPath + "/FATAL Error: database has been invalidated.csv')",
		"FATAL Error: x",
	} {
		if _, err := c.ExecContext(t.Context(), q); err == nil {
			t.Errorf("no error: %s", q)
		}
	}
	if st := r.Status(); len(st.Retired) != 0 || st.Open != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestIdleInstancesAreEvictedOldestFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := setup(t, engine.Options{MaxInstances: 2}, fileLake("a", dir), fileLake("b", dir), fileLake("c", dir))
	open := func(org string) *engine.Conn { return connect(t, r, sluice.Org(org)) }
	_ = open("a").Close()
	_ = open("b").Close()
	_ = open("a").Close()
	if st := r.Status(); st.Opened != 2 || st.Open != 2 {
		t.Fatalf("%+v", st)
	}
	held := open("c") // closes b, which was used longest ago
	_ = open("a").Close()
	if st := r.Status(); st.Opened != 3 || st.Open != 2 {
		t.Fatalf("a was evicted: %+v", st)
	}
	b := open("b") // closes a: c is in use
	a := open("a") // nothing can be closed
	if st := r.Status(); st.Opened != 5 || st.Open != 3 || st.Connections != 3 {
		t.Fatalf("%+v", st)
	}
	run(t, held, "CREATE TABLE t AS SELECT 1 AS i")
	_ = a.Close() // over the limit and idle
	if st := r.Status(); st.Open != 2 || st.Connections != 2 {
		t.Fatalf("%+v", st)
	}
	_ = b.Close()
}

func TestRecycleTakesTheNewConfiguration(t *testing.T) {
	t.Parallel()
	cfg := fileLake("acme", t.TempDir())
	r, src := setup(t, engine.Options{}, cfg)
	c := connect(t, r, "acme")
	cfg.Threads = 1
	src.set(cfg)
	r.Recycle("nobody")
	r.Recycle("acme")
	d := connect(t, r, "acme") // in use: shared as before
	if st := r.Status(); st.Opened != 1 {
		t.Fatalf("%+v", st)
	}
	_ = c.Close()
	_ = d.Close()
	if got := text(t, connect(t, r, "acme"), "current_setting('threads')"); got != "1" {
		t.Error(got)
	}
	if st := r.Status(); st.Opened != 2 {
		t.Fatalf("%+v", st)
	}
}

func TestOldInstancesAreRecycledWhenIdle(t *testing.T) {
	t.Parallel()
	r, _ := setup(t, engine.Options{MaxAge: time.Nanosecond}, fileLake("acme", t.TempDir()))
	c, d := connect(t, r, "acme"), connect(t, r, "acme")
	_ = c.Close()
	if st := r.Status(); st.Open != 1 {
		t.Fatalf("%+v", st)
	}
	_ = d.Close()
	if st := r.Status(); st.Open != 0 || st.Opened != 1 {
		t.Fatalf("%+v", st)
	}
}
