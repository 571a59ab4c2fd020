package extension

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"sluice/internal/sluice"
)

// fake is a small extension set of the test's own, with its contents.
func fake(names ...string) ([]Extension, map[string][]byte) {
	var exts []Extension
	data := map[string][]byte{}
	for _, n := range names {
		b := bytes.Repeat([]byte(n+" "), 5000)
		sum := sha256.Sum256(b)
		exts = append(exts, Extension{Name: n, Wheel: "wheel-" + n, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))})
		data[n] = b
	}
	return exts, data
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code sluice.Code, texts ...string) {
	t.Helper()
	if sluice.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error()+"\n"+sluice.HintOf(err), text) {
			t.Errorf("%q is not in %q, hint %q", text, err, sluice.HintOf(err))
		}
	}
}

// noLeftovers fails if dir holds anything but extension files.
func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(p, ".duckdb_extension") {
			t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	exts, data := fake("a", "b")
	for _, tc := range []struct {
		name  string
		b     []byte // of file b; nil: missing
		code  sluice.Code
		texts []string
	}{
		{"right", data["b"], "", nil},
		{"missing", nil, "SLUICE-EXTENSION-MISSING", []string{"b.duckdb_extension does not exist", "make extensions", "sluice doctor"}},
		{"truncated", data["b"][:100], "SLUICE-EXTENSION-HASH", []string{"b.duckdb_extension has 100 bytes instead of 10000", "make extensions"}},
		{"longer", append(bytes.Clone(data["b"]), 0), "SLUICE-EXTENSION-HASH", []string{"10001 bytes"}},
		{"one bit", append([]byte{data["b"][0] ^ 1}, data["b"][1:]...), "SLUICE-EXTENSION-HASH", []string{"b.duckdb_extension has SHA-256"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, exts[0].Path(dir), data["a"])
			if tc.b != nil {
				put(t, exts[1].Path(dir), tc.b)
			}
			wantCode(t, verify(dir, exts), tc.code, tc.texts...)
		})
	}
}

func TestVerifyOfADirectoryInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	exts, _ := fake("a")
	dir := t.TempDir()
	if err := os.MkdirAll(exts[0].Path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	wantCode(t, verify(dir, exts), "SLUICE-EXTENSION-MISSING", "a.duckdb_extension")
}

func TestInstallTakesTheNextWayAndOnlyTheRightFile(t *testing.T) {
	t.Parallel()
	exts, data := fake("a", "b")
	file := func(e Extension, tmp string, b []byte) (string, error) {
		p := filepath.Join(tmp, "file-"+e.Name)
		_ = os.Remove(p)
		return p, os.WriteFile(p, b, 0o600)
	}
	broken := way{"one", func(context.Context, Extension, string) (string, error) { return "", errors.New("no route") }}
	wrong := way{"two", func(_ context.Context, e Extension, tmp string) (string, error) { return file(e, tmp, []byte("other")) }}
	right := way{"three", func(_ context.Context, e Extension, tmp string) (string, error) { return file(e, tmp, data[e.Name]) }}

	dir := filepath.Join(t.TempDir(), "deep", "extensions")
	err := install(t.Context(), dir, exts, []way{broken, wrong}, func(string) {})
	wantCode(t, err, "SLUICE-EXTENSION-MISSING", "one: no route", "two: ", "5 bytes instead of", "wheel-a==1.5.5", "by hand", exts[0].Path(dir))
	wantCode(t, verify(dir, exts), "SLUICE-EXTENSION-MISSING")

	var lines []string
	if err := install(t.Context(), dir, exts, []way{broken, wrong, right}, func(l string) { lines = append(lines, l) }); err != nil {
		t.Fatal(err)
	}
	if err := verify(dir, exts); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, ", "); got != "a: from one, a: from two, a: from three, b: from one, b: from two, b: from three" {
		t.Error(got)
	}
	// What is right stays; what is damaged is replaced.
	put(t, exts[1].Path(dir), []byte("damaged"))
	lines = nil
	if err := install(t.Context(), dir, exts, []way{right}, func(l string) { lines = append(lines, l) }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, ", "); got != "a: in place, b: from three" {
		t.Error(got)
	}
	noLeftovers(t, dir)
}

func TestInstallStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	exts, _ := fake("a")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	w := way{"one", func(context.Context, Extension, string) (string, error) {
		cancel(stop)
		return "", errors.New("killed")
	}}
	dir := t.TempDir()
	if err := install(ctx, dir, exts, []way{w, w}, func(string) {}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	noLeftovers(t, dir)
}

func TestUnpackWheelRefusesAnotherWheel(t *testing.T) {
	t.Parallel()
	exts, data := fake("a")
	e := exts[0]
	wheel := filepath.Join(t.TempDir(), "a.whl")
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, m := range []string{"pkg/__init__.py", "pkg/extensions/v" + Engine + "/a.duckdb_extension"} {
		w, err := z.Create(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data["a"]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, wheel, buf.Bytes())
	if _, err := unpackWheel(e, wheel, t.TempDir()); err == nil || !strings.Contains(err.Error(), "a.whl has SHA-256") {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	e.WheelSHA256 = hex.EncodeToString(sum[:])
	file, err := unpackWheel(e, wheel, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyFile(e, file); err != nil {
		t.Fatal(err)
	}
}

func packed(t *testing.T, data map[string][]byte) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for n, b := range data {
		var buf bytes.Buffer
		z := gzip.NewWriter(&buf)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		out[n+".duckdb_extension.gz"] = &fstest.MapFile{Data: buf.Bytes()}
	}
	return out
}

func TestUnpackMendsWhatAnInterruptedOneLeft(t *testing.T) {
	t.Parallel()
	exts, data := fake("a", "b", "c")
	from := packed(t, data)
	dir := t.TempDir()
	// A process that died left a whole first file, a damaged second one, and a temporary file.
	put(t, exts[0].Path(dir), data["a"])
	put(t, exts[1].Path(dir), data["b"][:10])
	before, err := os.Stat(exts[0].Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := unpack(from, dir, exts); err != nil {
		t.Fatal(err)
	}
	if err := verify(dir, exts); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(exts[0].Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("a file that was right was written again")
	}
	noLeftovers(t, dir)
}

func TestUnpackOfADamagedBinaryLeavesNothing(t *testing.T) {
	t.Parallel()
	exts, data := fake("a")
	whole := packed(t, data)["a.duckdb_extension.gz"].Data
	for name, from := range map[string]fstest.MapFS{
		"cut":     {"a.duckdb_extension.gz": {Data: whole[:len(whole)/2]}},
		"no gzip": {"a.duckdb_extension.gz": {Data: []byte("x")}},
		"missing": {},
		"other":   packed(t, map[string][]byte{"a": []byte("something else")}),
	} {
		dir := t.TempDir()
		if err := unpack(from, dir, exts); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(exts[0].Path(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file was put in place", name)
		}
		noLeftovers(t, dir)
	}
}

func TestUnpackAtOnce(t *testing.T) {
	t.Parallel()
	exts, data := fake("a", "b")
	from, dir := packed(t, data), t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := unpack(from, dir, exts); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := verify(dir, exts); err != nil {
		t.Fatal(err)
	}
	noLeftovers(t, dir)
}

// real is the repository's own extension directory, made by `make extensions`.
func real(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/extensions")
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyOnce(dir); err != nil {
		t.Fatalf("%v: %s", err, sluice.HintOf(err))
	}
	return dir
}

func TestThePinnedFiles(t *testing.T) {
	t.Parallel()
	if err := Verify(real(t)); err != nil {
		t.Fatal(err)
	}
}

func TestPackedFilesUnpack(t *testing.T) {
	t.Parallel()
	exts, data := fake("a", "b")
	dir, to, out := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, exts[0].Path(dir), data["a"])
	wantCode(t, pack(dir, to, exts), "SLUICE-EXTENSION-MISSING", "b.duckdb_extension")
	put(t, exts[1].Path(dir), data["b"])
	if err := pack(dir, to, exts); err != nil {
		t.Fatal(err)
	}
	if err := unpack(os.DirFS(to), out, exts); err != nil {
		t.Fatal(err)
	}
	if err := verify(out, exts); err != nil {
		t.Fatal(err)
	}
}

func TestFindOrder(t *testing.T) {
	t.Parallel()
	src := real(t)
	link := func(t *testing.T, dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(src, dir); err != nil {
			t.Fatal(err)
		}
	}
	none := func(string) (bool, error) { return false, nil }
	root := t.TempDir()
	data, bin := filepath.Join(root, "data"), filepath.Join(root, "bin")
	exe := filepath.Join(bin, "sluice")

	_, err := find("", data, exe, none)
	wantCode(t, err, "SLUICE-EXTENSION-MISSING", filepath.Join(data, "extensions"), filepath.Join(bin, "extensions"), "make extensions")

	// From the last place to the first: each is preferred to those before it.
	for _, want := range []string{
		filepath.Join(bin, "build", "extensions"), filepath.Join(root, "build", "extensions"),
		filepath.Join(bin, "extensions"), filepath.Join(data, "extensions"),
	} {
		link(t, want)
		if got, err := find("", data, exe, none); err != nil || got != want {
			t.Fatalf("got %s, %v; want %s", got, err, want)
		}
	}
	other := filepath.Join(root, "other")
	_, err = find(other, data, exe, none)
	wantCode(t, err, "SLUICE-EXTENSION-MISSING", other)
	link(t, other)
	if got, err := find(other, data, exe, none); err != nil || got != other {
		t.Fatal(got, err)
	}
}

func TestFindUnpacksOnceAndMends(t *testing.T) {
	t.Parallel()
	src, data := real(t), filepath.Join(t.TempDir(), "data")
	want := filepath.Join(data, "extensions")
	calls := 0
	unpack := func(dir string) (bool, error) {
		calls++
		for _, e := range Pinned {
			b, err := os.ReadFile(e.Path(src))
			if err != nil {
				return true, err
			}
			put(t, e.Path(dir), b)
		}
		return true, nil
	}
	put(t, Pinned[0].Path(want), []byte("cut short"))
	for range 2 {
		if got, err := find("", data, "", unpack); err != nil || got != want {
			t.Fatal(got, err)
		}
	}
	if calls != 1 {
		t.Errorf("unpacked %d times", calls)
	}
}

func TestFindNeverSkipsAWrongPlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, Pinned[0].Path(filepath.Join(root, "data", "extensions")), []byte("wrong"))
	if err := os.Symlink(real(t), filepath.Join(root, "extensions")); err != nil {
		t.Fatal(err)
	}
	_, err := find("", filepath.Join(root, "data"), filepath.Join(root, "sluice"), func(string) (bool, error) { return false, nil })
	wantCode(t, err, "SLUICE-EXTENSION-HASH", filepath.Join(root, "data"))
}

func TestThisBuildCarriesWhatItsTagSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	did, err := Unpack(dir)
	if did != (carried != nil) || err != nil {
		t.Fatal(did, err)
	}
	if did {
		if err := Verify(dir); err != nil {
			t.Fatal(err)
		}
	}
}
