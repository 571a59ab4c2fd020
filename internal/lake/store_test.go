package lake_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // reads from the store as the warehouse does

	"sluice/internal/lake"
	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestStoreFailures reads a file from a store that refuses it, has lost it, is overloaded, breaks off, or has another
// object in its place: the words of the real reader are what the classification knows.
func TestStoreFailures(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	path := t.TempDir() + "/f.parquet"
	for _, q := range []string{
		"SET extension_directory = " + lake.Literal(house.Extensions(t)), "LOAD httpfs", "SET http_retries = 0",
		"COPY (SELECT i, md5(i::VARCHAR) AS v FROM range(300000) AS t(i)) TO " + lake.Literal(path) + " (FORMAT parquet)",
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(w http.ResponseWriter, r *http.Request, etag string) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		class  lake.Class
		code   sluice.Code
	}{
		"right":      {func(w http.ResponseWriter, r *http.Request) { serve(w, r, `"a"`) }, "", ""},
		"denied":     {status(http.StatusForbidden), lake.Counted, "SLUICE-LOAD-FILE-DENIED"},
		"gone":       {status(http.StatusNotFound), lake.SecondLook, "SLUICE-LOAD-FILE-GONE"},
		"overloaded": {status(http.StatusServiceUnavailable), lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"broken":     {status(http.StatusInternalServerError), lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"too many":   {status(http.StatusTooManyRequests), lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"other":      {status(http.StatusPreconditionFailed), lake.Permanent, "SLUICE-LOAD-FILE-CHANGED"},
		"breaks off": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead || strings.HasSuffix(r.Header.Get("Range"), "-") {
				serve(w, r, `"a"`)
				return
			}
			w.Header().Set("Content-Length", "1000000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[:100])
		}, lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"hangs up": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
		}, lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"away":                      {nil, lake.Deferred, "SLUICE-LOAD-STORE-AWAY"},
		"replaced while it is read": {changing(serve), lake.Permanent, "SLUICE-LOAD-FILE-CHANGED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(c.answer))
			defer srv.Close()
			if c.answer == nil {
				srv.Close()
			}
			bucket := "s3://" + strings.ReplaceAll(name, " ", "-")
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE SECRET %q (TYPE s3, KEY_ID 'k', SECRET 's', ENDPOINT %s, USE_SSL false, URL_STYLE 'path', SCOPE %s)",
				name, lake.Literal(strings.TrimPrefix(srv.URL, "http://")), lake.Literal(bucket))); err != nil {
				t.Fatal(err)
			}
			var n int64
			err := db.QueryRowContext(t.Context(), "SELECT count(DISTINCT v) FROM read_parquet("+lake.PathLiteral(bucket+"/f.parquet")+")").Scan(&n)
			if c.code == "" {
				if err != nil || n != 300000 {
					t.Fatalf("%d rows, %v", n, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("it was read, %d rows", n)
			}
			if f := lake.AsFailure(err, lake.PhaseData, "apply"); f.Class != c.class || f.Err.Code != c.code {
				t.Errorf("got %s %s, want %s %s, of: %v", f.Class, f.Err.Code, c.class, c.code, err)
			}
		})
	}
}

// changing serves another object from the third request on.
func changing(serve func(http.ResponseWriter, *http.Request, string)) func(http.ResponseWriter, *http.Request) {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 2 {
			serve(w, r, `"b"`)
			return
		}
		serve(w, r, `"a"`)
	}
}
