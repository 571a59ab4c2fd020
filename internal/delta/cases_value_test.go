package delta_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/objstore"
	"sluice/internal/testkit/deltagen"
	"sluice/internal/testkit/s3"
)

// partitioned is a table with the columns id and p, with one file of one row for each value.
func partitioned(t testing.TB, kind string, values ...*string) *deltagen.Table {
	t.Helper()
	g := deltagen.New(t)
	actions := []deltagen.Action{deltagen.Features("timestampNtz"), deltagen.Metadata{
		Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "p", Type: kind}), Partition: []string{"p"},
	}}
	for i, v := range values {
		actions = append(actions, numbers(g, fmt.Sprintf("p=__HIVE_DEFAULT_PARTITION__/f%02d", i), int64(i), int64(i)+1).WithPartition("p", v))
	}
	g.Commit(actions...)
	return g
}

func TestCase37_NullsInPartitions(t *testing.T) {
	t.Parallel()
	show := "id, CASE WHEN p IS NULL THEN 'is null' ELSE '=' || p END"
	g := partitioned(t, "string", nil, deltagen.Text(""), deltagen.Text("null"), deltagen.Text("__HIVE_DEFAULT_PARTITION__"), deltagen.Text(" "))
	gives(t, open(t, g), delta.Latest, show, "0|is null", "1|is null", "2|=null", "3|=__HIVE_DEFAULT_PARTITION__", "4|= ")
	g = partitioned(t, "long", nil, deltagen.Text(""))
	gives(t, open(t, g), delta.Latest, show, "0|is null", "1|is null")
	g.Commit(numbers(g, "no value", 5, 6))
	refuses(t, open(t, g), delta.Latest, delta.CodePartitionValue, "p")
	// The log wins over a column of the file and over the names of folders.
	g = partitioned(t, "string")
	g.Commit(g.Data("p=folder/f", "SELECT 1::BIGINT AS id, 'file' AS p").WithPartition("p", deltagen.Text("log")))
	gives(t, open(t, g), delta.Latest, show, "1|=log")
	if table, ok := others(t, "delta_rs/delta-0.8.0-null-partition"); ok {
		counts(t, table, delta.Latest, 2, 2)
		if got := rows(t, table, delta.Latest, "count(k), count(*)"); len(got) != 1 || got[0] != "1|2" {
			t.Errorf("got %v", got)
		}
	}
}

func TestCase38_TimestampsInPartitions(t *testing.T) {
	t.Parallel()
	g := partitioned(t, "timestamp", deltagen.Text("2024-06-01 12:00:00"), deltagen.Text("2024-06-01 12:00:00.5"), deltagen.Text("2024-06-01T12:00:00Z"),
		deltagen.Text("2024-06-01T12:00:00.123456Z"), deltagen.Text("1500-01-01 00:00:00"), deltagen.Text("2024-01-01T00:00:00+02:00"))
	show := "id, strftime(p AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%f')"
	gives(t, open(t, g), delta.Latest, show, "0|2024-06-01 12:00:00.000000", "1|2024-06-01 12:00:00.500000", "2|2024-06-01 12:00:00.000000",
		"3|2024-06-01 12:00:00.123456", "4|1500-01-01 00:00:00.000000", "5|2023-12-31 22:00:00.000000")
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	table := openAt(t, g.Dir, objstore.Options{}, delta.Options{Zone: zone})
	if got := rows(t, table, delta.Latest, show); got[0] != "0|2024-06-01 16:00:00.000000" || got[2] != "2|2024-06-01 12:00:00.000000" {
		t.Errorf("in the writer's zone: %v", got)
	}
	g = partitioned(t, "timestamp_ntz", deltagen.Text("2024-06-01 12:00:00.25"), deltagen.Text("2024-06-01T12:00:00"))
	table = openAt(t, g.Dir, objstore.Options{}, delta.Options{Zone: zone})
	gives(t, table, delta.Latest, "id, p", "0|2024-06-01 12:00:00.25", "1|2024-06-01 12:00:00")
	for _, bad := range []string{"2024-13-01 00:00:00", "yesterday", "2024-06-01", "2024-06-01 25:00:00"} {
		_, err := pathsOrError(t.Context(), open(t, partitioned(t, "timestamp", deltagen.Text(bad))), delta.Latest)
		if bad == "2024-06-01" && err == nil {
			continue // some writers leave midnight out
		}
		fails(t, err, delta.CodePartitionValue)
	}
	for name, want := range map[string][2]int64{
		"kernel_golden/data-reader-timestamp_ntz": {4, 9}, "kernel_golden/data-reader-timestamp_ntz-id-mode": {4, 9}, "kernel_golden/data-reader-timestamp_ntz-name-mode": {4, 9},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, delta.Latest, want[0], want[1])
		}
	}
}

func TestCase39_EachTypeAsAPartitionAtItsBounds(t *testing.T) {
	t.Parallel()
	for kind, values := range map[string][][2]string{
		"byte":    {{"-128", "-128"}, {"127", "127"}},
		"short":   {{"-32768", "-32768"}, {"32767", "32767"}},
		"integer": {{"-2147483648", "-2147483648"}, {"2147483647", "2147483647"}},
		"long":    {{"-9223372036854775808", "-9223372036854775808"}, {"9223372036854775807", "9223372036854775807"}},
		"float":   {{"NaN", "nan"}, {"Infinity", "inf"}, {"-Infinity", "-inf"}, {"-0.0", "-0.0"}, {"3.4028235E38", "3.4028235e+38"}, {"1.4E-45", "1e-45"}},
		"double":  {{"NaN", "nan"}, {"Infinity", "inf"}, {"-0.0", "-0.0"}, {"1.7976931348623157E308", "1.7976931348623157e+308"}, {"4.9E-324", "5e-324"}},
		"decimal(38,10)": {
			{"9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999"}, {"-0.0000000001", "-0.0000000001"}, {"1", "1.0000000000"},
		},
		"decimal(4,0)":  {{"-9999", "-9999"}},
		"boolean":       {{"true", "true"}, {"false", "false"}},
		"date":          {{"0001-01-01", "0001-01-01"}, {"9999-12-31", "9999-12-31"}, {"1969-12-31", "1969-12-31"}},
		"string":        {{"ü 🙂 'quoted' \"x\" \\", "ü 🙂 'quoted' \"x\" \\"}, {"a=b/c%20d", "a=b/c%20d"}},
		"binary":        {{"ab\x01", `ab\x01`}},
		"timestamp_ntz": {{"9999-12-31 23:59:59.999999", "9999-12-31 23:59:59.999999"}},
	} {
		var texts []*string
		var want []string
		for i, v := range values {
			texts, want = append(texts, deltagen.Text(v[0])), append(want, fmt.Sprintf("%d|%s", i, v[1]))
		}
		gives(t, open(t, partitioned(t, kind, texts...)), delta.Latest, "id, p", want...)
	}
	for kind, bad := range map[string][]string{
		"byte": {"128", "-129", "x", "1.0"}, "long": {"9223372036854775808"}, "decimal(4,2)": {"100.00", "1.234"}, "boolean": {"yes"}, "date": {"2023-02-29"}, "double": {"one"},
	} {
		for _, text := range bad {
			g := partitioned(t, kind, deltagen.Text(text))
			if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
				t.Errorf("%s takes %s", kind, text)
			}
			refuses(t, open(t, g), delta.Latest, delta.CodePartitionValue)
		}
	}
	for name, want := range map[string][2]int64{"kernel_golden/data-reader-partition-values": {3, 3}, "delta_rs/partition-type-primitives": {16, 16}} {
		if table, ok := others(t, name); ok {
			counts(t, table, delta.Latest, want[0], want[1])
		}
	}
}

// oddNames are keys of data files that get lost where they are decoded, encoded or taken for a pattern.
var oddNames = []string{
	"a b", "a%20b", "a%2520b", "_2=bar+%2521/f", "plus+plus", "hash#tag", "what?x=y&z", "[ab]", "a", "b", "star*star", "starXstar", "{x,y}", "x", "ü/日本 🙂",
	"quo'te\"s", "co:lon", "at@eq=uals", "semi;colon,comma", "p=1/q=2/r", "ends.parquet.gz", "tilde~^|<>",
}

// odd is a table whose files have odd names, one row in each.
func odd(t *testing.T) (*deltagen.Table, []int64) {
	t.Helper()
	g := deltagen.New(t)
	actions := []deltagen.Action{deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: idSchema}}
	var want []int64
	for i, name := range oddNames {
		add := numbers(g, name, int64(i*10), int64(i*10)+3)
		if i%2 == 0 { // positions are counted by a file's place in the list
			add = add.With(deltagen.Inline(deltagen.Arrays, 1))
			want = append(want, int64(i*10), int64(i*10)+2)
		} else {
			want = append(want, int64(i*10), int64(i*10)+1, int64(i*10)+2)
		}
		actions = append(actions, add)
	}
	g.Commit(actions...)
	return g, want
}

func TestCase40_OddNamesOfFiles(t *testing.T) {
	t.Parallel()
	g, want := odd(t)
	has(t, open(t, g), delta.Latest, append([]string{}, oddNames...)...)
	ids(t, open(t, g), delta.Latest, want...)
	bucket := s3.New(t)
	bucket.Upload(t, g.Dir, "od d/t%20ble+")
	conn := withHTTP(t, connection(t))
	out, r, err := exportTo(t, tableIn(t, bucket, "od d/t%20ble+"), delta.Latest, conn)
	if err != nil || r.Rows != int64(len(want)) {
		t.Fatal(r, err)
	}
	local, _, err := exportTo(t, open(t, g), delta.Latest, conn)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := differences(t.Context(), conn, "SELECT * FROM "+parquetOf(out), "SELECT * FROM "+parquetOf(local)); err != nil || n != 0 {
		t.Errorf("%d rows differ, %v", n, err)
	}
	for _, name := range []string{"kernel_golden/log-replay-special-characters", "kernel_golden/log-replay-special-characters-b"} {
		if table, ok := others(t, name); ok {
			if _, err := pathsOrError(t.Context(), table, delta.Latest); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestCase41_AbsolutePaths(t *testing.T) {
	t.Parallel()
	g := plainTable(t)
	outside := filepath.Join(t.TempDir(), "out side%41.parquet")
	add := g.DataAt(outside, "SELECT range AS id FROM range(3)")
	for _, path := range []string{add.Path, "file:" + add.Path, "file://" + add.Path} {
		g.Commit(add.At(path))
		ids(t, open(t, g), delta.Latest, 0, 1, 2)
		g.Commit(add.Remove())
	}
	for _, path := range []string{"../x", "a/../../x", "..", "%2e%2e/x", "a/%2E%2E/%2e%2e/x", "http://example.com/x", "https://example.com/x", "hdfs://h/x", "s3://other/x", "s3a://other/x", "a%zz", ""} {
		g := plainTable(t, ghost(path))
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("the path %q was read", path)
		}
		if path != "" { // an add without a path may be called a broken log as well
			refuses(t, open(t, g), delta.Latest, delta.CodePath)
		}
	}
	// Of an S3 table: its own bucket is read, another one only if it is allowed, with the credentials of that root.
	own, foreign := s3.New(t), s3.New(t)
	put := func(b s3.Bucket, key string) {
		body, err := os.Open(outside)
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		if _, err := b.Open(t).Put(t.Context(), key, body, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put(own, "else where/x+.parquet")
	put(foreign, "allowed/y.parquet")
	put(foreign, "allowed-not/y.parquet")
	table := func(path string, o delta.Options) *delta.Table {
		g := plainTable(t, add.At(path))
		key := fmt.Sprintf("tables/%x", path)
		own.Upload(t, g.Dir, key)
		return openAt(t, own.URI(key), own.Options(), o)
	}
	allowed := delta.Options{Roots: []delta.Root{{At: objstore.Location{Scheme: objstore.SchemeS3, Bucket: foreign.Name, Key: "allowed"}, Store: foreign.Open(t)}}}
	conn := withHTTP(t, connection(t))
	for _, path := range []string{"s3://" + own.Name + "/else%20where/x+.parquet", "s3a://" + own.Name + "/else%20where/x%2B.parquet", "/else%20where/x+.parquet"} {
		if _, r, err := exportTo(t, table(path, delta.Options{}), delta.Latest, conn); err != nil || r.Rows != 3 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	if _, r, err := exportTo(t, table("s3://"+foreign.Name+"/allowed/y.parquet", allowed), delta.Latest, conn); err != nil || r.Rows != 3 {
		t.Errorf("an allowed bucket: %+v, %v", r, err)
	}
	refuses(t, table("s3://"+foreign.Name+"/allowed/y.parquet", delta.Options{}), delta.Latest, delta.CodePath)
	refuses(t, table("s3://"+foreign.Name+"/allowed-not/y.parquet", allowed), delta.Latest, delta.CodePath)
	refuses(t, table("s3://"+foreign.Name+"/allowed/../allowed-not/y.parquet", allowed), delta.Latest, delta.CodePath)
	refuses(t, table("file://"+add.Path, allowed), delta.Latest, delta.CodePath)
}

func TestCase42_StatisticsThatAreNoHelp(t *testing.T) {
	t.Parallel()
	for name, stats := range map[string]*string{
		"absent": nil, "empty": deltagen.Text(""), "no JSON": deltagen.Text("{"), "another type": deltagen.Text("[1]"), "a text": deltagen.Text(`"10"`),
		"without numRecords": deltagen.Text(`{"minValues":{"id":1}}`), "numRecords of a text": deltagen.Text(`{"numRecords":"10"}`),
		"negative": deltagen.Text(`{"numRecords":-1}`), "a fraction": deltagen.Text(`{"numRecords":1.5}`), "too large": deltagen.Text(`{"numRecords":1e40}`),
		"null": deltagen.Text(`{"numRecords":null}`), "broken minimum": deltagen.Text(`{"minValues":[],"maxValues":7,"nullCount":"x"}`),
	} {
		g, add := vectored(t)
		g.Commit(add.Remove())
		g.Commit(add.WithStats(stats))
		counts(t, open(t, g), delta.Latest, 1, 10)
		g.Commit(add.WithStats(stats).Remove(), add.WithStats(stats).With(deltagen.Inline(deltagen.Arrays, 2, 3)))
		counts(t, open(t, g), delta.Latest, 1, 8)
		ids(t, open(t, g), delta.Latest, append(span(0, 2), span(4, 10)...)...)
		if t.Failed() {
			t.Fatalf("statistics: %s", name)
		}
	}
	g := plainTable(t, deltagen.Raw(strings.Replace(string(ghost("a").Line()), `"stats":"{\"numRecords\":10}"`, `"stats":{"numRecords":10}`, 1)))
	has(t, open(t, g), delta.Latest, "a")
}
