package delta_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/testkit/deltagen"
)

func TestCase01_StrayFilesAreIgnored(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	g.Commit(ghost("b"))
	junk := []byte("not a log file")
	for _, name := range []string{
		".00000000000000000001.json.crc", "00000000000000000002.json.tmp", "0000000000000000002.json", "000000000000000000002.json",
		"_staged_commits/00000000000000000002.0f0f0f0f-0000-4000-8000-000000000000.json", "00000000000000000000.00000000000000000001.compacted.json",
		"00000000000000000001.checkpoint.parquet.tmp", "00000000000000000001.checkpoint.0000000002.0000000001.parquet",
		"00000000000000000001.checkpoint.0000000000.0000000001.parquet", "00000000000000000001.checkpoint.not-a-uuid.parquet",
		"_commits/00000000000000000003.json", "0000000000000000000a.json", "_temporary", "zzz", "9zz", ":", "00000000000000000002.JSON",
	} {
		g.WriteLog(name, junk)
	}
	has(t, open(t, g), delta.Latest, "a", "b")
	if table, ok := others(t, "kernel_data/compacted-log-files-table"); ok {
		counts(t, table, delta.Latest, 2, 5)
	}
}

func TestCase02_ListingsInAnyOrderOfMoreThanAPage(t *testing.T) {
	t.Parallel()
	g := plainTable(t)
	var want []string
	for i := range 1100 {
		name := fmt.Sprintf("f%04d", i)
		g.CommitAt(int64(i+1), ghost(name))
		want = append(want, name)
	}
	shuffled := (&watched{shuffle: true}).opened(t, g)
	has(t, shuffled, delta.Latest, want...)
	has(t, shuffled, 700, want[:700]...)
	g.Checkpoint(1050, deltagen.Checkpoint{Parts: 4, Hint: true})
	has(t, shuffled, delta.Latest, want...)
	has(t, open(t, g), 900, want[:900]...)
}

func TestCase03_OnlyCheckpoints(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	g.Commit(ghost("b"))
	g.Commit(ghost("c"), ghost("a").Remove())
	g.Checkpoint(2, deltagen.Checkpoint{})
	g.RemoveCommits(0, 2)
	has(t, open(t, g), delta.Latest, "b", "c")
	has(t, open(t, g), 2, "b", "c")
	refuses(t, open(t, g), 1, delta.CodeUnavailable)

	table, ok := others(t, "kernel_golden/only-checkpoint-files")
	if !ok {
		return
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(table.URI())); err != nil {
		t.Fatal(err)
	}
	commits, _ := filepath.Glob(filepath.Join(dir, "_delta_log", "*.json"))
	for _, c := range commits {
		if err := os.Remove(c); err != nil {
			t.Fatal(err)
		}
	}
	counts(t, openAt(t, dir, objstore.Options{}, delta.Options{}), delta.Latest, 7, 25)
}

func TestCase04_VersionsOutsideTheLog(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	for range 4 {
		g.Commit(deltagen.CommitInfo(nil))
	}
	refuses(t, open(t, g), 5, delta.CodeNotFound, "5")
	g.Checkpoint(3, deltagen.Checkpoint{})
	g.RemoveCommits(0, 2)
	refuses(t, open(t, g), 2, delta.CodeUnavailable)
	has(t, open(t, g), 3, "a")
	has(t, open(t, g), 4, "a")
	if table, ok := others(t, "delta_rs/checkpoint-cdf-table"); ok {
		refuses(t, table, 2, delta.CodeUnavailable)
	}
}

func TestCase05_LogsWithoutTheirBeginOrWithAGap(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	g.CommitAt(41, deltagen.Plain, deltagen.Metadata{Schema: idSchema}, ghost("a"))
	refuses(t, open(t, g), delta.Latest, delta.CodeUnavailable)
	refuses(t, open(t, g), 41, delta.CodeUnavailable)

	g = plainTable(t, ghost("a"))
	for range 9 {
		g.Commit(deltagen.CommitInfo(nil))
	}
	g.RemoveLog(deltagen.CommitName(5))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogGap, "5")
	refuses(t, open(t, g), 7, delta.CodeLogGap)
	has(t, open(t, g), 4, "a")
}

func TestCase06_AGapBelowACheckpointLosesOldVersionsOnly(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("f0"))
	for v := 1; v <= 13; v++ {
		g.Commit(ghost(fmt.Sprintf("f%d", v)))
	}
	g.Checkpoint(10, deltagen.Checkpoint{})
	g.RemoveLog(deltagen.CommitName(7))
	check := func(table *delta.Table, perVersion int64) {
		for _, v := range []int64{6, 10, 11, 12, 13} {
			counts(t, table, v, perVersion*(v+1), -1)
		}
		for _, v := range []int64{8, 9} {
			refuses(t, table, v, delta.CodeUnavailable)
		}
	}
	check(open(t, g), 1)
	if table, ok := others(t, "delta_rs_invalid/table_b"); ok {
		for _, v := range []int64{6, 10, 11, 12, 13, delta.Latest} {
			if _, err := pathsOrError(t.Context(), table, v); err != nil {
				t.Error(err)
			}
		}
		refuses(t, table, 8, delta.CodeUnavailable)
		refuses(t, table, 9, delta.CodeUnavailable)
		counts(t, table, 13, 130, 130)
	}
}

// hinted is a table of 8 versions with checkpoints at 3 and 6.
func hinted(t *testing.T) *deltagen.Table {
	t.Helper()
	g := plainTable(t, ghost("f0"))
	for v := 1; v < 8; v++ {
		g.Commit(ghost(fmt.Sprintf("f%d", v)))
	}
	g.Checkpoint(3, deltagen.Checkpoint{})
	g.Checkpoint(6, deltagen.Checkpoint{Hint: true})
	return g
}

func TestCase07_VersionsBelowTheHint(t *testing.T) {
	t.Parallel()
	g := hinted(t)
	has(t, open(t, g), 2, "f0", "f1", "f2")
	has(t, open(t, g), 4, "f0", "f1", "f2", "f3", "f4")
	g.RemoveLog("_last_checkpoint")
	has(t, open(t, g), 4, "f0", "f1", "f2", "f3", "f4")
}

var hintedFiles = []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}

func TestCase08_HintsThatAreNoHelp(t *testing.T) {
	t.Parallel()
	g := hinted(t)
	g.RemoveLog("_last_checkpoint")
	has(t, open(t, g), delta.Latest, hintedFiles...)
	for _, hint := range []string{
		"", "garbage", "{", `{"version":`, "[]", `"6"`, "null", `{"version":"six"}`, `{"version":-1}`, `{"version":99}`, `{"version":5,"size":3}`,
		`{"version":3,"size":3}`, `{"version":6,"size":3,"parts":2}`, `{"version":6,"size":-1,"parts":0}`, `{"version":9223372036854775807}`,
		`{"version":1e30}`, `{"version":6,"v2Checkpoint":{"path":"../x","sizeInBytes":1}}`, strings.Repeat("x", 1<<20), "\xff\xfe",
	} {
		g.WriteLog("_last_checkpoint", []byte(hint))
		if got, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err != nil || fmt.Sprint(got) != fmt.Sprint(hintedFiles) {
			t.Errorf("with the hint %.60q: %v, %v", hint, got, err)
		}
	}
	if table, ok := others(t, "kernel_golden/corrupted-last-checkpoint-kernel"); ok {
		counts(t, table, delta.Latest, 2, 100)
	}
	if table, ok := others(t, "kernel_data/with_checkpoint_no_last_checkpoint"); ok {
		counts(t, table, delta.Latest, 1, 5)
	}
}

func TestCase09_HintWithAWrongChecksum(t *testing.T) {
	t.Parallel()
	g := hinted(t)
	g.WriteLog("_last_checkpoint", []byte(`{"version":3,"size":5,"checksum":"00000000000000000000000000000000"}`))
	has(t, open(t, g), delta.Latest, hintedFiles...)
	g.WriteLog("_last_checkpoint", []byte(`{"version":77,"size":5,"checksum":"00000000000000000000000000000000"}`))
	has(t, open(t, g), delta.Latest, hintedFiles...)
}

func TestCase10_LogsThatChangeWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	g.Commit(ghost("b"))
	// Commits that come meanwhile are not part of the snapshot.
	w := &watched{onGet: func(key string) error {
		if g.Version < 5 && strings.HasSuffix(key, ".json") {
			g.Commit(ghost(fmt.Sprintf("late%d", g.Version)), ghost("a").Remove(), ghost("a"))
		}
		return nil
	}}
	s, err := w.opened(t, g).Snapshot(t.Context(), delta.Latest)
	if err != nil || s.Version() != 1 {
		t.Fatal(s.Version(), err)
	}
	for range 2 {
		var got []string
		for f, err := range s.Files(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Path)
		}
		if len(got) != 2 {
			t.Errorf("the snapshot has %v", got)
		}
	}
	// Log cleanup between listing and reading: the second listing finds the checkpoint.
	g = plainTable(t, ghost("a"))
	g.Commit(ghost("b"))
	w = &watched{}
	w.onGet = func(key string) error {
		if strings.HasSuffix(key, ".json") && w.lists == 1 {
			w.onGet = nil
			g.Checkpoint(1, deltagen.Checkpoint{})
			g.RemoveCommits(0, 1)
		}
		return nil
	}
	has(t, w.opened(t, g), delta.Latest, "a", "b")
	if w.lists != 2 {
		t.Errorf("there were %d listings", w.lists)
	}
	// A file that is listed each time and is never there.
	g = plainTable(t, ghost("a"))
	w = &watched{onGet: func(key string) error {
		if strings.HasSuffix(key, ".json") {
			return &objstore.Error{Op: "get", Kind: objstore.ErrNotFound}
		}
		return nil
	}}
	refuses(t, w.opened(t, g), delta.Latest, delta.CodeSnapshotGone)
	if w.lists != 2 {
		t.Errorf("there were %d listings", w.lists)
	}
}

func TestCase11_PartsOfACheckpoint(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"), ghost("b"), ghost("c"))
	g.Commit(ghost("d"))
	g.Checkpoint(1, deltagen.Checkpoint{})
	g.Commit(ghost("e"))
	names := g.Checkpoint(2, deltagen.Checkpoint{Parts: 3})
	g.RemoveLog(names[1])
	g.RemoveCommits(0, 1) // the older checkpoint is needed
	has(t, open(t, g), delta.Latest, "a", "b", "c", "d", "e")

	g.Checkpoint(2, deltagen.Checkpoint{Parts: 2})
	g.Checkpoint(2, deltagen.Checkpoint{Parts: 3})
	g.RemoveLog(deltagen.CommitName(2))
	has(t, open(t, g), delta.Latest, "a", "b", "c", "d", "e")
	g.RemoveLog(names[0]) // one of three is missing: two of two will do
	has(t, open(t, g), delta.Latest, "a", "b", "c", "d", "e")
}

func TestCase12_EmptyFiles(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	g.Commit(ghost("b"))
	g.WriteLog("00000000000000000001.checkpoint.parquet", nil)
	has(t, open(t, g), delta.Latest, "a", "b")
	g.WriteLog(deltagen.CommitName(2), nil)
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt)
	has(t, open(t, g), 1, "a", "b")
}
