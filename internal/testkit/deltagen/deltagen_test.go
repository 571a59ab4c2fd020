package deltagen_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/internal/testkit/deltagen"
)

// The protocol's own examples.
func TestVectorsAreTheProtocolsExamples(t *testing.T) {
	t.Parallel()
	for want, positions := range map[string][]uint64{
		"^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L": {3, 4, 7, 11, 18, 29},
		"^Bg9^0rr910000000000iXQKl0rr91000935c8Xg000311onP9":      {0, 1, 4, 5},
	} {
		if dv := deltagen.Inline(deltagen.Arrays, positions...); dv.Path != want || dv.Cardinality != int64(len(positions)) {
			t.Errorf("%v: got %+v, want %s", positions, dv, want)
		}
	}
	if got := deltagen.Z85([]byte{0x61, 0xd1, 0x6c, 0x75, 0x69, 0x94, 0x46, 0xb7, 0xa1, 0x5b, 0x8b, 0x53, 0x88, 0x52, 0xe5, 0x0e}); got != "vBn[lx{q8@P<9BNH/isA" {
		t.Errorf("got %s", got)
	}
}

func TestVectorFilesHoldTheirFrames(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	v := g.VectorFile("ab", 7)
	first, second := v.Add(deltagen.Arrays, 1, 2), v.Add(deltagen.WithRun, 5, 6, 7, 1<<33)
	content, err := os.ReadFile(g.Path(v.Name()))
	if err != nil {
		t.Fatal(err)
	}
	if content[0] != 1 || *first.Offset != 1 || *second.Offset != 1+first.Size+8 || int64(len(content)) != *second.Offset+second.Size+8 {
		t.Errorf("%+v and %+v in %d bytes", first, second, len(content))
	}
	if !strings.HasPrefix(first.Path, "ab") || len(first.Path) != 22 || !strings.HasPrefix(v.Name(), "ab/deletion_vector_") {
		t.Errorf("%s is called %s", first.Path, v.Name())
	}
}

// Each kind of checkpoint holds each file once, for whoever reads it.
func TestCheckpointsHoldTheState(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	add := g.Data("a b.parquet", "SELECT range AS id FROM range(10)")
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"})}, add, add.At("x"), add.At("y"))
	g.Commit(add.At("x").Remove(), add.With(deltagen.Inline(deltagen.Arrays, 3)), add.Remove())
	if s := g.State(1); len(s.Live) != 2 || len(s.Removed) != 2 || add.Path != "a%20b.parquet" || add.Rows != 10 {
		t.Fatalf("%+v", s)
	}
	for i, c := range []deltagen.Checkpoint{
		{},
		{Parts: 3},
		{V2: "parquet"},
		{V2: "json"},
		{V2: "parquet", Sidecars: 2},
		{V2: "json", Sidecars: 3},
		{ClassicName: true},
		{ClassicName: true, Sidecars: 1},
		{StructStats: true, NoRemoves: true, Drop: []string{"add.deletionVector", "remove", "add.tags"}},
	} {
		files, removes := map[string]int{}, 0
		for _, name := range g.Checkpoint(1, c) {
			if strings.HasSuffix(name, ".json") {
				for line := range strings.Lines(string(g.ReadLog(name))) {
					var a struct {
						Add, Remove struct{ Path string }
					}
					if err := json.Unmarshal([]byte(line), &a); err != nil {
						t.Fatal(err)
					}
					if a.Add.Path != "" {
						files[a.Add.Path]++
					}
					if a.Remove.Path != "" {
						removes++
					}
				}
				continue
			}
			query := fmt.Sprintf("SELECT coalesce(add.path, ''), %s FROM read_parquet(%s)", map[bool]string{true: "''", false: "coalesce(remove.path, '')"}[c.Drop != nil],
				deltagen.Quote(g.Log(name)))
			rows, err := g.Engine().QueryContext(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var path, removed string
				if err := rows.Scan(&path, &removed); err != nil {
					t.Fatal(err)
				}
				if path != "" {
					files[path]++
				}
				if removed != "" {
					removes++
				}
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
		}
		want := 2
		if c.NoRemoves {
			want = 0
		}
		if len(files) != 2 || files["a%20b.parquet"] != 1 || files["y"] != 1 || removes != want {
			t.Errorf("checkpoint %d %+v holds %v and %d removes", i, c, files, removes)
		}
	}
}

// The same seed makes the same history, and the model has no row twice.
func TestHistoriesAreRepeatable(t *testing.T) {
	t.Parallel()
	o := deltagen.HistoryOptions{Versions: 25, Checkpoints: true}
	a, b := deltagen.NewHistory(t, 3, o), deltagen.NewHistory(t, 3, o)
	for v := range a.Version + 1 {
		ids := a.IDs(v)
		if fmt.Sprint(ids) != fmt.Sprint(b.IDs(v)) {
			t.Fatalf("version %d differs", v)
		}
		for i := range ids {
			if i > 0 && ids[i] == ids[i-1] {
				t.Fatalf("version %d has row %d twice", v, ids[i])
			}
		}
		live := int64(0)
		for _, f := range a.State(v).Live {
			live += f.Rows
			if f.DV != nil {
				live -= f.DV.Cardinality
			}
		}
		if live != int64(len(ids)) {
			t.Fatalf("version %d has %d rows, its files %d", v, len(ids), live)
		}
	}
}
