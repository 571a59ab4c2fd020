package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Users is a list of logins.
type Users struct {
	Users []control.User `json:"users"`
}

// CreateUser is the body that makes a login.
type CreateUser struct {
	Username string           `json:"username" minLength:"1" maxLength:"63"`
	Role     control.UserRole `json:"role" enum:"reader,writer,owner"`
	TeamID   *int64           `json:"team_id,omitempty" minimum:"1" doc:"limits the login to the schemas of one team"`
	DryRun   bool             `json:"dry_run,omitempty"`
}

// UpdateUser is the body that changes a login; what is left out stays.
type UpdateUser struct {
	Role     Opt[control.UserRole] `json:"role,omitzero"`
	TeamID   Opt[sluice.TeamID]    `json:"team_id,omitzero" doc:"null lifts the limit"`
	Disabled Opt[bool]             `json:"disabled,omitzero"`
}

// UserPath names the object in the path of a route.
type UserPath struct {
	Org      string `path:"org"`
	Username string `path:"username"`
}

func userRoutes(api huma.API, d Deps) {
	route(api, d, http.MethodGet, "/orgs/{org}/users", "list-users", "List the logins of an org's warehouse", http.StatusOK,
		func(ctx context.Context, in *OrgPath) (*body[Users], error) {
			if _, err := d.Control.Org(ctx, sluice.Org(in.Org)); err != nil {
				return nil, err
			}
			users, err := d.Control.Users(ctx, sluice.Org(in.Org))
			return answer(Users{nonNil(users)}, err)
		})
	route(api, d, http.MethodGet, "/orgs/{org}/users/{username}", "get-user", "Show a login", http.StatusOK,
		func(ctx context.Context, in *UserPath) (*versioned[control.User], error) {
			u, err := d.Control.User(ctx, sluice.Org(in.Org), in.Username)
			return answerVersion(u, u.Version, err)
		})
	route(api, d, http.MethodPost, "/orgs/{org}/users", "create-user", "Make a login; its password is in the answer and nowhere else", http.StatusCreated,
		func(ctx context.Context, in *struct {
			OrgPath
			Body CreateUser
		},
		) (*body[control.User], error) {
			return answer(createUser(ctx, d, sluice.Org(in.Org), in.Body))
		})
	route(api, d, http.MethodPatch, "/orgs/{org}/users/{username}", "update-user", "Change a login", http.StatusOK,
		func(ctx context.Context, in *struct {
			UserPath
			IfMatch
			Body UpdateUser
		},
		) (*versioned[control.User], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			doing := fmt.Sprintf("change user %s of org %s", in.Username, in.Org)
			u, err := d.Control.UpdateUser(ctx, sluice.Org(in.Org), in.Username, version, by(ctx), func(u *control.User) error {
				if err := in.Body.Role.notNull(doing, "role"); err != nil {
					return err
				}
				in.Body.Role.to(&u.Role)
				in.Body.TeamID.toPointer(&u.TeamID)
				in.Body.Disabled.to(&u.Disabled)
				return in.Body.Disabled.notNull(doing, "disabled")
			})
			return answerVersion(u, u.Version, err)
		})
	route(api, d, http.MethodDelete, "/orgs/{org}/users/{username}", "delete-user", "Remove a login", http.StatusNoContent,
		func(ctx context.Context, in *struct {
			UserPath
			IfMatch
		},
		) (*struct{}, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return nil, d.Control.DeleteUser(ctx, sluice.Org(in.Org), in.Username, version, by(ctx))
		})
	route(api, d, http.MethodPost, "/orgs/{org}/users/{username}/reset-password", "reset-user-password", "Give a login a new password; the old one ends at once", http.StatusOK,
		func(ctx context.Context, in *struct {
			UserPath
			Body *Empty
		},
		) (*body[control.User], error) {
			return answer(d.Control.ResetPassword(ctx, sluice.Org(in.Org), in.Username, by(ctx)))
		})
}

func createUser(ctx context.Context, d Deps, org sluice.Org, in CreateUser) (control.User, error) {
	n := control.NewUser{Org: org, Username: in.Username, Role: in.Role}
	if in.TeamID != nil {
		team := sluice.TeamID(*in.TeamID)
		n.TeamID = &team
	}
	if !in.DryRun {
		return d.Control.CreateUser(ctx, n, by(ctx))
	}
	if _, err := d.Control.Org(ctx, org); err != nil {
		return control.User{}, err
	}
	if _, err := d.Control.User(ctx, org, n.Username); err == nil {
		return control.User{}, sluice.E("SLUICE-CONTROL-EXISTS", "create user "+n.Username, "the name is taken", "", nil)
	} else if sluice.CodeOf(err) != "SLUICE-CONTROL-NO-USER" {
		return control.User{}, err
	}
	return control.User{Org: org, Username: n.Username, Role: n.Role, TeamID: n.TeamID}, nil
}
