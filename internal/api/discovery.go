package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// AuditLog is a page of the audit log, newest first.
type AuditLog struct {
	Audit      []control.AuditRow `json:"audit"`
	NextCursor string             `json:"next_cursor,omitempty"`
}

// discovered is the answer to a reader that may have it already.
type discovered struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *control.Discovery
}

func discoveryRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/warehouses", "get-warehouses", "All warehouses with their teams, as of one generation; what is not in it is gone", http.StatusOK,
		func(ctx context.Context, in *struct {
			IfNoneMatch string `header:"If-None-Match" maxLength:"100" doc:"ETag of the answer that the caller has"`
		},
		) (*discovered, error) {
			all, err := d.Control.Discovery(ctx)
			if err != nil {
				return nil, err // the whole answer: callers keep the last good one
			}
			out := &discovered{http.StatusOK, etag(all.ConfigGeneration), &all}
			if matches(in.IfNoneMatch, out.ETag) {
				out.Status, out.Body = http.StatusNotModified, nil
			}
			return out, nil
		})
	route(api, d, http.MethodGet, "/warehouse-team-ids", "get-warehouse-team-ids", "Ids of the teams of all warehouses, sorted", http.StatusOK,
		func(ctx context.Context, _ *struct{}) (*body[[]sluice.TeamID], error) {
			return answer(d.Control.WarehouseTeamIDs(ctx))
		})
	route(api, d, http.MethodGet, "/orgs/{org}/bindings", "get-bindings", "Which table each stream of an org is in, for readers", http.StatusOK,
		func(ctx context.Context, in *OrgPath) (*body[[]stream.ReaderBinding], error) {
			all, err := d.Streams.Bindings(ctx, sluice.Org(in.Org))
			return answer(nonNil(all), err)
		})
	route(api, d, http.MethodGet, "/audit", "list-audit", "Who changed what, newest first", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			Org string `query:"org"`
		},
		) (*body[AuditLog], error) {
			before := int64(0)
			if in.Cursor != "" {
				n, err := strconv.ParseInt(in.Cursor, 10, 64)
				if err != nil || n < 1 {
					return nil, sluice.E("SLUICE-USAGE", "list the audit log", "the cursor is not one of ours", "send next_cursor of the page before", nil)
				}
				before = n
			}
			rows, err := d.Control.AuditLog(ctx, sluice.Org(in.Org), before, in.Limit)
			out := AuditLog{Audit: nonNil(rows)}
			if len(rows) > 0 && len(rows) == in.Limit {
				out.NextCursor = strconv.FormatInt(rows[len(rows)-1].ID, 10)
			}
			return answer(out, err)
		})
}

// matches reads If-None-Match: one or more ETags, or a star.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == etag || part == "*" {
			return true
		}
	}
	return false
}
