package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/internal/delta/action"
	"sluice/internal/delta/segment"
	"sluice/internal/objstore"
)

const logFolder = "_delta_log"

type (
	logFile    = segment.File[objstore.Object]
	logListing = segment.Log[objstore.Object]
	logPart    = segment.Segment[objstore.Object]
	checkpoint = segment.Checkpoint[objstore.Object]
)

// logKey is the key of a file of the log.
func (t *Table) logKey(name string) string {
	return t.root.at.Join(logFolder + "/" + name).Key
}

// list reads which files the log has from a version on. The names of all that a reader knows begin with a version of 20
// digits, so the first is 0; folders below the log are not listed.
func (t *Table) list(ctx context.Context, start int64) (*logListing, error) {
	folder := t.logKey("")
	after := ""
	if s := segment.Start(start); s != "" {
		after = folder + s
	}
	var files []logFile
	for o, err := range t.store.List(ctx, folder+"0", after) {
		if err != nil {
			return nil, during(err, "list the log of %s", t.uri)
		}
		name, ok := strings.CutPrefix(o.Key, folder)
		if !ok {
			continue
		}
		if n, ok := segment.ParseName(name); ok && n.Version >= start {
			files = append(files, logFile{Name: n, Size: o.Size, Of: o})
		}
	}
	return segment.New(files), nil
}

// maxHint is the largest _last_checkpoint that is looked at.
const maxHint = 1 << 20

// hint gives the version of a checkpoint that may be a good place to begin listing at; 0 if there is none. Nothing depends
// on it.
func (t *Table) hint(ctx context.Context) (int64, error) {
	b, err := t.small(ctx, t.logKey("_last_checkpoint"), maxHint)
	if err != nil {
		return 0, err
	}
	return parseHint(b), nil
}

// small reads an object that nothing depends on; nil if it is not there or is larger than limit.
func (t *Table) small(ctx context.Context, key string, limit int64) ([]byte, error) {
	r, _, err := t.store.Get(ctx, key, objstore.Range{Off: 0, Len: limit + 1}, "")
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) > limit {
		return nil, err
	}
	return b, nil
}

func versionText(version int64) string {
	if version == Latest {
		return "the latest version"
	}
	return fmt.Sprintf("version %d", version)
}

// open reads a whole file of the log, as it was when it was listed.
func (t *Table) open(ctx context.Context, f logFile) (io.ReadCloser, error) {
	r, _, err := t.store.Get(ctx, f.Of.Key, objstore.Whole, f.Of.ETag)
	return r, err
}

// identity is a key for what was read of a file that never changes; empty if the store does not say whether it has.
func (t *Table) identity(kind string, f logFile) string {
	if f.Of.ETag == "" {
		return ""
	}
	return kind + "\x00" + t.root.at.Scheme + "\x00" + t.root.at.Bucket + "\x00" + f.Of.Key + "\x00" + f.Of.ETag
}

// commit is what is kept of a commit: all but its files.
type commit struct {
	protocol *action.Protocol
	metadata *action.Metadata
	info     action.CommitInfo
	leads    bool // the commitInfo is the first action, as it is where it has a timestamp
}

func (c *commit) size() int64 {
	n := int64(256)
	if c.metadata != nil {
		n += int64(len(c.metadata.Schema)) + 64*int64(len(c.metadata.Configuration)+len(c.metadata.PartitionColumns))
	}
	for _, b := range c.info.Batches {
		n += int64(len(b.RunID)) + 32
	}
	return n
}

// commit reads a commit, without its files.
func (t *Table) commit(ctx context.Context, f logFile) (*commit, error) {
	key := t.identity("commit "+t.o.Keys.RunID+" "+t.o.Keys.BatchIndex, f)
	if known, ok := t.o.Cache.get(key); ok {
		return known.(*commit), nil
	}
	r, err := t.open(ctx, f)
	if err != nil {
		return nil, during(err, "read commit %d", f.Version)
	}
	defer r.Close()
	c := &commit{info: action.CommitInfo{InCommitTimestamp: action.Unknown}}
	once := action.Replay{Lenient: t.o.Lenient}
	actions := 0
	err = action.Read(r, t.o.Keys, action.Sink{
		Protocol: func(p action.Protocol) error {
			actions++
			c.protocol = &p
			return once.Protocol()
		},
		Metadata: func(m action.Metadata) error {
			actions++
			c.metadata = &m
			return once.Metadata()
		},
		CommitInfo: func(i action.CommitInfo) error {
			c.leads = actions == 0
			c.info = i
			return nil
		},
	})
	if err != nil {
		return nil, during(err, "read commit %d", f.Version)
	}
	t.o.Cache.put(key, c, c.size())
	return c, nil
}
