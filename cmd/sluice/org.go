package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

func newOrgCommand(out *output) *cobra.Command {
	return group("org", "Make and show orgs: customers with a warehouse each",
		newOrgCreateCommand(out), newOrgListCommand(out), newOrgShowCommand(out), newOrgUpdateCommand(out), newOrgSetPolicyCommand(out),
		newOrgSetLimitsCommand(out), newOrgPauseCommand(out), newOrgResumeCommand(out), newOrgDeleteCommand(out))
}

type orgCreateOptions struct {
	Org             string
	DisplayName     string
	Policy          string
	ExtractPrefixes []string
	MaxStreams      int64
	NoWait, DryRun  bool
}

// AddFlags adds the flags of `sluice org create`.
func (o *orgCreateOptions) AddFlags(fset *pflag.FlagSet) {
	fset.StringVar(&o.DisplayName, "display-name", "", "name for people (default the id)")
	fset.StringVar(&o.Policy, "policy", string(sluice.PolicyCopyV1), "naming policy: copy_v1 or legacy_batch_v1")
	fset.StringSliceVar(&o.ExtractPrefixes, "extract-prefix", nil, "further directory that batches may be read from; may be repeated")
	fset.Int64Var(&o.MaxStreams, "max-streams", 4, "streams that are loaded at once")
	fset.BoolVar(&o.NoWait, "no-wait", false, "do not wait until the warehouse is ready")
	addDryRun(fset, &o.DryRun)
}

func newOrgCreateCommand(out *output) *cobra.Command {
	var o orgCreateOptions
	c := &cobra.Command{
		Use:     "create ORG",
		Short:   "Make an org and its warehouse",
		Example: "  sluice org create acme\n  sluice org create acme --extract-prefix /srv/extracts/acme",
		Args:    exactly("the id of an org"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Org = args[0]
			return withServer(c, !o.DryRun, func(ctx context.Context, s *server) error { return runOrgCreate(ctx, s, o, out) })
		},
	}
	o.AddFlags(c.Flags())
	addJSON(c.Flags(), out)
	return c
}

// readyWithin is how long `org create` waits for the warehouse.
const readyWithin = 2 * time.Minute

func runOrgCreate(ctx context.Context, s *server, o orgCreateOptions, out *output) error {
	limits := control.DefaultLimits()
	limits.MaxStreams = &o.MaxStreams
	made, err := client.Post[api.OrgCreated](ctx, s.Client, "/orgs", api.CreateOrg{
		Org: o.Org, DisplayName: o.DisplayName, NamingPolicy: o.Policy, ExtractPrefixes: o.ExtractPrefixes, Limits: &limits, DryRun: o.DryRun,
	})
	if err != nil {
		return err
	}
	org := made.Org
	for deadline := time.Now().Add(readyWithin); !o.DryRun && !o.NoWait && org.State != sluice.OrgReady; {
		if time.Now().After(deadline) {
			return sluice.E("SLUICE-CONTROL-NOT-READY", "wait for the warehouse of org "+o.Org, "its state is still "+string(org.State),
				"see the server's log; sluice doctor checks the parts", nil)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if org, err = client.Get[control.Org](ctx, s.Client, "/orgs/"+url.PathEscape(o.Org), nil); err != nil {
			return err
		}
	}
	made.Org = org
	return out.result(made, func() {
		if o.DryRun {
			out.line("would create org %s (%s), lake in %s", org.Org, org.NamingPolicy, org.Lake.DataPath)
			return
		}
		out.line("org %s is %s", org.Org, org.State)
		if s.cfg.HTTP.Auth.Mode != config.AuthLocal { // where nobody needs a password it is no news
			out.line("user %s, password %s", made.RootUser, made.RootPassword)
			out.note("the password is not shown again")
		}
	})
}

// sleep waits, or ends with ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func newOrgListCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the orgs", Example: "  sluice org list --json", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runOrgList(ctx, s, out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runOrgList(ctx context.Context, s *server, out *output) error {
	all, err := pages(ctx, s, "/orgs", query("limit", "1000"), 1_000_000, func(p api.Orgs) ([]control.Org, string) { return p.Orgs, p.NextCursor })
	if err != nil {
		return err
	}
	orgs := api.Orgs{Orgs: all}
	return out.result(orgs, func() {
		var rows [][]string
		for _, o := range orgs.Orgs {
			rows = append(rows, []string{string(o.Org), string(o.State), string(o.NamingPolicy), o.Lake.Kind, stamp(&o.CreatedAt)})
		}
		out.table([]string{"ORG", "STATE", "POLICY", "CATALOG", "CREATED"}, rows)
	})
}

// stamp shows a time; nil is a dash.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func newOrgShowCommand(out *output) *cobra.Command {
	c := &cobra.Command{
		Use: "show ORG", Short: "Show an org", Example: "  sluice org show acme", Args: exactly("the id of an org"),
		RunE: func(c *cobra.Command, args []string) error {
			return withServer(c, false, func(ctx context.Context, s *server) error { return runOrgShow(ctx, s, args[0], out) })
		},
	}
	addJSON(c.Flags(), out)
	return c
}

func runOrgShow(ctx context.Context, s *server, org string, out *output) error {
	o, err := client.Get[control.Org](ctx, s.Client, "/orgs/"+url.PathEscape(org), nil)
	if err != nil {
		return err
	}
	return out.result(o, func() {
		out.facts("org", string(o.Org), "display_name", o.DisplayName, "state", string(o.State), "naming_policy", string(o.NamingPolicy),
			"database_name", o.DatabaseName, "max_streams", limit(o.Limits.MaxStreams), "memory_bytes", limit(o.Limits.MemoryBytes),
			"catalog", o.Lake.Kind+" "+o.Lake.Catalog, "data_path", o.Lake.DataPath, "extract_prefixes", strings.Join(o.Lake.ExtractPrefixes, ", "),
			"created_at", stamp(&o.CreatedAt))
	})
}

func limit(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

func newOrgSetPolicyCommand(out *output) *cobra.Command {
	var policy string
	var dry bool
	c := &cobra.Command{
		Use: "set-policy ORG --policy P", Short: "Change the naming policy for streams that get their table later",
		Example: "  sluice org set-policy acme --policy legacy_batch_v1 --dry-run", Args: exactly("the id of an org"),
		RunE: func(c *cobra.Command, args []string) error {
			if policy == "" {
				return usage(c, "--policy is needed")
			}
			return withServer(c, false, func(ctx context.Context, s *server) error { return runOrgSetPolicy(ctx, s, args[0], policy, dry, out) })
		},
	}
	c.Flags().StringVar(&policy, "policy", "", "naming policy: copy_v1 or legacy_batch_v1")
	addDryRun(c.Flags(), &dry)
	addJSON(c.Flags(), out)
	return c
}

func runOrgSetPolicy(ctx context.Context, s *server, org, policy string, dry bool, out *output) error {
	change, err := client.Post[api.PolicyChange](ctx, s.Client, "/orgs/"+url.PathEscape(org)+"/policy", api.SetPolicy{NamingPolicy: policy, DryRun: dry})
	if err != nil {
		return err
	}
	return out.result(change, func() {
		verb := "is"
		if dry {
			verb = "would be"
		}
		out.line("the policy of org %s %s %s (it was %s); tables that have a name keep it", change.Org, verb, change.After, change.Before)
		if len(change.Unbound) > 0 {
			var rows [][]string
			for _, u := range change.Unbound {
				rows = append(rows, []string{string(u.StreamID), u.Raw, u.Name})
			}
			out.table([]string{"STREAM WITHOUT TABLE", "RAW", "NAME"}, rows)
		}
	})
}
