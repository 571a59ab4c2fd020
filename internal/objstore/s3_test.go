package objstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/objstore"
	"sluice/internal/objstore/objstoretest"
	"sluice/internal/testkit/s3"
)

func TestMain(m *testing.M) {
	code := m.Run()
	s3.Shutdown()
	os.Exit(code)
}

func TestS3KeepsTheContract(t *testing.T) {
	t.Parallel()
	objstoretest.Run(t, func(t *testing.T) objstoretest.Env {
		return objstoretest.Env{Bucket: s3.New(t).Open(t)}
	})
}

func put(t *testing.T, b objstore.Bucket, key, content string) objstore.Object {
	t.Helper()
	o, err := b.Put(t.Context(), key, strings.NewReader(content), objstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func read(t *testing.T, b objstore.Bucket, key, ifMatch string) (string, error) {
	t.Helper()
	body, _, err := b.Get(t.Context(), key, objstore.Whole, ifMatch)
	if err != nil {
		return "", err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	return string(content), err
}

func TestS3RepeatsWhatPasses(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	put(t, direct.Open(t), "k", "content")
	faulty, _ := s3.NewProxy(t, direct,
		s3.Fault{Method: "GET", Key: "/k", Status: 503, Code: "SlowDown", Times: 2},
		s3.Fault{Method: "GET", Key: "/k", Status: 500, Code: "InternalError"},
		s3.Fault{Method: "GET", Key: "/k", Status: 429, Code: "TooManyRequests"},
		s3.Fault{Method: "GET", Key: "/k"}, // the connection breaks before the answer
		s3.Fault{Method: "HEAD", Key: "/k", Status: 503},
		s3.Fault{Method: "GET", Key: "prefix=k", Status: 503, Code: "ServiceUnavailable"},
		s3.Fault{Method: "PUT", Key: "/new", Status: 503, Code: "SlowDown"},
		s3.Fault{Method: "PUT", Key: "/copy", Status: 500, Code: "InternalError"},
		s3.Fault{Method: "DELETE", Key: "/new", Status: 503, Code: "SlowDown"},
	)
	b := faulty.Open(t)
	if got, err := read(t, b, "k", ""); err != nil || got != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := b.Head(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	n := 0
	for _, err := range b.List(t.Context(), "k", "") {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d objects were listed", n)
	}
	put(t, b, "new", "sent twice")
	if got, err := read(t, b, "new", ""); err != nil || got != "sent twice" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := b.Copy(t.Context(), b.Location("new"), "copy", objstore.CopyOptions{}); err != nil {
		t.Error(err)
	}
	if err := b.Delete(t.Context(), "new"); err != nil {
		t.Error(err)
	}
}

func TestS3GivesUpAfterSixTries(t *testing.T) {
	t.Parallel()
	faulty, proxy := s3.NewProxy(t, s3.New(t), s3.Fault{Status: 503, Code: "SlowDown", Times: 6})
	b := faulty.Open(t)
	_, err := read(t, b, "k", "")
	if !errors.Is(err, objstore.ErrUnavailable) || !objstore.Retryable(err) || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("got %v", err)
	}
	if n := len(proxy.Requests()); n != 6 {
		t.Errorf("there were %d tries", n)
	}
}

func TestS3IsAwayWhenNothingListens(t *testing.T) {
	t.Parallel()
	b := s3.New(t)
	b.Endpoint = "http://127.0.0.1:1"
	_, err := b.Open(t).Head(t.Context(), "k")
	if !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestS3DeniedNamesBucketAndRight(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	faulty, proxy := s3.NewProxy(t, direct, s3.Fault{Status: 403, Code: "AccessDenied", Times: 5})
	b := faulty.Open(t)
	ctx := t.Context()
	_, _, getErr := b.Get(ctx, "k", objstore.Whole, "")
	_, headErr := b.Head(ctx, "k")
	_, putErr := b.Put(ctx, "k", strings.NewReader(""), objstore.PutOptions{})
	deleteErr := b.Delete(ctx, "k")
	var listErr error
	for _, err := range b.List(ctx, "", "") {
		listErr = err
	}
	for right, err := range map[string]error{
		"s3:GetObject": errors.Join(getErr, headErr), "s3:PutObject": putErr, "s3:DeleteObject": deleteErr, "s3:ListBucket": listErr,
	} {
		if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), right+" on bucket "+direct.Name) {
			t.Errorf("%s: got %v", right, err)
		}
	}
	if n := len(proxy.Requests()); n != 5 {
		t.Errorf("a refusal was repeated: %d requests", n)
	}

	access := direct.Access()
	access.Credentials = objstore.Static(objstore.Credentials{AccessKey: s3.AccessKey, SecretKey: "wrong"})
	wrong, err := objstore.NewS3(ctx, direct.Name, access, objstore.Retry{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = wrong.Get(ctx, "k", objstore.Whole, "")
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "SignatureDoesNotMatch") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v", err)
	}
}

func TestS3CredentialsThatCannotBeReadAreFinal(t *testing.T) {
	t.Parallel()
	bucket := s3.New(t)
	access := bucket.Access()
	access.Credentials = func(context.Context) (objstore.Credentials, error) {
		return objstore.Credentials{}, errors.New("read secret: the environment variable X is not set")
	}
	b, err := objstore.NewS3(t.Context(), bucket.Name, access, objstore.Retry{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Head(t.Context(), "k")
	if err == nil || objstore.Retryable(err) || !strings.Contains(err.Error(), "environment variable X") {
		t.Errorf("got %v", err)
	}
}

func TestS3WithoutItsBucket(t *testing.T) {
	t.Parallel()
	b := s3.New(t)
	b.Name += "-none"
	_, err := read(t, b.Open(t), "k", "")
	if !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "no bucket "+b.Name) {
		t.Errorf("got %v", err)
	}
}

const bigSize = 3 << 20

func big(seed uint64) string {
	content := make([]byte, bigSize)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range content {
		content[i] = byte(rng.Uint32())
	}
	return string(content)
}

func TestS3ContinuesABrokenBody(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	content := big(1)
	o := put(t, direct.Open(t), "big", content)
	faulty, proxy := s3.NewProxy(t, direct,
		s3.Fault{Method: "GET", Key: "/big", Cut: 1 << 20},
		s3.Fault{Method: "GET", Key: "/big", Status: 503, Code: "SlowDown"},
		s3.Fault{Method: "GET", Key: "/big", Cut: 1 << 20},
	)
	got, err := read(t, faulty.Open(t), "big", o.ETag)
	if err != nil || sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(content)) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if n := len(proxy.Requests()); n != 4 {
		t.Errorf("there were %d requests", n)
	}
}

func TestS3NeverMixesVersionsOfABrokenBody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b objstore.Bucket){
		"replaced": func(b objstore.Bucket) { put(t, b, "big", big(2)) },
		"shorter":  func(b objstore.Bucket) { put(t, b, "big", "x") },
		"deleted":  func(b objstore.Bucket) { _ = b.Delete(context.WithoutCancel(t.Context()), "big") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := s3.New(t)
			put(t, direct.Open(t), "big", big(1))
			faulty, _ := s3.NewProxy(t, direct,
				s3.Fault{Method: "GET", Key: "/big", Cut: 1 << 20},
				s3.Fault{Method: "GET", Key: "/big", Before: func() { change(direct.Open(t)) }},
			)
			_, err := read(t, faulty.Open(t), "big", "")
			kind := objstore.ErrPrecondition
			if name == "deleted" {
				kind = objstore.ErrNotFound
			}
			if !errors.Is(err, kind) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestS3GivesUpABodyThatBreaksEachTime(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	put(t, direct.Open(t), "big", big(1))
	faulty, _ := s3.NewProxy(t, direct, s3.Fault{Method: "GET", Key: "/big", Cut: 1 << 20}, s3.Fault{Method: "GET", Key: "/big", Times: 6})
	if _, err := read(t, faulty.Open(t), "big", ""); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestS3ListsOnAfterAFaultBetweenPages(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	for i := range 1100 { // the server sees files: quicker than as many requests
		if err := os.WriteFile(filepath.Join(direct.Dir, "f"+string(rune('a'+i/676))+string(rune('a'+i/26%26))+string(rune('a'+i%26))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faulty, _ := s3.NewProxy(t, direct, s3.Fault{Key: "continuation-token", Status: 503, Code: "SlowDown", Times: 2})
	n := 0
	for _, err := range faulty.Open(t).List(t.Context(), "f", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1100 {
		t.Errorf("%d of 1100 were listed", n)
	}
}

func TestS3CopiesLargeObjectsInParts(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	content := strings.Repeat(big(1), 4) + "end" // 12 MiB and a bit: parts of 5 MiB, the least that S3 takes
	o := put(t, direct.Open(t), "a b+c%20/big", content)
	faulty, proxy := s3.NewProxy(t, direct, s3.Fault{Method: "PUT", Key: "partNumber=2", Status: 503, Code: "SlowDown"})
	access := faulty.Access()
	access.MultipartOver, access.PartSize = 5<<20, 5<<20
	b, err := objstore.NewS3(t.Context(), faulty.Name, access, objstore.Retry{Base: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	from := b.Location("a b+c%20/big")
	if _, err := b.Copy(t.Context(), from, "ü/copy", objstore.CopyOptions{IfMatch: o.ETag, IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, b, "ü/copy", ""); err != nil || sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(content)) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	parts := 0
	for _, r := range proxy.Requests() {
		if strings.Contains(r, "partNumber=") {
			parts++
		}
	}
	if parts != 4 {
		t.Errorf("there were %d requests for parts", parts)
	}
	if _, err := b.Copy(t.Context(), from, "ü/copy", objstore.CopyOptions{IfMatch: o.ETag, IfAbsent: true}); !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("got %v", err)
	}
}

// A source that is replaced between two parts must not be mixed, and nothing is left behind.
func TestS3CopyInPartsStopsWhenTheSourceChanges(t *testing.T) {
	t.Parallel()
	direct := s3.New(t)
	put(t, direct.Open(t), "src", strings.Repeat(big(1), 4))
	faulty, _ := s3.NewProxy(t, direct, s3.Fault{Method: "PUT", Key: "partNumber=2", Before: func() {
		put(t, direct.Open(t), "src", strings.Repeat(big(2), 4))
	}})
	access := faulty.Access()
	access.MultipartOver, access.PartSize = 5<<20, 5<<20
	b, err := objstore.NewS3(t.Context(), faulty.Name, access, objstore.Retry{Base: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Copy(t.Context(), b.Location("src"), "dst", objstore.CopyOptions{}); !errors.Is(err, objstore.ErrPrecondition) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Head(t.Context(), "dst"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
