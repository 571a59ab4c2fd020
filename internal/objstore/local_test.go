package objstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/objstore"
	"sluice/internal/objstore/objstoretest"
)

func TestLocalKeepsTheContract(t *testing.T) {
	t.Parallel()
	objstoretest.Run(t, func(t *testing.T) objstoretest.Env {
		return objstoretest.Env{Bucket: objstore.Local{}, Prefix: strings.TrimPrefix(t.TempDir(), "/") + "/"}
	})
}

func TestLocalRefusesKeysThatClimb(t *testing.T) {
	t.Parallel()
	dir := strings.TrimPrefix(t.TempDir(), "/")
	for _, key := range []string{"", dir + "/../x", dir + "//x", dir + "/./x", dir + "/x/", "/" + dir, dir + "/a\x00b"} {
		_, err := objstore.Local{}.Head(t.Context(), key)
		if !errors.Is(err, objstore.ErrInvalid) {
			t.Errorf("%q: got %v", key, err)
		}
		if err := (objstore.Local{}).Delete(t.Context(), key); !errors.Is(err, objstore.ErrInvalid) {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestLocalFollowsLinksToFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	prefix := strings.TrimPrefix(dir, "/") + "/"
	var keys []string
	for o, err := range (objstore.Local{}).List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimPrefix(o.Key, prefix))
	}
	if got := strings.Join(keys, " "); got != "link real" {
		t.Errorf("listed %q", got)
	}
	to := prefix + "sub/copy"
	if _, err := (objstore.Local{}).Copy(t.Context(), objstore.Local{}.Location(prefix+"link"), to, objstore.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("/" + to); err != nil || string(got) != "content" {
		t.Errorf("the copy of a link is %q, %v", got, err)
	}
}

func TestLocalNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Log("root is denied nothing: a directory that cannot be written to is one of the kernel's")
		_, err := objstore.Local{}.Put(t.Context(), "proc/sluice/x", strings.NewReader(""), objstore.PutOptions{})
		if err == nil {
			t.Error("a file in /proc was made")
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := objstore.Local{}.Put(t.Context(), strings.TrimPrefix(dir, "/")+"/x", strings.NewReader(""), objstore.PutOptions{})
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "write") {
		t.Errorf("got %v", err)
	}
}
