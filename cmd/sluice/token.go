package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
)

func newTokenCommand(out *output) *cobra.Command {
	return group("token", "Make and show tokens of the HTTP API", newTokenCreateCommand(out), newTokenListCommand(out), newTokenRevokeCommand(out))
}

func newTokenCreateCommand(out *output) *cobra.Command {
	var role string
	var ttl time.Duration
	var dry bool
	c := &cobra.Command{
		Use: "create NAME --role ROLE", Short: "Make a token; it is shown once", Args: exactly("a name"),
		Long:    "Make a token. Roles are viewer, operator and admin, each with what the ones before it may, and discovery, which only reads the warehouses.",
		Example: "  sluice token create ci --role operator --ttl 2160h",
	}
	c.Flags().StringVar(&role, "role", "", "viewer, operator, admin or discovery")
	c.Flags().DurationVar(&ttl, "ttl", 0, "lifetime (default: it does not expire)")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		if r := control.Role(role); !r.Valid() {
			return usage(c, "--role is viewer, operator, admin or discovery")
		}
		if dry {
			return out.result(control.Token{Name: args[0], Role: control.Role(role)}, func() { out.line("would create token %s with role %s", args[0], role) })
		}
		t, err := client.Post[control.Token](ctx, s.Client, "/tokens", api.CreateToken{Name: args[0], Role: control.Role(role), TTLs: int64(ttl / time.Second)})
		if err != nil {
			return err
		}
		return out.result(t, func() {
			out.facts("token_id", t.TokenID, "name", t.Name, "role", string(t.Role), "expires_at", stamp(t.ExpiresAt), "secret", t.Secret)
			out.note("the secret is not shown again; commands take it from SLUICE_TOKEN")
		})
	})
}

func newTokenListCommand(out *output) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the tokens", Example: "  sluice token list", Args: noArguments}
	return onServer(c, out, func(ctx context.Context, s *server, _ []string) error {
		all, err := pages(ctx, s, "/tokens", query("limit", "1000"), 1_000_000, func(p api.Tokens) ([]control.Token, string) { return p.Tokens, p.NextCursor })
		if err != nil {
			return err
		}
		return out.result(api.Tokens{Tokens: all}, func() {
			var rows [][]string
			for _, t := range all {
				rows = append(rows, []string{t.TokenID, t.Name, string(t.Role), t.CreatedBy, stamp(t.ExpiresAt), stamp(t.RevokedAt)})
			}
			out.table([]string{"TOKEN", "NAME", "ROLE", "BY", "EXPIRES", "REVOKED"}, rows)
		})
	})
}

func newTokenRevokeCommand(out *output) *cobra.Command {
	c := &cobra.Command{Use: "revoke TOKEN_ID", Short: "End a token at once", Example: "  sluice token revoke slt_0123456789abcdef01234567", Args: exactly("the id of a token")}
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		return removed[control.Token](ctx, s, out, change{path: pathOf("tokens", args[0]), done: "token " + args[0] + " is revoked"}, nil)
	})
}
