package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sluice/internal/control"
	"sluice/internal/queue"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Deps are what the routes stand on.
type Deps struct {
	Control *control.Store
	Streams *stream.Store
	Queue   *queue.Store
	Planner Planner // of histories; nil leaves its routes out
	// NewLake says where the lake of a new org is to be; extra are further extract prefixes.
	NewLake func(org sluice.Org, extra []string) (control.Lake, error)
	// OrgCreated is told of each new org, so that its warehouse is provisioned soon.
	OrgCreated func(ctx context.Context, org sluice.Org) error
	// TableExists asks a lake for a table; nil where this process has no engine.
	TableExists func(ctx context.Context, org sluice.Org, schema, table string) (bool, error)
	// HistoryAllowed says why an org may not read a Delta table; nil: it may.
	HistoryAllowed func(ctx context.Context, org sluice.Org, uri string) error
	// Server tells about this process, from memory.
	Server func() Server
	// Healthy says why the process should be restarted, from memory; nil means never.
	Healthy func() error
	// Ready lists what must hold before the process is used.
	Ready func() []Check
	// Metrics serves /metrics; nil leaves it out.
	Metrics http.Handler
	// Observe counts a request; route is the pattern.
	Observe func(route string, status int, took time.Duration)
	// Enqueued counts rows of an enqueue call by result.
	Enqueued func(result string, n int)
	// Auth says who may call; nil: whoever reaches this machine's loopback may do everything.
	Auth *Auth
	// Changelogs are the topics that are kept in tables.
	Changelogs Changelogs
	// Fanouts are the tables that are followed into the lakes of many orgs.
	Fanouts Fanouts
	Log     *slog.Logger
}

// maxBody is the largest request body.
const maxBody = 1 << 20

// New makes the handler of all routes.
func New(d Deps) http.Handler {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	d.Log = d.Log.With("component", "api")
	mux := http.NewServeMux()
	ops(mux, d)
	cfg := huma.DefaultConfig("Sluice", d.version())
	cfg.Info.Description = "Control plane and queue of Sluice. The words are those of the command line."
	cfg.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: "/", Description: "the server that the document comes from"}}
	cfg.DocsPath = ""     // its page loads scripts from elsewhere
	cfg.SchemasPath = ""  // they are in the document
	cfg.CreateHooks = nil // no $schema links in answers
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		bearer: {Type: "http", Scheme: "bearer", Description: "a token of `sluice token create`; not needed where the server listens on loopback without logins"},
	}
	useErrors.Do(setErrors)
	api := humago.New(mux, cfg)
	for _, routes := range []func(huma.API, Deps){
		orgRoutes, teamRoutes, userRoutes, credentialRoutes, tokenRoutes, discoveryRoutes, streamRoutes, enqueueRoutes, runRoutes, batchRoutes, quarantineRoutes, statusRoutes, nameRoutes,
		changelogRoutes, fanoutRoutes, backfillRoutes,
	} {
		routes(api, d)
	}
	completeDocument(api.OpenAPI())
	mux.HandleFunc("/", unknownRoute(mux))
	entrance := door{d: d}
	inner := textOnly(d.once(mux))
	if d.Auth == nil {
		inner = localOnly(inner)
	} else {
		inner = ownPagesOnly(entrance.open(inner))
	}
	return d.observed(mux, d.requestID(inner))
}

// completeDocument adds what the framework does not derive: the list of tags, and an answer without a body.
func completeDocument(doc *huma.OpenAPI) {
	tags := map[string]bool{}
	for _, path := range doc.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Patch, path.Delete} {
			if op == nil {
				continue
			}
			for _, tag := range op.Tags {
				tags[tag] = true
			}
			if op.OperationID == "get-warehouses" {
				op.Responses["304"] = &huma.Response{Description: "The caller has the present answer already"}
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: tag})
	}
}

// bearer names the security scheme of the document.
const bearer = "bearer"

func (d Deps) version() string {
	if d.Server == nil {
		return "dev"
	}
	return d.Server().Version
}

// route registers an operation whose handler gives errors of the project.
func route[I, O any](api huma.API, d Deps, method, path, id, summary string, status int, handler func(context.Context, *I) (*O, error)) {
	role := roleOf(method, id)
	errs := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if method != http.MethodGet {
		errs = append(errs, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	huma.Register(api, huma.Operation{
		OperationID: id, Method: method, Path: "/api/v1" + path, Summary: summary, DefaultStatus: status, MaxBodyBytes: maxBody, Errors: errs,
		Tags: []string{tagOf(path)}, Security: []map[string][]string{{bearer: {}}}, Description: summary + ". Needs the role " + string(role) + ".",
		Middlewares: huma.Middlewares{guard(api, role)}, Extensions: map[string]any{"x-sluice-role": string(role)},
	}, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, d.failed(ctx, err)
		}
		return out, nil
	})
}

// Page is what a listing takes. Embedded inputs are exported: the framework does not see others.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most rows to give"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// tagOf groups the operations of the document by the object that they are about.
func tagOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	tag := parts[0]
	if tag == "orgs" && len(parts) > 2 && !strings.HasPrefix(parts[2], "{") {
		switch parts[2] {
		case "teams", "users", "service-credentials", "streams", "bindings":
			tag = parts[2]
		}
	}
	return tag
}

// by says who changes something.
func by(ctx context.Context) control.By {
	return control.By{Who: callerOf(ctx).name, RequestID: requestID(ctx)}
}

// act is the body of an operator's command.
type act struct {
	DryRun bool   `json:"dry_run,omitempty" doc:"only say what would be done"`
	Note   string `json:"note,omitempty" maxLength:"1000" doc:"kept with what was done"`
}

func (a act) operator(ctx context.Context) queue.Operator {
	return queue.Operator{Who: callerOf(ctx).name, RequestID: requestID(ctx), Note: a.Note, DryRun: a.DryRun}
}

// body wraps an answer.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// nonNil makes an empty list [] instead of null.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
