package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// UserRole is what a person may do in a warehouse.
type UserRole string

// The roles of people.
const (
	UserReader UserRole = "reader"
	UserWriter UserRole = "writer"
	UserOwner  UserRole = "owner"
)

// Valid reports whether the role is one of the above.
func (r UserRole) Valid() bool { return r == UserReader || r == UserWriter || r == UserOwner }

// RootUser is the login that a new org has.
const RootUser = "root"

// servicePrefix begins the names of service credentials; no person may look like one.
const servicePrefix = "svc_"

// User is a person's login to an org's warehouse. Password is set only when it is made: it is shown once.
type User struct {
	Org       sluice.Org     `json:"org"`
	Username  string         `json:"username"`
	Role      UserRole       `json:"role" enum:"reader,writer,owner"`
	TeamID    *sluice.TeamID `json:"team_id" doc:"limits the login to the schemas of one team"`
	Disabled  bool           `json:"disabled"`
	Version   int64          `json:"version"`
	CreatedAt time.Time      `json:"created_at"`
	Password  string         `json:"password,omitempty" doc:"only in the answer that made it"`
	Verifier  string         `json:"-"`
}

// NewUser is what a caller says about a login; the password is made here.
type NewUser struct {
	Org      sluice.Org
	Username string
	Role     UserRole
	TeamID   *sluice.TeamID
}

func userObject(name string) string { return "user " + name }

func noUser(org sluice.Org, name string) error {
	return sluice.E("SLUICE-CONTROL-NO-USER", fmt.Sprintf("find user %s of org %s", name, org), "there is no such user", "see `sluice user list`", nil)
}

func checkUser(ctx context.Context, r statedb.Runner, doing string, u User) error {
	if !u.Role.Valid() {
		return invalid(doing, fmt.Sprintf("role %q is unknown", u.Role), "use reader, writer or owner")
	}
	if u.TeamID == nil {
		return nil
	}
	if u.Role == UserOwner {
		return invalid(doing, "an owner cannot be limited to a team", "use reader or writer")
	}
	_, err := TeamIn(ctx, r, u.Org, *u.TeamID)
	return err
}

// CreateUser makes a login with a new password.
func (s *Store) CreateUser(ctx context.Context, n NewUser, by By) (User, error) {
	var out User
	err := s.change(ctx, by, func(tx *statedb.Tx) (e Entry, err error) {
		out, e, err = createUser(ctx, tx, n)
		return e, err
	})
	if statedb.Unique(err) {
		return User{}, sluice.E("SLUICE-CONTROL-EXISTS", fmt.Sprintf("create user %s of org %s", n.Username, n.Org), "the name is taken",
			"choose another, or reset the password of that user", err)
	}
	if err != nil {
		return User{}, err
	}
	return out, nil
}

func createUser(ctx context.Context, tx *statedb.Tx, n NewUser) (User, Entry, error) {
	doing := fmt.Sprintf("create user %s of org %s", n.Username, n.Org)
	if !identifier.MatchString(n.Username) || strings.HasPrefix(n.Username, servicePrefix) {
		return User{}, Entry{}, invalid(doing, "the name is not allowed",
			"use lower-case letters, digits and underscores, at most 63, not beginning with a digit or "+servicePrefix)
	}
	if _, err := orgIn(ctx, tx, "OrgGet", n.Org); err != nil {
		return User{}, Entry{}, err
	}
	if err := checkUser(ctx, tx, doing, User{Org: n.Org, Role: n.Role, TeamID: n.TeamID}); err != nil {
		return User{}, Entry{}, err
	}
	password, verifier, err := newSecret()
	if err != nil {
		return User{}, Entry{}, err
	}
	_, err = statedb.Exec(ctx, tx, queries.Get("UserInsert"), statedb.Args{
		"org": n.Org, "username": n.Username, "verifier": verifier, "role": n.Role, "team_id": n.TeamID,
	})
	if err != nil {
		return User{}, Entry{}, err
	}
	u, err := userIn(ctx, tx, "UserGet", n.Org, n.Username)
	e := Entry{Action: "user.create", Org: n.Org, Object: userObject(n.Username), After: u}
	u.Password = password
	return u, e, err
}

func scanUser(scan statedb.Scan) (u User, err error) {
	return u, scan(&u.Org, &u.Username, &u.Verifier, &u.Role, &u.TeamID, &u.Disabled, &u.Version, statedb.Time(&u.CreatedAt))
}

func userIn(ctx context.Context, r statedb.Runner, query string, org sluice.Org, name string) (User, error) {
	u, found, err := statedb.One(ctx, r, queries.Get(query), statedb.Args{"org": org, "username": name}, scanUser)
	if err == nil && !found {
		err = noUser(org, name)
	}
	return u, err
}

// User gives a login, or SLUICE-CONTROL-NO-USER.
func (s *Store) User(ctx context.Context, org sluice.Org, name string) (User, error) {
	return userIn(ctx, s.db, "UserGet", org, name)
}

// Users lists the logins of an org by name.
func (s *Store) Users(ctx context.Context, org sluice.Org) ([]User, error) {
	return statedb.All(ctx, s.db, queries.Get("UserList"), statedb.Args{"org": org}, scanUser)
}

// UpdateUser changes role, team and disabled of a login; version as for UpdateTeam.
func (s *Store) UpdateUser(ctx context.Context, org sluice.Org, name string, version int64, by By, fn func(u *User) error) (User, error) {
	return s.updateUser(ctx, "user.update", org, name, version, by, fn)
}

func (s *Store) updateUser(ctx context.Context, action string, org sluice.Org, name string, version int64, by By, fn func(u *User) error) (User, error) {
	doing := fmt.Sprintf("change user %s of org %s", name, org)
	var after User
	err := s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		before, err := userIn(ctx, tx, "UserLock", org, name)
		if err != nil {
			return Entry{}, err
		}
		if err := checkVersion(doing, version, before.Version); err != nil {
			return Entry{}, err
		}
		after = before
		if err := fn(&after); err != nil {
			return Entry{}, err
		}
		if err := checkUser(ctx, tx, doing, after); err != nil {
			return Entry{}, err
		}
		n, err := statedb.Exec(ctx, tx, queries.Get("UserUpdate"), statedb.Args{
			"org": org, "username": name, "version": before.Version, "verifier": after.Verifier, "role": after.Role,
			"team_id": after.TeamID, "disabled": after.Disabled,
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("%s: the row changed under its lock", doing)
		}
		after.Version++
		return Entry{Action: action, Org: org, Object: userObject(name), Before: before, After: after}, err
	})
	if err != nil {
		return User{}, err
	}
	return after, nil
}

// ResetPassword gives a login a new password; the old one ends at once.
func (s *Store) ResetPassword(ctx context.Context, org sluice.Org, name string, by By) (User, error) {
	password, verifier, err := newSecret()
	if err != nil {
		return User{}, err
	}
	u, err := s.updateUser(ctx, "user.reset_password", org, name, 0, by, func(u *User) error {
		u.Verifier = verifier
		return nil
	})
	if err != nil {
		return User{}, err
	}
	u.Password = password
	return u, nil
}

// DeleteUser removes a login.
func (s *Store) DeleteUser(ctx context.Context, org sluice.Org, name string, version int64, by By) error {
	return s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		before, err := userIn(ctx, tx, "UserLock", org, name)
		if err != nil {
			return Entry{}, err
		}
		if err := checkVersion(fmt.Sprintf("delete user %s of org %s", name, org), version, before.Version); err != nil {
			return Entry{}, err
		}
		_, err = statedb.Exec(ctx, tx, queries.Get("UserDelete"), statedb.Args{"org": org, "username": name})
		return Entry{Action: "user.delete", Org: org, Object: userObject(name), Before: before}, err
	})
}

// disableUsers disables the logins of an org, or those limited to one of its teams, and gives their names.
func disableUsers(ctx context.Context, tx *statedb.Tx, org sluice.Org, team *sluice.TeamID) ([]string, error) {
	return statedb.All(ctx, tx, queries.Get("UserDisable"), statedb.Args{"org": org, "team_id": team}, statedb.Value[string])
}
