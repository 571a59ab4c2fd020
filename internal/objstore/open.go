package objstore

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Options say how stores are reached. The zero value reads local files, and S3 as the AWS tools would: region and
// credentials from their environment, files and roles.
type Options struct {
	// S3 gives the access to a bucket; nil: the zero S3Options. It is asked once for each bucket that is opened.
	S3 func(bucket string) (S3Options, error)
	// Retry is how often and how patiently an operation is repeated.
	Retry Retry
}

// S3Options are the access to one bucket.
type S3Options struct {
	Endpoint  string // URL of a server other than AWS; empty: AWS
	Region    string // empty: as the AWS tools find it, else us-east-1
	PathStyle bool   // the bucket is in the path, not in the host name; implied by an endpoint whose host is an address
	// Credentials are asked for when a client is made and when the last ones have expired; nil: as the AWS tools find them.
	Credentials func(context.Context) (Credentials, error)
	Profile     string // of the AWS tools' files, instead of Credentials
	Role        string // ARN of a role that is assumed with the credentials
	Session     time.Duration
	Anonymous   bool // sign nothing
	// MultipartOver and PartSize say from which size on Copy works in parts, and how large those are; 0: 5 GiB and 512 MiB.
	MultipartOver, PartSize int64
}

// Credentials are the keys of a signer.
type Credentials struct{ AccessKey, SecretKey, SessionToken string }

// Static gives credentials that do not change.
func Static(c Credentials) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) { return c, nil }
}

// Opener opens the buckets of locations and keeps one client for each bucket. Its zero value is not usable.
type Opener struct {
	o       Options
	mu      sync.Mutex
	buckets map[string]Bucket
}

// NewOpener makes an Opener.
func NewOpener(o Options) *Opener {
	return &Opener{o: o, buckets: map[string]Bucket{}}
}

// Open gives the bucket of a location; for files that is the whole file system.
func (p *Opener) Open(ctx context.Context, l Location) (Bucket, error) {
	switch l.Scheme {
	case SchemeFile:
		return Local{}, nil
	case SchemeS3:
	default:
		return nil, fmt.Errorf("open %s: the scheme is not supported", l)
	}
	p.mu.Lock()
	b, ok := p.buckets[l.Bucket]
	p.mu.Unlock()
	if ok {
		return b, nil
	}
	var s3 S3Options
	if p.o.S3 != nil {
		var err error
		if s3, err = p.o.S3(l.Bucket); err != nil {
			return nil, fmt.Errorf("open %s: %w", l, err)
		}
	}
	b, err := NewS3(ctx, l.Bucket, s3, p.o.Retry)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, ok := p.buckets[l.Bucket]; ok { // opened by another call meanwhile: one client is enough
		return other, nil
	}
	p.buckets[l.Bucket] = b
	return b, nil
}

// Open gives the bucket that a URI is in, and the URI's key within it. See ParseLocation for what a URI may be.
func Open(ctx context.Context, uri string, o Options) (Bucket, string, error) {
	l, err := ParseLocation(uri)
	if err != nil {
		return nil, "", err
	}
	b, err := NewOpener(o).Open(ctx, l)
	if err != nil {
		return nil, "", err
	}
	return b, l.Key, nil
}
