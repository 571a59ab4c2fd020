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

// Orgs is a page of orgs.
type Orgs struct {
	Orgs       []control.Org `json:"orgs"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// CreateOrg is the body that makes an org.
type CreateOrg struct {
	Org             string          `json:"org" doc:"id, ^[a-z0-9][a-z0-9-]{0,62}$"`
	DisplayName     string          `json:"display_name,omitempty"`
	HostnameAlias   string          `json:"hostname_alias,omitempty" maxLength:"63" doc:"another name of its warehouse's host"`
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

// OrgCreated is a new org with its first login.
type OrgCreated struct {
	control.Org
	RootUser     string `json:"root_user,omitempty"`
	RootPassword string `json:"root_password,omitempty" doc:"only in this answer"`
}

// UpdateOrg is the body that changes an org; what is left out stays.
type UpdateOrg struct {
	DisplayName   Opt[string] `json:"display_name,omitzero" maxLength:"200"`
	HostnameAlias Opt[string] `json:"hostname_alias,omitzero" maxLength:"63" doc:"null removes it"`
}

// UpdateLimits is the body that changes an org's limits; what is left out stays, null is no limit.
type UpdateLimits struct {
	MaxSessions    Opt[int64] `json:"max_sessions,omitzero" minimum:"0" doc:"client sessions of its warehouse"`
	MaxStreams     Opt[int64] `json:"max_streams,omitzero" minimum:"0" doc:"sessions of loaders, busy and idle, in all processes"`
	BackfillPerOrg Opt[int64] `json:"backfill_per_org,omitzero" minimum:"0"`
	MemoryBytes    Opt[int64] `json:"memory_bytes,omitzero" minimum:"1"`
	Threads        Opt[int64] `json:"threads,omitzero" minimum:"1" maximum:"1024"`
}

func (u UpdateLimits) apply(l *control.Limits) {
	u.MaxSessions.toPointer(&l.MaxSessions)
	u.MaxStreams.toPointer(&l.MaxStreams)
	u.BackfillPerOrg.toPointer(&l.BackfillPerOrg)
	u.MemoryBytes.toPointer(&l.MemoryBytes)
	u.Threads.toPointer(&l.Threads)
}

// Empty is a body without fields.
type Empty struct{}

func orgRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/orgs", "list-orgs", "List the orgs", http.StatusOK,
		func(ctx context.Context, in *Page) (*body[Orgs], error) {
			orgs, err := d.Control.OrgPage(ctx, sluice.Org(in.Cursor), in.Limit)
			out := Orgs{Orgs: nonNil(orgs)}
			if len(orgs) > 0 && len(orgs) == in.Limit {
				out.NextCursor = string(orgs[len(orgs)-1].Org)
			}
			return answer(out, err)
		})
	route(api, d, http.MethodGet, "/orgs/{org}", "get-org", "Show an org", http.StatusOK,
		func(ctx context.Context, in *OrgPath) (*versioned[control.Org], error) {
			o, err := d.Control.Org(ctx, sluice.Org(in.Org))
			return answerVersion(o, o.Version, err)
		})
	route(api, d, http.MethodPost, "/orgs", "create-org", "Make an org; its warehouse is provisioned after that", http.StatusCreated,
		func(ctx context.Context, in *struct{ Body CreateOrg }) (*body[OrgCreated], error) {
			return answer(createOrg(ctx, d, in.Body))
		})
	route(api, d, http.MethodPatch, "/orgs/{org}", "update-org", "Change an org", http.StatusOK,
		func(ctx context.Context, in *struct {
			OrgPath
			IfMatch
			Body UpdateOrg
		},
		) (*versioned[control.Org], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			o, err := d.Control.UpdateOrg(ctx, sluice.Org(in.Org), version, by(ctx), func(o *control.Org) error {
				in.Body.DisplayName.to(&o.DisplayName)
				in.Body.HostnameAlias.to(&o.HostnameAlias)
				return nil
			})
			return answerVersion(o, o.Version, err)
		})
	route(api, d, http.MethodPatch, "/orgs/{org}/limits", "set-org-limits", "Change the limits of an org", http.StatusOK,
		func(ctx context.Context, in *struct {
			OrgPath
			IfMatch
			Body UpdateLimits
		},
		) (*versioned[control.Org], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			o, err := d.Control.UpdateOrg(ctx, sluice.Org(in.Org), version, by(ctx), func(o *control.Org) error {
				in.Body.apply(&o.Limits)
				return nil
			})
			return answerVersion(o, o.Version, err)
		})
	for _, pause := range []bool{true, false} {
		verb, summary := "pause", "Stop loading an org; readers are served all the while"
		if !pause {
			verb, summary = "resume", "Load an org again"
		}
		route(api, d, http.MethodPost, "/orgs/{org}/"+verb, verb+"-org", summary, http.StatusOK,
			func(ctx context.Context, in *struct {
				OrgPath
				Body *Empty
			},
			) (*versioned[control.Org], error) {
				o, err := d.Control.SetPaused(ctx, sluice.Org(in.Org), pause, by(ctx))
				return answerVersion(o, o.Version, err)
			})
	}
	route(api, d, http.MethodDelete, "/orgs/{org}", "delete-org", "Take an org out of service; its lake stays", http.StatusNoContent,
		func(ctx context.Context, in *struct {
			OrgPath
			IfMatch
			Force bool `query:"force" doc:"also while batches are open; they are not applied any more"`
		},
		) (*struct{}, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return nil, d.Streams.RemoveOrg(ctx, sluice.Org(in.Org), version, in.Force, by(ctx))
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

func createOrg(ctx context.Context, d Deps, in CreateOrg) (OrgCreated, error) {
	org := sluice.Org(in.Org)
	doing := fmt.Sprintf("create org %q", in.Org)
	if !goodOrg.MatchString(in.Org) {
		return OrgCreated{}, sluice.E("SLUICE-CONTROL-INVALID", doing, "the id is not lower-case letters, digits and dashes, at most 63, starting with a letter or digit",
			"choose an id like acme or acme-eu", nil)
	}
	policy := sluice.NamingPolicy(in.NamingPolicy)
	if policy == "" {
		policy = sluice.PolicyCopyV1
	}
	if err := checkPolicy(policy, doing); err != nil {
		return OrgCreated{}, err
	}
	lake, err := d.NewLake(org, in.ExtractPrefixes)
	if err != nil {
		return OrgCreated{}, err
	}
	if in.DryRun {
		if _, err := d.Control.Org(ctx, org); err == nil {
			return OrgCreated{}, sluice.E("SLUICE-CONTROL-EXISTS", doing, "the org exists already", "", nil)
		} else if sluice.CodeOf(err) != "SLUICE-CONTROL-NO-ORG" {
			return OrgCreated{}, err
		}
		return OrgCreated{Org: control.Org{Org: org, DisplayName: in.DisplayName, DatabaseName: in.Org, NamingPolicy: policy, State: sluice.OrgPending, Lake: lake}}, nil
	}
	created, root, err := d.Control.CreateOrgWithRoot(ctx, control.NewOrg{
		Org: org, DisplayName: in.DisplayName, HostnameAlias: in.HostnameAlias, NamingPolicy: policy, Limits: in.Limits, Lake: lake,
	}, by(ctx))
	if err != nil {
		return OrgCreated{}, err
	}
	if d.OrgCreated != nil {
		if err := d.OrgCreated(ctx, org); err != nil {
			return OrgCreated{}, fmt.Errorf("org %s is created, but its warehouse is not ready yet: %w", org, err)
		}
		if created, err = d.Control.Org(ctx, org); err != nil {
			return OrgCreated{}, err
		}
	}
	return OrgCreated{created, root.Username, root.Password}, nil
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
