package segment

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/sluice"
)

// The codes of a log that does not give the version asked for.
const (
	CodeNotFound    sluice.Code = "SLUICE-DELTA-VERSION-NOT-FOUND"
	CodeUnavailable sluice.Code = "SLUICE-DELTA-VERSION-UNAVAILABLE"
	CodeGap         sluice.Code = "SLUICE-DELTA-LOG-GAP"
	CodeNoTable     sluice.Code = "SLUICE-DELTA-NOT-A-TABLE"
	CodeCheckpoint  sluice.Code = "SLUICE-DELTA-CHECKPOINT-CORRUPT"
)

// File is a file of the log, from a listing.
type File[T any] struct {
	Name
	Size int64
	Of   T // whatever the caller knows it by
}

// Log is a listing, or the end of one.
type Log[T any] struct {
	commits     []File[T] // by version
	checkpoints []Checkpoint[T]
	checksums   map[int64]T
}

// Checkpoint is a complete one: all its parts are there.
type Checkpoint[T any] struct {
	Version int64
	Kind    Kind
	Files   []File[T]
	Bad     bool // found not to be readable
}

// New sorts a listing, which may come in any order. Empty checkpoint files are left out, with the checkpoint that they
// belong to.
func New[T any](files []File[T]) *Log[T] {
	l := &Log[T]{checksums: map[int64]T{}}
	type set struct {
		version int64
		parts   int
	}
	multipart := map[set][]File[T]{}
	for _, f := range files {
		switch {
		case f.Kind == Commit:
			l.commits = append(l.commits, f)
		case f.Kind == Checksum:
			l.checksums[f.Version] = f.Of
		case f.Size == 0:
		case f.Kind == Multipart:
			key := set{f.Version, f.Parts}
			multipart[key] = append(multipart[key], f)
		default:
			l.checkpoints = append(l.checkpoints, Checkpoint[T]{Version: f.Version, Kind: f.Kind, Files: []File[T]{f}})
		}
	}
	for key, parts := range multipart {
		slices.SortFunc(parts, func(a, b File[T]) int { return cmp.Compare(a.Part, b.Part) })
		if len(parts) == key.parts {
			l.checkpoints = append(l.checkpoints, Checkpoint[T]{Version: key.version, Kind: Multipart, Files: parts})
		}
	}
	slices.SortFunc(l.commits, func(a, b File[T]) int { return cmp.Compare(a.Version, b.Version) })
	slices.SortFunc(l.checkpoints, func(a, b Checkpoint[T]) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(b.preference(), a.preference()),
			cmp.Compare(b.Files[0].Parts, a.Files[0].Parts), cmp.Compare(b.Files[0].UUID, a.Files[0].UUID),
			cmp.Compare(b.Kind, a.Kind))
	})
	return l
}

// preference among complete checkpoints of a version, which are equivalent: a uuid, then parts, then one file.
func (c Checkpoint[T]) preference() int {
	switch c.Kind {
	case V2JSON, V2Parquet:
		return 2
	case Multipart:
		return 1
	default:
		return 0
	}
}

// Empty reports whether the log has no version.
func (l *Log[T]) Empty() bool { return len(l.commits) == 0 && len(l.checkpoints) == 0 }

// Latest is the greatest version; -1 of an empty log.
func (l *Log[T]) Latest() int64 {
	latest := int64(-1)
	if n := len(l.commits); n > 0 {
		latest = l.commits[n-1].Version
	}
	if len(l.checkpoints) > 0 {
		latest = max(latest, l.checkpoints[0].Version)
	}
	return latest
}

// Commits are all commits, by version.
func (l *Log[T]) Commits() []File[T] { return l.commits }

// Checksum gives the checksum file of a version.
func (l *Log[T]) Checksum(version int64) (T, bool) {
	f, ok := l.checksums[version]
	return f, ok
}

// Commit gives the commit of a version.
func (l *Log[T]) Commit(version int64) (File[T], bool) {
	i, ok := slices.BinarySearchFunc(l.commits, version, func(f File[T], v int64) int { return cmp.Compare(f.Version, v) })
	if !ok {
		return File[T]{}, false
	}
	return l.commits[i], true
}

// Segment is what a version is made of: the checkpoint, if there is one, and the commits after it, oldest first.
type Segment[T any] struct {
	Version    int64
	Checkpoint *Checkpoint[T]
	Commits    []File[T]
}

// Choose gives the segment of a version: the newest checkpoint that is complete, is not marked as bad, and is followed by
// every commit up to the version; without one, all commits from 0 on.
func (l *Log[T]) Choose(version int64) (Segment[T], error) {
	latest := l.Latest()
	switch {
	case latest < 0:
		return Segment[T]{}, sluice.E(CodeNoTable, "", "there is no Delta log", "check the location: _delta_log must be below it", nil)
	case version > latest:
		return Segment[T]{}, sluice.E(CodeNotFound, "", fmt.Sprintf("there is no version %d: the latest is %d", version, latest),
			"ask for a version that exists", nil)
	}
	from := l.unbroken(version)
	bad := int64(-1)
	for i := range l.checkpoints {
		c := &l.checkpoints[i]
		switch {
		case c.Version > version || c.Version+1 < from:
		case c.Bad:
			bad = max(bad, c.Version)
		default:
			return Segment[T]{version, c, l.between(c.Version+1, version)}, nil
		}
	}
	if from == 0 {
		return Segment[T]{version, nil, l.between(0, version)}, nil
	}
	if bad >= 0 {
		return Segment[T]{}, sluice.E(CodeCheckpoint, "",
			fmt.Sprintf("the checkpoint of version %d cannot be read, and the log does not reach back to where one could do without it", bad),
			"restore the checkpoint's files from a copy, or have the table's writer make a new one", nil)
	}
	return Segment[T]{}, l.lost(version, from)
}

// unbroken is the first commit of the row of commits that ends with version; version+1 if that one is missing itself.
func (l *Log[T]) unbroken(version int64) int64 {
	i, ok := slices.BinarySearchFunc(l.commits, version, func(f File[T], v int64) int { return cmp.Compare(f.Version, v) })
	if !ok {
		return version + 1
	}
	from := version
	for i--; i >= 0 && l.commits[i].Version == from-1; i-- {
		from--
	}
	return from
}

func (l *Log[T]) between(from, to int64) []File[T] {
	at := func(f File[T], v int64) int { return cmp.Compare(f.Version, v) }
	i, _ := slices.BinarySearchFunc(l.commits, from, at)
	j, _ := slices.BinarySearchFunc(l.commits, to+1, at)
	return l.commits[i:max(i, j)]
}

// lost says why a version cannot be had: a commit before from is missing. Where that is all the log has lost, old history
// is gone and newer versions are not; a hole with nothing above it to stand on breaks the table.
func (l *Log[T]) lost(version, from int64) error {
	missing := from - 1
	truncated := true // nothing is left below the missing commit: it was cleaned up
	for _, f := range l.commits {
		truncated = truncated && f.Version > missing
	}
	for _, c := range l.checkpoints {
		if c.Version > missing && !c.Bad {
			return sluice.E(CodeUnavailable, "", fmt.Sprintf("version %d cannot be read any more: commit %d is gone", version, missing),
				fmt.Sprintf("ask for version %d or a later one", c.Version), nil)
		}
		truncated = truncated && c.Version > missing
	}
	if truncated {
		return sluice.E(CodeUnavailable, "", fmt.Sprintf("version %d cannot be read: the log begins with commit %d and has no checkpoint",
			version, from), "restore the older part of the log from a copy", nil)
	}
	return sluice.E(CodeGap, "", fmt.Sprintf("commit %d is missing from the log", missing), "restore the commit from a copy", nil)
}

// MarkBad notes that a checkpoint cannot be read; Choose passes over it from now on.
func (c *Checkpoint[T]) MarkBad() { c.Bad = true }

// Earliest is the oldest version that can be read; -1 if none can.
func (l *Log[T]) Earliest() int64 {
	earliest := int64(-1)
	if len(l.commits) > 0 && l.commits[0].Version == 0 {
		return 0
	}
	for _, c := range l.checkpoints {
		if !c.Bad {
			earliest = c.Version
		}
	}
	return earliest
}
