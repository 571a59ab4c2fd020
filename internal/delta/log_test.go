package delta_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

const (
	handProtocol = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`
	handMetadata = `{"metaData":{"id":"t1","format":{"provider":"parquet"},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"p\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":["p"],"configuration":{%s}}}`
)

func handAdd(path string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{"p":"x"},"size":10,"stats":"{\"numRecords\":5}"}}`, path)
}

// handLog writes a log by hand: version → lines; the first version gets protocol and metadata before its lines.
func handLog(t *testing.T, commits map[int][]string) string {
	t.Helper()
	dir := t.TempDir()
	first := slices.Min(slices.Collect(maps.Keys(commits)))
	for version, lines := range commits {
		if version == first {
			lines = append([]string{handProtocol, fmt.Sprintf(handMetadata, "")}, lines...)
		}
		handFile(t, dir, fmt.Sprintf("%020d.json", version), strings.Join(lines, "\n"))
	}
	return dir
}

func handFile(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, "_delta_log", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func handTable(t *testing.T, store objstore.Store, dir string, o delta.Options) *delta.Table {
	t.Helper()
	table, err := delta.Open(store, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// paths lists the files of a version.
func paths(ctx context.Context, table *delta.Table, version int64) ([]string, error) {
	s, err := table.Snapshot(ctx, version)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for f, err := range s.Files(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, f.Path)
	}
	slices.Sort(list)
	return list, nil
}

func growing(n int) map[int][]string {
	commits := map[int][]string{}
	for v := range n {
		commits[v] = []string{handAdd(fmt.Sprintf("f%02d", v))}
	}
	return commits
}

func TestCase04_VersionsThatAreNotThere(t *testing.T) {
	t.Parallel()
	table := handTable(t, objstore.Local{}, handLog(t, growing(3)), delta.Options{})
	if _, err := table.Snapshot(t.Context(), 3); sluice.CodeOf(err) != delta.CodeNotFound {
		t.Error(err)
	}
	old := handTable(t, objstore.Local{}, handLog(t, map[int][]string{41: {handAdd("a")}, 42: {handAdd("b")}}), delta.Options{})
	if _, err := old.Snapshot(t.Context(), delta.Latest); sluice.CodeOf(err) != delta.CodeUnavailable {
		t.Error(err)
	}
	none := handTable(t, objstore.Local{}, t.TempDir(), delta.Options{})
	if _, err := none.Snapshot(t.Context(), delta.Latest); sluice.CodeOf(err) != delta.CodeNotATable {
		t.Error(err)
	}
}

// Cases 7 to 9: the hint says where to begin to look, and nothing else.
func TestCase08_HintsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, hint := range map[string]string{
		"none": "", "garbage": "{", "not JSON": "hello", "absent target": `{"version":3,"size":10}`, "stale": `{"version":1,"size":1,"parts":7}`, "above the latest": `{"version":99,"size":1}`,
		"negative": `{"version":-1}`, "wrong checksum": `{"version":3,"size":10,"checksum":"00000000000000000000000000000000"}`, "huge": `{"version":99999999999999999999}`, "null": "null",
	} {
		dir := handLog(t, growing(5))
		if hint != "" {
			handFile(t, dir, "_last_checkpoint", hint)
		}
		table := handTable(t, objstore.Local{}, dir, delta.Options{})
		for version, want := range map[int64]int{delta.Latest: 5, 4: 5, 2: 3, 0: 1} {
			if got, err := paths(t.Context(), table, version); err != nil || len(got) != want {
				t.Errorf("%s, version %d: %q, %v", name, version, got, err)
			}
		}
	}
}

// store is the local one with a hook before each call.
type hooked struct {
	objstore.Local
	mu   sync.Mutex
	hook func(op, key string) error
	gets []string
}

func (h *hooked) call(op, key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if op == "get" {
		h.gets = append(h.gets, filepath.Base(key))
	}
	if h.hook == nil {
		return nil
	}
	return h.hook(op, key)
}

func (h *hooked) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := h.call("list", prefix); err != nil {
			yield(objstore.Object{}, err)
			return
		}
		h.Local.List(ctx, prefix, startAfter)(yield)
	}
}

func (h *hooked) Get(ctx context.Context, key string, r objstore.Range, ifMatch string) (io.ReadCloser, objstore.Object, error) {
	if err := h.call("get", key); err != nil {
		return nil, objstore.Object{}, err
	}
	return h.Local.Get(ctx, key, r, ifMatch)
}

// Case 10: what is committed while a snapshot is read is not in it.
func TestCase10_SnapshotsStay(t *testing.T) {
	t.Parallel()
	dir := handLog(t, growing(3))
	s, err := handTable(t, objstore.Local{}, dir, delta.Options{}).Snapshot(t.Context(), delta.Latest)
	if err != nil {
		t.Fatal(err)
	}
	handFile(t, dir, fmt.Sprintf("%020d.json", 3), `{"remove":{"path":"f00"}}`)
	n := 0
	for _, err := range s.Files(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 || s.Version() != 2 {
		t.Errorf("%d files of version %d", n, s.Version())
	}
}

// Case 10: a file of the log that is removed between listing and reading is looked for once more.
func TestCase10_LogIsCleanedUpMeanwhile(t *testing.T) {
	t.Parallel()
	dir := handLog(t, growing(3))
	lists := 0
	store := &hooked{}
	store.hook = func(op, key string) error {
		if op == "list" {
			lists++
		}
		if op == "get" && strings.HasSuffix(key, "02.json") && lists < 3 { // Once more: the second listing is that of a full log
			return &objstore.Error{Op: op, Kind: objstore.ErrNotFound}
		}
		return nil
	}
	table := handTable(t, store, dir, delta.Options{})
	if _, err := table.Snapshot(t.Context(), delta.Latest); !delta.Gone(err) || lists != 2 {
		t.Errorf("%v after %d listings", err, lists)
	}
	lists = 1
	if s, err := table.Snapshot(t.Context(), delta.Latest); err != nil || s.Version() != 2 || lists != 3 {
		t.Errorf("%v after %d listings", err, lists)
	}
}

// Case 10: a file of the log that goes, or is replaced, while the files are read.
func TestCase10_LogGoesWhileFilesAreRead(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return os.WriteFile(path, []byte(handAdd("other")+"\n"+handAdd("another")), 0o644)
		},
	} {
		dir := handLog(t, growing(3))
		s, err := handTable(t, objstore.Local{}, dir, delta.Options{}).Snapshot(t.Context(), delta.Latest)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(filepath.Join(dir, "_delta_log", fmt.Sprintf("%020d.json", 1))); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range s.Files(t.Context()) {
			last = err
		}
		if !delta.Gone(last) {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestCase12_EmptyCommit(t *testing.T) {
	t.Parallel()
	commits := growing(3)
	commits[2] = nil
	table := handTable(t, objstore.Local{}, handLog(t, commits), delta.Options{})
	if got, err := paths(t.Context(), table, delta.Latest); sluice.CodeOf(err) != delta.CodeLogCorrupt {
		t.Errorf("%q, %v", got, err)
	}
}

// Case 37: NULL is null or the empty text; the key must be there; what folders are called says nothing.
func TestCase37_PartitionValues(t *testing.T) {
	t.Parallel()
	read := func(values string) (string, error) {
		dir := handLog(t, map[int][]string{0: {`{"add":{"path":"p=folder/f","partitionValues":` + values + `,"size":1}}`}})
		s, err := handTable(t, objstore.Local{}, dir, delta.Options{}).Snapshot(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range s.Files(t.Context()) {
			if err != nil {
				return "", err
			}
			if f.Partition[0] == nil {
				return "NULL", nil
			}
			return *f.Partition[0], nil
		}
		return "", errors.New("no file")
	}
	for values, want := range map[string]string{`{"p":null}`: "NULL", `{"p":""}`: "NULL", `{"p":"null"}`: "null", `{"P":"y"}`: "y", `{"p":"a","P":"b"}`: "a"} {
		if got, err := read(values); err != nil || got != want {
			t.Errorf("%s: %q, %v", values, got, err)
		}
	}
	if got, err := read(`{"q":"x"}`); sluice.CodeOf(err) != delta.CodePartitionValue {
		t.Errorf("%q, %v", got, err)
	}
}

// Case 41: only live files must be readable.
func TestCase41_RefusedPathsThatAreRemoved(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"http://h/f", "../f", "s3://b/f"} {
		dir := handLog(t, map[int][]string{0: {handAdd(path)}, 1: {`{"remove":{"path":"` + path + `"}}`, handAdd("g")}})
		table := handTable(t, objstore.Local{}, dir, delta.Options{})
		if got, err := paths(t.Context(), table, 0); sluice.CodeOf(err) != delta.CodePath {
			t.Errorf("%s, live: %q, %v", path, got, err)
		}
		if got, err := paths(t.Context(), table, 1); err != nil || !slices.Equal(got, []string{"g"}) {
			t.Errorf("%s, removed: %q, %v", path, got, err)
		}
	}
}

// Case 43: a checksum that can be read must agree.
func TestCase43_Checksums(t *testing.T) {
	t.Parallel()
	for content, code := range map[string]sluice.Code{
		`{"numFiles":3,"tableSizeBytes":30}`: "", `{"numFiles":2,"tableSizeBytes":30}`: delta.CodeCRC, `{"numFiles":3,"tableSizeBytes":31}`: delta.CodeCRC,
		"": "", "malformed": "", `{"numFiles":-1,"tableSizeBytes":30}`: "", `{"numFiles":"3"}`: "",
	} {
		dir := handLog(t, growing(3))
		handFile(t, dir, fmt.Sprintf("%020d.crc", 2), content)
		handFile(t, dir, fmt.Sprintf("%020d.crc", 1), `{"numFiles":77,"tableSizeBytes":1}`)
		table := handTable(t, objstore.Local{}, dir, delta.Options{})
		if got, err := paths(t.Context(), table, 2); sluice.CodeOf(err) != code || code == "" && len(got) != 3 {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}

// Case 44: times are those written in commits, before them those of the files, made to rise.
func TestCase44_Times(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	// Versions 0 to 3 by their files, of which 2 is older than 1; 4 to 6 by what is in them, whatever their files say.
	fileTime := []time.Duration{0, 48 * time.Hour, 24 * time.Hour, 72 * time.Hour, 0, 0, 0}
	for v, d := range fileTime {
		lines := []string{handAdd(fmt.Sprint("f", v))}
		if v == 0 {
			lines = append([]string{handProtocol, fmt.Sprintf(handMetadata, "")}, lines...)
		}
		if v >= 4 {
			at := day.Add(time.Duration(v) * 24 * time.Hour)
			lines = append([]string{fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`, at.UnixMilli())}, lines...)
		}
		if v == 4 {
			lines = append(lines, fmt.Sprintf(handMetadata, `"delta.enableInCommitTimestamps":"true","delta.inCommitTimestampEnablementVersion":"4"`))
		}
		name := fmt.Sprintf("%020d.json", v)
		handFile(t, dir, name, strings.Join(lines, "\n"))
		if err := os.Chtimes(filepath.Join(dir, "_delta_log", name), day.Add(d), day.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	table := handTable(t, objstore.Local{}, dir, delta.Options{})
	for after, want := range map[time.Duration]int64{
		0: 0, 47 * time.Hour: 0, 48 * time.Hour: 1, 48*time.Hour + time.Millisecond: 2, 71 * time.Hour: 2, 72 * time.Hour: 3, 95 * time.Hour: 3, 96 * time.Hour: 4, 121 * time.Hour: 5, 1000 * time.Hour: 6,
	} {
		if got, err := table.VersionAt(t.Context(), day.Add(after)); err != nil || got != want {
			t.Errorf("after %s: %d, want %d; %v", after, got, want, err)
		}
	}
	if v, err := table.VersionAt(t.Context(), day.Add(-time.Millisecond)); sluice.CodeOf(err) != delta.CodeNotFound {
		t.Errorf("%d, %v", v, err)
	}
}

func TestCoveredReadsEachCommitOnce(t *testing.T) {
	t.Parallel()
	commits := map[int][]string{}
	for v := range 5 {
		commits[v] = []string{fmt.Sprintf(`{"commitInfo":{"run_id":"r%d","batch_index":"%d"}}`, v/2, v%2), handAdd(fmt.Sprint("f", v))}
	}
	commits[4] = []string{`{"commitInfo":{"run_id":"r9","batch_index":-4}}`, handAdd("f4")}
	store := &hooked{}
	table := handTable(t, store, handLog(t, commits), delta.Options{Cache: delta.NewCache(0)})
	for range 3 {
		c, err := table.Covered(t.Context(), delta.Latest)
		if err != nil {
			t.Fatal(err)
		}
		want := []delta.Batch{{RunID: "r0", Index: 0}, {RunID: "r0", Index: 1}, {RunID: "r1", Index: 0}, {RunID: "r1", Index: 1}}
		if !slices.Equal(c.List(), want) || c.Earliest != 0 || c.Ignored != 1 || c.UpTo != 4 {
			t.Errorf("%+v", c)
		}
	}
	if len(store.gets) != 5 {
		t.Errorf("%d files were read: %q", len(store.gets), store.gets)
	}
	if c, err := table.Covered(t.Context(), 2); err != nil || len(c.Batches) != 3 || !c.Has("r1", 0) || c.Has("r1", 1) {
		t.Errorf("up to 2: %+v, %v", c, err)
	}
	if _, err := table.Covered(t.Context(), 5); sluice.CodeOf(err) != delta.CodeNotFound {
		t.Error(err)
	}
}

// The row of commits that ends with the version is what proves that a batch is not in it.
func TestCoveredKnowsHowFarBackItSees(t *testing.T) {
	t.Parallel()
	commits := growing(9)
	delete(commits, 4)
	c, err := handTable(t, objstore.Local{}, handLog(t, commits), delta.Options{}).Covered(t.Context(), 7)
	if err != nil || c.Earliest != 5 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A cache that holds little still gives the same answers.
func TestCacheForgetsAndStaysRight(t *testing.T) {
	t.Parallel()
	dir := handLog(t, growing(30))
	table := handTable(t, objstore.Local{}, dir, delta.Options{Cache: delta.NewCache(4 << 10)})
	for range 2 {
		for v := range int64(30) {
			if got, err := paths(t.Context(), table, v); err != nil || len(got) != int(v)+1 {
				t.Fatalf("version %d: %q, %v", v, got, err)
			}
		}
	}
	// A table that was made again at the same place is another one.
	if err := os.RemoveAll(filepath.Join(dir, "_delta_log")); err != nil {
		t.Fatal(err)
	}
	handFile(t, dir, fmt.Sprintf("%020d.json", 0), handProtocol+"\n"+strings.Replace(fmt.Sprintf(handMetadata, ""), `"t1"`, `"t2"`, 1))
	s, err := table.Snapshot(t.Context(), delta.Latest)
	if err != nil || s.TableID() != "t2" {
		t.Errorf("%v, %v", s, err)
	}
}

// Each of the ten commits of the sample's table names its batch; those up to version 7 name eight.
func TestCoveredOfTheFlights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository(t), "..", "shared", "data", "flights", "delta")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the flights table is not here (../shared beside the repository)")
	}
	table := handTable(t, objstore.Local{}, dir, delta.Options{})
	for upTo, want := range map[int64]int{9: 10, 7: 8} {
		c, err := table.Covered(t.Context(), upTo)
		if err != nil || len(c.Batches) != want || c.Earliest != 0 || c.Ignored != 0 {
			t.Errorf("up to %d: %+v, %v", upTo, c, err)
		}
	}
}
