// Package objstoretest is the contract of a store as a suite: each kind of store passes it.
//
// It is a test helper and never reaches the binary.
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/objstore"
)

// Env is an empty place to work in: keys below Prefix, which is empty or ends with a slash.
type Env struct {
	Bucket objstore.Bucket
	Prefix string
}

// OddKeys are names that get lost where somebody decodes, encodes or splits them once too often.
var OddKeys = []string{
	"plain", "with space", "plus+plus", "percent%20twenty", "twice%2520", "hash#tag", "question?x=y&z", "equal=&amp;",
	"[brackets]*star", "ümlaut/日本語/🙂", "quote'\"back`tick", "colon:at@comma,semi;", "tilde~(paren)!$", "p=%2F/x+y z",
	"_2=bar+%2521/f", "ends with space /x", "\u00e9 composed", "e\u0301 decomposed", "brace{}|caret^<>",
}

// Run runs the suite; open makes a fresh Env.
func Run(t *testing.T, open func(t *testing.T) Env) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Env){
		"List": list, "ListManyPages": listMany, "Ranges": ranges, "OddKeys": oddKeys, "NotFound": notFound, "IfMatch": ifMatch,
		"PutIfAbsent": putIfAbsent, "PutIfAbsentOnce": putOnce, "Copy": copies, "CopyConditions": copyConditions,
		"EndedContext": endedContext, "ReadsStayOneVersion": oneVersion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (e Env) put(t *testing.T, key, content string) objstore.Object {
	t.Helper()
	o, err := e.Bucket.Put(t.Context(), e.Prefix+key, strings.NewReader(content), objstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (e Env) get(t *testing.T, key string, r objstore.Range, ifMatch string) (string, objstore.Object, error) {
	t.Helper()
	body, o, err := e.Bucket.Get(t.Context(), e.Prefix+key, r, ifMatch)
	if err != nil {
		return "", o, err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	return string(content), o, err
}

func (e Env) list(t *testing.T, prefix, startAfter string) []string {
	t.Helper()
	if startAfter != "" {
		startAfter = e.Prefix + startAfter
	}
	keys := []string{}
	for o, err := range e.Bucket.List(t.Context(), e.Prefix+prefix, startAfter) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimPrefix(o.Key, e.Prefix))
	}
	slices.Sort(keys)
	return keys
}

func want(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
	}
}

func list(t *testing.T, e Env) {
	for _, key := range []string{"log/2.json", "log/1.json", "log/10.json", "log/sub/x", "logs/1", "data/z", "lo"} {
		e.put(t, key, key)
	}
	for _, c := range []struct {
		prefix, startAfter string
		want               []string
	}{
		{"log/", "", []string{"log/1.json", "log/10.json", "log/2.json", "log/sub/x"}},
		{"log/1", "", []string{"log/1.json", "log/10.json"}},
		{"log", "", []string{"log/1.json", "log/10.json", "log/2.json", "log/sub/x", "logs/1"}},
		{"log/", "log/10.json", []string{"log/2.json", "log/sub/x"}},
		{"log/", "log/15", []string{"log/2.json", "log/sub/x"}},
		{"log/sub/", "log/sub/x", []string{}},
		{"none/", "", []string{}},
		{"log/1.json/", "", []string{}},
		{"", "", []string{"data/z", "lo", "log/1.json", "log/10.json", "log/2.json", "log/sub/x", "logs/1"}},
	} {
		if got := e.list(t, c.prefix, c.startAfter); !slices.Equal(got, c.want) {
			t.Errorf("list %q after %q: got %q, want %q", c.prefix, c.startAfter, got, c.want)
		}
	}
	for o, err := range e.Bucket.List(t.Context(), e.Prefix+"data/", "") {
		head, herr := e.Bucket.Head(t.Context(), o.Key)
		if err != nil || herr != nil || o.Size != 6 || o.Modified.IsZero() || o.ETag == "" || o.ETag != head.ETag || head.Size != 6 {
			t.Errorf("list says %+v, %v; head says %+v, %v", o, err, head, herr)
		}
	}
	n := 0
	for range e.Bucket.List(t.Context(), e.Prefix, "") { // a caller may stop
		n++
		break
	}
	if n != 1 {
		t.Error("stopping a list does not stop it")
	}
}

func listMany(t *testing.T, e Env) {
	const n = 1203 // more than one page
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				_, err := e.Bucket.Put(t.Context(), fmt.Sprintf("%sm/%05d", e.Prefix, i), strings.NewReader(""), objstore.PutOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if keys := e.list(t, "m/", ""); len(keys) != n || keys[0] != "m/00000" || keys[n-1] != "m/01202" || len(slices.Compact(keys)) != n {
		t.Errorf("got %d keys of %d", len(keys), n)
	}
	if keys := e.list(t, "m/", "m/00099"); len(keys) != n-100 || keys[0] != "m/00100" {
		t.Errorf("got %d keys of %d", len(keys), n-100)
	}
}

func ranges(t *testing.T, e Env) {
	e.put(t, "ten", "0123456789")
	e.put(t, "empty", "")
	for _, c := range []struct {
		key  string
		r    objstore.Range
		want string
	}{
		{"ten", objstore.Whole, "0123456789"},
		{"ten", objstore.Range{Off: 0, Len: 3}, "012"},
		{"ten", objstore.Range{Off: 4, Len: 3}, "456"},
		{"ten", objstore.Range{Off: 4, Len: -1}, "456789"},
		{"ten", objstore.Range{Off: 8, Len: 100}, "89"},
		{"ten", objstore.Range{Off: 0, Len: 0}, ""},
		{"ten", objstore.Range{Off: 10, Len: 5}, ""},
		{"ten", objstore.Range{Off: 99, Len: -1}, ""},
		{"ten", objstore.Tail(3), "789"},
		{"ten", objstore.Tail(10), "0123456789"},
		{"ten", objstore.Tail(100), "0123456789"},
		{"ten", objstore.Range{Off: -4, Len: 2}, "67"},
		{"empty", objstore.Whole, ""},
		{"empty", objstore.Tail(8), ""},
		{"empty", objstore.Range{Off: 0, Len: 8}, ""},
	} {
		got, o, err := e.get(t, c.key, c.r, "")
		if err != nil || got != c.want {
			t.Errorf("%s %+v: got %q, %v; want %q", c.key, c.r, got, err, c.want)
		}
		if size := map[string]int64{"ten": 10}[c.key]; o.Size != size || o.ETag == "" || o.Key != e.Prefix+c.key {
			t.Errorf("%s %+v: the object is %+v", c.key, c.r, o)
		}
	}
}

func oddKeys(t *testing.T, e Env) {
	for _, key := range OddKeys {
		put := e.put(t, "odd/"+key, "content of "+key)
		if got, o, err := e.get(t, "odd/"+key, objstore.Whole, put.ETag); err != nil || got != "content of "+key || o.Key != e.Prefix+"odd/"+key {
			t.Errorf("%q: got %q, %+v, %v", key, got, o, err)
		}
		if _, err := e.Bucket.Copy(t.Context(), e.Bucket.Location(e.Prefix+"odd/"+key), e.Prefix+"copy/"+key, objstore.CopyOptions{}); err != nil {
			t.Errorf("%q: %v", key, err)
		} else if got, _, err := e.get(t, "copy/"+key, objstore.Whole, ""); err != nil || got != "content of "+key {
			t.Errorf("copy of %q: got %q, %v", key, got, err)
		}
		if got := e.list(t, "odd/"+key, ""); !slices.Equal(got, []string{"odd/" + key}) {
			t.Errorf("%q: the list with this prefix is %q", key, got)
		}
	}
	all := make([]string, len(OddKeys))
	for i, key := range OddKeys {
		all[i] = "odd/" + key
	}
	slices.Sort(all)
	if got := e.list(t, "odd/", ""); !slices.Equal(got, all) {
		t.Errorf("the list is %q, want %q", got, all)
	}
	for _, key := range OddKeys {
		if err := e.Bucket.Delete(t.Context(), e.Prefix+"odd/"+key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	if got := e.list(t, "odd/", ""); len(got) != 0 {
		t.Errorf("after all were deleted there are %q", got)
	}
}

func notFound(t *testing.T, e Env) {
	e.put(t, "dir/x", "x")
	for _, key := range []string{"none", "dir", "dir/x/y", "none/z"} {
		_, _, err := e.get(t, key, objstore.Whole, "")
		want(t, err, objstore.ErrNotFound)
		_, _, err = e.get(t, key, objstore.Tail(4), `"etag"`)
		want(t, err, objstore.ErrNotFound)
		_, err = e.Bucket.Head(t.Context(), e.Prefix+key)
		want(t, err, objstore.ErrNotFound)
		if objstore.Retryable(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("the error %v must name the key and be final", err)
		}
		_, err = e.Bucket.Copy(t.Context(), e.Bucket.Location(e.Prefix+key), e.Prefix+"copy", objstore.CopyOptions{})
		want(t, err, objstore.ErrNotFound)
	}
	for range 2 {
		if err := e.Bucket.Delete(t.Context(), e.Prefix+"none"); err != nil {
			t.Error(err)
		}
	}
}

func ifMatch(t *testing.T, e Env) {
	old := e.put(t, "k", "one")
	if got, _, err := e.get(t, "k", objstore.Whole, old.ETag); err != nil || got != "one" {
		t.Errorf("got %q, %v", got, err)
	}
	now := e.put(t, "k", "two")
	if now.ETag == old.ETag {
		t.Error("another content has the same ETag")
	}
	for _, r := range []objstore.Range{objstore.Whole, objstore.Tail(2), {Off: 0, Len: 0}, {Off: 50, Len: -1}} {
		_, _, err := e.get(t, "k", r, old.ETag)
		want(t, err, objstore.ErrPrecondition)
	}
	if got, _, err := e.get(t, "k", objstore.Tail(2), now.ETag); err != nil || got != "wo" {
		t.Errorf("got %q, %v", got, err)
	}
}

func putIfAbsent(t *testing.T, e Env) {
	absent := objstore.PutOptions{IfAbsent: true}
	if _, err := e.Bucket.Put(t.Context(), e.Prefix+"a/k", strings.NewReader("one"), absent); err != nil {
		t.Fatal(err)
	}
	_, err := e.Bucket.Put(t.Context(), e.Prefix+"a/k", strings.NewReader("two"), absent)
	want(t, err, objstore.ErrPrecondition)
	if got, _, err := e.get(t, "a/k", objstore.Whole, ""); err != nil || got != "one" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := e.list(t, "", ""); !slices.Equal(got, []string{"a/k"}) {
		t.Errorf("there is more than the object: %q", got)
	}
	// The whole body is written, wherever it stood.
	body := bytes.NewReader([]byte("whole"))
	_, _ = body.Seek(3, io.SeekStart)
	if _, err := e.Bucket.Put(t.Context(), e.Prefix+"b", body, absent); err != nil {
		t.Fatal(err)
	}
	if got, _, err := e.get(t, "b", objstore.Whole, ""); err != nil || got != "whole" {
		t.Errorf("got %q, %v", got, err)
	}
}

func putOnce(t *testing.T, e Env) {
	var wg sync.WaitGroup
	var won atomic.Int32
	var winner atomic.Value
	for i := range 8 {
		wg.Go(func() {
			content := strings.Repeat(fmt.Sprint(i), 1000)
			_, err := e.Bucket.Put(t.Context(), e.Prefix+"once", strings.NewReader(content), objstore.PutOptions{IfAbsent: true})
			if err == nil {
				won.Add(1)
				winner.Store(content)
			} else if !errors.Is(err, objstore.ErrPrecondition) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, _, err := e.get(t, "once", objstore.Whole, ""); won.Load() != 1 || err != nil || got != winner.Load() {
		t.Errorf("%d of 8 writers won; the object is %.10q, %v", won.Load(), got, err)
	}
}

func copies(t *testing.T, e Env) {
	src := e.put(t, "src", "content")
	e.put(t, "deep/dst", "before")
	for _, key := range []string{"dst", "deep/dst", "deep/er/dst"} {
		o, err := e.Bucket.Copy(t.Context(), e.Bucket.Location(e.Prefix+"src"), e.Prefix+key, objstore.CopyOptions{IfMatch: src.ETag})
		if err != nil || o.Size != 7 || o.Key != e.Prefix+key {
			t.Errorf("%s: %+v, %v", key, o, err)
		}
		if got, _, err := e.get(t, key, objstore.Whole, o.ETag); err != nil || got != "content" {
			t.Errorf("%s: got %q, %v", key, got, err)
		}
	}
	// Replacing and deleting the source leaves copies alone.
	e.put(t, "src", "other")
	if err := e.Bucket.Delete(t.Context(), e.Prefix+"src"); err != nil {
		t.Fatal(err)
	}
	if got, _, err := e.get(t, "dst", objstore.Whole, ""); err != nil || got != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := e.list(t, "", ""); !slices.Equal(got, []string{"deep/dst", "deep/er/dst", "dst"}) {
		t.Errorf("there is more than the copies: %q", got)
	}
}

func copyConditions(t *testing.T, e Env) {
	old := e.put(t, "src", "one")
	e.put(t, "src", "two")
	from := e.Bucket.Location(e.Prefix + "src")
	_, err := e.Bucket.Copy(t.Context(), from, e.Prefix+"dst", objstore.CopyOptions{IfMatch: old.ETag})
	want(t, err, objstore.ErrPrecondition)
	_, err = e.Bucket.Head(t.Context(), e.Prefix+"dst")
	want(t, err, objstore.ErrNotFound)
	if _, err := e.Bucket.Copy(t.Context(), from, e.Prefix+"dst", objstore.CopyOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Bucket.Copy(t.Context(), from, e.Prefix+"dst", objstore.CopyOptions{IfAbsent: true})
	want(t, err, objstore.ErrPrecondition)
}

func endedContext(t *testing.T, e Env) {
	e.put(t, "k", "content")
	reason := errors.New("the test's reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	check := func(op string, err error) {
		t.Helper()
		if !errors.Is(err, reason) && !errors.Is(err, context.Canceled) || objstore.Retryable(err) {
			t.Errorf("%s: got %v", op, err)
		}
	}
	_, _, err := e.Bucket.Get(ctx, e.Prefix+"k", objstore.Whole, "")
	check("get", err)
	_, err = e.Bucket.Head(ctx, e.Prefix+"k")
	check("head", err)
	_, err = e.Bucket.Put(ctx, e.Prefix+"new", strings.NewReader("x"), objstore.PutOptions{})
	check("put", err)
	_, err = e.Bucket.Copy(ctx, e.Bucket.Location(e.Prefix+"k"), e.Prefix+"new", objstore.CopyOptions{})
	check("copy", err)
	check("delete", e.Bucket.Delete(ctx, e.Prefix+"k"))
	for _, err := range e.Bucket.List(ctx, e.Prefix, "") {
		check("list", err)
	}
	if got := e.list(t, "", ""); !slices.Equal(got, []string{"k"}) {
		t.Errorf("afterwards there are %q", got)
	}
}

// oneVersion: an object that is replaced while it is read gives its old content or an error, never a mixture.
func oneVersion(t *testing.T, e Env) {
	const size = 4 << 20
	old := e.put(t, "big", strings.Repeat("a", size))
	body, _, err := e.Bucket.Get(t.Context(), e.Prefix+"big", objstore.Whole, old.ETag)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	first := make([]byte, 1000)
	if _, err := io.ReadFull(body, first); err != nil {
		t.Fatal(err)
	}
	e.put(t, "big", strings.Repeat("b", size))
	rest, err := io.ReadAll(body)
	switch {
	case err == nil && string(first)+string(rest) != strings.Repeat("a", size):
		t.Error("two versions were mixed")
	case err != nil:
		want(t, err, objstore.ErrPrecondition)
	}
}
