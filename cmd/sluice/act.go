package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
)

// onServer completes a command that talks to the server: what it does, and --json.
func onServer(c *cobra.Command, out *output, run func(ctx context.Context, s *server, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		for _, name := range []string{"org", "role"} {
			if f := c.Flags().Lookup(name); f != nil && f.Value.String() == "" && strings.Contains(c.Use, "--"+name+" ") {
				return usage(c, "--"+name+" is needed")
			}
		}
		return withServer(c, false, func(ctx context.Context, s *server) error { return run(ctx, s, args) })
	}
	addJSON(c.Flags(), out)
	return c
}

// pathOf joins parts of a path, each escaped.
func pathOf(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// change is a write to one object, for commands that have no dry run of the server's: with --dry-run the object is only
// looked up, so that a wrong name is found out.
type change struct {
	path, done string // what is said afterwards, like "team 7 of org acme is deleted"
	would      string
	dry        bool
}

// patched sends a PATCH and shows the object.
func patched[T any](ctx context.Context, s *server, out *output, ch change, lookUp string, body any) error {
	if ch.dry {
		object, err := client.Get[T](ctx, s.Client, lookUp, nil)
		if err != nil {
			return err
		}
		return out.result(object, func() { out.line("%s", ch.would) })
	}
	object, err := client.Patch[T](ctx, s.Client, ch.path, "", body)
	if err != nil {
		return err
	}
	return out.result(object, func() { out.line("%s", ch.done) })
}

// posted sends a POST without a body and shows the object.
func posted[T any](ctx context.Context, s *server, out *output, ch change, lookUp string) error {
	if ch.dry {
		object, err := client.Get[T](ctx, s.Client, lookUp, nil)
		if err != nil {
			return err
		}
		return out.result(object, func() { out.line("%s", ch.would) })
	}
	object, err := client.Post[T](ctx, s.Client, ch.path, api.Empty{})
	if err != nil {
		return err
	}
	return out.result(object, func() { out.line("%s", ch.done) })
}

// deleted is what --json prints after a removal.
type deleted struct {
	Path    string `json:"path"`
	Deleted bool   `json:"deleted"`
}

// removed sends a DELETE.
func removed[T any](ctx context.Context, s *server, out *output, ch change, query url.Values) error {
	if ch.dry {
		if _, err := client.Get[T](ctx, s.Client, ch.path, nil); err != nil {
			return err
		}
		return out.result(deleted{ch.path, false}, func() { out.line("%s", ch.would) })
	}
	if err := client.Delete(ctx, s.Client, ch.path, "", query); err != nil {
		return err
	}
	return out.result(deleted{ch.path, true}, func() { out.line("%s", ch.done) })
}

// optional gives a field that is left out unless its flag was given; an empty text clears it.
func optional(c *cobra.Command, flag, value string) api.Opt[string] {
	switch {
	case !c.Flags().Changed(flag):
		return api.Opt[string]{}
	case value == "":
		return api.Clear[string]()
	}
	return api.Set(value)
}

// optionalInt is optional for numbers; -1 clears.
func optionalInt(c *cobra.Command, flag string, value int64) api.Opt[int64] {
	switch {
	case !c.Flags().Changed(flag):
		return api.Opt[int64]{}
	case value < 0:
		return api.Clear[int64]()
	}
	return api.Set(value)
}
