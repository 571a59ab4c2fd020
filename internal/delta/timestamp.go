package delta

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"sluice/internal/delta/action"
	"sluice/internal/delta/segment"
	"sluice/internal/sluice"
)

// VersionAt gives the last version that was committed at or before a time. The time of a commit is the one written in it,
// where the table has in-commit timestamps; of older commits it is that of the file, and later than the one before.
func (t *Table) VersionAt(ctx context.Context, at time.Time) (int64, error) {
	v, err := t.versionAt(ctx, at)
	return v, during(err, "find the version of %s at %s", t.uri, at.UTC().Format(time.RFC3339Nano))
}

func (t *Table) versionAt(ctx context.Context, at time.Time) (int64, error) {
	log, err := t.list(ctx, 0)
	if err != nil {
		return 0, err
	}
	commits := log.Commits()
	if len(commits) == 0 {
		if _, err := log.Choose(0); log.Empty() {
			return 0, err
		}
		return 0, notAt("the log has no commits, whose times could be compared")
	}
	s, err := t.assemble(ctx, log, Latest)
	if err != nil {
		return 0, err
	}
	written, err := writtenFrom(s.metadata)
	if err != nil {
		return 0, err
	}
	millis := at.UnixMilli()
	first := sort.Search(len(commits), func(i int) bool { return commits[i].Version >= written })
	// Written times rise from commit to commit, so few of them need to be read.
	var failed error
	n := sort.Search(len(commits)-first, func(i int) bool {
		if failed != nil {
			return true
		}
		var c *commit
		if c, failed = t.commit(ctx, commits[first+i]); failed != nil {
			return true
		}
		if c.info.InCommitTimestamp == action.Unknown {
			failed = action.Corrupt(nil, "commit %d has no in-commit timestamp, though the table has them from version %d on",
				commits[first+i].Version, written)
		}
		return c.info.InCommitTimestamp > millis
	})
	if failed != nil {
		return 0, failed
	}
	if n > 0 {
		return commits[first+n-1].Version, nil
	}
	return byFile(commits[:first], millis)
}

// byFile compares the times of files, made to rise: clocks of writers go back now and then.
func byFile(commits []logFile, millis int64) (int64, error) {
	found, last := int64(-1), int64(-1<<62)
	for _, f := range commits {
		last = max(f.Of.Modified.UnixMilli(), last+1)
		if last > millis {
			break
		}
		found = f.Version
	}
	if found < 0 {
		return 0, notAt("the oldest commit in the log is newer")
	}
	return found, nil
}

func notAt(what string) error {
	return sluice.E(segment.CodeNotFound, "", what, "ask for a later time, or for a version by its number", nil)
}

// writtenFrom is the version from which on commits say their time themselves; above all versions if none does.
func writtenFrom(m action.Metadata) (int64, error) {
	if m.Configuration["delta.enableInCommitTimestamps"] != "true" {
		return 1<<63 - 1, nil
	}
	text, ok := m.Configuration["delta.inCommitTimestampEnablementVersion"]
	if !ok {
		return 0, nil // from the first commit on
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, action.Corrupt(err, "%s", fmt.Sprintf("delta.inCommitTimestampEnablementVersion is %q", text))
	}
	return v, nil
}
