package api

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/naming"
	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Orgs is a list of orgs.
type Orgs struct {
	Orgs []control.Org `json:"orgs"`
}

// CreateOrg is the body that makes an org.
type CreateOrg struct {
	Org             string          `json:"org" doc:"id, ^[a-z0-9][a-z0-9-]{0,62}$"`
	DisplayName     string          `json:"display_name,omitempty"`
	NamingPolicy    string          `json:"naming_policy,omitempty" doc:"copy_v1 (default) or legacy_batch_v1"`
	ExtractPrefixes []string        `json:"extract_prefixes,omitempty" doc:"further directories that batches may be read from"`
	Limits          *control.Limits `json:"limits,omitempty"`
	DryRun          bool            `json:"dry_run,omitempty"`
}

// SetPolicy is the body that changes an org's naming policy.
type SetPolicy struct {
	NamingPolicy string `json:"naming_policy"`
	DryRun       bool   `json:"dry_run,omitempty"`
}

// PolicyChange says what a change of the naming policy means for streams that have no table yet.
type PolicyChange struct {
	Org     sluice.Org          `json:"org"`
	Before  sluice.NamingPolicy `json:"before"`
	After   sluice.NamingPolicy `json:"after"`
	DryRun  bool                `json:"dry_run"`
	Unbound []UnboundName       `json:"unbound"`
}

// UnboundName is the name that a stream without a table would get.
type UnboundName struct {
	StreamID sluice.StreamID `json:"stream_id"`
	Raw      string          `json:"raw"`
	Name     string          `json:"name"`
}

// OrgPath names the object in the path of a route.
type OrgPath struct {
	Org string `path:"org"`
}

func orgRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/orgs", "list-orgs", "List the orgs", http.StatusOK,
		func(ctx context.Context, _ *struct{}) (*body[Orgs], error) {
			orgs, err := d.Control.Orgs(ctx)
			return answer(Orgs{nonNil(orgs)}, err)
		})
	route(api, d, http.MethodGet, "/orgs/{org}", "get-org", "Show an org", http.StatusOK,
		func(ctx context.Context, in *OrgPath) (*body[control.Org], error) {
			return answer(d.Control.Org(ctx, sluice.Org(in.Org)))
		})
	route(api, d, http.MethodPost, "/orgs", "create-org", "Make an org; its warehouse is provisioned after that", http.StatusCreated,
		func(ctx context.Context, in *struct{ Body CreateOrg }) (*body[control.Org], error) {
			return answer(createOrg(ctx, d, in.Body))
		})
	route(api, d, http.MethodPost, "/orgs/{org}/policy", "set-org-policy", "Change the naming policy for streams that get their table later", http.StatusOK,
		func(ctx context.Context, in *struct {
			OrgPath
			Body SetPolicy
		},
		) (*body[PolicyChange], error) {
			return answer(setPolicy(ctx, d, sluice.Org(in.Org), in.Body))
		})
}

var goodOrg = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func createOrg(ctx context.Context, d Deps, in CreateOrg) (control.Org, error) {
	org := sluice.Org(in.Org)
	doing := fmt.Sprintf("create org %q", in.Org)
	if !goodOrg.MatchString(in.Org) {
		return control.Org{}, sluice.E("SLUICE-CONTROL-INVALID", doing, "the id is not lower-case letters, digits and dashes, at most 63, starting with a letter or digit",
			"choose an id like acme or acme-eu", nil)
	}
	policy := sluice.NamingPolicy(in.NamingPolicy)
	if policy == "" {
		policy = sluice.PolicyCopyV1
	}
	if err := checkPolicy(policy, doing); err != nil {
		return control.Org{}, err
	}
	lake, err := d.NewLake(org, in.ExtractPrefixes)
	if err != nil {
		return control.Org{}, err
	}
	if in.DryRun {
		if _, err := d.Control.Org(ctx, org); err == nil {
			return control.Org{}, sluice.E("SLUICE-CONTROL-EXISTS", doing, "the org exists already", "", nil)
		} else if sluice.CodeOf(err) != "SLUICE-CONTROL-NO-ORG" {
			return control.Org{}, err
		}
		return control.Org{Org: org, DisplayName: in.DisplayName, DatabaseName: in.Org, NamingPolicy: policy, State: sluice.OrgPending, Lake: lake}, nil
	}
	created, err := d.Control.CreateOrg(ctx, control.NewOrg{
		Org: org, DisplayName: in.DisplayName, NamingPolicy: policy, Limits: in.Limits, Lake: lake,
	}, by(ctx))
	if err != nil {
		return control.Org{}, err
	}
	if d.OrgCreated != nil {
		if err := d.OrgCreated(ctx, org); err != nil {
			return control.Org{}, fmt.Errorf("org %s is created, but its warehouse is not ready yet: %w", org, err)
		}
		return d.Control.Org(ctx, org)
	}
	return created, nil
}

func checkPolicy(p sluice.NamingPolicy, doing string) error {
	if p == sluice.PolicyCopyV1 || p == sluice.PolicyLegacyBatchV1 {
		return nil
	}
	return sluice.E("SLUICE-NAME-POLICY", doing, fmt.Sprintf("unknown naming policy %q", string(p)),
		fmt.Sprintf("use %s or %s", sluice.PolicyCopyV1, sluice.PolicyLegacyBatchV1), nil)
}

func setPolicy(ctx context.Context, d Deps, org sluice.Org, in SetPolicy) (PolicyChange, error) {
	p := sluice.NamingPolicy(in.NamingPolicy)
	if err := checkPolicy(p, fmt.Sprintf("set the naming policy of org %s", org)); err != nil {
		return PolicyChange{}, err
	}
	before, err := d.Control.Org(ctx, org)
	if err != nil {
		return PolicyChange{}, err
	}
	change := PolicyChange{Org: org, Before: before.NamingPolicy, After: p, DryRun: in.DryRun, Unbound: []UnboundName{}}
	err = eachStream(ctx, d, stream.Filter{Org: org}, func(s sluice.Stream) {
		if s.TargetTable != "" {
			return
		}
		u := UnboundName{StreamID: s.StreamID}
		if n, nerr := naming.Name(p, s.SourceType, s.Prefix, s.Name); nerr == nil {
			u.Raw, u.Name = n.Raw, n.Name
		}
		change.Unbound = append(change.Unbound, u)
	})
	if err != nil || in.DryRun {
		return change, err
	}
	return change, d.Control.SetPolicy(ctx, org, p, by(ctx))
}

// eachStream calls f for every stream of a filter.
func eachStream(ctx context.Context, d Deps, f stream.Filter, fn func(sluice.Stream)) error {
	f.Limit = 1000
	for {
		page, err := d.Streams.List(ctx, f)
		if err != nil {
			return err
		}
		for _, s := range page {
			fn(s)
		}
		if len(page) < f.Limit {
			return nil
		}
		f.After = page[len(page)-1].StreamID
	}
}
