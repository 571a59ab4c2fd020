package delta_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/testkit/deltagen"
)

// vectored is a table with deletion vectors and one file of ten rows.
func vectored(t *testing.T) (*deltagen.Table, deltagen.Add) {
	t.Helper()
	g := deltagen.New(t)
	add := numbers(g, "a", 0, 10)
	g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: idSchema}, add)
	return g, add
}

func TestCase21_KeysOfFilesWithVectors(t *testing.T) {
	t.Parallel()
	g, add := vectored(t)
	file := g.VectorFile("", 1)
	one := file.Add(deltagen.Arrays, 1)
	two := file.Add(deltagen.Arrays, 1, 2)
	g.Commit(add.Remove(), add.With(one))
	g.Commit(add.With(one).Remove(), add.With(two))
	// A remove of a key that is no longer live takes nothing away.
	g.Commit(add.Remove(), add.With(one).Remove())
	ids(t, open(t, g), 1, append([]int64{0}, span(2, 10)...)...)
	ids(t, open(t, g), 3, append([]int64{0}, span(3, 10)...)...)
	if table, ok := others(t, "kernel_golden/log-replay-dv-key-cases"); ok {
		counts(t, table, delta.Latest, 1, 47)
	}
}

func TestCase22_RemoveAndAddInOneCommit(t *testing.T) {
	t.Parallel()
	for _, swapped := range []bool{false, true} {
		g, add := vectored(t)
		actions := []deltagen.Action{add.Remove(), add.With(deltagen.Inline(deltagen.Arrays, 0))}
		if swapped {
			actions[0], actions[1] = actions[1], actions[0]
		}
		g.Commit(actions...)
		ids(t, open(t, g), delta.Latest, span(1, 10)...)
	}
	for name, actions := range map[string]func(add deltagen.Add) []deltagen.Action{
		"one add twice":     func(add deltagen.Add) []deltagen.Action { return []deltagen.Action{add, add} },
		"one remove twice":  func(add deltagen.Add) []deltagen.Action { return []deltagen.Action{add.Remove(), add.Remove()} },
		"one key both ways": func(add deltagen.Add) []deltagen.Action { return []deltagen.Action{add.Remove(), add} },
		"two adds of a path": func(add deltagen.Add) []deltagen.Action {
			return []deltagen.Action{add.Remove(), add.With(deltagen.Inline(deltagen.Arrays, 0)), add.With(deltagen.Inline(deltagen.Arrays, 1))}
		},
		"two metadata": func(deltagen.Add) []deltagen.Action {
			return []deltagen.Action{deltagen.Metadata{Schema: idSchema}, deltagen.Metadata{Schema: idSchema}}
		},
		"two protocols": func(deltagen.Add) []deltagen.Action { return []deltagen.Action{deltagen.Plain, deltagen.Plain} },
	} {
		g, add := vectored(t)
		g.Commit(actions(add)...)
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("%s: it was read", name)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt)
	}
}

func TestCase23_TwoVectorsOnOneFile(t *testing.T) {
	t.Parallel()
	g, add := vectored(t)
	g.Commit(add.With(deltagen.Inline(deltagen.Arrays, 0)))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt, "a")
	g.Commit(add.Remove())
	ids(t, open(t, g), delta.Latest, span(1, 10)...)

	// One in the checkpoint, one in a later commit.
	g, add = vectored(t)
	g.Checkpoint(0, deltagen.Checkpoint{})
	g.Commit(add.With(deltagen.Inline(deltagen.Arrays, 3)))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt)
}

func TestCase24_FilesThatAreAddedAgain(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"), ghost("b"))
	g.Commit(ghost("a").WithStats(deltagen.Text(`{"numRecords":77}`)))
	counts(t, open(t, g), delta.Latest, 2, 87)
	g.Commit(ghost("a").Remove())
	has(t, open(t, g), delta.Latest, "b")
	g.Commit(ghost("a"))
	has(t, open(t, g), delta.Latest, "a", "b")
	g.Checkpoint(1, deltagen.Checkpoint{})
	has(t, open(t, g), 2, "b")
	if table, ok := others(t, "kernel_golden/delete-re-add-same-file-different-transactions"); ok {
		has(t, table, delta.Latest, "bar", "foo")
	}
}

func TestCase25_SchemaAndProtocolOfTheVersion(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"))
	g.Commit(deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "more", Type: "string"})})
	g.Checkpoint(1, deltagen.Checkpoint{})
	g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "x", Type: "date"})})
	for v, want := range []string{"id:long 1", "id:long more:string 1", "x:date 3"} {
		s, err := open(t, g).Snapshot(t.Context(), int64(v))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range s.Schema().Fields {
			got = append(got, f.Name+":"+f.Type.String())
		}
		if text := fmt.Sprintf("%s %d", strings.Join(got, " "), s.Protocol().MinReader); text != want {
			t.Errorf("version %d has %s, want %s", v, text, want)
		}
	}
	for name, want := range map[string][3]int64{
		"kernel_golden/log-replay-latest-metadata-protocol": {2, 4, 40}, "kernel_golden/time-travel-start-start20-start40": {2, 6, 30},
		"kernel_golden/time-travel-schema-changes-a": {0, 2, 10}, "kernel_golden/time-travel-partition-changes-a": {0, 10, 10},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, want[0], want[1], want[2])
		}
	}
}

func TestCase26_StatesWithoutProtocolOrMetadata(t *testing.T) {
	t.Parallel()
	full := func() *deltagen.Table {
		g := plainTable(t, ghost("a"))
		g.Commit(ghost("b"))
		return g
	}
	g := full()
	s := g.State(1)
	g.Checkpoint(1, deltagen.Checkpoint{Actions: []deltagen.Action{*s.Protocol, s.Live[0], s.Live[1]}})
	g.RemoveLog(deltagen.CommitName(1))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt, "metaData") // the commits would do, but the checkpoint may have lost more
	g = full()
	g.Checkpoint(1, deltagen.Checkpoint{Actions: []deltagen.Action{*s.Metadata, s.Live[0], s.Live[1]}})
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt, "protocol")
	g = deltagen.New(t)
	g.Commit(deltagen.Metadata{Schema: idSchema}, ghost("a"))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt, "protocol")
	g = deltagen.New(t)
	g.Commit(deltagen.Plain, ghost("a"))
	refuses(t, open(t, g), delta.Latest, delta.CodeLogCorrupt, "metaData")
	for _, name := range []string{"from-checkpoint-missing-metadata", "from-checkpoint-missing-protocol", "without-protocol"} {
		if table, ok := others(t, "kernel_golden/deltalog-state-reconstruction-"+name); ok {
			refuses(t, table, delta.Latest, delta.CodeLogCorrupt)
		}
	}
}

func TestCase27_UnknownActionsAndAnEmptyTable(t *testing.T) {
	t.Parallel()
	g := plainTable(t,
		deltagen.Raw(`{"cdc":{"path":"_change_data/x","size":1}}`), deltagen.Raw(`{"txn":{"appId":"a","version":9223372036854775807}}`),
		deltagen.Raw(`{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}`), deltagen.Raw(`{"future":[{"deep":[[[{}]]]}]}`),
		deltagen.Raw(`{"commitInfo":{"operationParameters":["not","a","map",{"x":null}],"timestamp":"yesterday","userMetadata":17}}`),
		deltagen.Raw(`{"commitInfo":null}`), deltagen.Raw(`{"add":null,"remove":null}`), deltagen.Raw(`{}`),
		deltagen.Raw(`{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"unknown":{"add":{"path":"b"}}},"other":1}`),
	)
	has(t, open(t, g), delta.Latest, "a")
	g.Commit(ghost("a").Remove())
	counts(t, open(t, g), delta.Latest, 0, 0)
	ids(t, open(t, g), delta.Latest)
	if table, ok := others(t, "delta_rs/delta-0.8-empty"); ok {
		counts(t, table, delta.Latest, 0, 0)
		if s, err := table.Snapshot(t.Context(), delta.Latest); err != nil || len(s.Schema().Fields) == 0 {
			t.Errorf("the schema is lost: %v", err)
		}
	}
}

func TestCase28_SpellingsOfOnePath(t *testing.T) {
	t.Parallel()
	for _, spelling := range []string{"/p/x%20y", "file:/p/x%20y", "file:///p/x%20y", "FILE:/p/x%20y", "file://localhost/p/x%20y", "/p/%78 y"} {
		g := plainTable(t, ghost("/p/x%20y"))
		g.Commit(deltagen.Remove{Path: spelling, DataChange: true})
		has(t, open(t, g), delta.Latest)
	}
	for _, other := range []string{"/p/x%2520y", "/p/x+y", "p/x%20y", "/P/x%20y"} {
		g := plainTable(t, ghost("/p/x%20y"))
		g.Commit(deltagen.Remove{Path: other, DataChange: true})
		has(t, open(t, g), delta.Latest, "/p/x y")
	}
	for _, name := range []string{"normal-a", "special-a", "special-b"} {
		if table, ok := others(t, "kernel_golden/canonicalized-paths-"+name); ok {
			has(t, table, delta.Latest)
		}
	}
}

func TestCase29_FormsOfJSON(t *testing.T) {
	t.Parallel()
	pretty := func(a deltagen.Action) []byte {
		var v any
		if err := json.Unmarshal(a.Line(), &v); err != nil {
			t.Fatal(err)
		}
		text, _ := json.MarshalIndent(v, "", "    ")
		return append(text, "\r\n\r\n"...)
	}
	g := plainTable(t, ghost("a"))
	g.WriteLog(deltagen.CommitName(1), append(pretty(ghost("b")), pretty(ghost("a").Remove())...))
	has(t, open(t, g), delta.Latest, "b")
	g.WriteLog(deltagen.CommitName(2), []byte(strings.TrimSuffix(string(ghost("c").Line()), "\n"))) // no line's end
	has(t, open(t, g), delta.Latest, "b", "c")

	bad := func(content string, code string) {
		t.Helper()
		g := plainTable(t, ghost("a"))
		g.WriteLog(deltagen.CommitName(1), []byte(content))
		_, err := pathsOrError(t.Context(), open(t, g), delta.Latest)
		if err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%.80q: got %v", content, err)
		}
	}
	whole := string(ghost("b").Line())
	for _, content := range []string{
		whole[:len(whole)-3], whole + "\n" + whole[:20], "[]", "7", `"add"`, `{"add":"text"}`, `{"add":{"path":1}}`, `{"add":{}}`, whole + "x", "{\"add\":{\"path\":\"\xff\"}}",
		`{"add":{"path":"b","size":1e3x}}`, "\x00", `{"add":{"path":"b","partitionValues":{},"size":9223372036854775808,"modificationTime":1,"dataChange":true}}`,
	} {
		bad(content, "LOG-CORRUPT")
	}
	bad(`{"commitInfo":{"x":"`+strings.Repeat("y", 70<<20)+`"}}`, "LIMIT")
	bad(`{"commitInfo":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`, "nested too deep")
	g.WriteLog(deltagen.CommitName(3), []byte(`{"Add":{"path":"x"},"REMOVE":{"path":"b"}}`+"\n"+`{"add":{"PATH":"z","path":"d","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`))
	has(t, open(t, g), delta.Latest, "b", "c", "d")

	// An offset that is null is one that is absent.
	v, add := vectored(t)
	inline := deltagen.Inline(deltagen.Arrays, 4)
	withNull := strings.Replace(string(add.With(inline).Line()), `"storageType"`, `"offset":null,"storageType"`, 1)
	v.WriteLog(deltagen.CommitName(1), []byte(string(add.Remove().Line())+"\n"+withNull))
	v.WriteLog(deltagen.CommitName(2), []byte(string(add.With(inline).Remove().Line())+"\n"+string(add.Line())))
	ids(t, open(t, v), 1, append(span(0, 4), span(5, 10)...)...)
	ids(t, open(t, v), 2, span(0, 10)...)
	if table, ok := others(t, "duckdb_delta/inlined/null_constraints_lists/delta_lake"); ok {
		counts(t, table, delta.Latest, 1, 10)
	}
}
