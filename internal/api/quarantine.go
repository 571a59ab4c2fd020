package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Quarantine is a page of quarantined batches, newest first.
type Quarantine struct {
	Quarantine []queue.QuarantineRow `json:"quarantine"`
	NextCursor string                `json:"next_cursor,omitempty"`
}

func quarantineRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/quarantine", "list-quarantine", "List batches that cannot be applied, newest first", http.StatusOK,
		func(ctx context.Context, in *filter) (*body[Quarantine], error) {
			rows, next, err := d.Queue.Quarantined(ctx, in.queue())
			return answer(Quarantine{nonNil(rows), next}, err)
		})
	route(api, d, http.MethodGet, "/quarantine/{batch_id}", "get-quarantine", "Show why a batch is in quarantine", http.StatusOK,
		func(ctx context.Context, in *BatchPath) (*body[queue.QuarantineRow], error) {
			return answer(quarantineOf(ctx, d, sluice.BatchID(in.BatchID)))
		})
	route(api, d, http.MethodPost, "/quarantine/{batch_id}/retry", "retry-quarantine", "Queue a quarantined batch again; its run goes on", http.StatusOK,
		func(ctx context.Context, in *struct {
			BatchPath
			Body Act
		},
		) (*body[queue.Change], error) {
			return change(d.Queue.QuarantineRetry(ctx, sluice.BatchID(in.BatchID), in.Body.operator(ctx)))
		})
	route(api, d, http.MethodPost, "/quarantine/{batch_id}/discard", "discard-quarantine", "Accept the loss of a batch; its stream needs a resync", http.StatusOK,
		func(ctx context.Context, in *struct {
			BatchPath
			Body Act
		},
		) (*body[queue.Change], error) {
			return change(d.Queue.QuarantineDiscard(ctx, sluice.BatchID(in.BatchID), in.Body.operator(ctx)))
		})
}

// quarantineOf finds the newest quarantine row of a batch.
func quarantineOf(ctx context.Context, d Deps, id sluice.BatchID) (queue.QuarantineRow, error) {
	b, _, err := d.Queue.Batch(ctx, id)
	if err != nil {
		return queue.QuarantineRow{}, err
	}
	f := queue.Filter{StreamID: b.StreamID, RunID: b.RunID, Limit: 1000}
	for {
		rows, next, err := d.Queue.Quarantined(ctx, f)
		if err != nil {
			return queue.QuarantineRow{}, err
		}
		for _, r := range rows {
			if r.BatchID == id {
				return r, nil
			}
		}
		if next == "" {
			return queue.QuarantineRow{}, sluice.E("SLUICE-NOT-FOUND", "look for batch "+string(id)+" in quarantine", "it is not there and never was",
				"sluice batch show tells how it stands", nil)
		}
		f.Cursor = next
	}
}
