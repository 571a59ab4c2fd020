package system

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/deltagen"
	"sluice/internal/testkit/s3"
)

// deltaTable is a table of 20 rows, five of which version 1 deletes, and the commands that look at it.
func deltaTable(t *testing.T) (*installation, *deltagen.Table) {
	t.Helper()
	g := deltagen.New(t)
	g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{
		Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "region", Type: "string"}), Partition: []string{"region"},
	}, g.Data("region=eu/a +%.parquet", "SELECT range AS id FROM range(20)").WithPartition("region", deltagen.Text("eu")))
	add := g.State(0).Live[0]
	g.Commit(add.Remove(), add.With(g.VectorFile("", 1).Add(deltagen.Arrays, 0, 1, 2, 3, 4)))
	return &installation{data: filepath.Join(t.TempDir(), "data")}, g
}

type deltaInfo struct {
	Version, NumFiles, NumRows, DeletedRows *int64
	Features, Refused                       []string
	Error                                   *struct{ Code, Message, Hint string }
}

// UnmarshalJSON reads the keys that the command writes.
func (d *deltaInfo) UnmarshalJSON(text []byte) error {
	var raw struct {
		Version     *int64                                `json:"version"`
		NumFiles    *int64                                `json:"num_files"`
		NumRows     *int64                                `json:"num_rows"`
		DeletedRows *int64                                `json:"deleted_rows"`
		Features    []string                              `json:"features"`
		Refused     []string                              `json:"refused"`
		Error       *struct{ Code, Message, Hint string } `json:"error"`
	}
	err := json.Unmarshal(text, &raw)
	*d = deltaInfo{raw.Version, raw.NumFiles, raw.NumRows, raw.DeletedRows, raw.Features, raw.Refused, raw.Error}
	return err
}

func TestDeltaCommands(t *testing.T) {
	t.Parallel()
	i, g := deltaTable(t)
	info := answer[deltaInfo](t, i, "delta", "info", g.Dir, "--json")
	if *info.Version != 1 || *info.NumFiles != 1 || *info.NumRows != 15 || *info.DeletedRows != 5 || strings.Join(info.Features, "") != "deletionVectors" || info.Error != nil {
		t.Errorf("got %+v", info)
	}
	if text := i.must(t, "delta", "info", g.Dir, "--version", "0"); !strings.Contains(text, "rows              20") || !strings.Contains(text, "region  string") {
		t.Error(text)
	}
	line := i.must(t, "delta", "files", g.Dir, "--json")
	var file map[string]any
	if err := json.Unmarshal([]byte(line), &file); err != nil || file["path"] != "region=eu/a +%.parquet" || file["live_rows"] != 15.0 ||
		fmt.Sprint(file["partition_values"]) != "map[region:eu]" || file["base_row_id"] != nil {
		t.Errorf("got %s, %v", line, err)
	}
	g.Touch(0, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	g.Touch(1, time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC))
	if info := answer[deltaInfo](t, i, "delta", "info", g.Dir, "--timestamp", "2024-01-01T12:00:00Z", "--json"); *info.Version != 0 {
		t.Errorf("at noon it was version %d", *info.Version)
	}

	out := filepath.Join(t.TempDir(), "o'ut.parquet")
	i.must(t, "delta", "export", g.Dir, "--out", out)
	read := "read_parquet('" + strings.ReplaceAll(out, "'", "''") + "')"
	if got := local(t, "SELECT count(*) || ' ' || min(id) || ' ' || max(id) || ' ' || min(region) FROM "+read); got != "15 5 19 eu" {
		t.Errorf("the export holds %s", got)
	}
	i.must(t, "delta", "export", g.Dir, "--out", out, "--version", "0", "--force", "--json")
	if got := local(t, "SELECT count(*) FROM "+read); got != "20" {
		t.Errorf("version 0 has %s rows", got)
	}

	unsupported := deltagen.New(t)
	unsupported.Commit(deltagen.Features("variantType", "tomorrow"), deltagen.Metadata{})
	broken := deltagen.New(t)
	broken.WriteLog(deltagen.CommitName(0), []byte("{"))
	for name, c := range map[string]struct {
		code  int
		word  string
		words []string
	}{
		"no table":          {3, "NOT-A-TABLE", []string{"info", t.TempDir()}},
		"no version":        {3, "VERSION-NOT-FOUND", []string{"export", g.Dir, "--version", "7", "--out", out + "2"}},
		"before the table":  {3, "VERSION-NOT-FOUND", []string{"info", g.Dir, "--timestamp", "2000-01-01T00:00:00Z"}},
		"a feature":         {5, "tomorrow", []string{"files", unsupported.Dir}},
		"a broken log":      {1, "LOG-CORRUPT", []string{"export", broken.Dir, "--out", out + "2"}},
		"an existing file":  {4, "SLUICE-DELTA-TARGET", []string{"export", g.Dir, "--out", out}},
		"no file":           {2, "--out", []string{"export", g.Dir}},
		"no table named":    {2, "URI", []string{"info"}},
		"a wrong version":   {2, "--version", []string{"info", g.Dir, "--version", "-3"}},
		"two versions":      {2, "not both", []string{"info", g.Dir, "--version", "1", "--timestamp", "2024-01-01T00:00:00Z"}},
		"no time":           {2, "yesterday", []string{"info", g.Dir, "--timestamp", "yesterday"}},
		"another scheme":    {2, "gopher", []string{"info", "gopher://x/y"}},
		"secrets in a path": {2, "bucket", []string{"info", "s3://key:word@b/x"}},
	} {
		stdout, stderr, code := i.try(t, append([]string{"delta"}, c.words...)...)
		if code != c.code || !strings.Contains(stderr, c.word) {
			t.Errorf("%s: exit code %d\n%s%s", name, code, stdout, stderr)
		}
	}
	// What cannot be read is told as JSON as well.
	stdout, stderr, code := i.try(t, "delta", "info", unsupported.Dir, "--json")
	if err := json.Unmarshal([]byte(stdout), &info); err != nil || code != 5 || stderr != "" || info.Error == nil || info.Error.Code != "SLUICE-DELTA-UNSUPPORTED" ||
		strings.Join(info.Refused, " ") != "variantType tomorrow" || *info.Version != 0 || info.NumFiles != nil || info.Error.Hint == "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*2*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(i.data); err == nil {
		t.Error("looking at a table made a data directory")
	}
}

func TestDeltaCommandsOnS3(t *testing.T) {
	t.Parallel()
	i, g := deltaTable(t)
	bucket := s3.New(t)
	bucket.Upload(t, g.Dir, "a table/x+y%20z")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(s3.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access := []string{
		"--store.endpoint", bucket.Endpoint, "--store.region", s3.Region, "--store.path_style", "true", "--store.credentials.mode", "static",
		"--store.credentials.key_id", s3.AccessKey, "--store.credentials.secret", "file:" + secret,
	}
	uri := bucket.URI("a table/x+y%20z")
	info := answer[deltaInfo](t, i, append([]string{"delta", "info", uri, "--json"}, access...)...)
	if *info.Version != 1 || *info.NumRows != 15 {
		t.Errorf("got %+v", info)
	}
	out := filepath.Join(t.TempDir(), "out.parquet")
	i.must(t, append([]string{"delta", "export", uri, "--out", out, "--warehouse.extensions", extensions(t)}, access...)...)
	if got := local(t, "SELECT count(*) || ' ' || min(id) FROM read_parquet('"+out+"')"); got != "15 5" {
		t.Errorf("the export holds %s", got)
	}
	if err := os.WriteFile(secret, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := i.try(t, append([]string{"delta", "info", uri}, access...)...)
	if code != 1 || !strings.Contains(stderr, "on bucket "+bucket.Name) || strings.Contains(stderr, "wrong") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// An export that is killed leaves no target; the next one removes what it left.
func TestDeltaExportIsKilled(t *testing.T) {
	t.Parallel()
	i := &installation{data: filepath.Join(t.TempDir(), "data")}
	g := deltagen.New(t)
	g.Commit(deltagen.Plain, deltagen.Metadata{Schema: deltagen.Schema(deltagen.Field{Name: "id", Type: "long"}, deltagen.Field{Name: "v", Type: "string"})},
		g.Data("a.parquet", "SELECT range AS id, md5(range::VARCHAR) AS v FROM range(3000000)"))
	dir := t.TempDir()
	out := filepath.Join(dir, "out.parquet")
	cmd := exec.CommandContext(t.Context(), bin, "delta", "export", g.Dir, "--out", out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	waitFor(t, time.Minute, "the export to write", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, ".out.parquet.part", "*.parquet"))
		select {
		case <-ended:
			return true
		default:
			return len(files) > 0
		}
	})
	_ = cmd.Process.Kill()
	<-ended
	if _, err := os.Stat(out); err == nil {
		t.Log("the export ended before it could be killed")
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	i.must(t, "delta", "export", g.Dir, "--out", out)
	if got := local(t, "SELECT count(DISTINCT id) FROM read_parquet('"+out+"')"); got != "3000000" {
		t.Errorf("the export holds %s rows", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The flights sample as a Delta table, where it is at hand.
func TestDeltaFlights(t *testing.T) {
	t.Parallel()
	table := filepath.Join(root, "..", "shared", "data", "flights", "delta")
	if named := os.Getenv("SLUICE_CONFORMANCE"); named != "" {
		table = filepath.Join(named, "..", "..", "data", "flights", "delta")
	}
	if _, err := os.Stat(table); err != nil {
		t.Skip("the flights as a Delta table are not here")
	}
	i := &installation{data: filepath.Join(t.TempDir(), "data")}
	info := answer[deltaInfo](t, i, "delta", "info", table, "--json")
	if *info.Version != 9 || *info.NumFiles != 10 || *info.NumRows != 281_373 {
		t.Errorf("got %+v", info)
	}
	out := filepath.Join(t.TempDir(), "flights.parquet")
	i.must(t, "delta", "export", table, "--out", out)
	if got := local(t, "SELECT count(*) || ' ' || count(DISTINCT id) FROM read_parquet('"+out+"')"); got != "281373 281373" {
		t.Errorf("the export holds %s rows and ids", got)
	}
}
