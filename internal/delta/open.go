package delta

import (
	"context"
	"fmt"
	"io"

	"sluice/internal/objstore"
)

// OpenFile reads a range of a data file, as the object that Inspect saw. One that is no longer there, or is another by now,
// is SLUICE-DELTA-SNAPSHOT-GONE, from OpenFile or from the reader.
func (t *Table) OpenFile(ctx context.Context, version int64, f *File, r objstore.Range) (io.ReadCloser, error) {
	at, err := parseURI(f.URI)
	if err != nil {
		return nil, err
	}
	store, err := t.storeOf(at)
	if err != nil {
		return nil, err
	}
	o := openFile{version: version, path: f.Path}
	body, _, err := store.Get(ctx, at.Key, r, f.ETag)
	if err != nil {
		return nil, o.judge(err)
	}
	o.ReadCloser = body
	return &o, nil
}

// openFile gives the errors of a data file their meaning.
type openFile struct {
	io.ReadCloser
	version int64
	path    string
}

func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // Read gives io.EOF itself
		err = o.judge(err)
	}
	return n, err
}

func (o *openFile) judge(err error) error {
	if lost(err) {
		err = gone(o.version, fmt.Sprintf("file %s was removed or replaced", o.path), err)
	}
	return during(err, "read %s", o.path)
}
