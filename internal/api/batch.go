package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Batch is a batch on the wire.
type Batch struct {
	BatchID        sluice.BatchID       `json:"batch_id"`
	StreamID       sluice.StreamID      `json:"stream_id"`
	RunID          sluice.RunID         `json:"run_id"`
	BatchIndex     int64                `json:"batch_index"`
	Path           string               `json:"path,omitempty"`
	ETag           string               `json:"etag,omitempty"`
	ByteSize       *int64               `json:"byte_size,omitempty"`
	RowCount       *int64               `json:"row_count,omitempty"`
	IsFinal        bool                 `json:"is_final"`
	IsResume       bool                 `json:"is_resume"`
	Op             sluice.Op            `json:"op,omitempty"`
	UpstreamState  sluice.UpstreamState `json:"upstream_state"`
	LoadState      sluice.LoadState     `json:"load_state"`
	LoadReason     string               `json:"load_reason,omitempty"`
	Attempt        int                  `json:"attempt"`
	Deferrals      int                  `json:"deferrals"`
	NextAttemptAt  *time.Time           `json:"next_attempt_at,omitempty"`
	StateChangedAt time.Time            `json:"state_changed_at"`
	CreatedAt      time.Time            `json:"created_at"`
	ErrorCode      sluice.Code          `json:"error_code,omitempty"`
	ErrorText      string               `json:"error_text,omitempty"`
}

func wireBatch(b sluice.Batch) Batch {
	return Batch{
		BatchID: b.BatchID, StreamID: b.StreamID, RunID: b.RunID, BatchIndex: b.BatchIndex, Path: b.Path, ETag: b.ETag, ByteSize: b.ByteSize,
		RowCount: b.RowCount, IsFinal: b.IsFinal, IsResume: b.IsResume, Op: b.Op, UpstreamState: b.UpstreamState, LoadState: b.LoadState,
		LoadReason: b.LoadReason, Attempt: b.Attempt, Deferrals: b.Deferrals, NextAttemptAt: b.NextAttemptAt, StateChangedAt: b.StateChangedAt,
		CreatedAt: b.CreatedAt, ErrorCode: b.ErrorCode, ErrorText: b.ErrorText,
	}
}

// Batches is a page of batches, in stream order.
type Batches struct {
	Batches    []Batch `json:"batches"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// BatchDetail is a batch with what happened to it.
type BatchDetail struct {
	Batch
	History []queue.HistoryRow `json:"history"`
}

// BatchPath names the object in the path of a route.
type BatchPath struct {
	BatchID string `path:"batch_id"`
}

func batchRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/batches", "list-batches", "List batches in stream order", http.StatusOK,
		func(ctx context.Context, in *filter) (*body[Batches], error) {
			found, next, err := d.Queue.Batches(ctx, in.queue())
			out := Batches{Batches: []Batch{}, NextCursor: next}
			for _, b := range found {
				out.Batches = append(out.Batches, wireBatch(b))
			}
			return answer(out, err)
		})
	route(api, d, http.MethodGet, "/batches/{batch_id}", "get-batch", "Show a batch and its history", http.StatusOK,
		func(ctx context.Context, in *BatchPath) (*body[BatchDetail], error) {
			b, history, err := d.Queue.Batch(ctx, sluice.BatchID(in.BatchID))
			return answer(BatchDetail{wireBatch(b), nonNil(history)}, err)
		})
	route(api, d, http.MethodPost, "/batches/{batch_id}/retry", "retry-batch", "Make a waiting batch claimable at once, with all its attempts", http.StatusOK,
		func(ctx context.Context, in *struct {
			BatchPath
			Body Act
		},
		) (*body[queue.Change], error) {
			return change(d.Queue.BatchRetry(ctx, sluice.BatchID(in.BatchID), in.Body.operator(ctx)))
		})
}
