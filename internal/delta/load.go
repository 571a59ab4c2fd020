package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"sluice/internal/delta/action"
	parquet "sluice/internal/delta/checkpoint"
	"sluice/internal/delta/segment"
	"sluice/internal/objstore"
)

// state finds what version is made of, with its protocol and metadata, and does not look yet whether it can be read. With
// an error the snapshot holds what was found before it, or is nil.
func (t *Table) state(ctx context.Context, version int64) (*Snapshot, error) {
	start, err := t.hint(ctx)
	if err != nil {
		return nil, err
	}
	if version != Latest && version < start {
		start = 0
	}
	if start > 0 {
		log, err := t.list(ctx, start)
		if err != nil {
			return nil, err
		}
		if s, err := t.assemble(ctx, log, version); err == nil {
			return s, nil
		}
		// Whatever was wrong, the hint may be at fault: the whole log decides.
	}
	log, err := t.list(ctx, 0)
	if err != nil {
		return nil, err
	}
	s, err := t.assemble(ctx, log, version)
	if !lost(err) {
		return s, err
	}
	// A file was listed and is not there: the log is being cleaned up.
	if log, err = t.list(ctx, 0); err != nil {
		return nil, err
	}
	s, err = t.assemble(ctx, log, version)
	if lost(err) {
		v := version
		if s != nil {
			v = s.version
		}
		return s, gone(v, "files of its log are removed while they are read", err)
	}
	return s, err
}

// assemble makes a snapshot of a listing.
func (t *Table) assemble(ctx context.Context, log *logListing, version int64) (*Snapshot, error) {
	if version == Latest {
		version = max(0, log.Latest())
	}
	s := &Snapshot{table: t, version: version, log: log}
	for {
		part, err := log.Choose(version)
		if err != nil {
			if log.Empty() || version > log.Latest() {
				return nil, err
			}
			return s, err
		}
		s.part = part
		var base *base
		if part.Checkpoint != nil {
			base, err = t.base(ctx, part.Checkpoint)
			var broken *undecodable
			if errors.As(err, &broken) {
				part.Checkpoint.MarkBad()
				s.warn("the checkpoint of version %d cannot be read: %v", part.Checkpoint.Version, broken.cause)
				continue
			}
			if err != nil {
				return s, err
			}
		}
		s.base = base
		return s, s.settle(ctx)
	}
}

// settle finds the protocol and the metadata: the newest ones, in the commits or in the checkpoint.
func (s *Snapshot) settle(ctx context.Context) error {
	var protocol *action.Protocol
	var metadata *action.Metadata
	for _, f := range slices.Backward(s.part.Commits) {
		if protocol != nil && metadata != nil {
			break
		}
		c, err := s.table.commit(ctx, f)
		if err != nil {
			return err
		}
		if protocol == nil {
			protocol = c.protocol
		}
		if metadata == nil {
			metadata = c.metadata
		}
	}
	if s.base != nil {
		if protocol == nil {
			protocol = &s.base.protocol
		}
		if metadata == nil {
			metadata = &s.base.metadata
		}
	}
	if protocol != nil {
		s.protocol = *protocol
	}
	if metadata != nil {
		s.metadata = *metadata
	}
	switch {
	case protocol == nil:
		return action.Corrupt(nil, "version %d has no protocol", s.version)
	case metadata == nil:
		return action.Corrupt(nil, "version %d has no metaData", s.version)
	}
	return nil
}

// base is what is kept of a checkpoint: all but its files. It is known to be decodable as a whole.
type base struct {
	protocol action.Protocol
	metadata action.Metadata
	sidecars []sidecar
}

// sidecar is a file with actions of a checkpoint.
type sidecar struct{ key, etag string }

func (b *base) size() int64 { return int64(len(b.metadata.Schema)+100*len(b.sidecars)) + 1024 }

// undecodable says that a checkpoint is of no use; an older one may be.
type undecodable struct{ cause error }

func (u *undecodable) Error() string { return u.cause.Error() }

// base reads a checkpoint through once, files and all, so that whoever reads its files later does not find it broken in
// the middle.
func (t *Table) base(ctx context.Context, c *checkpoint) (*base, error) {
	keys := make([]string, len(c.Files))
	for i, f := range c.Files {
		if keys[i] = t.identity("checkpoint", f); keys[i] == "" {
			keys = nil
			break
		}
	}
	key := strings.Join(keys, "\x00")
	if known, ok := t.o.Cache.get(key); ok {
		return known.(*base), nil
	}
	b := &base{}
	var once action.Replay
	var has struct{ protocol, metadata, files bool }
	var sidecars []action.Sidecar
	sink := action.Sink{
		Protocol: func(p action.Protocol) error { has.protocol, b.protocol = true, p; return once.Protocol() },
		Metadata: func(m action.Metadata) error { has.metadata, b.metadata = true, m; return once.Metadata() },
		Sidecar:  func(s action.Sidecar) error { sidecars = append(sidecars, s); return nil },
		Add:      func(action.Add) error { has.files = true; return nil },
	}
	for _, f := range c.Files {
		if err := t.readBase(ctx, f.Kind == segment.V2JSON, f.Of.Key, f.Of.ETag, sink); err != nil {
			return nil, err
		}
	}
	if has.files && len(sidecars) > 0 {
		return nil, &undecodable{errors.New("it has files both in sidecars and in itself")}
	}
	var err error
	if b.sidecars, err = t.findSidecars(ctx, sidecars); err != nil {
		return nil, err
	}
	for _, s := range b.sidecars {
		err := t.readBase(ctx, false, s.key, s.etag, action.Sink{Add: func(action.Add) error { return nil }})
		if errors.Is(err, objstore.ErrNotFound) {
			err = &undecodable{err}
		}
		if err != nil {
			return nil, err
		}
	}
	if !has.protocol || !has.metadata {
		// It cannot be told from one that has lost other rows too: no older one takes its place.
		return nil, action.Corrupt(nil, "the checkpoint of version %d has no protocol or no metaData", c.Version)
	}
	t.o.Cache.put(key, b, b.size())
	return b, nil
}

// readBase reads one file of a checkpoint. What cannot be decoded is an undecodable error; those of the sink stay.
func (t *Table) readBase(ctx context.Context, isJSON bool, key, etag string, sink action.Sink) error {
	if isJSON {
		r, _, err := t.store.Get(ctx, key, objstore.Whole, etag)
		if err != nil {
			return err
		}
		defer r.Close()
		source := &watched{r: r}
		return source.judge(action.Read(source, t.o.Keys, keepErrors(&sink, source)))
	}
	at, err := t.spool(ctx, key, etag)
	if err != nil {
		return err
	}
	defer at.Close()
	source := &watched{}
	return source.judge(parquet.Read(at, at.size, keepErrors(&sink, source)))
}

// watched tells errors of the store and of the sink from those of the bytes.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func (w *watched) judge(err error) error {
	switch {
	case err == nil:
		return nil
	case w.err != nil:
		return w.err
	}
	return &undecodable{err}
}

// keepErrors notes the errors of a sink.
func keepErrors(sink *action.Sink, w *watched) action.Sink {
	return action.Sink{
		Add: noting(w, sink.Add), Remove: noting(w, sink.Remove), Protocol: noting(w, sink.Protocol),
		Metadata: noting(w, sink.Metadata), Sidecar: noting(w, sink.Sidecar),
	}
}

func noting[T any](w *watched, f func(T) error) func(T) error {
	if f == nil {
		return nil
	}
	return func(v T) error {
		err := f(v)
		if err != nil {
			w.err = err
		}
		return err
	}
}

// sidecarLookups is how many sidecars are looked for at a time.
const sidecarLookups = 16

// findSidecars checks that all sidecars are there.
func (t *Table) findSidecars(ctx context.Context, names []action.Sidecar) ([]sidecar, error) {
	found := make([]sidecar, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sidecarLookups)
	for i, s := range names {
		name, err := unescape(s.Path)
		if err != nil {
			return nil, err
		}
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
			return nil, badPath(s.Path, "is not the bare name of a sidecar")
		}
		key := t.logKey("_sidecars/" + name)
		g.Go(func() error {
			o, err := t.store.Head(ctx, key)
			switch {
			case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrInvalid):
				return &undecodable{fmt.Errorf("its sidecar %s is missing", name)}
			case err != nil:
				return err
			case s.Size >= 0 && s.Size != o.Size:
				return &undecodable{fmt.Errorf("its sidecar %s has %d bytes, not %d", name, o.Size, s.Size)}
			}
			found[i] = sidecar{key, o.ETag}
			return nil
		})
	}
	return found, g.Wait()
}
