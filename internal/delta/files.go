package delta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"sluice/internal/delta/action"
	"sluice/internal/delta/segment"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// Files gives the data files of the snapshot, in no order, as they are read from the log: memory grows with the commits
// after the checkpoint, not with the table. The files are those of the version only if the walk ends without an error;
// what has been seen before one is worth nothing.
func (s *Snapshot) Files(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		w := &walk{s: s, replay: action.NewReplay(), partition: slices.Clone(s.partition), yield: yield}
		w.replay.Lenient = s.table.o.Lenient
		err := w.run(ctx)
		if err != nil && !errors.Is(err, errStop) {
			yield(File{}, during(err, "read the files of version %d of %s", s.version, s.table.uri))
		}
	}
}

// walk is one walk over a snapshot's files.
type walk struct {
	s           *Snapshot
	replay      *action.Replay
	partition   []partitionColumn
	yield       func(File, error) bool
	files, size int64
}

func (w *walk) run(ctx context.Context) error {
	for _, f := range slices.Backward(w.s.part.Commits) {
		if err := w.commit(ctx, f); err != nil {
			return w.lost(during(err, "read commit %d of %s", f.Version, w.s.table.uri))
		}
	}
	if c := w.s.part.Checkpoint; c != nil {
		if err := w.checkpoint(ctx, c); err != nil {
			return w.lost(during(err, "read the checkpoint of version %d of %s", c.Version, w.s.table.uri))
		}
	}
	return w.check(ctx)
}

// lost turns the errors of files that were there into the one of a snapshot that is no longer.
func (w *walk) lost(err error) error {
	if lost(err) && !Gone(err) {
		return gone(w.s.version, "a file of its log was removed: "+err.Error(), err)
	}
	return err
}

func (w *walk) commit(ctx context.Context, f logFile) error {
	r, err := w.s.table.open(ctx, f)
	if err != nil {
		return err
	}
	defer r.Close()
	w.replay.Commit()
	return action.Read(r, w.s.table.o.Keys, action.Sink{
		Protocol: func(action.Protocol) error { return w.replay.Protocol() },
		Metadata: func(action.Metadata) error { return w.replay.Metadata() },
		Remove: func(r action.Remove) error {
			return w.replay.Removed(w.key(r.Path), r.DV.ID())
		},
		Add: func(a action.Add) error { return w.add(ctx, &a, w.replay.Added) },
	})
}

// key is what a path is known by in the replay. A path that cannot be resolved is never that of a live file, as its add is
// refused: its own text will do.
func (w *walk) key(path string) string {
	root := w.s.table.root
	at, uri, err := root.resolve(path)
	switch {
	case err != nil:
		return path
	case at.Scheme == objstore.SchemeFile && root.at.Scheme != at.Scheme:
		// file:/a and /a are one, also in a log that was copied into a bucket.
		at.Scheme, at.Bucket = root.at.Scheme, root.at.Bucket
		return at.String()
	}
	return uri
}

func (w *walk) add(ctx context.Context, a *action.Add, isLive func(location, dv string) (bool, error)) error {
	at, uri, err := w.s.table.root.resolve(a.Path)
	if err != nil {
		// It may have been removed since: only a live file must be readable.
		if live, err2 := isLive(a.Path, a.DV.ID()); !live {
			return err2
		}
		return err
	}
	live, err := isLive(uri, a.DV.ID())
	if !live || err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := w.s.table.storeOf(at); err != nil {
		return err
	}
	f, err := w.s.fileOf(a, w.partition, uri, w.s.table.root.relative(at))
	if err != nil {
		return err
	}
	w.files++
	w.size += f.Size
	if !w.yield(f, nil) {
		return errStop
	}
	return nil
}

func (w *walk) checkpoint(ctx context.Context, c *checkpoint) error {
	w.replay.Commit()
	t := w.s.table
	sink := action.Sink{Add: func(a action.Add) error { return w.add(ctx, &a, w.replay.Checkpointed) }}
	for _, f := range c.Files {
		if err := t.readBase(ctx, f.Kind == segment.V2JSON, f.Of.Key, f.Of.ETag, sink); err != nil {
			return decodable(err, c.Version)
		}
	}
	for _, s := range w.s.base.sidecars {
		if err := t.readBase(ctx, false, s.key, s.etag, sink); err != nil {
			return decodable(err, c.Version)
		}
	}
	return nil
}

// decodable: the checkpoint was read through when the snapshot was made; if it cannot be read now, it has changed.
func decodable(err error, version int64) error {
	var broken *undecodable
	if errors.As(err, &broken) {
		return sluice.E(CodeCheckpoint, "", fmt.Sprintf("the checkpoint of version %d cannot be read: %v", version, broken.cause),
			"restore the checkpoint's files from a copy, or have the table's writer make a new one", err)
	}
	return err
}

// maxChecksum is the largest checksum file that is looked at: newer ones may hold all files.
const maxChecksum = 4 << 20

// check compares what was found with the version's checksum file, if there is one.
func (w *walk) check(ctx context.Context) error {
	o, ok := w.s.log.Checksum(w.s.version)
	if !ok || o.Size == 0 || o.Size > maxChecksum {
		return nil
	}
	text, err := w.s.table.small(ctx, o.Key, maxChecksum)
	if err != nil {
		return during(err, "read the checksum of version %d", w.s.version)
	}
	c, ok := action.ReadChecksum(text)
	if ok && (c.NumFiles != w.files || c.Size != w.size) {
		return sluice.E(CodeCRC, "", fmt.Sprintf("the log gives %d files of %d bytes, its checksum says %d files of %d bytes",
			w.files, w.size, c.NumFiles, c.Size), "compare with another reader; if the checksum is wrong, remove its file", nil)
	}
	return nil
}

// storeOf gives the store of an object that the log names: the table's own, or that of an allowed root.
func (t *Table) storeOf(at objstore.Location) (objstore.Store, error) {
	if at.Scheme == t.root.at.Scheme && at.Bucket == t.root.at.Bucket {
		return t.store, nil
	}
	for _, r := range t.o.Roots {
		if below(at, r.At) {
			return r.Store, nil
		}
	}
	return nil, badPath(at.String(), "is outside the table's bucket")
}
