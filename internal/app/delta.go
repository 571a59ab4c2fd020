package app

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/config"
	"sluice/internal/delta"
	"sluice/internal/delta/action"
	"sluice/internal/objstore"
	"sluice/internal/sluice"
)

// OpenDelta names a Delta table by what a person wrote: a path, or a file: or s3: URI. Nothing is read yet.
func OpenDelta(ctx context.Context, cfg *config.Config, uri string) (*delta.Table, error) {
	o, err := DeltaOptions(ctx, cfg)
	if err != nil {
		return nil, err
	}
	at, err := objstore.ParseLocation(uri)
	if err != nil {
		return nil, sluice.E("SLUICE-USAGE", "", err.Error(), "give a path, or a file: or s3: URI", err)
	}
	store, err := objstore.NewOpener(ObjectOptions(cfg)).Open(ctx, at)
	if err != nil {
		return nil, sluice.E("SLUICE-CONFIG", "open "+uri, err.Error(), "see store.endpoint, store.region and store.credentials", err)
	}
	return delta.Open(store, uri, o)
}

// DeltaOptions say how the configuration reads Delta tables.
func DeltaOptions(ctx context.Context, cfg *config.Config) (delta.Options, error) {
	zone, err := time.LoadLocation(cfg.Delta.PartitionTimezone)
	if err != nil {
		return delta.Options{}, fmt.Errorf("read delta.partition_timezone: %w", err)
	}
	o := delta.Options{
		Zone: zone, Lenient: !cfg.Delta.Strict,
		Keys: action.Keys{RunID: cfg.Delta.CommitKeys.RunID, BatchIndex: cfg.Delta.CommitKeys.BatchIndex},
	}
	for _, text := range cfg.Delta.AllowedRoots {
		root := config.ParseAllowedRoot(text)
		at, err := objstore.ParseLocation(root.URI)
		if err != nil {
			return delta.Options{}, fmt.Errorf("read delta.allowed_roots: %w", err)
		}
		access := ObjectOptions(cfg)
		if root.Profile != "" {
			access = profileAccess(root.Profile)
		}
		store, err := objstore.NewOpener(access).Open(ctx, at)
		if err != nil {
			return delta.Options{}, fmt.Errorf("open a root of delta.allowed_roots: %w", err)
		}
		o.Roots = append(o.Roots, delta.Root{At: at, Store: store})
	}
	return o, nil
}
