package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

func newUserCommand(out *output) *cobra.Command {
	return group("user", "Make and show logins of people to a warehouse",
		newUserCreateCommand(out), newUserListCommand(out), newUserUpdateCommand(out), newUserResetPasswordCommand(out), newUserDeleteCommand(out))
}

func newUserCreateCommand(out *output) *cobra.Command {
	var org, role string
	var team int64
	var dry bool
	c := &cobra.Command{
		Use: "create NAME --org ORG", Short: "Make a login; its password is shown once", Args: exactly("a name"),
		Example: "  sluice user create ada --org acme --role writer",
	}
	addOrg(c.Flags(), &org)
	c.Flags().StringVar(&role, "role", string(control.UserReader), "reader, writer or owner")
	c.Flags().Int64Var(&team, "team", 0, "limits the login to the schemas of one team; the warehouse lets such logins in once it can keep the limit")
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		body := api.CreateUser{Username: args[0], Role: control.UserRole(role), DryRun: dry}
		if team != 0 {
			body.TeamID = &team
		}
		u, err := client.Post[control.User](ctx, s.Client, pathOf("orgs", org, "users"), body)
		if err != nil {
			return err
		}
		return out.result(u, func() {
			if dry {
				out.line("would create user %s of org %s", args[0], org)
				return
			}
			out.line("user %s of org %s is created", u.Username, org)
			out.line("password  %s", u.Password)
			out.note("the password is not shown again")
		})
	})
}

func newUserListCommand(out *output) *cobra.Command {
	var org string
	c := &cobra.Command{Use: "list --org ORG", Short: "List the logins of an org", Example: "  sluice user list --org acme", Args: noArguments}
	addOrg(c.Flags(), &org)
	return onServer(c, out, func(ctx context.Context, s *server, _ []string) error {
		users, err := client.Get[api.Users](ctx, s.Client, pathOf("orgs", org, "users"), nil)
		if err != nil {
			return err
		}
		return out.result(users, func() {
			var rows [][]string
			for _, u := range users.Users {
				team := "-"
				if u.TeamID != nil {
					team = fmt.Sprint(*u.TeamID)
				}
				rows = append(rows, []string{u.Username, string(u.Role), team, fmt.Sprint(u.Disabled), stamp(&u.CreatedAt)})
			}
			out.table([]string{"USER", "ROLE", "TEAM", "DISABLED", "CREATED"}, rows)
		})
	})
}

func newUserUpdateCommand(out *output) *cobra.Command {
	var org, role string
	var team int64
	var disabled, dry bool
	c := &cobra.Command{
		Use: "update NAME --org ORG", Short: "Change a login", Args: exactly("a name"),
		Example: "  sluice user update ada --org acme --disabled\n  sluice user update ada --org acme --team -1",
	}
	f := c.Flags()
	addOrg(f, &org)
	f.StringVar(&role, "role", "reader", "reader, writer or owner")
	f.Int64Var(&team, "team", 0, "limits the login to the schemas of one team; -1 lifts the limit")
	f.BoolVar(&disabled, "disabled", false, "whether it lets nobody in")
	addDryRun(f, &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		var body api.UpdateUser
		if f.Changed("role") {
			body.Role = api.Set(control.UserRole(role))
		}
		if f.Changed("disabled") {
			body.Disabled = api.Set(disabled)
		}
		if f.Changed("team") {
			if body.TeamID = api.Clear[sluice.TeamID](); team >= 0 {
				body.TeamID = api.Set(sluice.TeamID(team))
			}
		}
		at := pathOf("orgs", org, "users", args[0])
		return patched[control.User](ctx, s, out, change{at, "user " + args[0] + " is changed", "would change user " + args[0], dry}, at, body)
	})
}

func newUserResetPasswordCommand(out *output) *cobra.Command {
	var org string
	var dry bool
	c := &cobra.Command{
		Use: "reset-password NAME --org ORG", Short: "Give a login a new password, shown once; the old one ends at once", Args: exactly("a name"),
		Example: "  sluice user reset-password ada --org acme",
	}
	addOrg(c.Flags(), &org)
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		at := pathOf("orgs", org, "users", args[0])
		if dry {
			return posted[control.User](ctx, s, out, change{would: "would reset the password of user " + args[0], dry: true}, at)
		}
		u, err := client.Post[control.User](ctx, s.Client, at+"/reset-password", api.Empty{})
		if err != nil {
			return err
		}
		return out.result(u, func() {
			out.line("password  %s", u.Password)
			out.note("the password is not shown again")
		})
	})
}

func newUserDeleteCommand(out *output) *cobra.Command {
	var org string
	var dry bool
	c := &cobra.Command{Use: "delete NAME --org ORG", Short: "Remove a login", Example: "  sluice user delete ada --org acme", Args: exactly("a name")}
	addOrg(c.Flags(), &org)
	addDryRun(c.Flags(), &dry)
	return onServer(c, out, func(ctx context.Context, s *server, args []string) error {
		ch := change{pathOf("orgs", org, "users", args[0]), "user " + args[0] + " is deleted", "would delete user " + args[0], dry}
		return removed[control.User](ctx, s, out, ch, nil)
	})
}
