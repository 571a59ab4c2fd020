package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/sluice"
)

// server is what a command talks to: a server that runs, or the same routes in process.
type server struct {
	*client.Client
	cfg   *config.Loaded
	local bool // no server runs
	close func() error
}

// withServer runs fn with the server that --server, SLUICE_SERVER or the data directory's serve.json names, or with the
// API in process over the state DB. With create the state DB is made if there is none.
func withServer(c *cobra.Command, create bool, fn func(ctx context.Context, s *server) error) (err error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	s, err := connect(c.Context(), cfg, create)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	return fn(c.Context(), s)
}

func connect(ctx context.Context, cfg *config.Loaded, create bool) (*server, error) {
	s := &server{cfg: cfg, close: func() error { return nil }}
	if cfg.Server != "" {
		var err error
		s.Client, err = app.NewClient(&cfg.Config, cfg.Server)
		return s, err
	}
	switch f, found, err := app.Running(ctx, &cfg.Config); {
	case err != nil:
		return nil, err
	case found:
		s.Client, err = app.NewClient(&cfg.Config, f.URL())
		return s, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	a, err := app.New(ctx, &cfg.Config, app.Options{Log: log, Create: create})
	if err != nil {
		return nil, err
	}
	s.Client, s.local, s.close = client.InProcess(a.Local()), true, a.Close
	return s, nil
}

// findStream gives the one stream that ref means.
func (s *server) findStream(ctx context.Context, org, ref string) (api.Stream, error) {
	if ref == "" {
		return api.Stream{}, sluice.E("SLUICE-USAGE", "find the stream", "none is given", "give --stream: a UUID, team/source_type/name, or a table", nil)
	}
	found, err := client.Get[api.Streams](ctx, s.Client, "/streams", query("org", org, "ref", ref))
	if err != nil {
		return api.Stream{}, err
	}
	switch len(found.Streams) {
	case 1:
		return found.Streams[0], nil
	case 0:
		return api.Stream{}, sluice.E("SLUICE-LOAD-NO-STREAM", fmt.Sprintf("find stream %q", ref), "there is no such stream",
			"see sluice stream list; a stream is named by its UUID, team/source_type/name, schema.table or table", nil)
	}
	return api.Stream{}, sluice.E("SLUICE-USAGE", fmt.Sprintf("find stream %q", ref), fmt.Sprintf("%d streams have that name", len(found.Streams)),
		"give the UUID, or --org", nil)
}

// query makes URL parameters of name and value pairs, without the empty ones.
func query(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// pages reads all pages of a listing, or the first ones up to limit rows.
func pages[T any, P any](ctx context.Context, s *server, path string, q url.Values, limit int, rows func(P) ([]T, string)) ([]T, error) {
	out := []T{}
	for {
		page, err := client.Get[P](ctx, s.Client, path, q)
		if err != nil {
			return nil, err
		}
		got, next := rows(page)
		out = append(out, got...)
		if next == "" || len(out) >= limit {
			return out[:min(len(out), limit)], nil
		}
		q.Set("cursor", next)
	}
}
