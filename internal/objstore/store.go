package objstore

import (
	"context"
	"io"
	"iter"
	"time"
)

// Object is what a store says about one object.
type Object struct {
	Key      string // full decoded key within the store
	Size     int64  // of the whole object, in bytes
	ETag     string // changes with the content; empty where the store gives none
	Modified time.Time
}

// Range is a part of an object. Off < 0 means the last -Off bytes; Len < 0 means to the end. What lies behind the end is
// cut: a range that begins there is empty.
type Range struct{ Off, Len int64 }

// Whole is the range of a whole object.
var Whole = Range{0, -1}

// Tail is the range of the last n bytes.
func Tail(n int64) Range { return Range{-n, -1} }

// resolve gives the range's bounds within an object of a size.
func (r Range) resolve(size int64) (from, to int64) {
	from, to = r.Off, size
	if from < 0 {
		from = max(0, size+from)
	}
	from = min(from, size)
	if r.Len >= 0 && r.Len < size-from {
		to = from + r.Len
	}
	return from, to
}

// Store reads objects. All methods are safe for concurrent use. Errors are of type *Error and match one of the sentinels,
// or are the context's.
type Store interface {
	// List gives the objects whose key begins with prefix and is greater than startAfter, in any order, all pages. The
	// first error ends it. A prefix without objects is an empty list.
	List(ctx context.Context, prefix, startAfter string) iter.Seq2[Object, error]
	// Get reads a range of an object. With ifMatch it reads that version or fails with ErrPrecondition, also when the
	// object is replaced while it is read. The caller closes the reader.
	Get(ctx context.Context, key string, r Range, ifMatch string) (io.ReadCloser, Object, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Object, error)
}

// Writer changes objects. A write is whole or absent; one whose answer was lost may have happened, and is repeated.
type Writer interface {
	// Put writes an object of at most 5 GiB. With IfAbsent an existing object is left alone and the error is
	// ErrPrecondition; after a lost answer that object may be the caller's own.
	Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (Object, error)
	// Copy copies an object within the store's reach without moving its bytes through this process where the store can.
	// The source may be in another bucket that the same credentials open.
	Copy(ctx context.Context, from Location, key string, o CopyOptions) (Object, error)
	// Delete removes an object. One that is not there counts as removed.
	Delete(ctx context.Context, key string) error
}

// PutOptions say when Put may write.
type PutOptions struct {
	IfAbsent bool
}

// CopyOptions say when Copy may write.
type CopyOptions struct {
	IfMatch  string // the source's ETag; empty: any
	IfAbsent bool
}

// Bucket is a store that can be read and written, and that knows its own name.
type Bucket interface {
	Store
	Writer
	// Location names an object of this bucket.
	Location(key string) Location
}
