package delta

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"sluice/internal/delta/dv"
	"sluice/internal/objstore"
)

const (
	vectorReads   = 16       // requests at a time
	vectorRequest = 8 << 20  // the most that is read at once of several deletion vectors
	vectorGap     = 64 << 10 // bytes between two of them that are read along rather than asked for anew
)

// place is a deletion vector in a file, and the data file that it belongs to.
type place struct {
	file   int
	offset int64
	size   int64
	noted  bool // the log says the offset
}

// Vectors reads the deletion vectors of files, nil for a file without one, and checks them in all ways. The files' records
// should be known, see Inspect: positions beyond them are then found.
func (t *Table) Vectors(ctx context.Context, version int64, files []File) ([]*dv.Vector, error) {
	vectors := make([]*dv.Vector, len(files))
	places := map[objstore.Location][]place{}
	for i := range files {
		if err := t.locate(&files[i], i, vectors, places); err != nil {
			return nil, during(err, "read the deletion vector of %s", files[i].Path)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(vectorReads)
	for at, list := range places {
		g.Go(func() error { return t.readVectors(ctx, version, at, list, files, vectors) })
	}
	if err := g.Wait(); err != nil {
		return nil, during(err, "read deletion vectors of %s", t.uri)
	}
	return vectors, nil
}

// locate decodes an inline deletion vector, or notes where another is.
func (t *Table) locate(f *File, i int, vectors []*dv.Vector, places map[objstore.Location][]place) error {
	d := f.DV
	if d == nil {
		return nil
	}
	var at objstore.Location
	switch d.Storage {
	case "i":
		payload, err := dv.Inline(d.Path, d.Size)
		if err == nil {
			vectors[i], err = dv.Decode(payload, d.Cardinality, int64(f.Records))
		}
		return err
	case "u":
		name, err := dv.File(d.Path)
		if err != nil {
			return err
		}
		if climbs(name) {
			return badPath(name, "leads out of the table")
		}
		at = t.root.at.Join(name)
	case "p":
		var err error
		if at, _, err = t.root.resolve(d.Path); err != nil {
			return err
		}
	default:
		return dv.UnknownStorage(d.Storage)
	}
	p := place{file: i, offset: 1, size: d.Size}
	if d.Offset != nil {
		// Without an offset readers differ about what is meant; the first place there is will do if it holds what the log
		// says, see unframe.
		p.offset, p.noted = *d.Offset, true
	}
	if err := dv.CheckPlace(p.offset, p.size); err != nil {
		return err
	}
	places[at] = append(places[at], p)
	return nil
}

// readVectors reads the deletion vectors that are in one file, neighbours together.
func (t *Table) readVectors(ctx context.Context, version int64, at objstore.Location, list []place, files []File,
	vectors []*dv.Vector,
) error {
	store, err := t.storeOf(at)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b place) int { return cmp.Compare(a.offset, b.offset) })
	r := vectorFile{store: store, at: at, version: version}
	if err := r.checkVersion(ctx, list[0]); err != nil {
		return during(err, "read the deletion vector of %s", files[list[0].file].Path)
	}
	for len(list) > 0 {
		n, end := 1, list[0].offset+list[0].size+dv.Frame
		for n < len(list) && list[n].offset-end <= vectorGap && list[n].offset+list[n].size+dv.Frame-list[0].offset <= vectorRequest {
			end = max(end, list[n].offset+list[n].size+dv.Frame)
			n++
		}
		b, err := r.read(ctx, list[0].offset, end-list[0].offset)
		if err != nil {
			return during(err, "read the deletion vector of %s", files[list[0].file].Path)
		}
		for _, p := range list[:n] {
			f := &files[p.file]
			from := min(p.offset-list[0].offset, int64(len(b)))
			frame := b[from:min(from+p.size+dv.Frame, int64(len(b)))]
			payload, err := dv.Unframe(frame, p.size)
			if err == nil {
				vectors[p.file], err = dv.Decode(payload, f.DV.Cardinality, int64(f.Records))
			} else if !p.noted {
				err = dv.NoOffset()
			}
			if err != nil {
				return during(err, "read the deletion vector of %s in %s", f.Path, at)
			}
		}
		list = list[n:]
	}
	return nil
}

// vectorFile is a file with deletion vectors. All is read from one version of it.
type vectorFile struct {
	store   objstore.Store
	at      objstore.Location
	version int64 // of the table
	etag    string
	head    []byte // the begin of the file, as far as it was read with its first byte
}

func (r *vectorFile) get(ctx context.Context, off, size int64) ([]byte, error) {
	b, o, err := get(ctx, r.store, r.at.Key, objstore.Range{Off: off, Len: size}, r.etag)
	if lost(err) {
		return nil, gone(r.version, fmt.Sprintf("file %s was removed or replaced", r.at), err)
	}
	r.etag = o.ETag
	return b, err
}

// checkVersion reads the first byte, together with the first deletion vector where that is near.
func (r *vectorFile) checkVersion(ctx context.Context, first place) error {
	size := int64(1)
	if end := first.offset + first.size + dv.Frame; end <= vectorGap {
		size = end
	}
	var err error
	if r.head, err = r.get(ctx, 0, size); err != nil {
		return err
	}
	if len(r.head) == 0 {
		return dv.CheckVersion(0)
	}
	return dv.CheckVersion(r.head[0])
}

func (r *vectorFile) read(ctx context.Context, off, size int64) ([]byte, error) {
	if off+size <= int64(len(r.head)) {
		return r.head[off : off+size], nil
	}
	return r.get(ctx, off, size)
}
