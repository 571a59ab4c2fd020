package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Stream is a stream on the wire.
type Stream struct {
	StreamID       sluice.StreamID  `json:"stream_id"`
	Org            sluice.Org       `json:"org"`
	TeamID         sluice.TeamID    `json:"team_id"`
	SourceType     string           `json:"source_type"`
	Prefix         string           `json:"prefix,omitempty"`
	Name           string           `json:"name"`
	SyncType       sluice.SyncType  `json:"sync_type"`
	DeltaURI       string           `json:"delta_uri,omitempty"`
	Options        sluice.Options   `json:"options"`
	TargetSchema   string           `json:"target_schema,omitempty" doc:"empty until the table is named"`
	TargetTable    string           `json:"target_table,omitempty"`
	Enabled        bool             `json:"enabled"`
	Lifecycle      sluice.Lifecycle `json:"lifecycle"`
	BootstrappedAt *time.Time       `json:"bootstrapped_at,omitempty"`
	CreatedAt      time.Time        `json:"created_at"`
}

// UpdateStream is the body that changes a stream; what is left out stays, null clears.
type UpdateStream struct {
	Enabled  Opt[bool]       `json:"enabled,omitzero" doc:"off, it takes batches and applies none"`
	DeltaURI Opt[string]     `json:"delta_uri,omitzero" maxLength:"2000"`
	Options  *sluice.Options `json:"options,omitempty" doc:"all of them"`
}

func wireStream(s sluice.Stream) Stream {
	return Stream{
		StreamID: s.StreamID, Org: s.Org, TeamID: s.TeamID, SourceType: s.SourceType, Prefix: s.Prefix, Name: s.Name, SyncType: s.SyncType,
		DeltaURI: s.DeltaURI, Options: s.Options, TargetSchema: s.TargetSchema, TargetTable: s.TargetTable, Enabled: s.Enabled,
		Lifecycle: s.Lifecycle, BootstrappedAt: s.BootstrappedAt, CreatedAt: s.CreatedAt,
	}
}

// Streams is a page of streams.
type Streams struct {
	Streams    []Stream `json:"streams"`
	NextCursor string   `json:"next_cursor,omitempty"`
}

// AddStream is the body that registers a stream.
type AddStream struct {
	StreamID   string         `json:"stream_id,omitempty" doc:"UUID; default: a new one"`
	TeamID     int64          `json:"team_id"`
	SourceType string         `json:"source_type" minLength:"1" maxLength:"200"`
	Prefix     string         `json:"prefix,omitempty" maxLength:"200"`
	Name       string         `json:"name" minLength:"1" maxLength:"500"`
	SyncType   string         `json:"sync_type" doc:"full_refresh, incremental, append or cdc"`
	DeltaURI   string         `json:"delta_uri,omitempty" maxLength:"2000" doc:"Delta table with the stream's history; its batches wait for reports of it"`
	Options    sluice.Options `json:"options,omitempty"`
	DryRun     bool           `json:"dry_run,omitempty"`
}

// BindStream is the body that gives a stream its table.
type BindStream struct {
	Table  string `json:"table,omitempty" doc:"the table's name; default: derived by the org's policy"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// StreamPath names the object in the path of a route.
type StreamPath struct {
	StreamID string `path:"stream_id" doc:"UUID"`
}

func streamRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/streams", "list-streams", "List streams, or find one by what people call it", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			Org    string `query:"org"`
			TeamID int64  `query:"team_id"`
			Ref    string `query:"ref" doc:"UUID, team/source_type/name, team/source_type/prefix/name, schema.table or table"`
		},
		) (*body[Streams], error) {
			if in.Ref != "" {
				return answer(findStreams(ctx, d, sluice.Org(in.Org), in.Ref))
			}
			f := stream.Filter{Org: sluice.Org(in.Org), After: sluice.StreamID(in.Cursor), Limit: in.Limit}
			if in.TeamID != 0 {
				team := sluice.TeamID(in.TeamID)
				f.TeamID = &team
			}
			return answer(listStreams(ctx, d, f))
		})
	route(api, d, http.MethodGet, "/streams/{stream_id}", "get-stream", "Show a stream", http.StatusOK,
		func(ctx context.Context, in *StreamPath) (*versioned[Stream], error) {
			s, err := d.Streams.Detail(ctx, sluice.StreamID(in.StreamID))
			if err == nil && s.DeletedAt != nil {
				_, err = d.Streams.Get(ctx, s.StreamID) // which says that there is none
			}
			return answerVersion(wireStream(s.Stream), s.Version, err)
		})
	route(api, d, http.MethodPost, "/orgs/{org}/streams", "add-stream", "Register a stream", http.StatusCreated,
		func(ctx context.Context, in *struct {
			OrgPath
			Body AddStream
		},
		) (*body[Stream], error) {
			return answer(addStream(ctx, d, sluice.Org(in.Org), in.Body))
		})
	route(api, d, http.MethodGet, "/orgs/{org}/streams", "list-org-streams", "List the streams of an org", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			OrgPath
		},
		) (*body[Streams], error) {
			if _, err := d.Control.Org(ctx, sluice.Org(in.Org)); err != nil {
				return nil, err
			}
			return answer(listStreams(ctx, d, stream.Filter{Org: sluice.Org(in.Org), After: sluice.StreamID(in.Cursor), Limit: in.Limit}))
		})
	route(api, d, http.MethodPatch, "/streams/{stream_id}", "update-stream", "Change a stream", http.StatusOK,
		func(ctx context.Context, in *struct {
			StreamPath
			IfMatch
			Body UpdateStream
		},
		) (*versioned[Stream], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			s, err := d.Streams.Update(ctx, sluice.StreamID(in.StreamID), version, stream.By(by(ctx)), func(s *sluice.Stream) error {
				in.Body.Enabled.to(&s.Enabled)
				in.Body.DeltaURI.to(&s.DeltaURI)
				if in.Body.Options != nil {
					s.Options = *in.Body.Options
				}
				return in.Body.Enabled.notNull("change stream "+in.StreamID, "enabled")
			})
			return answerVersion(wireStream(s.Stream), s.Version, err)
		})
	route(api, d, http.MethodDelete, "/streams/{stream_id}", "delete-stream", "Remove a stream; its table and the table's name stay", http.StatusNoContent,
		func(ctx context.Context, in *struct {
			StreamPath
			IfMatch
		},
		) (*struct{}, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return nil, d.Streams.RemoveAt(ctx, sluice.StreamID(in.StreamID), version, stream.By(by(ctx)))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/reset", "reset-stream", "Say that a stream's table is not trusted: it needs a full refresh or a backfill", http.StatusOK,
		func(ctx context.Context, in *struct {
			StreamPath
			Body Act
		},
		) (*body[queue.Change], error) {
			return change(d.Queue.Reset(ctx, sluice.StreamID(in.StreamID), in.Body.operator(ctx)))
		})
	route(api, d, http.MethodPost, "/streams/{stream_id}/bind", "bind-stream", "Give a stream its table, once", http.StatusOK,
		func(ctx context.Context, in *struct {
			StreamPath
			Body BindStream
		},
		) (*body[stream.Binding], error) {
			return answer(bindStream(ctx, d, sluice.StreamID(in.StreamID), in.Body))
		})
}

func listStreams(ctx context.Context, d Deps, f stream.Filter) (Streams, error) {
	found, err := d.Streams.List(ctx, f)
	out := Streams{Streams: []Stream{}}
	for _, s := range found {
		out.Streams = append(out.Streams, wireStream(s))
	}
	if f.Limit > 0 && len(found) == f.Limit {
		out.NextCursor = string(found[len(found)-1].StreamID)
	}
	return out, err
}

// findStreams finds the streams that ref may mean.
func findStreams(ctx context.Context, d Deps, org sluice.Org, ref string) (Streams, error) {
	out := Streams{Streams: []Stream{}}
	if id, err := uuid.Parse(ref); err == nil {
		s, err := d.Streams.Get(ctx, sluice.StreamID(id.String()))
		if err != nil {
			return out, err
		}
		out.Streams = append(out.Streams, wireStream(s))
		return out, nil
	}
	err := eachStream(ctx, d, stream.Filter{Org: org}, func(s sluice.Stream) {
		if means(ref, s) && len(out.Streams) < 100 {
			out.Streams = append(out.Streams, wireStream(s))
		}
	})
	return out, err
}

// means reports whether ref is a name of s.
func means(ref string, s sluice.Stream) bool {
	team := strconv.FormatInt(int64(s.TeamID), 10)
	names := []string{strings.Join([]string{team, s.SourceType, s.Name}, "/")}
	if s.Prefix != "" {
		names = []string{strings.Join([]string{team, s.SourceType, s.Prefix, s.Name}, "/")}
	}
	if s.TargetTable != "" {
		names = append(names, s.TargetTable, s.TargetSchema+"."+s.TargetTable)
	}
	for _, n := range names {
		if ref == n {
			return true
		}
	}
	return false
}

func addStream(ctx context.Context, d Deps, org sluice.Org, in AddStream) (Stream, error) {
	doing := fmt.Sprintf("add stream %s/%s of org %s", in.SourceType, in.Name, org)
	sync := sluice.SyncType(in.SyncType)
	if !sync.Valid() {
		return Stream{}, sluice.E("SLUICE-LOAD-SYNC-TYPE", doing, fmt.Sprintf("unknown sync type %q", in.SyncType), "use full_refresh, incremental, append or cdc", nil)
	}
	if in.StreamID != "" {
		id, err := uuid.Parse(in.StreamID)
		if err != nil {
			return Stream{}, sluice.E("SLUICE-CONTROL-INVALID", doing, fmt.Sprintf("stream_id %q is not a UUID", in.StreamID), "leave it out for a new one", nil)
		}
		in.StreamID = id.String()
	}
	n := stream.NewStream{
		StreamID: sluice.StreamID(in.StreamID), Org: org, TeamID: sluice.TeamID(in.TeamID), SourceType: in.SourceType, Prefix: in.Prefix,
		Name: in.Name, SyncType: sync, DeltaURI: in.DeltaURI, Options: in.Options,
	}
	if in.DeltaURI != "" && d.HistoryAllowed != nil {
		if err := d.HistoryAllowed(ctx, org, in.DeltaURI); err != nil {
			return Stream{}, sluice.E("SLUICE-LOAD-PATH-REFUSED", doing, "delta_uri: "+err.Error(), "put the table below one of the org's extract prefixes", err)
		}
	}
	if in.DryRun {
		if _, err := d.Control.Team(ctx, org, n.TeamID); err != nil {
			return Stream{}, err
		}
		return wireStream(sluice.Stream{
			StreamID: n.StreamID, Org: org, TeamID: n.TeamID, SourceType: n.SourceType, Prefix: n.Prefix, Name: n.Name, SyncType: sync, Options: n.Options,
			Enabled: true, Lifecycle: sluice.Primed,
		}), nil
	}
	s, err := d.Streams.Add(ctx, n, stream.By(by(ctx)))
	return wireStream(s), err
}

func bindStream(ctx context.Context, d Deps, id sluice.StreamID, in BindStream) (stream.Binding, error) {
	s, err := d.Streams.Get(ctx, id)
	if err != nil {
		return stream.Binding{}, err
	}
	o := stream.BindOptions{Table: in.Table, DryRun: in.DryRun}
	if d.TableExists != nil {
		o.Exists = func(ctx context.Context, schema, table string) (bool, error) {
			return d.TableExists(ctx, s.Org, schema, table)
		}
	}
	return d.Streams.Bind(ctx, id, o, stream.By(by(ctx)))
}
