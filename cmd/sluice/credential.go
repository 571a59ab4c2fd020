package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
)

func newCredentialCommand(out *output) *cobra.Command {
	return group("credential", "Issue short-lived logins of services to a warehouse",
		newCredentialIssueCommand(out), newCredentialListCommand(out), newCredentialRefreshCommand(out), newCredentialRevokeCommand(out))
}

func showCredential(out *output, c control.Credential) error {
	return out.result(c, func() {
		out.facts("credential_id", c.CredentialID, "org", string(c.Org), "principal", c.Principal, "expires_at", stamp(&c.ExpiresAt), "secret", c.Secret)
		out.note("the secret is not shown again")
	})
}

func newCredentialIssueCommand(out *output) *cobra.Command {
	var org, principal string
	var ttl time.Duration
	var dry bool
	c := &cobra.Command{
		Use: "issue --org ORG --principal P", Short: "Issue a credential; its secret is shown once", Args: noArguments,
		Example: "  sluice credential issue --org acme --principal bi --ttl 1h",
	}
	addOrg(c.Flags(), &org)
	c.Flags().StringVar(&principal, "principal", "", "who it is for: loader, maintainer, or a name that gets the rights of a reader")
	c.Flags().DurationVar(&ttl, "ttl", control.DefaultTTL, "lifetime, 1m to 1h")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, _ []string) error {
		if principal == "" {
			return usage(c, "--principal is needed")
		}
		if dry {
			return posted[control.Org](ctx, s, out, change{would: "would issue a credential for " + principal + " of org " + org, dry: true}, pathOf("orgs", org))
		}
		made, err := client.Post[control.Credential](ctx, s.Client, pathOf("orgs", org, "service-credentials"), api.MintCredential{Principal: principal, TTLs: int64(ttl / time.Second)})
		if err != nil {
			return err
		}
		return showCredential(out, made)
	})
}

func newCredentialListCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{Use: "list --org ORG", Short: "List the credentials of an org", Example: "  sluice credential list --org acme", Args: noArguments}
	addOrg(c.Flags(), &org)
	return onServer(c, out, func(ctx context.Context, s *server, _ []string) error {
		all, err := pages(ctx, s, pathOf("orgs", org, "service-credentials"), query("limit", "1000"), 1_000_000, func(p api.Credentials) ([]control.Credential, string) {
			return p.ServiceCredentials, p.NextCursor
		})
		if err != nil {
			return err
		}
		return out.result(api.Credentials{ServiceCredentials: all}, func() {
			var rows [][]string
			for _, x := range all {
				rows = append(rows, []string{x.CredentialID, x.Principal, stamp(&x.ExpiresAt), stamp(x.RevokedAt)})
			}
			out.table([]string{"CREDENTIAL", "PRINCIPAL", "EXPIRES", "REVOKED"}, rows)
		})
	})
}

func newCredentialRefreshCommand(out *output) *cobra.Command {
	var org string
	var ttl time.Duration
	c := &cobra.Command{
		Use: "refresh CREDENTIAL_ID --org ORG", Short: "Give a credential a new secret, shown once, and a new end", Args: exactly("the id of a credential"),
		Example: "  sluice credential refresh svc_0123456789abcdef01234567 --org acme",
	}
	addOrg(c.Flags(), &org)
	c.Flags().DurationVar(&ttl, "ttl", control.DefaultTTL, "lifetime, 1m to 1h")
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		made, err := client.Post[control.Credential](ctx, s.Client, pathOf("orgs", org, "service-credentials", args[0], "refresh"), api.RefreshCredential{TTLs: int64(ttl / time.Second)})
		if err != nil {
			return err
		}
		return showCredential(out, made)
	})
}

func newCredentialRevokeCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{
		Use: "revoke CREDENTIAL_ID --org ORG", Short: "End a credential at once, with the sessions that it let in", Args: exactly("the id of a credential"),
		Example: "  sluice credential revoke svc_0123456789abcdef01234567 --org acme",
	}
	addOrg(c.Flags(), &org)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		ch := change{path: pathOf("orgs", org, "service-credentials", args[0]), done: "credential " + args[0] + " is revoked"}
		return removed[control.Credential](ctx, s, out, ch, nil)
	})
}
