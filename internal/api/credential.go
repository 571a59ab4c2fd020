package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Credentials is a page of service credentials.
type Credentials struct {
	ServiceCredentials []control.Credential `json:"service_credentials"`
	NextCursor         string               `json:"next_cursor,omitempty"`
}

// MintCredential is the body that makes a service credential.
type MintCredential struct {
	Principal string `json:"principal" minLength:"1" maxLength:"63" doc:"who it is for: loader, maintainer, or a name that gets the rights of a reader"`
	TTLs      int64  `json:"ttl_s,omitempty" minimum:"60" maximum:"3600" doc:"lifetime in seconds; default 900"`
}

// RefreshCredential is the body that gives a service credential a new secret.
type RefreshCredential struct {
	TTLs int64 `json:"ttl_s,omitempty" minimum:"60" maximum:"3600" doc:"lifetime in seconds; default 900"`
}

// CredentialPath names the object in the path of a route.
type CredentialPath struct {
	Org          string `path:"org"`
	CredentialID string `path:"credential_id"`
}

func credentialRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/orgs/{org}/service-credentials", "list-service-credentials", "List the service credentials of an org", http.StatusOK,
		func(ctx context.Context, in *struct {
			Page
			OrgPath
		},
		) (*body[Credentials], error) {
			if _, err := d.Control.Org(ctx, sluice.Org(in.Org)); err != nil {
				return nil, err
			}
			all, err := d.Control.Credentials(ctx, sluice.Org(in.Org), in.Cursor, in.Limit)
			out := Credentials{ServiceCredentials: nonNil(all)}
			if len(all) > 0 && len(all) == in.Limit {
				out.NextCursor = all[len(all)-1].CredentialID
			}
			return answer(out, err)
		})
	route(api, d, http.MethodPost, "/orgs/{org}/service-credentials", "mint-service-credential", "Make a short-lived login of a service; its secret is in the answer and nowhere else", http.StatusCreated,
		func(ctx context.Context, in *struct {
			OrgPath
			Body MintCredential
		},
		) (*body[control.Credential], error) {
			ttl := time.Duration(in.Body.TTLs) * time.Second
			return answer(d.Control.MintFor(ctx, sluice.Org(in.Org), in.Body.Principal, ttl, by(ctx)))
		})
	route(api, d, http.MethodPost, "/orgs/{org}/service-credentials/{credential_id}/refresh", "refresh-service-credential", "Give a service credential a new secret and a new end", http.StatusOK,
		func(ctx context.Context, in *struct {
			CredentialPath
			Body *RefreshCredential
		},
		) (*body[control.Credential], error) {
			var ttl time.Duration
			if in.Body != nil {
				ttl = time.Duration(in.Body.TTLs) * time.Second
			}
			return answer(d.Control.RefreshFor(ctx, sluice.Org(in.Org), in.CredentialID, ttl, by(ctx)))
		})
	route(api, d, http.MethodDelete, "/orgs/{org}/service-credentials/{credential_id}", "revoke-service-credential", "End a service credential at once, with the sessions that it let in", http.StatusNoContent,
		func(ctx context.Context, in *CredentialPath) (*struct{}, error) {
			return nil, d.Control.RevokeFor(ctx, sluice.Org(in.Org), in.CredentialID, by(ctx))
		})
}

// Tokens is a page of API tokens.
type Tokens struct {
	Tokens     []control.Token `json:"tokens"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// CreateToken is the body that makes an API token.
type CreateToken struct {
	Name string       `json:"name" minLength:"1" maxLength:"200" doc:"what it is for"`
	Role control.Role `json:"role" enum:"viewer,operator,admin,discovery"`
	TTLs int64        `json:"ttl_s,omitempty" minimum:"1" maximum:"315360000" doc:"lifetime in seconds; default: it does not expire"`
}

func tokenRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/tokens", "list-tokens", "List the tokens of the API", http.StatusOK,
		func(ctx context.Context, in *Page) (*body[Tokens], error) {
			all, err := d.Control.Tokens(ctx, in.Cursor, in.Limit)
			out := Tokens{Tokens: nonNil(all)}
			if len(all) > 0 && len(all) == in.Limit {
				out.NextCursor = all[len(all)-1].TokenID
			}
			return answer(out, err)
		})
	route(api, d, http.MethodPost, "/tokens", "create-token", "Make a token; its secret is in the answer and nowhere else", http.StatusCreated,
		func(ctx context.Context, in *struct{ Body CreateToken }) (*body[control.Token], error) {
			return answer(d.Control.CreateToken(ctx, in.Body.Name, in.Body.Role, time.Duration(in.Body.TTLs)*time.Second, by(ctx)))
		})
	route(api, d, http.MethodDelete, "/tokens/{token_id}", "revoke-token", "End a token at once", http.StatusNoContent,
		func(ctx context.Context, in *struct {
			TokenID string `path:"token_id"`
		},
		) (*struct{}, error) {
			return nil, d.Control.RevokeToken(ctx, in.TokenID, by(ctx))
		})
}
