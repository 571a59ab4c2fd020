package delta

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"sluice/internal/delta/footer"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

const (
	footerReads = 32       // files whose footers are read at a time
	footerGuess = 64 << 10 // how much of a file's end is fetched at first: most footers are in it
)

// Inspect reads the footers of data files. It notes in each file the exact number of its records, and the ETag of the
// object if there was none: from then on the file is that object. A file that is not there, is another one by now, or has
// another size than the log says is SLUICE-DELTA-SNAPSHOT-GONE.
func (t *Table) Inspect(ctx context.Context, version int64, files []File) ([]*footer.Footer, error) {
	footers := make([]*footer.Footer, len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(footerReads)
	for i := range files {
		g.Go(func() (err error) {
			footers[i], err = t.inspect(ctx, version, &files[i])
			return during(err, "read the footer of %s", files[i].Path)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, during(err, "read footers of %s", t.uri)
	}
	return footers, nil
}

func (t *Table) inspect(ctx context.Context, version int64, f *File) (*footer.Footer, error) {
	at, err := parseURI(f.URI)
	if err != nil {
		return nil, err
	}
	store, err := t.storeOf(at)
	if err != nil {
		return nil, err
	}
	end, o, err := get(ctx, store, at.Key, objstore.Tail(footerGuess), f.ETag)
	if lost(err) {
		return nil, gone(version, fmt.Sprintf("file %s was removed or replaced", f.Path), err)
	}
	if err != nil {
		return nil, err
	}
	if o.Size != f.Size {
		return nil, gone(version, fmt.Sprintf("file %s has %d bytes, the log says %d", f.Path, o.Size, f.Size), nil)
	}
	if len(end) < footer.Tail {
		return nil, notParquet(f.Path, footer.ErrNotParquet)
	}
	size, err := footer.Size(end[len(end)-footer.Tail:])
	if err != nil || int64(size)+footer.Tail > o.Size {
		return nil, notParquet(f.Path, errors.Join(err, footer.ErrNotParquet))
	}
	if size+footer.Tail > len(end) {
		part := objstore.Range{Off: o.Size - footer.Tail - int64(size), Len: int64(size) + footer.Tail}
		if end, _, err = get(ctx, store, at.Key, part, o.ETag); err != nil {
			if lost(err) {
				return nil, gone(version, fmt.Sprintf("file %s was removed or replaced", f.Path), err)
			}
			return nil, err
		}
		if len(end) != size+footer.Tail {
			return nil, shorter(io.ErrUnexpectedEOF, f.Path)
		}
	}
	parsed, err := footer.Parse(end[len(end)-footer.Tail-size : len(end)-footer.Tail])
	if err != nil {
		return nil, notParquet(f.Path, err)
	}
	f.ETag, f.Records = o.ETag, Count(parsed.Rows)
	if f.Deleted() > parsed.Rows {
		return nil, sluice.E(CodeDVCorrupt, "", fmt.Sprintf("the deletion vector of %s deletes %d rows of a file with %d", f.Path,
			f.Deleted(), parsed.Rows), "have the table's writer rewrite the data file", nil)
	}
	return parsed, nil
}

func notParquet(path string, cause error) error {
	return sluice.E(CodeSchema, "", fmt.Sprintf("file %s is not readable Parquet: %v", path, cause),
		"restore the file from a copy, or have the table's writer remove it", cause)
}

// get reads a range of an object.
func get(ctx context.Context, store objstore.Store, key string, r objstore.Range, ifMatch string) ([]byte, objstore.Object, error) {
	body, o, err := store.Get(ctx, key, r, ifMatch)
	if err != nil {
		return nil, o, err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	return b, o, err
}

// parseURI reads the URI of a File.
func parseURI(uri string) (objstore.Location, error) {
	at, err := objstore.ParseLocation(uri)
	if err != nil {
		return at, badPath(uri, "is no location")
	}
	return at, nil
}

// Unchanged checks that data files are still the objects that Inspect saw. The engine reads them by their names alone: what
// it read is certain only if they were the same before and after.
func (t *Table) Unchanged(ctx context.Context, version int64, files []File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(footerReads)
	for i := range files {
		f := &files[i]
		g.Go(func() error {
			at, err := parseURI(f.URI)
			if err != nil {
				return err
			}
			store, err := t.storeOf(at)
			if err != nil {
				return err
			}
			o, err := store.Head(ctx, at.Key)
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				return gone(version, fmt.Sprintf("file %s was removed", f.Path), err)
			case err != nil:
				return err
			case o.Size != f.Size || f.ETag != "" && o.ETag != f.ETag:
				return gone(version, fmt.Sprintf("file %s was replaced", f.Path), nil)
			}
			return nil
		})
	}
	return during(g.Wait(), "look at the files of %s", t.uri)
}
