package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A batch may be read below the org's prefixes and nowhere else, whatever the path looks like.
func TestPathsStayBelowPrefixes(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(root, "in"), filepath.Join(root, "out")
	for _, dir := range []string{in, out, filepath.Join(root, "in2")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"dir": out, "file": filepath.Join(out, "x"), "inner": in, "nowhere": filepath.Join(root, "none")} {
		if err := os.Symlink(to, filepath.Join(in, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{
		in + "/a.parquet":         true,
		in + "/b/c/a.parquet":     true,
		in + "/it's [a] %*?.parq": true,
		in + "/inner/a.parquet":   true,
		in:                        false,
		in + "/":                  false,
		in + "2/a.parquet":        false,
		out + "/x":                false,
		in + "/../out/x":          false,
		in + "/dir/x":             false,
		in + "/file":              false,
		in + "/nowhere":           false,
		in + "/nowhere/x":         false,
		"a.parquet":               false,
		"":                        false,
		"s3://bucket/a.parquet":   false,
		"file://" + in + "/a":     false,
		"/etc/passwd":             false,
	} {
		if err := allowed(path, []string{in}); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := allowed(in+"/a", nil); err == nil {
		t.Error("allowed without any prefix")
	}
}

// Components stop in the mirror of the order in which they started, each after the one before it is done.
func TestGroupStopsInReverse(t *testing.T) {
	t.Parallel()
	g := newGroup(slog.New(slog.DiscardHandler))
	var stopped []string
	for _, name := range []string{"http", "warehouse", "loader"} {
		g.start(t.Context(), name, func(ctx context.Context) error {
			<-ctx.Done()
			stopped = append(stopped, name) // one at a time, or the race detector says so
			return ctx.Err()
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.wait(ctx); err != nil {
		t.Error(err)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if want := []string{"loader", "warehouse", "http"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %v, want %v", stopped, want)
	}
}

// A component that breaks stops all, and its error is what the process ends with.
func TestGroupBreaks(t *testing.T) {
	t.Parallel()
	g := newGroup(slog.New(slog.DiscardHandler))
	other := false
	g.start(t.Context(), "other", func(ctx context.Context) error {
		<-ctx.Done()
		other = true
		return nil
	})
	broken := errors.New("it broke")
	g.start(t.Context(), "loader", func(context.Context) error { return broken })
	if err := g.wait(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "loader") {
		t.Errorf("%v", err)
	}
	if err := g.stop(); !errors.Is(err, broken) || !other {
		t.Errorf("%v, other stopped: %v", err, other)
	}
}
