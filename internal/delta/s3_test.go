package delta_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/delta/export"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
	"sluice/internal/testkit/deltagen"
	"sluice/internal/testkit/s3"
)

// withHTTP lets the engine of a test read over HTTP.
func withHTTP(t testing.TB, conn *sql.Conn) *sql.Conn {
	t.Helper()
	for _, set := range []string{"SET extension_directory = '" + filepath.Join(repository(t), "build", "extensions") + "'", "LOAD httpfs", "SET http_proxy = ''"} {
		if _, err := conn.ExecContext(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// tableIn opens a table that was uploaded.
func tableIn(t testing.TB, b s3.Bucket, key string) *delta.Table {
	t.Helper()
	return openAt(t, b.URI(key), b.Options(), delta.Options{})
}

// The tables of other writers, read through a real S3 server: the same answers, the same rows.
func TestConformanceThroughS3(t *testing.T) {
	t.Parallel()
	root := conformanceDir(t)
	bucket := s3.New(t)
	bucket.Upload(t, root, "tables +%20 of others")
	conn := withHTTP(t, connection(t))
	compared := 0
	for _, f := range foreignTables(t, root) {
		rel, err := filepath.Rel(root, f.dir)
		if err != nil {
			t.Fatal(err)
		}
		key := "tables +%20 of others/" + filepath.ToSlash(rel)
		local, remote := openAt(t, f.dir, objstore.Options{}, delta.Options{}), tableIn(t, bucket, key)
		want, wantErr := describe.Version(t.Context(), local, delta.Latest, true)
		got, gotErr := describe.Version(t.Context(), remote, delta.Latest, true)
		if a, b := plainJSON(t, want, f.dir), plainJSON(t, got, bucket.URI(key)); a != b || sluice.CodeOf(wantErr) != sluice.CodeOf(gotErr) {
			t.Errorf("%s: through S3 it is %s\nlocally it is %s", f.name, b, a)
			continue
		}
		if wantErr != nil || want.NumRows == nil || len(want.Schema) == 0 {
			continue
		}
		a, _, wantErr := exportTo(t, local, delta.Latest, conn)
		b, _, gotErr := exportTo(t, remote, delta.Latest, conn)
		if sluice.CodeOf(wantErr) != sluice.CodeOf(gotErr) {
			t.Errorf("%s: through S3: %v; locally: %v", f.name, gotErr, wantErr)
		}
		if wantErr != nil || gotErr != nil {
			continue
		}
		n, err := differences(t.Context(), conn, "SELECT * FROM "+parquetOf(a), "SELECT * FROM "+parquetOf(b))
		if err != nil || n != 0 {
			t.Errorf("%s: %d rows differ, %v", f.name, n, err)
		}
		compared++
	}
	t.Logf("%d tables were compared by rows", compared)
	if compared < 120 {
		t.Errorf("only %d tables were compared by rows", compared)
	}
}

// plainJSON is the description with the table's place left out.
func plainJSON(t testing.TB, info describe.Info, uri string) string {
	t.Helper()
	text, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(uri)
	return strings.ReplaceAll(string(text), strings.Trim(string(quoted), `"`), "TABLE")
}

// A store that fails now and then changes nothing: what passes is tried again below the engine.
func TestExportThroughAFailingStore(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	h := deltagen.NewHistory(t, 11, deltagen.HistoryOptions{Versions: 12, Checkpoints: true, Root: direct.URI("table")})
	direct.Upload(t, h.Dir, "table")
	faulty, _ := s3.NewProxy(t, direct,
		s3.Fault{Method: "GET", Key: ".parquet", Status: 503, Code: "SlowDown", Times: 3},
		s3.Fault{Method: "GET", Key: ".parquet", Skip: 3, Status: 500, Code: "InternalError", Times: 2},
		s3.Fault{Method: "GET", Key: ".parquet", Skip: 3},
		s3.Fault{Method: "GET", Key: "_delta_log", Status: 503, Code: "SlowDown", Times: 2},
	)
	_, r, err := exportTo(t, tableIn(t, faulty, "table"), h.Version, withHTTP(t, connection(t)))
	if err != nil || r.Rows != int64(len(h.IDs(h.Version))) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A data file that is removed or replaced while the engine reads is found out, and nothing is written.
func TestExportOfFilesThatChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, b objstore.Bucket, key string){
		"removed": func(t *testing.T, b objstore.Bucket, key string) {
			if err := b.Delete(t.Context(), key); err != nil {
				t.Error(err)
			}
		},
		"replaced": func(t *testing.T, b objstore.Bucket, key string) {
			if _, err := b.Put(t.Context(), key, strings.NewReader(strings.Repeat("x", 5000)), objstore.PutOptions{}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := deltagen.New(t)
			add := g.Data("data.parquet", "SELECT range AS id FROM range(1000)")
			g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"})}, add)
			direct := s3.New(t)
			direct.Upload(t, g.Dir, "table")
			table := tableIn(t, direct, "table")
			s, err := table.Snapshot(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			_, err = export.Run(t.Context(), table, s, withHTTP(t, connection(t)), export.Options{
				Out:     filepath.Join(dir, "out.parquet"),
				Writing: func(int64) { change(t, direct.Open(t), "table/data.parquet") },
			})
			if !delta.Gone(err) || !strings.Contains(err.Error(), "data.parquet") {
				t.Errorf("got %v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
