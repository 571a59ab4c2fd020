package backfill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Key names a batch as a producer does.
type Key struct {
	RunID      sluice.RunID
	BatchIndex int64
}

// String renders a key as the command line takes it.
func (k Key) String() string { return fmt.Sprintf("%s:%d", k.RunID, k.BatchIndex) }

// Batch is a live batch as far as coverage is concerned.
type Batch struct {
	Key
	Upstream sluice.UpstreamState // when it was read, which was before the source was opened
	Applied  bool                 // to the live table, since its last swap
}

// Commits are the batches that the source's commits up to the pinned version name, with the version of each.
type Commits struct {
	Named    map[Key]int64
	Earliest int64 // oldest commit that is still in the log
}

// Answer is what an operator says of batches that nothing proves: all, none, or a list of those that are covered.
type Answer struct {
	Given bool
	All   bool
	Keys  map[Key]bool
}

// ParseAnswer reads `all`, `none` or `RUN:INDEX,…`.
func ParseAnswer(text string) (Answer, error) {
	switch text {
	case "":
		return Answer{}, nil
	case "all":
		return Answer{Given: true, All: true}, nil
	case "none":
		return Answer{Given: true}, nil
	}
	a := Answer{Given: true, Keys: map[Key]bool{}}
	for _, part := range strings.Split(text, ",") {
		i := strings.LastIndexByte(part, ':')
		if i <= 0 {
			return a, fmt.Errorf("%q is not RUN:INDEX", part)
		}
		n, err := strconv.ParseInt(part[i+1:], 10, 64)
		if err != nil || n < 0 {
			return a, fmt.Errorf("%q has no index", part)
		}
		a.Keys[Key{sluice.RunID(part[:i]), n}] = true
	}
	return a, nil
}

func (a Answer) covers(k Key) bool { return a.All || a.Keys[k] }

// CoverFacts are all that coverage depends on. Queued must have been read before the source was opened at its newest
// version: that order of two reads is the proof of a batch that no commit names (backfill.md §4.5).
type CoverFacts struct {
	Head    bool  // the newest version is pinned, not an older one
	Version int64 // the pinned one
	Commits Commits
	Batches []Batch // open and applied ones
	Answer  Answer
	Append  bool // rows are only ever added: a batch that is applied twice doubles them
}

// Coverage is what the pinned version holds.
type Coverage struct {
	Covered  []stream.Covered // by commits, by order, by the operator
	Unproven []Key            // queued batches of which nothing is proven
	Behind   []Key            // applied batches that the version may lack
	// Waiting are batches of which it will be known once the producer has reported: planning waits for them.
	Waiting []Key
}

// Cover decides which batches the pinned version holds.
func Cover(f CoverFacts) Coverage {
	var c Coverage
	for k, v := range f.Commits.Named {
		c.Covered = append(c.Covered, stream.Covered{RunID: k.RunID, BatchIndex: k.BatchIndex, DeltaVersion: &v, Proof: stream.ProofCommit})
	}
	for _, b := range f.Batches {
		_, named := f.Commits.Named[b.Key]
		byOrder := f.Head && b.Upstream == sluice.UpstreamSucceeded
		switch {
		case named:
		case b.Applied:
			if !byOrder && !f.Answer.covers(b.Key) {
				c.Behind = append(c.Behind, b.Key)
			}
		case byOrder:
			v := f.Version
			c.Covered = append(c.Covered, stream.Covered{RunID: b.RunID, BatchIndex: b.BatchIndex, DeltaVersion: &v, Proof: stream.ProofOrder})
		case b.Upstream == sluice.UpstreamWaiting:
			// Not reported when it was asked: its commit is above the version, or it names itself. Where commits name nothing and
			// a second apply would double rows, neither is sure before the report.
			if f.Append && f.Head && len(f.Commits.Named) == 0 {
				c.Waiting = append(c.Waiting, b.Key)
			}
		case b.Upstream == sluice.UpstreamFailed:
		case !f.Answer.Given:
			c.Unproven = append(c.Unproven, b.Key)
		case f.Answer.covers(b.Key):
			c.Covered = append(c.Covered, stream.Covered{RunID: b.RunID, BatchIndex: b.BatchIndex, Proof: stream.ProofOperator})
		}
	}
	slices.SortFunc(c.Covered, func(a, b stream.Covered) int {
		return compareKeys(Key{a.RunID, a.BatchIndex}, Key{b.RunID, b.BatchIndex})
	})
	for _, keys := range [][]Key{c.Unproven, c.Behind, c.Waiting} {
		slices.SortFunc(keys, compareKeys)
	}
	return c
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(string(a.RunID), string(b.RunID)); c != 0 {
		return c
	}
	return int(min(max(a.BatchIndex-b.BatchIndex, -1), 1))
}

// Refusal is why the coverage does not allow a plan; nil: it does.
func (c Coverage) Refusal(doing string) *sluice.Error {
	switch {
	case len(c.Behind) > 0:
		return sluice.E("SLUICE-BACKFILL-BEHIND", doing, fmt.Sprintf("%d batches that the table has are not proven to be in the version: %s", len(c.Behind), list(c.Behind)),
			"load a newer version, or say which of them it holds: --covered RUN:INDEX,… or all", nil)
	case len(c.Unproven) > 0:
		return sluice.E("SLUICE-BACKFILL-COVERAGE", doing, fmt.Sprintf("it is not proven whether the version holds %d queued batches: %s", len(c.Unproven), list(c.Unproven)),
			"say which of them it holds: --covered RUN:INDEX,…, all or none", nil)
	}
	return nil
}

// list shows the first keys.
func list(keys []Key) string {
	const most = 20
	var b strings.Builder
	for i, k := range keys {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(keys)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k.String())
	}
	return b.String()
}
