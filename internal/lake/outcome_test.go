package lake_test

import (
	"fmt"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/pgproxy"
)

const stream = sluice.StreamID("00000000-0000-4000-8000-000000000001")

var target = lake.Table{Schema: "team_1_data_imports", Name: "t"}

func write(op sluice.Op, seq int64, path string) lake.Write {
	w := lake.Write{
		StreamID: stream, Seq: seq, RunSeq: 1, BatchIndex: seq, RunID: "r1", BatchID: sluice.BatchID(fmt.Sprintf("b%d", seq)),
		Change: lake.Change{Op: op, Target: target, Path: path, WantRows: -1},
	}
	for _, c := range []lake.Column{{Name: "id", Type: lake.Type{Base: "BIGINT"}}, {Name: "v", Type: lake.Type{Base: "VARCHAR"}}} {
		w.Change.Columns = append(w.Change.Columns, c)
		w.Change.Assign = append(w.Change.Assign, lake.Assignment{To: c, From: c.Name})
	}
	if op == sluice.OpMerge {
		w.Change.Keys = []string{"id"}
	}
	return w
}

func open(t *testing.T, h *house.House, org sluice.Org) *lake.Session {
	t.Helper()
	s, err := h.Dialer().Open(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// lossy is a house whose engine reaches its PostgreSQL catalog through a proxy, with one org and one stream of a table of
// 100 rows.
func lossy(t *testing.T) (*house.House, *pgproxy.Proxy) {
	t.Helper()
	var proxy *pgproxy.Proxy
	h := house.New(t, house.Options{Postgres: true, Route: func(addr string) string {
		if proxy == nil {
			proxy = pgproxy.Start(t, addr)
		}
		return proxy.Addr()
	}})
	h.Org("acme")
	s := open(t, h, "acme")
	if err := s.EnsureControl(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateSchema(t.Context(), target.Schema); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), write(sluice.OpCreate, 0, numbers(h, 0, 0, 100))); err != nil {
		t.Fatal(err)
	}
	return h, proxy
}

func numbers(h *house.House, seq int64, from, to int) string {
	return h.File("acme", fmt.Sprint(seq), fmt.Sprintf("SELECT i AS id, 'v%d' AS v FROM range(%d, %d) r(i)", seq, from, to))
}

// lose applies a write whose COMMIT has the given fate, and checks that the outcome is unknown.
func lose(t *testing.T, h *house.House, proxy *pgproxy.Proxy, w lake.Write, fate pgproxy.Fate) {
	t.Helper()
	s := open(t, h, "acme")
	at := proxy.Commits() + 1
	proxy.Decide(func(n int64) pgproxy.Fate {
		if n == at {
			return fate
		}
		return pgproxy.Pass
	})
	defer proxy.Decide(nil)
	if _, err := s.Apply(t.Context(), w); err == nil || !lake.OutcomeUnknown(err) {
		t.Fatalf("seq %d: a lost COMMIT is not unknown: %v", w.Seq, err)
	}
}

func wantNumbers(t *testing.T, h *house.House, rows int) {
	t.Helper()
	got := h.Rows("acme", "SELECT count(*), count(DISTINCT id), sum(id) FROM "+target.SQL())
	if want := fmt.Sprintf("%d|%d|%d", rows, rows, rows*(rows-1)/2); got[0] != want {
		t.Fatalf("the table has %s, want %s", got[0], want)
	}
}

// TestLostCommitReply loses COMMITs between the engine and its PostgreSQL catalog, on the way there and on the way back.
// Whatever happened is found out by reading; rows of an insert that is committed are there with their files.
func TestLostCommitReply(t *testing.T) {
	t.Parallel()
	h, proxy := lossy(t)
	rows := 100
	for seq := int64(1); seq <= 12; seq++ {
		fate, want := pgproxy.LoseAfter, sluice.Done
		if seq%2 == 0 {
			fate, want = pgproxy.LoseBefore, sluice.NotDone
		}
		w := write(sluice.OpInsert, seq, numbers(h, seq, rows, rows+100))
		rows += 100
		lose(t, h, proxy, w, fate)
		s := open(t, h, "acme")
		outcome, _, err := s.Resolve(t.Context(), w)
		if outcome != want || err != nil {
			t.Fatalf("seq %d: got %s, %v, want %s", seq, outcome, err, want)
		}
		if outcome == sluice.NotDone {
			if _, err := s.Apply(t.Context(), w); err != nil {
				t.Fatalf("seq %d: redo: %v", seq, err)
			}
		} else if missing, err := s.MissingFiles(t.Context(), stream, w.BatchID, seq+1); len(missing) > 0 || err != nil {
			t.Fatalf("seq %d: files are missing: %v, %v", seq, missing, err)
		}
		wantNumbers(t, h, rows)
	}
	if before, after := proxy.Lost(); before != 6 || after != 6 {
		t.Fatalf("%d COMMITs were lost before and %d after the server, want 6 and 6", before, after)
	}
}

// TestLostCommitReplyOfAMerge shows that the engine removes the files of a merge whose COMMIT had landed, that this is
// found out, and that the table is repaired: every row is there once, with the merge applied once.
func TestLostCommitReplyOfAMerge(t *testing.T) {
	t.Parallel()
	h, proxy := lossy(t)
	rows, seq := 100, int64(1)
	for range 3 {
		w := write(sluice.OpMerge, seq, numbers(h, seq, rows-50, rows+50)) // half of it updates
		w.BatchID = sluice.BatchID(fmt.Sprintf("m%d", seq))
		rows += 50
		lose(t, h, proxy, w, pgproxy.LoseAfter)
		s := open(t, h, "acme")
		outcome, c, err := s.Resolve(t.Context(), w)
		if outcome != sluice.Done || err != nil {
			t.Fatalf("got %s, %v, want done", outcome, err)
		}
		missing, err := s.MissingFiles(t.Context(), stream, w.BatchID, c.Marker.Seq)
		if len(missing) == 0 || err != nil {
			t.Fatalf("the engine left the files of the lost reply alone: %v; is the repair still needed?", err)
		}
		fixed, err := s.Repair(t.Context(), stream, target, *c.Marker)
		if err != nil {
			t.Fatalf("repair: %v", err)
		}
		if fixed.Marker != nil || fixed.Fence.Seq != seq+2 {
			t.Fatalf("control after the repair: %+v, marker %+v", fixed.Fence, fixed.Marker)
		}
		wantNumbers(t, h, rows-50)
		w.Seq = fixed.Fence.Seq
		if _, err := s.Apply(t.Context(), w); err != nil {
			t.Fatalf("apply again: %v", err)
		}
		wantNumbers(t, h, rows)
		if got := h.Rows("acme", fmt.Sprintf("SELECT count(*) FROM %s WHERE v = 'v%d'", target.SQL(), seq)); got[0] != "100" {
			t.Fatalf("the merge changed %s rows, want 100", got[0])
		}
		seq = w.Seq + 1
	}
}
