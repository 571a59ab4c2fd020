package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// S3 is a bucket of S3, or of a server that speaks its protocol.
type S3 struct {
	bucket string
	client *s3.Client
	retry  Retry

	multipartOver, partSize int64
}

var _ Bucket = (*S3)(nil)

const (
	fallbackRegion       = "us-east-1"
	defaultMultipartOver = 5 << 30 // what one CopyObject may copy
	defaultPartSize      = 512 << 20
)

// NewS3 makes a client for a bucket. It reads the AWS tools' configuration but asks nothing of the store.
func NewS3(ctx context.Context, bucket string, o S3Options, retry Retry) (*S3, error) {
	load := []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }), // Retry is the one place that repeats
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = 64
			t.ResponseHeaderTimeout = time.Minute
		})),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	switch {
	case o.Anonymous:
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	case o.Credentials != nil:
		load = append(load, config.WithCredentialsProvider(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			c, err := o.Credentials(ctx)
			return aws.Credentials{
				AccessKeyID: c.AccessKey, SecretAccessKey: c.SecretKey, SessionToken: c.SessionToken, Source: "sluice",
				CanExpire: true, Expires: time.Now().Add(credentialAge),
			}, err
		})))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("open s3://%s: %w", bucket, err)
	}
	if cfg.Region == "" {
		cfg.Region = fallbackRegion
	}
	if o.Role != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), o.Role, func(a *stscreds.AssumeRoleOptions) {
			a.RoleSessionName = "sluice"
			if o.Session > 0 {
				a.Duration = o.Session
			}
		})
		cfg.Credentials = aws.NewCredentialsCache(role)
	}
	client := s3.NewFromConfig(cfg, func(so *s3.Options) {
		so.UsePathStyle = o.PathStyle || hasAddress(o.Endpoint)
		// Servers that are not AWS know the checksums of the newer protocol only in part.
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
	})
	b := &S3{bucket: bucket, client: client, retry: retry, multipartOver: o.MultipartOver, partSize: o.PartSize}
	if b.multipartOver <= 0 {
		b.multipartOver = defaultMultipartOver
	}
	if b.partSize <= 0 {
		b.partSize = defaultPartSize
	}
	return b, nil
}

// credentialAge is how long credentials by reference are used before they are read again.
const credentialAge = 5 * time.Minute

// hasAddress reports whether an endpoint's host cannot have a bucket's name before it.
func hasAddress(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || u.Hostname() == "localhost"
}

// Location names an object.
func (b *S3) Location(key string) Location { return Location{SchemeS3, b.bucket, key} }

// List asks for the pages in the order of keys.
func (b *S3) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: &prefix}
		if startAfter != "" {
			in.StartAfter = &startAfter
		}
		for {
			var page *s3.ListObjectsV2Output
			err := b.retry.do(ctx, func() (err error) {
				page, err = b.client.ListObjectsV2(ctx, in)
				return b.fail(ctx, "list", prefix, err)
			})
			if err != nil {
				yield(Object{}, err)
				return
			}
			for _, c := range page.Contents {
				o := Object{
					Key: aws.ToString(c.Key), Size: aws.ToInt64(c.Size), ETag: aws.ToString(c.ETag), Modified: aws.ToTime(c.LastModified),
				}
				// Some servers give the start itself again; a page of theirs must not end the list either.
				if o.Key > startAfter && !yield(o, nil) {
					return
				}
			}
			if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
				return
			}
			in.ContinuationToken = page.NextContinuationToken
		}
	}
}

// Head describes an object.
func (b *S3) Head(ctx context.Context, key string) (Object, error) {
	var o Object
	err := b.retry.do(ctx, func() error {
		out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.bucket, Key: &key})
		if err != nil {
			return b.fail(ctx, "head", key, err)
		}
		o = Object{key, aws.ToInt64(out.ContentLength), aws.ToString(out.ETag), aws.ToTime(out.LastModified)}
		return nil
	})
	return o, err
}

// Get reads a range. A body that breaks off is continued where it ended, from the same version of the object.
func (b *S3) Get(ctx context.Context, key string, r Range, ifMatch string) (io.ReadCloser, Object, error) {
	if r.Len == 0 || r.Off < 0 && r.Len > 0 {
		return b.getOdd(ctx, key, r, ifMatch)
	}
	var body io.ReadCloser
	var o Object
	var from, to int64
	err := b.retry.do(ctx, func() (err error) {
		body, o, from, to, err = b.get(ctx, key, header(r), ifMatch)
		return err
	})
	if errors.Is(err, errEmptyRange) {
		return b.getOdd(ctx, key, Range{0, 0}, ifMatch)
	}
	if err != nil {
		return nil, Object{}, err
	}
	return &resumed{ctx: ctx, b: b, key: key, etag: o.ETag, body: body, at: from, to: to}, o, nil
}

// getOdd serves the ranges that the protocol cannot say, by asking for the size first.
func (b *S3) getOdd(ctx context.Context, key string, r Range, ifMatch string) (io.ReadCloser, Object, error) {
	o, err := b.Head(ctx, key)
	if err != nil {
		return nil, Object{}, err
	}
	if ifMatch != "" && ifMatch != o.ETag {
		return nil, Object{}, &Error{Op: "get", Where: b.Location(key), Kind: ErrPrecondition}
	}
	from, to := r.resolve(o.Size)
	if from == to {
		return http.NoBody, o, nil
	}
	return b.Get(ctx, key, Range{from, to - from}, o.ETag)
}

// errEmptyRange: the range begins at the object's end or behind it.
var errEmptyRange = errors.New("the range holds nothing")

// header writes a range as HTTP does.
func header(r Range) string {
	switch {
	case r.Off < 0:
		return "bytes=" + strconv.FormatInt(r.Off, 10)
	case r.Len < 0 && r.Off == 0:
		return ""
	case r.Len < 0:
		return fmt.Sprintf("bytes=%d-", r.Off)
	}
	return fmt.Sprintf("bytes=%d-%d", r.Off, r.Off+r.Len-1)
}

// get is one request. It gives the object, whose size is that of the whole, and the range that the body holds.
func (b *S3) get(ctx context.Context, key, rng, ifMatch string) (body io.ReadCloser, o Object, from, to int64, err error) {
	in := &s3.GetObjectInput{Bucket: &b.bucket, Key: &key}
	if rng != "" {
		in.Range = &rng
	}
	if ifMatch != "" {
		in.IfMatch = &ifMatch
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, Object{}, 0, 0, b.fail(ctx, "get", key, err)
	}
	o = Object{key, aws.ToInt64(out.ContentLength), aws.ToString(out.ETag), aws.ToTime(out.LastModified)}
	to = o.Size
	if span := aws.ToString(out.ContentRange); span != "" {
		var last int64
		if _, err := fmt.Sscanf(span, "bytes %d-%d/%d", &from, &last, &o.Size); err != nil {
			out.Body.Close()
			return nil, Object{}, 0, 0, &Error{Op: "get", Where: b.Location(key), Detail: "the server's range is not readable: " + span}
		}
		to = last + 1
	} else if rng != "" && o.Size > 0 {
		out.Body.Close()
		return nil, Object{}, 0, 0, &Error{Op: "get", Where: b.Location(key), Detail: "the server does not give ranges"}
	}
	return out.Body, o, from, to, nil
}

// fail gives an error its kind. It returns nil for nil.
func (b *S3) fail(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	where := b.Location(key)
	if end := ended(ctx, op, where); end != nil {
		return end
	}
	e := &Error{Op: op, Where: where, Err: err}
	var response *awshttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil || response.HTTPStatusCode() == 0 {
		e.Detail, e.Kind = transportKind(err)
		return e
	}
	code, message := apiError(err)
	status := response.HTTPStatusCode()
	if status == http.StatusRequestedRangeNotSatisfiable && op == "get" {
		return errEmptyRange
	}
	e.Kind = kindOf(status, code)
	switch {
	case code == "NoSuchBucket":
		e.Detail = "there is no bucket " + b.bucket
	case errors.Is(e.Kind, ErrDenied):
		e.Detail = fmt.Sprintf("the credentials lack %s on bucket %s", actionOf(op), b.bucket)
		if code != "" && code != "AccessDenied" && code != "Forbidden" {
			e.Detail += ", or are not valid (" + code + ")"
		}
	case status == http.StatusMovedPermanently || status == http.StatusTemporaryRedirect:
		e.Detail = fmt.Sprintf("bucket %s is in region %q", b.bucket, response.Response.Header.Get("X-Amz-Bucket-Region"))
	case e.Kind == nil || errors.Is(e.Kind, ErrUnavailable):
		e.Detail = strings.TrimSpace(fmt.Sprintf("%d %s %s", status, code, message))
	}
	return e
}

// kindOf reads an answer's status and code.
func kindOf(status int, code string) error {
	switch {
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusPreconditionFailed:
		return ErrPrecondition
	case status == http.StatusConflict && code == "ConditionalRequestConflict":
		return ErrUnavailable // another conditional write of the key was under way: the next try sees its end
	case status == http.StatusForbidden && code == "RequestTimeTooSkewed":
		return nil
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return ErrDenied
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500 && status != http.StatusNotImplemented:
		return ErrUnavailable
	case code == "RequestTimeout", code == "SlowDown":
		return ErrUnavailable
	}
	return nil
}

// actionOf names the right that an operation needs.
func actionOf(op string) string {
	switch op {
	case "list":
		return "s3:ListBucket"
	case "put", "copy":
		return "s3:PutObject"
	case "delete":
		return "s3:DeleteObject"
	}
	return "s3:GetObject"
}

// transportKind judges an error without an answer. A connection that cannot be made, or breaks, may work the next time;
// what was wrong before anything was sent (no credentials, a bad endpoint) will be wrong again.
func transportKind(err error) (detail string, kind error) {
	var netErr net.Error
	var opErr *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host " + dns.Name, nil
	case errors.As(err, &netErr), errors.As(err, &opErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return innermost(err).Error(), ErrUnavailable
	case brokenAnswer(err):
		return "the answer is not one of S3", ErrUnavailable
	}
	return innermost(err).Error(), nil
}

// innermost is the first cause, which says the most in the fewest words.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
