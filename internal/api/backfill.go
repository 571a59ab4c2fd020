package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Planner is what the routes need of whoever plans histories.
type Planner interface {
	Preview(ctx context.Context, id sluice.StreamID, r stream.PlanRequest) (stream.PlanPreview, error)
	Start(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, by control.By) (stream.PlanStatus, error)
	Replan(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, by control.By) (stream.PlanStatus, error)
	Pause(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.PlanStatus, error)
	Cancel(ctx context.Context, id sluice.StreamID, by control.By, dryRun bool) (stream.PlanStatus, error)
	Status(ctx context.Context, id sluice.StreamID) (stream.PlanStatus, error)
	Active(ctx context.Context, org sluice.Org) ([]stream.PlanStatus, error)
	Verify(ctx context.Context, id sluice.StreamID, r stream.PlanRequest, compare bool) (stream.VerifyReport, error)
}

// Backfill is the body that asks for a plan of a stream's history.
type Backfill struct {
	Kind             string         `json:"kind,omitempty" doc:"backfill (default), or copy: also for streams that have live batches"`
	URI              string         `json:"uri,omitempty" doc:"Delta table; default: the stream's"`
	Version          *int64         `json:"version,omitempty" doc:"default: the newest"`
	Covered          string         `json:"covered,omitempty" doc:"which batches the version holds where nothing proves it: RUN:INDEX,…, all or none"`
	Priority         int64          `json:"priority,omitempty" doc:"higher ones get their slot first"`
	KeepExtraColumns bool           `json:"keep_extra_columns,omitempty" doc:"columns that only the live table has stay, as NULL"`
	Checks           []stream.Check `json:"checks,omitempty" doc:"checked before the swap, beside the usual"`
	DryRun           bool           `json:"dry_run,omitempty"`
}

func (b Backfill) request(doing string) (stream.PlanRequest, error) {
	r := stream.PlanRequest{
		Kind: sluice.RunKind(b.Kind), SourceURI: b.URI, Version: b.Version, CoveredAnswer: b.Covered, Priority: b.Priority, DryRun: b.DryRun,
		Options: stream.PlanOptions{KeepExtraColumns: b.KeepExtraColumns, Checks: b.Checks},
	}
	if b.Kind != "" && r.Kind != sluice.RunBackfill && r.Kind != sluice.RunCopy {
		return r, sluice.E("SLUICE-USAGE", doing, "kind "+b.Kind+" is unknown", "use backfill or copy", nil)
	}
	return r, nil
}

// VerifyTable is the body that asks for a look at a live table.
type VerifyTable struct {
	URI     string         `json:"uri,omitempty"`
	Version *int64         `json:"version,omitempty"`
	Compare bool           `json:"compare,omitempty" doc:"compare the number of rows with the Delta table, too"`
	Checks  []stream.Check `json:"checks,omitempty"`
}

// BackfillAct is the body of a command on a plan.
type BackfillAct struct {
	DryRun bool `json:"dry_run,omitempty"`
}

// Backfills lists plans.
type Backfills struct {
	Backfills []stream.PlanStatus `json:"backfills"`
}

func backfillRoutes(api huma.API, d Deps) {
	if d.Planner == nil {
		return
	}
	type asked struct {
		StreamPath
		Body Backfill
	}
	type acted struct {
		StreamPath
		Body BackfillAct
	}
	with := func(in *asked, what string) (sluice.StreamID, stream.PlanRequest, error) {
		r, err := in.Body.request(what + " of stream " + in.StreamID)
		return sluice.StreamID(in.StreamID), r, err
	}
	route(api, d, http.MethodGet, "/backfills", "list-backfills", "List the streams with an active plan", http.StatusOK,
		func(ctx context.Context, in *struct {
			Org string `query:"org"`
		},
		) (*body[Backfills], error) {
			all, err := d.Planner.Active(ctx, sluice.Org(in.Org))
			return answer(Backfills{nonNil(all)}, err)
		})
	route(api, d, http.MethodGet, "/streams/{stream_id}/backfill", "get-backfill", "Show a stream's plan with its steps", http.StatusOK,
		func(ctx context.Context, in *StreamPath) (*body[stream.PlanStatus], error) {
			return answer(d.Planner.Status(ctx, sluice.StreamID(in.StreamID)))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/backfill/plan", "plan-backfill", "Show what a plan would do; nothing is stored", http.StatusOK,
		func(ctx context.Context, in *asked) (*body[stream.PlanPreview], error) {
			id, r, err := with(in, "plan")
			if err != nil {
				return nil, err
			}
			return answer(d.Planner.Preview(ctx, id, r))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/backfill/start", "start-backfill", "Load a stream's history, or let a paused plan go on", http.StatusOK,
		func(ctx context.Context, in *asked) (*body[stream.PlanStatus], error) {
			id, r, err := with(in, "start the backfill")
			if err != nil {
				return nil, err
			}
			return answer(d.Planner.Start(ctx, id, r, by(ctx)))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/backfill/replan", "replan-backfill", "Make a new plan in the place of the active one", http.StatusOK,
		func(ctx context.Context, in *asked) (*body[stream.PlanStatus], error) {
			id, r, err := with(in, "replan the backfill")
			if err != nil {
				return nil, err
			}
			return answer(d.Planner.Replan(ctx, id, r, by(ctx)))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/backfill/pause", "pause-backfill", "Pause a plan after the step that is being applied", http.StatusOK,
		func(ctx context.Context, in *acted) (*body[stream.PlanStatus], error) {
			return answer(d.Planner.Pause(ctx, sluice.StreamID(in.StreamID), by(ctx), in.Body.DryRun))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/backfill/cancel", "cancel-backfill", "End a plan before its swap", http.StatusOK,
		func(ctx context.Context, in *acted) (*body[stream.PlanStatus], error) {
			return answer(d.Planner.Cancel(ctx, sluice.StreamID(in.StreamID), by(ctx), in.Body.DryRun))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/verify", "verify-table", "Check a stream's live table; nothing is changed", http.StatusOK,
		func(ctx context.Context, in *struct {
			StreamPath
			Body VerifyTable
		},
		) (*body[stream.VerifyReport], error) {
			r := stream.PlanRequest{SourceURI: in.Body.URI, Version: in.Body.Version, Options: stream.PlanOptions{Checks: in.Body.Checks}}
			return answer(d.Planner.Verify(ctx, sluice.StreamID(in.StreamID), r, in.Body.Compare))
		})
}
