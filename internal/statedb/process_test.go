package statedb_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
	"sluice/internal/testkit/pg"
)

// childEnv makes this binary a child of TestProcessesShareOneFile: it increments a row of the file so many times.
const (
	childEnv  = "STATEDB_TEST_PATH"
	roundsEnv = "STATEDB_TEST_ROUNDS"
)

func child(ctx context.Context, path string) error {
	rounds, err := strconv.Atoi(os.Getenv(roundsEnv))
	if err != nil {
		return err
	}
	db, err := statedb.Open(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close()
	for i := range rounds {
		if err := increment(ctx, db); err != nil {
			return err
		}
		if i == 5 {
			fmt.Println("working")
		}
	}
	return nil
}

func increment(ctx context.Context, db *statedb.DB) error {
	return db.Tx(ctx, func(tx *statedb.Tx) error {
		n, _, err := statedb.One(ctx, tx, set.Get("ReadLocked"), nil, statedb.Value[int64])
		if err != nil {
			return err
		}
		_, err = statedb.Exec(ctx, tx, set.Get("Write"), statedb.Args{"n": n + 1})
		return err
	})
}

// Processes of one machine share an SQLite file; one that is killed in the middle of its writes stops nobody.
func TestProcessesShareOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := statedb.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"Make", "Zero"} {
		if _, err := statedb.Exec(t.Context(), db, set.Get(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	start := func(rounds int) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path, roundsEnv+"="+strconv.Itoa(rounds))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out)
	}
	victim, said := start(1_000_000)
	const rounds = 100
	others := make([]*exec.Cmd, 3)
	for i := range others {
		cmd, out := start(rounds)
		go func() {
			for out.Scan() {
			}
		}()
		others[i] = cmd
	}
	for said.Scan() && said.Text() != "working" {
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	for _, cmd := range others {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	before, _, err := statedb.One(t.Context(), db, set.Get("Read"), nil, statedb.Value[int64])
	if err != nil || before < int64(len(others)*rounds)+6 {
		t.Fatalf("%d increments survived, %v", before, err)
	}
	if err := increment(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// A server that goes away is named, and the same handle works again once it is back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	s := pg.Start(t, pg.Options{Fsync: true})
	dsn, err := s.CreateDatabase(t.Context(), "state")
	if err != nil {
		t.Fatal(err)
	}
	db, err := statedb.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"Make", "Zero"} {
		if _, err := statedb.Exec(t.Context(), db, set.Get(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	heard := db.Listen(t.Context())
	<-heard
	s.Kill()
	if err := increment(t.Context(), db); sluice.CodeOf(err) != "SLUICE-STATE-AWAY" {
		t.Fatalf("without a server: %v", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := increment(t.Context(), db); err != nil {
		t.Fatalf("after its return: %v", err)
	}
	if got := <-heard; got != "" { // it listens again, and says that it may have missed something
		t.Fatalf("heard %q", got)
	}
	err = db.Tx(t.Context(), func(tx *statedb.Tx) error { return db.Notify(t.Context(), tx, "queue") })
	if err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "queue" {
		t.Fatalf("heard %q", got)
	}
}
