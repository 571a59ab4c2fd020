package delta_test

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/testkit/deltagen"
)

// is compares the rows of a version with what the history's model says.
func is(t *testing.T, h *deltagen.History, table *delta.Table, version int64, conn *sql.Conn) {
	t.Helper()
	out, r, err := exportTo(t, table, version, conn)
	if err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
	ids := h.IDs(version)
	if r.Rows != int64(len(ids)) {
		t.Fatalf("version %d has %d rows, want %d", version, r.Rows, len(ids))
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	want := deltagen.ExpectedSQL("SELECT unnest([" + strings.Join(list, ", ") + "]::BIGINT[]) AS id")
	if n, err := differences(t.Context(), conn, "SELECT * FROM "+parquetOf(out), want); err != nil || n != 0 {
		t.Fatalf("version %d: %d rows differ, %v", version, n, err)
	}
	counts(t, table, version, int64(len(h.State(version).Live)), r.Rows)
}

// A random history gives the model's rows at each version: with checkpoints of all kinds, without any, and after the log
// before a checkpoint was cleaned up.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 4, 7, uint64(time.Now().UnixNano())}
	if testing.Short() {
		seeds = seeds[:2]
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := deltagen.NewHistory(t, seed, deltagen.HistoryOptions{Versions: 16, Checkpoints: true})
			conn := connection(t)
			table := open(t, h.Table)
			cached := openAt(t, h.Dir, localFiles, delta.Options{Cache: delta.NewCache(1 << 20)})
			for v := range h.Version + 1 {
				is(t, h, table, v, conn)
			}
			for v := h.Version; v >= 0; v -= 3 {
				is(t, h, cached, v, conn)
			}
			newest := int64(-1)
			for v := range h.Version + 1 {
				if found, _ := filepath.Glob(h.Log(strings.TrimSuffix(deltagen.CommitName(v), "json") + "checkpoint.*")); len(found) > 0 {
					newest = v
				}
			}
			if newest > 0 {
				h.RemoveCommits(0, newest-1)
				for v := newest; v <= h.Version; v++ {
					is(t, h, table, v, conn)
				}
				refuses(t, table, 0, delta.CodeUnavailable)
			}
		})
	}
}

// The same seed without checkpoints is the same table.
func TestHistoriesWithoutCheckpoints(t *testing.T) {
	t.Parallel()
	h := deltagen.NewHistory(t, 5, deltagen.HistoryOptions{Versions: 12})
	conn := connection(t)
	for v := range h.Version + 1 {
		is(t, h, open(t, h.Table), v, conn)
	}
}
