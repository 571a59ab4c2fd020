package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Run is a run on the wire.
type Run struct {
	StreamID     sluice.StreamID `json:"stream_id"`
	RunID        sluice.RunID    `json:"run_id"`
	Seq          int64           `json:"seq"`
	Kind         sluice.RunKind  `json:"kind"`
	SyncType     sluice.SyncType `json:"sync_type"`
	IsFirstEver  bool            `json:"is_first_ever"`
	State        sluice.RunState `json:"state"`
	FinalIndex   *int64          `json:"final_index,omitempty"`
	TotalBatches *int64          `json:"total_batches,omitempty"`
	TotalRows    *int64          `json:"total_rows,omitempty"`
	NextIndex    int64           `json:"next_index" doc:"all batches below are applied"`
	Reason       string          `json:"reason,omitempty"`
	FirstBatchAt *time.Time      `json:"first_batch_at,omitempty"`
	SealedAt     *time.Time      `json:"sealed_at,omitempty"`
	EndedAt      *time.Time      `json:"ended_at,omitempty"`
}

func wireRun(r sluice.Run) Run {
	return Run{
		StreamID: r.StreamID, RunID: r.RunID, Seq: r.Seq, Kind: r.Kind, SyncType: r.SyncType, IsFirstEver: r.IsFirstEver, State: r.State,
		FinalIndex: r.FinalIndex, TotalBatches: r.TotalBatches, TotalRows: r.TotalRows, NextIndex: r.NextIndex, Reason: r.Reason,
		FirstBatchAt: r.FirstBatchAt, SealedAt: r.SealedAt, EndedAt: r.EndedAt,
	}
}

// Runs is a page of runs, newest first.
type Runs struct {
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Act is the body of an operator's command.
type Act = act

// filter is what listings of the queue take.
type filter struct {
	Page
	Org      string `query:"org"`
	StreamID string `query:"stream_id"`
	RunID    string `query:"run_id"`
	State    string `query:"state"`
}

func (f filter) queue() queue.Filter {
	return queue.Filter{
		Org: sluice.Org(f.Org), StreamID: sluice.StreamID(f.StreamID), RunID: sluice.RunID(f.RunID), State: f.State, Limit: f.Limit, Cursor: f.Cursor,
	}
}

func runRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/runs", "list-runs", "List runs, newest first", http.StatusOK,
		func(ctx context.Context, in *filter) (*body[Runs], error) {
			runs, next, err := d.Queue.Runs(ctx, in.queue())
			out := Runs{Runs: []Run{}, NextCursor: next}
			for _, r := range runs {
				out.Runs = append(out.Runs, wireRun(r))
			}
			return answer(out, err)
		})
	route(api, d, http.MethodGet, "/streams/{stream_id}/runs", "list-stream-runs", "List the runs of a stream, newest first", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			StreamPath
		},
		) (*body[Runs], error) {
			s, err := d.Streams.Get(ctx, sluice.StreamID(in.StreamID))
			if err != nil {
				return nil, err
			}
			runs, next, err := d.Queue.Runs(ctx, queue.Filter{StreamID: s.StreamID, Limit: in.Limit, Cursor: in.Cursor})
			out := Runs{Runs: []Run{}, NextCursor: next}
			for _, r := range runs {
				out.Runs = append(out.Runs, wireRun(r))
			}
			return answer(out, err)
		})
	route(api, d, http.MethodGet, "/streams/{stream_id}/runs/{run_id}/batches", "list-run-batches", "List the batches of a run", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			RunPath
		},
		) (*body[Batches], error) {
			r, err := d.Queue.Run(ctx, sluice.StreamID(in.StreamID), sluice.RunID(in.RunID))
			if err != nil {
				return nil, err
			}
			found, next, err := d.Queue.Batches(ctx, queue.Filter{StreamID: r.StreamID, RunID: r.RunID, Limit: in.Limit, Cursor: in.Cursor})
			out := Batches{Batches: []Batch{}, NextCursor: next}
			for _, b := range found {
				out.Batches = append(out.Batches, wireBatch(b))
			}
			return answer(out, err)
		})
	route(api, d, http.MethodGet, "/streams/{stream_id}/runs/{run_id}", "get-run", "Show a run", http.StatusOK,
		func(ctx context.Context, in *RunPath) (*body[Run], error) {
			r, err := d.Queue.Run(ctx, sluice.StreamID(in.StreamID), sluice.RunID(in.RunID))
			return answer(wireRun(r), err)
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/runs/{run_id}/cancel", "cancel-run", "End a run; batches that are not applied are given up", http.StatusOK,
		func(ctx context.Context, in *struct {
			RunPath
			Body Act
		},
		) (*body[queue.Change], error) {
			return change(d.Queue.CancelRun(ctx, sluice.StreamID(in.StreamID), sluice.RunID(in.RunID), in.Body.operator(ctx)))
		})
}

func change(c queue.Change, err error) (*body[queue.Change], error) {
	c.Batches = nonNil(c.Batches)
	return answer(c, err)
}
