package deltagen

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Table is a Delta table in a directory of its own. Its methods fail the test when they cannot write.
type Table struct {
	Dir     string
	Version int64 // of the last commit; -1 before the first

	t     testing.TB
	state map[int64]State
}

// State is what a version is made of.
type State struct {
	Protocol *Protocol
	Metadata *Metadata
	Live     []Add    // in the order in which they were added
	Removed  []Remove // tombstones
}

// New makes an empty table: a directory without a log.
func New(t testing.TB) *Table {
	t.Helper()
	return NewAt(t, filepath.Join(t.TempDir(), "table"))
}

// NewAt makes an empty table in a directory that the caller chose.
func NewAt(t testing.TB, dir string) *Table {
	t.Helper()
	g := &Table{Dir: dir, Version: -1, t: t, state: map[int64]State{}}
	g.must(os.MkdirAll(g.Log(""), 0o755))
	return g
}

func (g *Table) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(fmt.Errorf("deltagen: %w", err))
	}
}

// Log is the path of a file of the log.
func (g *Table) Log(name string) string { return filepath.Join(g.Dir, "_delta_log", name) }

// Path is the path of a file of the table, by its key.
func (g *Table) Path(key string) string { return filepath.Join(g.Dir, filepath.FromSlash(key)) }

// CommitName is the name of a commit.
func CommitName(version int64) string { return fmt.Sprintf("%020d.json", version) }

// Names of checkpoints.
func classicName(version int64) string { return fmt.Sprintf("%020d.checkpoint.parquet", version) }

func partName(version int64, part, parts int) string {
	return fmt.Sprintf("%020d.checkpoint.%010d.%010d.parquet", version, part, parts)
}

// Commit writes the next version.
func (g *Table) Commit(actions ...Action) int64 {
	g.t.Helper()
	g.CommitAt(g.Version+1, actions...)
	return g.Version
}

// CommitAt writes a version, which need not follow the last one. Its state is made from the newest one before it.
func (g *Table) CommitAt(version int64, actions ...Action) {
	g.t.Helper()
	var b bytes.Buffer
	for _, a := range actions {
		b.Write(a.Line())
		b.WriteByte('\n')
	}
	g.WriteLog(CommitName(version), b.Bytes())
	g.state[version] = g.State(version - 1).after(actions)
	g.Version = version
}

// State is what a version is made of, by the actions that were committed in order.
func (g *Table) State(version int64) State {
	for ; version >= 0; version-- {
		if s, ok := g.state[version]; ok {
			return s
		}
	}
	return State{}
}

// after gives the state that actions lead to. Removes come first: a commit may replace a file's deletion vector.
func (s State) after(actions []Action) State {
	next := State{Protocol: s.Protocol, Metadata: s.Metadata, Removed: append([]Remove(nil), s.Removed...)}
	gone := map[string]bool{}
	for _, a := range actions {
		switch a := a.(type) {
		case Protocol:
			next.Protocol = &a
		case Metadata:
			next.Metadata = &a
		case Remove:
			gone[key(a.Path, a.DV)] = true
			next.Removed = append(next.Removed, a)
		case Add:
			gone[key(a.Path, a.DV)] = true // added again
		}
	}
	for _, a := range s.Live {
		if !gone[key(a.Path, a.DV)] {
			next.Live = append(next.Live, a)
		}
	}
	for _, a := range actions {
		if a, ok := a.(Add); ok {
			next.Live = append(next.Live, a)
		}
	}
	live := map[string]bool{}
	for _, a := range next.Live {
		live[key(a.Path, a.DV)] = true
	}
	kept := next.Removed[:0]
	for _, r := range next.Removed {
		if !live[key(r.Path, r.DV)] {
			kept = append(kept, r)
		}
	}
	next.Removed = kept
	return next
}

func key(path string, dv *DV) string {
	switch {
	case dv == nil:
		return path
	case dv.Offset == nil:
		return path + " " + dv.Storage + dv.Path
	}
	return fmt.Sprintf("%s %s%s@%d", path, dv.Storage, dv.Path, *dv.Offset)
}

// WriteLog writes a file of the log, whatever it is.
func (g *Table) WriteLog(name string, content []byte) {
	g.t.Helper()
	path := g.Log(name)
	g.must(os.MkdirAll(filepath.Dir(path), 0o755))
	g.must(os.WriteFile(path, content, 0o644))
}

// RemoveLog removes files of the log.
func (g *Table) RemoveLog(names ...string) {
	g.t.Helper()
	for _, name := range names {
		g.must(os.Remove(g.Log(name)))
	}
}

// RemoveCommits removes the commits from..to, as log cleanup does.
func (g *Table) RemoveCommits(from, to int64) {
	g.t.Helper()
	for v := from; v <= to; v++ {
		g.RemoveLog(CommitName(v))
	}
}

// ReadLog reads a file of the log.
func (g *Table) ReadLog(name string) []byte {
	g.t.Helper()
	content, err := os.ReadFile(g.Log(name))
	g.must(err)
	return content
}

// Touch sets the time of change of a commit, which stands for its timestamp where it has none of its own.
func (g *Table) Touch(version int64, at time.Time) {
	g.t.Helper()
	g.must(os.Chtimes(g.Log(CommitName(version)), at, at))
}

// Checksum writes N.crc with the figures of the version, changed by edit if that is not nil.
func (g *Table) Checksum(version int64, edit func(map[string]any)) {
	g.t.Helper()
	s := g.State(version)
	var size int64
	for _, a := range s.Live {
		size += a.Size
	}
	content := map[string]any{"tableSizeBytes": size, "numFiles": len(s.Live), "numMetadata": 1, "numProtocol": 1}
	if edit != nil {
		edit(content)
	}
	g.WriteLog(fmt.Sprintf("%020d.crc", version), encode(content))
}

// Escape writes a key as a path of the log: percent-encoded, slashes kept.
func Escape(key string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/=+"
	var b strings.Builder
	for i := range len(key) {
		if strings.IndexByte(plain, key[i]) >= 0 {
			b.WriteByte(key[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", key[i])
		}
	}
	return b.String()
}

// Link gives a data file a second name; both are paths as in the log.
func (g *Table) Link(from, to string) {
	g.t.Helper()
	a, err := url.PathUnescape(from)
	g.must(err)
	b, err := url.PathUnescape(to)
	g.must(err)
	g.must(os.MkdirAll(filepath.Dir(g.Path(b)), 0o755))
	g.must(os.Link(g.Path(a), g.Path(b)))
}
