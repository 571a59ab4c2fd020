package delta_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/objstore"
)

// goldenFiles is up to how many files a version's list stands in its golden as it is; longer ones as their digest.
const goldenFiles = 12

// TestConformanceGoldens compares what is told of each version of each table with what was told, and reviewed, once.
func TestConformanceGoldens(t *testing.T) {
	t.Parallel()
	root := conformanceDir(t)
	for _, f := range foreignTables(t, root) {
		t.Run(strings.ReplaceAll(f.name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(f.name, "/", "__") + ".jsonl"
			golden(t, filepath.Join("testdata", "conformance", name), tell(t, openAt(t, f.dir, objstore.Options{}, delta.Options{Cache: delta.NewCache(0)}), f.dir))
		})
	}
}

// tell gives info and files of all versions as lines of JSON. root is written as TABLE.
func tell(t *testing.T, table *delta.Table, root string) []byte {
	t.Helper()
	latest, _ := describe.Version(t.Context(), table, delta.Latest, true)
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	versions := []int64{delta.Latest}
	if latest.Version != nil {
		versions = nil
		for v := range *latest.Version + 1 {
			versions = append(versions, v)
		}
	}
	var lastSchema []describe.Column
	for _, v := range versions {
		info, _ := describe.Version(t.Context(), table, v, true)
		if v > 0 && slices.Equal(info.Schema, lastSchema) {
			info.Schema = nil // as before
		} else {
			lastSchema = info.Schema
		}
		if info.Error != nil {
			info.Error.Hint = "" // advice may be worded anew
		}
		if err := encoder.Encode(map[string]any{"version": v, "info": info}); err != nil {
			t.Fatal(err)
		}
		if info.Error != nil {
			continue
		}
		s, err := table.Snapshot(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for f, err := range describe.Files(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			var line bytes.Buffer
			e := json.NewEncoder(&line)
			e.SetEscapeHTML(false)
			if err := e.Encode(f); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line.String())
		}
		slices.Sort(lines)
		text := strings.Join(lines, "")
		if len(lines) > goldenFiles {
			text = fmt.Sprintf("{\"files\":%d,\"sha256\":\"%x\"}\n", len(lines), sha256.Sum256([]byte(text)))
		}
		b.WriteString(text)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte(root), []byte("TABLE"))
}
