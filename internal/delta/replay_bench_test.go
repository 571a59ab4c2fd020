package delta_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"sluice/internal/delta"
	"sluice/internal/objstore"
)

// manyAdds writes a table of n files in three commits, with statistics as writers make them.
func manyAdds(tb testing.TB, n int) string {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "_delta_log"), 0o755); err != nil {
		tb.Fatal(err)
	}
	const schemaString = `{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"day\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}}]}`
	for version := range 3 {
		f, err := os.Create(filepath.Join(dir, "_delta_log", fmt.Sprintf("%020d.json", version)))
		if err != nil {
			tb.Fatal(err)
		}
		w := bufio.NewWriterSize(f, 1<<20)
		fmt.Fprintf(w, `{"commitInfo":{"timestamp":1,"operation":"WRITE","run_id":"r%d","batch_index":0}}`+"\n", version)
		if version == 0 {
			fmt.Fprintln(w, `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`)
			fmt.Fprintf(w, `{"metaData":{"id":"t","format":{"provider":"parquet","options":{}},"schemaString":"%s","partitionColumns":["day"],"configuration":{},"createdTime":1}}`+"\n", schemaString)
		}
		for i := version * n / 3; i < (version+1)*n/3; i++ {
			fmt.Fprintf(w, `{"add":{"path":"day=2024-01-%02d/part-%05d-4df670b1-ed3b-4ae3-92ff-9db04d%06x.c000.snappy.parquet","partitionValues":{"day":"2024-01-%02d"},"size":%d,"modificationTime":1796072429125,"dataChange":true,"stats":"{\"numRecords\":%d,\"minValues\":{\"id\":%d,\"name\":\"N0EGMQ\",\"at\":\"2013-04-01T09:00:00Z\"},\"maxValues\":{\"id\":%d,\"name\":\"N9EAMQ\",\"at\":\"2013-05-01T03:00:00Z\"},\"nullCount\":{\"id\":0,\"name\":208,\"at\":0}}","tags":null,"baseRowId":null}}`+"\n",
				i%28+1, i%1000, i, i%28+1, 1000+i, 100+i%7, i, i+100)
		}
		if err := w.Flush(); err != nil {
			tb.Fatal(err)
		}
		f.Close()
	}
	return dir
}

// BenchmarkReplay reads a table of 300,000 files whose log has no checkpoint. The peak of the heap is reported beside the
// time.
func BenchmarkReplay(b *testing.B) {
	dir := manyAdds(b, 300_000)
	for b.Loop() {
		start, cpu := time.Now(), cpuTime(b)
		table, err := delta.Open(objstore.Local{}, dir, delta.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := table.Snapshot(b.Context(), delta.Latest)
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Since(start)
		n := 0
		for _, err := range s.Files(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 300_000 {
			b.Fatalf("%d files", n)
		}
		b.ReportMetric(opened.Seconds(), "s-open")
		b.ReportMetric((cpuTime(b) - cpu).Seconds(), "s-cpu")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
	}
}

// cpuTime is what the process has used of its processors: on a machine that is busy otherwise it says more than the clock.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
