package objstore

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const maxPut = 5 << 30 // of one PutObject

// ifAbsent is the condition of a write that replaces nothing.
func ifAbsent(yes bool) *string {
	if yes {
		return aws.String("*")
	}
	return nil
}

// Put writes an object in one request.
func (b *S3) Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (Object, error) {
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return Object{}, fmt.Errorf("put %s: %w", b.Location(key), err)
	}
	if size > maxPut {
		return Object{}, &Error{Op: "put", Where: b.Location(key), Kind: ErrInvalid, Detail: "an object of more than 5 GiB cannot be written at once"}
	}
	err = b.retry.do(ctx, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("put %s: %w", b.Location(key), err)
		}
		_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &b.bucket, Key: &key, Body: body, ContentLength: &size, IfNoneMatch: ifAbsent(o.IfAbsent),
		})
		return b.fail(ctx, "put", key, err)
	})
	if err != nil {
		return Object{}, err
	}
	return b.Head(ctx, key)
}

// Copy lets the store copy. More than 5 GiB go in parts, each from the version of the source that was seen first.
func (b *S3) Copy(ctx context.Context, from Location, key string, o CopyOptions) (Object, error) {
	if from.Scheme != SchemeS3 {
		return Object{}, &Error{Op: "copy", Where: from, Kind: ErrInvalid, Detail: "the source is in another store"}
	}
	source := *b
	source.bucket = from.Bucket
	src, err := source.Head(ctx, from.Key)
	if err != nil {
		return Object{}, err
	}
	if o.IfMatch != "" && o.IfMatch != src.ETag {
		return Object{}, &Error{Op: "copy", Where: from, Kind: ErrPrecondition}
	}
	if o.IfAbsent { // not every server knows the condition on a copy: this look catches what is there already
		if _, err := b.Head(ctx, key); err == nil {
			return Object{}, &Error{Op: "copy", Where: b.Location(key), Kind: ErrPrecondition, Detail: "it exists already"}
		}
	}
	if src.Size > b.multipartOver {
		err = b.copyParts(ctx, from, src, key, o.IfAbsent)
	} else {
		err = b.retry.do(ctx, func() error {
			_, err := b.client.CopyObject(ctx, &s3.CopyObjectInput{
				Bucket: &b.bucket, Key: &key, CopySource: aws.String(copySource(from)), CopySourceIfMatch: &src.ETag,
				IfNoneMatch: ifAbsent(o.IfAbsent), MetadataDirective: types.MetadataDirectiveCopy,
			})
			return b.fail(ctx, "copy", key, err)
		})
	}
	if err != nil {
		return Object{}, err
	}
	return b.Head(ctx, key)
}

// copySource writes an object's name as the header wants it.
func copySource(l Location) string {
	parts := strings.Split(l.Key, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), "+", "%2B")
	}
	return l.Bucket + "/" + strings.Join(parts, "/")
}

// copyParts copies in parts. What was begun and not completed is given up, so that the store can forget it.
func (b *S3) copyParts(ctx context.Context, from Location, src Object, key string, absent bool) error {
	var id *string
	err := b.retry.do(ctx, func() error {
		out, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.bucket, Key: &key})
		if err == nil {
			id = out.UploadId
		}
		return b.fail(ctx, "copy", key, err)
	})
	if err != nil {
		return err
	}
	completed, err := b.copyRanges(ctx, from, src, key, id)
	if err == nil {
		err = b.retry.do(ctx, func() error {
			_, err := b.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
				Bucket: &b.bucket, Key: &key, UploadId: id, IfNoneMatch: ifAbsent(absent),
				MultipartUpload: &types.CompletedMultipartUpload{Parts: completed},
			})
			return b.fail(ctx, "copy", key, err)
		})
	}
	if err != nil {
		_, _ = b.client.AbortMultipartUpload(context.WithoutCancel(ctx), &s3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: &key, UploadId: id})
	}
	return err
}

func (b *S3) copyRanges(ctx context.Context, from Location, src Object, key string, id *string) ([]types.CompletedPart, error) {
	const mostParts = 10_000
	size := max(b.partSize, (src.Size+mostParts-1)/mostParts)
	var done []types.CompletedPart
	for at := int64(0); at < src.Size; at += size {
		number := int32(len(done) + 1)
		err := b.retry.do(ctx, func() error {
			out, err := b.client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{
				Bucket: &b.bucket, Key: &key, UploadId: id, PartNumber: &number,
				CopySource: aws.String(copySource(from)), CopySourceIfMatch: &src.ETag,
				CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", at, min(at+size, src.Size)-1)),
			})
			if err != nil {
				return b.fail(ctx, "copy", key, err)
			}
			done = append(done, types.CompletedPart{ETag: out.CopyPartResult.ETag, PartNumber: &number})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

// Delete removes an object.
func (b *S3) Delete(ctx context.Context, key string) error {
	return b.retry.do(ctx, func() error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key})
		return b.fail(ctx, "delete", key, err)
	})
}
