package delta_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/testkit/deltagen"
)

// checkpointed is a table whose state at version 2 is only in its checkpoint: files b (with a deletion vector), c and d.
func checkpointed(t *testing.T, c deltagen.Checkpoint) (*deltagen.Table, []string) {
	t.Helper()
	g := deltagen.New(t)
	a, b := numbers(g, "a", 0, 10), numbers(g, "b", 10, 20)
	g.Commit(deltagen.Features("deletionVectors", "v2Checkpoint"), deltagen.Metadata{Schema: idSchema}, a, b)
	g.Commit(a.Remove(), b.Remove(), b.With(deltagen.Inline(deltagen.Arrays, 0, 9)), numbers(g, "c", 20, 30))
	g.Commit(numbers(g, "d", 30, 40))
	names := g.Checkpoint(2, c)
	g.Commit(numbers(g, "e", 40, 50))
	g.RemoveCommits(0, 2)
	return g, names
}

var checkpointedIDs = append(span(11, 19), span(20, 50)...)

func TestCase13_SecondFormWithAndWithoutSidecars(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "parquet"} {
		for _, sidecars := range []int{0, 1, 3} {
			g, _ := checkpointed(t, deltagen.Checkpoint{V2: form, Sidecars: sidecars})
			ids(t, open(t, g), delta.Latest, checkpointedIDs...)
		}
	}
	for name, want := range map[string][3]int64{
		"kernel_data/v2-checkpoints-json-with-sidecars": {6, 101, 1233}, "kernel_data/v2-checkpoints-parquet-with-sidecars": {6, 101, 1233},
		"kernel_data/v2-checkpoints-json-without-sidecars": {2, 3, 11}, "kernel_data/v2-checkpoints-parquet-without-sidecars": {2, 3, 11},
		"kernel_data/v2-checkpoints-json-with-last-checkpoint": {0, 2, 10}, "kernel_data/v2-checkpoints-parquet-with-last-checkpoint": {0, 2, 10},
		"kernel_golden/v2-checkpoint-json": {2, 4, 10},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, want[0], want[1], want[2])
		}
	}
}

func TestCase14_SecondFormUnderTheClassicName(t *testing.T) {
	t.Parallel()
	for _, sidecars := range []int{0, 2} {
		g, names := checkpointed(t, deltagen.Checkpoint{ClassicName: true, Sidecars: sidecars})
		if !strings.HasSuffix(names[0], "2.checkpoint.parquet") {
			t.Fatal(names)
		}
		ids(t, open(t, g), delta.Latest, checkpointedIDs...)
	}
	for name, want := range map[string][2]int64{
		"kernel_data/v2-classic-checkpoint-json": {4, 20}, "kernel_data/v2-classic-parquet-struct-stats-only": {5, 5},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, delta.Latest, want[0], want[1])
		}
	}
}

func TestCase15_SidecarsThatAreMissingOrElsewhere(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "parquet"} {
		g, names := checkpointed(t, deltagen.Checkpoint{V2: form, Sidecars: 2})
		g.RemoveLog(names[2])
		refuses(t, open(t, g), delta.Latest, delta.CodeCheckpoint)

		// With an older state there is no need for it.
		g = plainTable(t, ghost("a"))
		g.Checkpoint(0, deltagen.Checkpoint{})
		g.Commit(ghost("b"))
		names = g.Checkpoint(1, deltagen.Checkpoint{V2: form, Sidecars: 2})
		g.RemoveLog(names[1])
		g.RemoveLog(deltagen.CommitName(0))
		has(t, open(t, g), delta.Latest, "a", "b")
	}
	for _, path := range []string{"../x.parquet", "..%2Fx.parquet", "%2e%2e/x.parquet", "sub/x.parquet", "/tmp/x.parquet", "s3://b/x.parquet", ".."} {
		g := plainTable(t, ghost("a"))
		s := g.State(0)
		g.Checkpoint(0, deltagen.Checkpoint{V2: "json", Actions: []deltagen.Action{
			*s.Protocol, *s.Metadata, deltagen.Object{"sidecar": map[string]any{"path": path, "sizeInBytes": 1, "modificationTime": 1}},
		}})
		refuses(t, open(t, g), delta.Latest, delta.CodePath)
	}
}

func TestCase16_CheckpointsWithoutNewerColumns(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: idSchema}, numbers(g, "a", 0, 10))
	g.Checkpoint(0, deltagen.Checkpoint{Drop: []string{
		"add.deletionVector", "add.stats", "add.tags", "add.baseRowId", "add.defaultRowCommitVersion", "remove", "txn", "domainMetadata",
		"protocol.readerFeatures", "protocol.writerFeatures", "metaData.description",
	}})
	g.RemoveCommits(0, 0)
	ids(t, open(t, g), delta.Latest, span(0, 10)...)
}

func TestCase17_TombstonesInACheckpointAreNotLive(t *testing.T) {
	t.Parallel()
	g, _ := checkpointed(t, deltagen.Checkpoint{})
	has(t, open(t, g), delta.Latest, "b", "c", "d", "e")
	g, _ = checkpointed(t, deltagen.Checkpoint{Parts: 2, NoRemoves: true})
	has(t, open(t, g), delta.Latest, "b", "c", "d", "e")
}

func TestCase18_StatisticsAsAStruct(t *testing.T) {
	t.Parallel()
	g, _ := checkpointed(t, deltagen.Checkpoint{StructStats: true})
	counts(t, open(t, g), delta.Latest, 4, int64(len(checkpointedIDs)))
	for name, want := range map[string][2]int64{
		"kernel_data/v1-multi-part-partitioned-struct-stats-only": {5, 5}, "kernel_data/v2-parquet-sidecars-struct-stats-only": {5, 5},
		"kernel_data/v2-classic-parquet-struct-stats-only": {5, 5}, "kernel_data/parsed-stats": {6, 600},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, delta.Latest, want[0], want[1])
		}
	}
}

func TestCase19_CheckpointsThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func([]byte) []byte{
		"text":      func([]byte) []byte { return []byte("PAR1 is what it should be") },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"no footer": func(b []byte) []byte { return append(b[:len(b)-20:len(b)-20], make([]byte, 20)...) },
	} {
		g := plainTable(t, ghost("a"))
		g.Commit(ghost("b"))
		file := g.Checkpoint(1, deltagen.Checkpoint{Hint: true})[0]
		g.WriteLog(file, spoil(g.ReadLog(file)))
		has(t, open(t, g), delta.Latest, "a", "b")
		g.RemoveCommits(0, 1)
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("%s: it was read", name)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeCheckpoint)
	}
	// Of several at one version one that can be decoded is enough.
	g := plainTable(t, ghost("a"))
	good := g.Checkpoint(0, deltagen.Checkpoint{Parts: 2})
	bad := g.Checkpoint(0, deltagen.Checkpoint{V2: "parquet"})
	g.WriteLog(bad[0], []byte("PAR1PAR1"))
	g.RemoveCommits(0, 0)
	has(t, open(t, g), delta.Latest, "a")
	_ = good
}

func TestCase20_ManyFiles(t *testing.T) { // alone: it measures the process
	dir := manyAdds(t, 300_000)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	begun, start := cpuTime(t), time.Now()
	table := openAt(t, dir, objstore.Options{}, delta.Options{})
	s, err := table.Snapshot(t.Context(), delta.Latest)
	if err != nil {
		t.Fatal(err)
	}
	n, most := 0, uint64(0)
	for _, err := range s.Files(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%50_000 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	took := cpuTime(t) - begun
	t.Logf("%d files: %s of processor time, %s by the clock, %d MiB of heap at most", n, took.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), most>>20)
	if n != 300_000 || took > 5*time.Second {
		t.Errorf("%d files in %s of processor time", n, took)
	}
	if most > before.HeapAlloc+128<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before.HeapAlloc>>20, most>>20)
	}
}
