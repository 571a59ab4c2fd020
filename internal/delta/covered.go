package delta

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"sluice/internal/delta/action"
)

// Coverage says which batches commits name.
type Coverage struct {
	UpTo     int64              `json:"up_to"`    // the newest commit that was looked at
	Earliest int64              `json:"earliest"` // the oldest commit of those in the log without a gap; -1 without commit UpTo
	Batches  map[Batch]struct{} `json:"-"`
	Ignored  int                `json:"ignored"` // names that could not be used: no run, or an index that is no number from 0 on
}

// Batch is a producer's name for what a commit holds.
type Batch = action.Batch

// Has reports whether a commit names the batch. A batch that no commit names is not proven to be missing if it may be
// older than Earliest.
func (c *Coverage) Has(runID string, index int64) bool {
	_, ok := c.Batches[Batch{RunID: runID, Index: index}]
	return ok
}

// List gives the batches by run and index.
func (c *Coverage) List() []Batch {
	list := make([]Batch, 0, len(c.Batches))
	for b := range c.Batches {
		list = append(list, b)
	}
	slices.SortFunc(list, compareBatches)
	return list
}

// commitReads is how many commits are read at a time.
const commitReads = 16

// Covered says which batches the commits up to a version name; Latest looks at all. What is in a version is said by the
// commits up to it and by nothing else: clocks say nothing. Commits that were read before are not read again, if the table
// has a cache.
func (t *Table) Covered(ctx context.Context, upTo int64) (*Coverage, error) {
	log, err := t.list(ctx, 0)
	if err != nil {
		return nil, err
	}
	if log.Empty() {
		_, err := log.Choose(0)
		return nil, during(err, "look for batches in %s", t.uri)
	}
	if upTo == Latest {
		upTo = log.Latest()
	}
	if _, err := log.Choose(upTo); upTo > log.Latest() {
		return nil, during(err, "look for batches in %s", t.uri)
	}
	var files []logFile
	for _, f := range log.Commits() {
		if f.Version <= upTo {
			files = append(files, f)
		}
	}
	commits := make([]*commit, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(commitReads)
	for i, f := range files {
		g.Go(func() error {
			c, err := t.commit(gctx, f)
			if lost(err) {
				// Log cleanup takes the oldest first: what follows is still there.
				return nil
			}
			commits[i] = c
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, during(err, "look for batches in %s", t.uri)
	}
	c := &Coverage{UpTo: upTo, Earliest: -1, Batches: map[Batch]struct{}{}}
	next := upTo // the version that the unbroken row of commits must have next, downwards
	for i, one := range slices.Backward(commits) {
		if one == nil {
			continue
		}
		if files[i].Version == next {
			c.Earliest, next = next, next-1
		}
		c.Ignored += one.info.Ignored
		for _, b := range one.info.Batches {
			c.Batches[b] = struct{}{}
		}
	}
	return c, nil
}

func compareBatches(a, b Batch) int {
	return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Index, b.Index))
}
