package action_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/delta/action"
	"sluice/internal/sluice"
)

// read gives the actions of a commit as short texts.
func read(t *testing.T, text string) ([]string, error) {
	t.Helper()
	var got []string
	note := func(parts ...string) error {
		got = append(got, strings.Join(parts, " "))
		return nil
	}
	err := action.Read(strings.NewReader(text), action.DefaultKeys, action.Sink{
		Add:        func(a action.Add) error { return note("add", a.Path, a.DV.ID()) },
		Remove:     func(r action.Remove) error { return note("remove", r.Path, r.DV.ID()) },
		Protocol:   func(action.Protocol) error { return note("protocol") },
		Metadata:   func(m action.Metadata) error { return note("metaData", m.ID) },
		CommitInfo: func(action.CommitInfo) error { return note("commitInfo") },
		Sidecar:    func(s action.Sidecar) error { return note("sidecar", s.Path) },
		V2:         func() error { return note("v2") },
	})
	return got, err
}

// Case 27: actions that nobody knows, and commitInfo of any shape, change nothing.
func TestCase27_UnknownActionsAreSkipped(t *testing.T) {
	t.Parallel()
	got, err := read(t, `{"commitInfo":{"operationParameters":{"mode":"Append","partitionBy":["a"],"deep":[[{}]]},"run_id":[1]}}
{"commitInfo":"text"}
{"cdc":{"path":"_change_data/x"}}
{"txn":{"appId":1}}
{"domainMetadata":{}}
{"fromTheFuture":[1,2,{"add":{"path":"no"}}]}
{"add":null,"remove":{"path":"a","size":1,"whatever":[]}}
{"Add":{"path":"no"}}
{"add":{"path":"b","partitionValues":{},"size":1,"dataChange":true,"clusteringProvider":"x"}}`)
	want := []string{"commitInfo", "commitInfo", "remove a ", "add b "}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// Case 29: commits are JSON of any layout, and nothing but JSON.
func TestCase29_LayoutAndLimits(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"add\": {\n    \"path\": \"a\",\n    \"size\": 1,\n    \"deletionVector\": {\"storageType\":\"u\",\"pathOrInlineDv\":\"x\",\"offset\":null,\"sizeInBytes\":1,\"cardinality\":1}\n  }\n}\n"
	if got, err := read(t, pretty); err != nil || !slices.Equal(got, []string{"add a ux"}) {
		t.Errorf("pretty-printed, offset null: %q, %v", got, err)
	}
	if got, err := read(t, `{"add":{"path":"a","Path":"b","SIZE":7,"size":1}}`); err != nil || !slices.Equal(got, []string{"add a "}) {
		t.Errorf("keys in odd case: %q, %v", got, err)
	}
	for name, c := range map[string]struct {
		text string
		code sluice.Code
	}{
		"truncated last line": {`{"add":{"path":"a","size":1}}` + "\n" + `{"add":{"path":"b","si`, action.CodeLogCorrupt},
		"empty":               {"", action.CodeLogCorrupt},
		"white space only":    {" \n ", action.CodeLogCorrupt},
		"no path":             {`{"add":{"size":1}}`, action.CodeLogCorrupt},
		"no size":             {`{"add":{"path":"a"}}`, action.CodeLogCorrupt},
		"negative size":       {`{"add":{"path":"a","size":-1}}`, action.CodeLogCorrupt},
		"size is no integer":  {`{"add":{"path":"a","size":1.5}}`, action.CodeLogCorrupt},
		"path twice":          {`{"add":{"path":"a","size":1,"path":"b"}}`, action.CodeLogCorrupt},
		"two adds in one":     {`{"add":{"path":"a","size":1},"add":{"path":"b","size":1}}`, action.CodeLogCorrupt},
		"invalid UTF-8":       {"{\"add\":{\"path\":\"a\xff\",\"size\":1}}", action.CodeLogCorrupt},
		"half a surrogate":    {`{"add":{"path":"\ud800","size":1}}`, action.CodeLogCorrupt},
		"not an object":       {`[]`, action.CodeLogCorrupt},
		"too deep":            {`{"txn":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", action.CodeLogCorrupt},
		"trailing comma":      {`{"add":{"path":"a","size":1},}`, action.CodeLogCorrupt},
	} {
		if _, err := read(t, c.text); sluice.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Case 29: one action is at most 64 MiB, and is refused before more is held.
func TestCase29_LineOf70MB(t *testing.T) {
	t.Parallel()
	huge := func(n int) string {
		return `{"add":{"path":"a","size":1,"stats":"` + strings.Repeat("x", n) + `"}}`
	}
	if _, err := read(t, huge(70<<20)); sluice.CodeOf(err) != action.CodeLimit {
		t.Errorf("70 MiB: %v", err)
	}
	if got, err := read(t, huge(3<<20)+"\n"+huge(10)); err != nil || len(got) != 2 {
		t.Errorf("3 MiB: %d actions, %v", len(got), err)
	}
}

// Who wants no files passes over their lines; a line that only looks like one is found out.
func TestStateWithoutFiles(t *testing.T) {
	t.Parallel()
	ids := func(text string) (got []string, err error) {
		err = action.Read(strings.NewReader(text), action.DefaultKeys, action.Sink{
			Metadata: func(m action.Metadata) error {
				got = append(got, m.ID)
				return nil
			},
		})
		return got, err
	}
	files := `{"add":{"path":"a","size":1}}` + "\n" + `{"remove":{"path":"b"}}` + "\n"
	for _, text := range []string{
		files + `{"metaData":{"id":"t"}}`,
		files + `{"metaData":{"id":"t"}}` + "\n" + strings.TrimSpace(files),
		"{\"add\":{\n\"path\":\"a\",\"size\":1}}\n" + `{"metaData":{"id":"t"}}`,
		`{"add":{"path":"a","size":1}}{"metaData":{"id":"t"}}`,
	} {
		if got, err := ids(text); err != nil || !slices.Equal(got, []string{"t"}) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if got, err := ids(`{"add":{"path":"a","tags":{}}` + "\n" + `,"metaData":{"id":"t"}}`); err == nil {
		t.Errorf("a cut object: %q", got)
	}
	if got, err := ids(files); err != nil || got != nil {
		t.Errorf("files only: %q, %v", got, err)
	}
}

// Case 42: statistics are optional and may be malformed; then the count is unknown.
func TestCase42_StatsAreOptional(t *testing.T) {
	t.Parallel()
	for stats, want := range map[string]int64{
		`"{\"numRecords\":12}"`: 12, `"{\"minValues\":{\"numRecords\":3},\"numRecords\":7,\"nullCount\":{}}"`: 7,
		`"{\"numRecords\":12"`: action.Unknown, `"{\"numRecords\":-1}"`: action.Unknown, `"{\"numRecords\":1.5}"`: action.Unknown,
		`"{\"numRecords\":\"12\"}"`: action.Unknown, `"{\"numRecords\":1,\"numRecords\":2}"`: action.Unknown, `"not json"`: action.Unknown,
		`""`: action.Unknown, `null`: action.Unknown, `{"numRecords":5}`: action.Unknown, `"{}"`: action.Unknown,
		`"{\"numRecords\":3} trailing"`: action.Unknown, `"{\"numRecords\":99999999999999999999}"`: action.Unknown, `7`: action.Unknown,
		`"{\"numRecords\":4,\"minValues\":{\"a\":\"\\ud800\"}}"`: 4, `"{\"numRecords\":4,\"minValues\":{\"a\":\"\ud800\"}}"`: action.Unknown,
	} {
		got := int64(-7)
		err := action.Read(strings.NewReader(`{"add":{"path":"a","size":1,"stats":`+stats+`}}`), action.DefaultKeys, action.Sink{
			Add: func(a action.Add) error {
				got = a.NumRecords
				return nil
			},
		})
		if err != nil || got != want {
			t.Errorf("%s: %d, want %d; %v", stats, got, want, err)
		}
	}
}

// Cases 30 to 34: what a protocol asks for, and by what name it is refused.
func TestCase30_ProtocolGate(t *testing.T) {
	t.Parallel()
	features := func(names ...string) action.Protocol {
		return action.Protocol{MinReader: 3, MinWriter: 7, ReaderFeatures: names, HasReaderFeatures: true}
	}
	parquet := action.Metadata{Provider: "parquet"}
	for name, c := range map[string]struct {
		p    action.Protocol
		m    action.Metadata
		want string // part of the text; empty: can be read
	}{
		"reader 1":                   {p: action.Protocol{MinReader: 1, MinWriter: 2}, m: parquet},
		"reader 2":                   {p: action.Protocol{MinReader: 2, MinWriter: 5}, m: parquet},
		"reader 3 with no features":  {p: features(), m: parquet},
		"all that is supported":      {p: features("columnMapping", "deletionVectors", "timestampNtz", "timestampWithoutTimezone", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening", "typeWidening-preview"), m: parquet},
		"reader 0":                   {action.Protocol{MinReader: 0}, parquet, "minReaderVersion=0"},
		"reader 5":                   {action.Protocol{MinReader: 5, MinWriter: 7}, parquet, "minReaderVersion=5"},
		"reader 99":                  {action.Protocol{MinReader: 99}, parquet, "minReaderVersion=99"},
		"reader 3 without the list":  {action.Protocol{MinReader: 3, MinWriter: 7}, parquet, "readerFeatures"},
		"reader 3 and writer 5":      {action.Protocol{MinReader: 3, MinWriter: 5, HasReaderFeatures: true}, parquet, "minWriterVersion=5"},
		"an unknown feature":         {features("deletionVectors", "madeUp"), parquet, "madeUp"},
		"a feature in another case":  {features("DeletionVectors"), parquet, "DeletionVectors"},
		"managed by a catalog":       {features("catalogManaged"), parquet, "catalogManaged"},
		"variants":                   {features("variantType-preview", "variantShredding"), parquet, "variantType-preview, variantShredding"},
		"data files of another kind": {action.Protocol{MinReader: 1}, action.Metadata{Provider: "orc"}, "orc"},
	} {
		err := action.Gate(c.p, c.m)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (sluice.CodeOf(err) != action.CodeUnsupported || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
	if (action.Protocol{MinReader: 1}).MapsColumns() || !(action.Protocol{MinReader: 2}).MapsColumns() || features().MapsColumns() {
		t.Error("columns are mapped from reader 2 on, or by the feature")
	}
}

func TestBatchesOfACommit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		batches []action.Batch
		ignored int
	}{
		`{"run_id":"r","batch_index":3}`:                          {[]action.Batch{{"r", 3}}, 0},
		`{"run_id":"r","batch_index":"3"}`:                        {[]action.Batch{{"r", 3}}, 0},
		`{"run_id":17,"batch_index":0}`:                           {[]action.Batch{{"17", 0}}, 0},
		`{"run_id":"r","batch_index":-1}`:                         {nil, 1},
		`{"run_id":"r","batch_index":"x"}`:                        {nil, 1},
		`{"run_id":"r","batch_index":1.5}`:                        {nil, 1},
		`{"run_id":"r"}`:                                          {nil, 1},
		`{"batch_index":1}`:                                       {nil, 1},
		`{"run_id":"","batch_index":1}`:                           {nil, 1},
		`{"run_id":null,"batch_index":null}`:                      {nil, 0},
		`{}`:                                                      {nil, 0},
		`{"userMetadata":"{\"run_id\":\"u\",\"batch_index\":4}"}`: {[]action.Batch{{"u", 4}}, 0},
		`{"userMetadata":{"run_id":"u","batch_index":4}}`:         {[]action.Batch{{"u", 4}}, 0},
		`{"userMetadata":"free text"}`:                            {nil, 0},
		`{"userMetadata":"{\"run_id\":"}`:                         {nil, 0},
		`{"run_id":"f","batch_index":1,"userMetadata":"{\"run_id\":\"u\",\"batch_index\":4}"}`:         {[]action.Batch{{"f", 1}}, 0},
		`{"userMetadata":"{\"batches\":[{\"run_id\":\"a\",\"batch_index\":0},{\"run_id\":\"b\"},3]}"}`: {[]action.Batch{{"a", 0}}, 2},
	} {
		var got action.CommitInfo
		err := action.Read(strings.NewReader(`{"commitInfo":`+text+`}`), action.DefaultKeys, action.Sink{
			CommitInfo: func(c action.CommitInfo) error {
				got = c
				return nil
			},
		})
		if err != nil || !slices.Equal(got.Batches, want.batches) || got.Ignored != want.ignored {
			t.Errorf("%s: %v, %d ignored, %v", text, got.Batches, got.Ignored, err)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	if c, ok := action.ReadChecksum([]byte(`{"txnId":"x","tableSizeBytes":5,"numFiles":2,"other":[{}]}`)); !ok || c != (action.Checksum{NumFiles: 2, Size: 5}) {
		t.Errorf("%v, %t", c, ok)
	}
	for _, text := range []string{"", "malformed", "{}", `{"tableSizeBytes":5}`, `{"tableSizeBytes":-5,"numFiles":2}`, `{"tableSizeBytes":5,"numFiles":2}x`, `{"tableSizeBytes":"5","numFiles":2}`} {
		if c, ok := action.ReadChecksum([]byte(text)); ok {
			t.Errorf("%s is taken for %v", text, c)
		}
	}
}

func FuzzCommit(f *testing.F) {
	for _, text := range []string{
		`{"add":{"path":"a%20b","partitionValues":{"p":null,"q":"1"},"size":1,"stats":"{\"numRecords\":5}","deletionVector":{"storageType":"i","pathOrInlineDv":"x","sizeInBytes":4,"cardinality":1},"baseRowId":3}}`,
		`{"remove":{"path":"a","deletionVector":{"storageType":"u","pathOrInlineDv":"y","offset":1}}}` + "\n" + `{"metaData":{"id":"t","format":{"provider":"parquet"},"schemaString":"{}","partitionColumns":["p"],"configuration":{"a":"b"}}}`,
		`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["x"]}}{"commitInfo":{"inCommitTimestamp":5,"run_id":"r","batch_index":0,"userMetadata":"{\"batches\":[]}"}}`,
		`{"sidecar":{"path":"x.parquet","sizeInBytes":3}}{"checkpointMetadata":{"version":1}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := read(t, string(text))
		if err != nil && sluice.CodeOf(err) != action.CodeLogCorrupt && sluice.CodeOf(err) != action.CodeLimit {
			t.Fatalf("%v has no code", err)
		}
	})
}

func FuzzChecksum(f *testing.F) {
	f.Add([]byte(`{"tableSizeBytes":5,"numFiles":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, ok := action.ReadChecksum(text); ok && (c.NumFiles < 0 || c.Size < 0) {
			t.Fatalf("%v", c)
		}
	})
}
