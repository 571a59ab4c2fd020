package load_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
	"sluice/internal/testkit/rig"
)

// Files that are gone, damaged or not what was enqueued, and what a retry does once they are mended (cases 38 and 48).
func TestFileFailures(t *testing.T) {
	t.Parallel()
	small, err := os.ReadFile("testdata/parquet/null_column.parquet")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]func(r *rig.Rig){}
	for name, c := range map[string]struct {
		code sluice.Code
		fate func(b []byte) []byte // of the file's content, between its enqueue and its load
	}{
		"gone":        {"SLUICE-LOAD-FILE-GONE", nil},
		"truncated":   {"SLUICE-LOAD-FILE-CORRUPT", func(b []byte) []byte { return b[:len(b)-20] }},
		"empty":       {"SLUICE-LOAD-FILE-CORRUPT", func([]byte) []byte { return nil }},
		"not Parquet": {"SLUICE-LOAD-FILE-CORRUPT", func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) }},
		"pages":       {"SLUICE-LOAD-FILE-CORRUPT", func(b []byte) []byte { return turn(b, 8, 1000) }},
		"footer":      {"SLUICE-LOAD-FILE-CORRUPT", func(b []byte) []byte { return turn(b, len(b)-200, len(b)-8) }},
		"half":        {"SLUICE-LOAD-FILE-CORRUPT", func(b []byte) []byte { return b[:len(b)/2] }},
		"replaced":    {"SLUICE-LOAD-FILE-CHANGED", func([]byte) []byte { return small }},
	} {
		all[name] = func(r *rig.Rig) {
			id := r.Stream(sluice.Append)
			good, bad := r.File(rows("1, 'a'")), r.File("SELECT i::BIGINT AS id, md5(i::VARCHAR) AS v FROM range(2000) AS t(i)")
			content := r.ReadFile(bad)
			r.Enqueue(id, "r1", good, bad, good)
			if c.fate == nil {
				_ = os.Remove(bad)
			} else {
				r.WriteFile(bad, c.fate(bytes.Clone(content)))
			}
			r.Load()
			r.WantTable(id, "id, v", "1|a")
			r.WantQuarantined(id, c.code)
			r.WantRun(id, "r1", sluice.RunHalted)
			r.WriteFile(bad, content)
			for _, row := range r.Quarantined(id) {
				if _, err := r.Queue.QuarantineRetry(r.Context(), row.BatchID, queue.Operator{Who: "test"}); err != nil {
					r.Fatal(err)
				}
			}
			r.Load()
			r.WantTable(id, "count(*), count(DISTINCT id), count(*) FILTER (WHERE v = 'a')", "2002|2000|2")
			r.WantRun(id, "r1", sluice.RunSucceeded)
		}
	}
	cases(t, all)
}

// turn flips bits of the bytes from a to b.
func turn(b []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b[i] ^= 0xA5
	}
	return b
}

// A discarded batch parks its stream until a full refresh puts it right (cases 37 and 39).
func TestDiscardAndRefresh(t *testing.T) {
	t.Parallel()
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{})
	id := r.Stream(sluice.Incremental)
	r.Enqueue(id, "r1", r.File(rows("1, 'a'")), r.File(rows("NULL, 'bad'")), r.File(rows("2, 'b'")))
	r.Load()
	q := r.Quarantined(id)
	if len(q) != 1 {
		t.Fatalf("quarantine: %+v", q)
	}
	if _, err := r.Queue.QuarantineDiscard(t.Context(), q[0].BatchID, queue.Operator{Who: "test", Note: "lost at the source"}); err != nil {
		t.Fatal(err)
	}
	r.Enqueue(id, "r2", r.File(rows("3, 'c'")))
	r.Load()
	r.WantTable(id, "id, v", "1|a")
	status, _, err := r.Queue.Status(t.Context(), queue.Filter{StreamID: id})
	if err != nil || status[0].Lifecycle != sluice.NeedsResync || status[0].Next == "" || status[0].ErrorText == "" {
		t.Fatalf("status %+v, %v: want needs_resync with its reason and the way out", status, err)
	}
	r.FirstEver(id, "r3", r.File(rows("1, 'A'", "2, 'B'")), r.File(rows("3, 'C'")))
	r.Enqueue(id, "r4", r.File(rows("4, 'D'")))
	r.Load()
	r.WantTable(id, "id, v", "1|A", "2|B", "3|C", "4|D")
	r.WantRun(id, "r2", sluice.RunSuperseded)
	r.WantRun(id, "r4", sluice.RunSucceeded)
}

// A state DB from yesterday: what the lake has is not applied again, what it is past halts (case 53).
func TestStateDBFromYesterday(t *testing.T) {
	t.Parallel()
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{})
	id := r.Stream(sluice.Append)
	r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
	r.Load()
	second := r.File(rows("2, 'b'"))
	r.Enqueue(id, "r2", second)
	restore := r.SaveState()
	r.Load()
	r.WantTable(id, "id, v", "1|a", "2|b")
	restore()
	r.Load()
	r.WantTable(id, "id, v", "1|a", "2|b")
	r.WantOps(id, "r2", "insert already_applied")

	restore = r.SaveState()
	r.Enqueue(id, "r3", r.File(rows("3, 'c'")))
	r.Load()
	restore()
	r.Enqueue(id, "r3 of another file", r.File(rows("4, 'd'")))
	r.Load()
	r.WantTable(id, "id, v", "1|a", "2|b", "3|c")
	r.WantQuarantined(id, "SLUICE-LOAD-FENCE-AHEAD")
}

// Maintenance of a stream keeps it from loading, and uses no try (case 52).
func TestMaintenanceHoldsTheLease(t *testing.T) {
	t.Parallel()
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{})
	id, other := r.Stream(sluice.Append), r.Stream(sluice.Append)
	r.Enqueue(id, "r1", r.File(rows("1, 'a'")))
	lease, err := r.Queue.Acquire(t.Context(), id, "maintainer", sluice.PurposeMaintain, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Loader()
	r.Enqueue(other, "r1", r.File(rows("2, 'b'")))
	for r.Batches(other, "r1")[0].LoadState != sluice.Succeeded {
		time.Sleep(10 * time.Millisecond)
	}
	r.Enqueue(other, "r2", r.File(rows("3, 'c'"))) // another round of claims
	for r.Batches(other, "r2")[0].LoadState != sluice.Succeeded {
		time.Sleep(10 * time.Millisecond)
	}
	if b := r.Batches(id, "r1")[0]; b.LoadState != sluice.Queued || b.Attempt != 0 {
		t.Fatalf("the batch is %s after %d tries", b.LoadState, b.Attempt)
	}
	if err := r.Queue.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	r.Settle()
	l.Stop()
	r.WantTable(id, "id, v", "1|a")
	if b := r.Batches(id, "r1")[0]; b.Attempt != 1 {
		t.Errorf("%d tries", b.Attempt)
	}
}

// The time zone that a session starts with changes no row (case 50).
func TestTimeZoneOfTheSession(t *testing.T) {
	t.Setenv("PGTZ", "Asia/Tokyo") // what a driver sends first, as a default of the role would
	r := rig.New(t, house.New(t, house.Options{}), rig.Options{})
	id := r.Stream(sluice.Incremental)
	r.Enqueue(id, "r1", r.File("SELECT 1::BIGINT AS id, TIMESTAMPTZ '2026-03-01 00:30:00+00' AS ts"),
		r.File("SELECT 2::BIGINT AS id, TIMESTAMP '2026-03-01 00:30:00' AS ts"), r.File("SELECT 3::BIGINT AS id, DATE '2026-03-01' AS ts"),
		r.File("SELECT 3::BIGINT AS id, '2026-03-01 00:30:00'::TIMESTAMP_S AS ts"))
	r.Load()
	r.WantTable(id, "id, epoch(ts)::BIGINT", "1|1772325000", "2|1772325000")
	r.WantQuarantined(id, "SLUICE-LOAD-TYPE-CONFLICT", "DATE")
	if got := r.Rows(id, "SELECT current_setting('TimeZone')")[0]; got != "Asia/Tokyo" {
		t.Errorf("the reader's time zone is %s: the test tests nothing", got)
	}
}
