package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Enqueue is the body of a producer's call: batches of one run, all or nothing.
type Enqueue struct {
	TeamID      *int64         `json:"team_id,omitempty" doc:"if given, it must be the stream's"`
	SyncType    string         `json:"sync_type,omitempty" doc:"if given, it must be the stream's"`
	IsFirstEver bool           `json:"is_first_ever,omitempty" doc:"first run of the stream: batch 0 replaces the table"`
	Options     sluice.Options `json:"options,omitempty" doc:"overrides for this run; taken from the call that creates it"`
	Batches     []NewBatch     `json:"batches" minItems:"1" maxItems:"1000"`
}

// NewBatch is a data row, or a final marker (is_final without path).
type NewBatch struct {
	BatchID       string `json:"batch_id,omitempty" doc:"default: UUIDv5 of stream, run and index"`
	BatchIndex    int64  `json:"batch_index" minimum:"0"`
	Path          string `json:"path,omitempty" maxLength:"4000"`
	ETag          string `json:"etag,omitempty"`
	ByteSize      *int64 `json:"byte_size,omitempty" minimum:"0"`
	RowCount      *int64 `json:"row_count,omitempty" minimum:"0"`
	IsFinal       bool   `json:"is_final,omitempty"`
	IsResume      bool   `json:"is_resume,omitempty"`
	UpstreamState string `json:"upstream_state,omitempty" enum:"none,waiting,succeeded,failed"`
	TotalBatches  *int64 `json:"total_batches,omitempty" minimum:"0"`
	TotalRows     *int64 `json:"total_rows,omitempty" minimum:"0"`
}

// Enqueued says what became of each row.
type Enqueued struct {
	Batches []queue.EnqueueResult `json:"batches"`
}

// Upstream is the body that reports whether the authoritative store holds a batch.
type Upstream struct {
	UpstreamState string `json:"upstream_state" enum:"succeeded,failed"`
}

// RunPath names the object in the path of a route.
type RunPath struct {
	StreamPath
	RunID string `path:"run_id" maxLength:"200"`
}

func enqueueRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodPost, "/streams/{stream_id}/runs/{run_id}/batches", "enqueue", "Hand in batches of a run; repeating a call changes nothing", http.StatusCreated,
		func(ctx context.Context, in *struct {
			RunPath
			Body Enqueue
		},
		) (*struct {
			Status int
			Body   Enqueued
		}, error,
		) {
			results, err := d.Queue.Enqueue(ctx, in.Body.request(in.RunPath))
			if err != nil {
				return nil, err
			}
			out := &struct {
				Status int
				Body   Enqueued
			}{http.StatusOK, Enqueued{nonNil(results)}}
			counts := map[string]int{}
			for _, r := range results {
				counts[r.Result]++
				if r.Result == queue.Accepted {
					out.Status = http.StatusCreated
				}
			}
			if d.Enqueued != nil {
				for result, n := range counts {
					d.Enqueued(result, n)
				}
			}
			return out, nil
		})
	route(api, d, http.MethodPatch, "/streams/{stream_id}/runs/{run_id}/batches/{batch_id}", "report-upstream", "Report whether the authoritative store holds a batch", http.StatusOK,
		func(ctx context.Context, in *struct {
			RunPath
			BatchID string `path:"batch_id"`
			Body    Upstream
		},
		) (*body[Batch], error) {
			id := sluice.BatchID(in.BatchID)
			b, _, err := d.Queue.Batch(ctx, id)
			if err == nil && (string(b.StreamID) != in.StreamID || string(b.RunID) != in.RunID) {
				err = sluice.E("SLUICE-LOAD-NO-BATCH", "report upstream of batch "+in.BatchID, "it is not a batch of that run", "", nil)
			}
			if err == nil {
				err = d.Queue.Upstream(ctx, id, sluice.UpstreamState(in.Body.UpstreamState))
			}
			if err == nil {
				b, _, err = d.Queue.Batch(ctx, id)
			}
			return answer(wireBatch(b), err)
		})
}

func (e Enqueue) request(p RunPath) queue.EnqueueRequest {
	r := queue.EnqueueRequest{
		StreamID: sluice.StreamID(p.StreamID), RunID: sluice.RunID(p.RunID), SyncType: sluice.SyncType(e.SyncType),
		IsFirstEver: e.IsFirstEver, Options: e.Options,
	}
	if e.TeamID != nil {
		team := sluice.TeamID(*e.TeamID)
		r.TeamID = &team
	}
	for _, b := range e.Batches {
		r.Batches = append(r.Batches, queue.NewBatch{
			BatchID: sluice.BatchID(b.BatchID), BatchIndex: b.BatchIndex, Path: b.Path, ETag: b.ETag, ByteSize: b.ByteSize, RowCount: b.RowCount,
			IsFinal: b.IsFinal, IsResume: b.IsResume, UpstreamState: sluice.UpstreamState(b.UpstreamState),
			TotalBatches: b.TotalBatches, TotalRows: b.TotalRows,
		})
	}
	return r
}
