package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/naming"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

// Status is how the server and the streams stand.
type Status struct {
	Server     Server            `json:"server"`
	Streams    []queue.StatusRow `json:"streams"`
	NextCursor string            `json:"next_cursor,omitempty"`
}

func statusRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/status", "get-status", "How the server and each stream stand", http.StatusOK,
		func(ctx context.Context, in *filter) (*body[Status], error) {
			rows, next, err := d.Queue.Status(ctx, in.queue())
			out := Status{Server: Server{Roles: []Role{}}, Streams: nonNil(rows), NextCursor: next}
			if d.Server != nil {
				out.Server = d.Server()
			}
			return answer(out, err)
		})
}

func nameRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/names/preview", "preview-name", "The table name that a policy derives, before collisions", http.StatusOK,
		func(_ context.Context, in *struct {
			Policy     string `query:"policy" default:"copy_v1"`
			SourceType string `query:"source_type"`
			Prefix     string `query:"prefix"`
			Name       string `query:"name"`
		},
		) (*body[naming.Derived], error) {
			return answer(naming.Name(sluice.NamingPolicy(in.Policy), in.SourceType, in.Prefix, in.Name))
		})
}
