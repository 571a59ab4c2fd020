package backfill

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/sluice"
)

// File is one data file of a pinned source.
type File struct {
	Path      string
	Size      int64
	Rows      int64     // that are live; negative: not known before the file is opened
	Deleted   int64     // positions that a deletion vector takes out
	Partition []*string // values of the partition columns, in their order; nil: NULL
	Raw       json.RawMessage
}

// Limits of a chunk. A file beyond them is a chunk by itself.
type Limits struct {
	Bytes   int64
	Files   int
	Deleted int64
}

// The limits of chunks that are read (backfill.md §4.7), and of those whose files are registered as they are (§11).
var (
	InsertLimits   = Limits{Bytes: 1 << 30, Files: 512, Deleted: 20_000_000}
	RegisterLimits = Limits{Bytes: 50 << 30, Files: 512, Deleted: 20_000_000}
)

// Cut sorts files by partition and path, and cuts them into chunks: one is closed when the next file would take it over a
// limit. The same files give the same chunks, in whatever order they come.
func Cut(files []File, l Limits) [][]File {
	sorted := slices.Clone(files)
	slices.SortStableFunc(sorted, func(a, b File) int {
		return cmp.Or(slices.CompareFunc(a.Partition, b.Partition, compareValues), cmp.Compare(a.Path, b.Path))
	})
	var out [][]File
	var bytes, deleted int64
	for _, f := range sorted {
		last := len(out) - 1
		if last < 0 || bytes+f.Size > l.Bytes || len(out[last]) >= l.Files || deleted+f.Deleted > l.Deleted {
			out = append(out, nil)
			last, bytes, deleted = len(out)-1, 0, 0
		}
		out[last] = append(out[last], f)
		bytes, deleted = bytes+f.Size, deleted+f.Deleted
	}
	return out
}

func compareValues(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return strings.Compare(*a, *b)
}

// Hash names a list of chunks: what is read, in which order, cut how.
func Hash(chunks [][]File) string {
	h := sha256.New()
	text := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	for _, c := range chunks {
		text(fmt.Sprint(len(c)))
		for _, f := range c {
			text(f.Path)
			text(fmt.Sprint(f.Size, f.Rows, f.Deleted))
			text(string(f.Raw))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sums of a list of files.
type Sums struct {
	Files, Bytes, Deleted int64
	Rows                  int64 // negative: not known of every file
}

// Sum adds up files.
func Sum(files []File) Sums {
	var s Sums
	for _, f := range files {
		s.Files++
		s.Bytes += f.Size
		s.Deleted += f.Deleted
		if f.Rows < 0 {
			s.Rows = -1
		} else if s.Rows >= 0 {
			s.Rows += f.Rows
		}
	}
	return s
}

// RunID names the run of a plan. A new plan at the same version is another run, whose chunks can be claimed again.
func RunID(kind sluice.RunKind, id sluice.StreamID, version, generation int64, nonce uint32) sluice.RunID {
	return sluice.RunID(fmt.Sprintf("%s-%s-v%d-g%d-%08x", kind, id, version, generation, nonce))
}

// maxPartitions of one chunk above which the plan warns: each is at least one file, and a file takes its time.
const maxPartitions = 256

// Warnings says what of a plan will cost more than it must.
func Warnings(chunks [][]File) []string {
	var out []string
	for i, c := range chunks {
		seen := map[string]bool{}
		for _, f := range c {
			seen[key(f.Partition)] = true
		}
		if len(seen) > maxPartitions {
			out = append(out, fmt.Sprintf("chunk %d has rows of %d partitions: writing so many files takes long", i+1, len(seen)))
		}
	}
	return out
}

// key joins partition values so that different ones stay different.
func key(values []*string) string {
	var b strings.Builder
	for _, v := range values {
		if v == nil {
			b.WriteString("-;")
			continue
		}
		fmt.Fprintf(&b, "%d:%s;", len(*v), *v)
	}
	return b.String()
}

// short names a document in a file's name.
func short(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:8])
}
