package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/internal/config"
	"sluice/internal/delta"
	"sluice/internal/delta/export"
	"sluice/internal/extension"
	"sluice/internal/objstore"
	"sluice/internal/warehouse/engine"
)

// ExportProgress is told how far an export is: first the files that are planned, then the rows that are written.
type ExportProgress func(phase string, done, total int64)

// progressEvery is how often a running statement is asked how far it is.
const progressEvery = 200 * time.Millisecond

// ExportDelta writes a version of a table as one Parquet file, in an engine of its own.
func ExportDelta(ctx context.Context, cfg *config.Config, t *delta.Table, version int64, o export.Options, progress ExportProgress) (export.Result, error) {
	s, err := t.Snapshot(ctx, version)
	if err != nil {
		return export.Result{}, err
	}
	scratch := engine.ScratchConfig{Name: "delta-export", Threads: cfg.Warehouse.Threads}
	if at, err := objstore.ParseLocation(t.URI()); err == nil && at.Scheme != objstore.SchemeFile {
		if scratch.Extensions, err = extension.Find(cfg.Warehouse.Extensions, cfg.Data); err != nil {
			return export.Result{}, fmt.Errorf("export from a store: %w", err)
		}
		scratch.HTTP = true
	}
	e, err := engine.OpenScratch(ctx, scratch)
	if err != nil {
		return export.Result{}, err
	}
	defer func() { _ = e.Close() }()
	if progress == nil {
		return export.Run(ctx, t, s, e, o)
	}
	o.Planned = func(done, total int64) { progress("files planned", done, total) }
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	o.Writing = func(rows int64) {
		watch.Go(func() {
			tick := time.NewTicker(progressEvery)
			defer tick.Stop()
			for {
				select {
				case <-watching.Done():
					return
				case <-tick.C:
					if done := e.Progress(); done >= 0 {
						progress("rows written", int64(done*float64(rows)), rows)
					}
				}
			}
		})
	}
	r, err := export.Run(ctx, t, s, e, o)
	stop()
	watch.Wait() // the engine is closed only after the last question
	return r, err
}
