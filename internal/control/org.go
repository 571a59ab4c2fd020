package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Lake says where an org's lake is. Secrets are references, never values.
type Lake struct {
	Kind            string   `json:"kind"`      // duckdb or postgres
	Catalog         string   `json:"catalog"`   // file path, or DSN without password
	DataPath        string   `json:"data_path"` // folder or s3://…
	SecretRef       string   `json:"secret_ref,omitempty"`
	ExtractPrefixes []string `json:"extract_prefixes,omitempty"` // where batches may be read from
}

// Limits of an org. Nil means no limit.
type Limits struct {
	MaxSessions    *int64 `json:"max_sessions"`
	MaxStreams     *int64 `json:"max_streams"`
	BackfillPerOrg *int64 `json:"backfill_per_org"`
	MemoryBytes    *int64 `json:"memory_bytes"`
	Threads        *int64 `json:"threads"`
}

// DefaultLimits are those of an org that is made without: 4 streams at a time, 1 backfill.
func DefaultLimits() Limits {
	streams, backfills := int64(4), int64(1)
	return Limits{MaxStreams: &streams, BackfillPerOrg: &backfills}
}

// Org is a customer with its warehouse.
type Org struct {
	Org           sluice.Org          `json:"org"`
	DisplayName   string              `json:"display_name"`
	DatabaseName  string              `json:"database_name"`
	HostnameAlias string              `json:"hostname_alias,omitempty"`
	NamingPolicy  sluice.NamingPolicy `json:"naming_policy"`
	State         sluice.OrgState     `json:"state"`
	Limits        Limits              `json:"limits"`
	Lake          Lake                `json:"lake"`
	Version       int64               `json:"version"`
	CreatedAt     time.Time           `json:"created_at"`
	DeletedAt     *time.Time          `json:"deleted_at,omitempty"`
}

// NewOrg is what a caller says about an org; empty fields take the defaults.
type NewOrg struct {
	Org           sluice.Org
	DisplayName   string // empty: the id
	DatabaseName  string // empty: the id
	HostnameAlias string
	NamingPolicy  sluice.NamingPolicy // empty: copy_v1
	State         sluice.OrgState     // empty: pending
	Limits        *Limits             // nil: DefaultLimits
	Lake          Lake
}

func (n *NewOrg) complete() error {
	doing := fmt.Sprintf("create org %s", n.Org)
	if n.DisplayName == "" {
		n.DisplayName = string(n.Org)
	}
	if n.DatabaseName == "" {
		n.DatabaseName = string(n.Org)
	}
	if n.NamingPolicy == "" {
		n.NamingPolicy = sluice.PolicyCopyV1
	}
	if n.State == "" {
		n.State = sluice.OrgPending
	}
	if n.Limits == nil {
		l := DefaultLimits()
		n.Limits = &l
	}
	const label = "use lower-case letters, digits and dashes, at most 63, not beginning with a dash"
	switch {
	case !dnsLabel.MatchString(string(n.Org)):
		return invalid(doing, "the id is not allowed", label)
	case !dnsLabel.MatchString(n.DatabaseName):
		return invalid(doing, fmt.Sprintf("database_name %q is not allowed", n.DatabaseName), label)
	case n.HostnameAlias != "" && !dnsLabel.MatchString(n.HostnameAlias):
		return invalid(doing, fmt.Sprintf("hostname_alias %q is not allowed", n.HostnameAlias), label)
	case len(n.DisplayName) > 200 || !utf8.ValidString(n.DisplayName) || strings.ContainsRune(n.DisplayName, 0):
		return invalid(doing, "display_name is longer than 200 bytes or holds what is not text", "shorten it")
	}
	if err := checkPolicy(doing, n.NamingPolicy); err != nil {
		return err
	}
	return n.Limits.check(doing)
}

func checkPolicy(doing string, p sluice.NamingPolicy) error {
	if p == sluice.PolicyCopyV1 || p == sluice.PolicyLegacyBatchV1 {
		return nil
	}
	return sluice.E("SLUICE-NAME-POLICY", doing, fmt.Sprintf("naming policy %q is unknown", p),
		"use copy_v1 or legacy_batch_v1", nil)
}

func (l Limits) check(doing string) error {
	for name, v := range map[string]*int64{"max_sessions": l.MaxSessions, "max_streams": l.MaxStreams, "backfill_per_org": l.BackfillPerOrg} {
		if v != nil && *v < 0 {
			return invalid(doing, name+" is negative", "use 0 or more, or leave it out for no limit")
		}
	}
	for name, v := range map[string]*int64{"memory_bytes": l.MemoryBytes, "threads": l.Threads} {
		if v != nil && *v <= 0 {
			return invalid(doing, name+" is not positive", "use 1 or more, or leave it out for no limit")
		}
	}
	return nil
}

// CreateOrg registers an org. An id, database name or alias that is taken is SLUICE-CONTROL-EXISTS.
func (s *Store) CreateOrg(ctx context.Context, n NewOrg, by By) (Org, error) {
	org, _, err := s.createOrg(ctx, n, false, by)
	return org, err
}

// CreateOrgWithRoot is CreateOrg with a first login, an owner; its password is shown once.
func (s *Store) CreateOrgWithRoot(ctx context.Context, n NewOrg, by By) (Org, User, error) {
	return s.createOrg(ctx, n, true, by)
}

func (s *Store) createOrg(ctx context.Context, n NewOrg, withRoot bool, by By) (org Org, root User, err error) {
	if err := n.complete(); err != nil {
		return Org{}, User{}, err
	}
	lake, err := json.Marshal(n.Lake)
	if err != nil {
		return Org{}, User{}, fmt.Errorf("create org %s: %w", n.Org, err)
	}
	err = s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) {
		_, err := statedb.Exec(ctx, tx, queries.Get("OrgInsert"), statedb.Args{
			"org": n.Org, "display_name": n.DisplayName, "database_name": n.DatabaseName,
			"hostname_alias": statedb.Null(n.HostnameAlias), "naming_policy": n.NamingPolicy, "state": n.State,
			"max_sessions": n.Limits.MaxSessions, "max_streams": n.Limits.MaxStreams,
			"backfill_per_org": n.Limits.BackfillPerOrg, "memory_bytes": n.Limits.MemoryBytes, "threads": n.Limits.Threads,
			"lake": string(lake),
		})
		if err != nil {
			return Entry{}, err
		}
		if org, err = orgIn(ctx, tx, "OrgGet", n.Org); err != nil {
			return Entry{}, err
		}
		if withRoot {
			made, e, err := createUser(ctx, tx, NewUser{Org: n.Org, Username: RootUser, Role: UserOwner})
			if err != nil {
				return Entry{}, err
			}
			if err := Audit(ctx, tx, by, e); err != nil {
				return Entry{}, err
			}
			root = made
		}
		return Entry{Action: "org.create", Org: n.Org, Object: "org " + string(n.Org), After: org}, nil
	})
	if statedb.Unique(err) {
		return Org{}, User{}, sluice.E("SLUICE-CONTROL-EXISTS", fmt.Sprintf("create org %s", n.Org),
			"the id, database name or hostname alias is taken", "choose another, or see `sluice org list`", err)
	}
	if err != nil {
		return Org{}, User{}, err
	}
	return org, root, nil
}

func scanOrg(scan statedb.Scan) (Org, error) {
	var o Org
	var lake json.RawMessage
	err := scan(&o.Org, &o.DisplayName, &o.DatabaseName, statedb.Text(&o.HostnameAlias), &o.NamingPolicy, &o.State,
		&o.Limits.MaxSessions, &o.Limits.MaxStreams, &o.Limits.BackfillPerOrg, &o.Limits.MemoryBytes, &o.Limits.Threads,
		jsonColumn(&lake), &o.Version, statedb.Time(&o.CreatedAt), statedb.TimePtr(&o.DeletedAt))
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(lake, &o.Lake)
}

func orgIn(ctx context.Context, r statedb.Runner, query string, id sluice.Org) (Org, error) {
	o, found, err := statedb.One(ctx, r, queries.Get(query), statedb.Args{"org": id}, scanOrg)
	if err == nil && (!found || o.DeletedAt != nil) {
		err = noOrg(string(id))
	}
	return o, err
}

func noOrg(id string) error {
	return sluice.E("SLUICE-CONTROL-NO-ORG", "find org "+id, "there is no such org", "see `sluice org list`", nil)
}

// Org gives an org, or SLUICE-CONTROL-NO-ORG.
func (s *Store) Org(ctx context.Context, id sluice.Org) (Org, error) {
	return orgIn(ctx, s.db, "OrgGet", id)
}

// OrgByDatabase gives the org that a client's database name belongs to, or SLUICE-CONTROL-NO-ORG.
func (s *Store) OrgByDatabase(ctx context.Context, database string) (Org, error) {
	o, found, err := statedb.One(ctx, s.db, queries.Get("OrgByDatabase"), statedb.Args{"database": database}, scanOrg)
	if err == nil && !found {
		err = noOrg("of database " + database)
	}
	return o, err
}

// Orgs lists all orgs that are not deleted, by id.
func (s *Store) Orgs(ctx context.Context) ([]Org, error) {
	return statedb.All(ctx, s.db, queries.Get("OrgList"), nil, scanOrg)
}

// OrgPage lists orgs by id, after one of them.
func (s *Store) OrgPage(ctx context.Context, after sluice.Org, limit int) ([]Org, error) {
	return statedb.All(ctx, s.db, queries.Get("OrgPage"), statedb.Args{"after": after, "limit": min(max(limit, 1), 1000)}, scanOrg)
}

// OrgByHostname gives the org that a client's host name belongs to, or SLUICE-CONTROL-NO-ORG.
func (s *Store) OrgByHostname(ctx context.Context, hostname string) (Org, error) {
	o, found, err := statedb.One(ctx, s.db, queries.Get("OrgByHostname"), statedb.Args{"hostname": hostname}, scanOrg)
	if err == nil && !found {
		err = noOrg("of host " + hostname)
	}
	return o, err
}

// UpdateOrg changes what people may change of an org under its row lock: display name, alias, limits, policy. version 0
// means any; another one that is not the present is SLUICE-CONTROL-CONFLICT.
func (s *Store) UpdateOrg(ctx context.Context, id sluice.Org, version int64, by By, fn func(o *Org) error) (Org, error) {
	var out Org
	doing := fmt.Sprintf("change org %s", id)
	err := s.update(ctx, id, "org.update", by, func(o *Org) error {
		if err := checkVersion(doing, version, o.Version); err != nil {
			return err
		}
		before := *o
		if err := fn(o); err != nil {
			return err
		}
		if o.Org != before.Org || o.DatabaseName != before.DatabaseName || o.State != before.State {
			return refused(doing, "an org keeps its id and database name, and its state has commands of its own", "")
		}
		n := NewOrg{
			Org: o.Org, DisplayName: o.DisplayName, DatabaseName: o.DatabaseName, HostnameAlias: o.HostnameAlias, NamingPolicy: o.NamingPolicy,
			Limits: &o.Limits,
		}
		if err := n.complete(); err != nil {
			return err
		}
		o.DisplayName = n.DisplayName
		out = *o
		return nil
	})
	if statedb.Unique(err) {
		return Org{}, sluice.E("SLUICE-CONTROL-EXISTS", doing, "the hostname alias is taken", "choose another", err)
	}
	if err != nil {
		return Org{}, err
	}
	out.Version++
	return out, nil
}

// SetPaused pauses the loading of an org, or lets it go on; readers are served all the while.
func (s *Store) SetPaused(ctx context.Context, id sluice.Org, paused bool, by By) (Org, error) {
	from, to, action := sluice.OrgReady, sluice.OrgPaused, "org.pause"
	if !paused {
		from, to, action = sluice.OrgPaused, sluice.OrgReady, "org.resume"
	}
	var out Org
	err := s.update(ctx, id, action, by, func(o *Org) error {
		if out = *o; o.State == to {
			return errNoChange
		}
		if o.State != from {
			return refused(fmt.Sprintf("%s %s", strings.Replace(action, ".", " ", 1), id), fmt.Sprintf("its state is %s", o.State), fmt.Sprintf("this needs an org that is %s", from))
		}
		o.State = to
		out = *o
		out.Version++
		return nil
	})
	if errors.Is(err, errNoChange) {
		return out, nil
	}
	return out, err
}

var errNoChange = errors.New("nothing to change")

// DeleteOrgIn takes an org out of service inside a transaction of the store that has looked at its work: it is not loaded,
// not served and not listed from now on, and every login to it ends at once. Purge forgets its people a week later; its id
// is never given again, and its lake is not touched.
func DeleteOrgIn(ctx context.Context, tx *statedb.Tx, id sluice.Org, version int64, by By) error {
	e, err := updateOrg(ctx, tx, id, "org.delete", func(o *Org) error {
		if err := checkVersion(fmt.Sprintf("delete org %s", id), version, o.Version); err != nil {
			return err
		}
		o.State = sluice.OrgDeleting
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := statedb.Exec(ctx, tx, queries.Get("CredentialRevokeOrg"), statedb.Args{"org": id}); err != nil {
		return err
	}
	if _, err := disableUsers(ctx, tx, id, nil); err != nil {
		return err
	}
	if err := Audit(ctx, tx, by, e); err != nil {
		return err
	}
	return Bump(ctx, tx)
}

// update changes an org under its row lock.
func (s *Store) update(ctx context.Context, id sluice.Org, action string, by By, fn func(o *Org) error) error {
	return s.change(ctx, by, func(tx *statedb.Tx) (Entry, error) { return updateOrg(ctx, tx, id, action, fn) })
}

func updateOrg(ctx context.Context, tx *statedb.Tx, id sluice.Org, action string, fn func(o *Org) error) (Entry, error) {
	before, err := orgIn(ctx, tx, "OrgLock", id)
	if err != nil {
		return Entry{}, err
	}
	after := before
	if err := fn(&after); err != nil {
		return Entry{}, err
	}
	lake, err := json.Marshal(after.Lake)
	if err != nil {
		return Entry{}, fmt.Errorf("%s %s: %w", action, id, err)
	}
	n, err := statedb.Exec(ctx, tx, queries.Get("OrgUpdate"), statedb.Args{
		"org": id, "version": before.Version, "display_name": after.DisplayName, "hostname_alias": statedb.Null(after.HostnameAlias),
		"state": after.State, "naming_policy": after.NamingPolicy,
		"max_sessions": after.Limits.MaxSessions, "max_streams": after.Limits.MaxStreams,
		"backfill_per_org": after.Limits.BackfillPerOrg, "memory_bytes": after.Limits.MemoryBytes,
		"threads": after.Limits.Threads, "lake": string(lake), "deleted": after.State == sluice.OrgDeleting,
	})
	if err != nil {
		return Entry{}, err
	}
	if n != 1 {
		return Entry{}, fmt.Errorf("%s %s: the row changed under its lock", action, id)
	}
	return Entry{Action: action, Org: id, Object: "org " + string(id), Before: before, After: after}, nil
}

var orgStates = []sluice.OrgState{
	sluice.OrgPending, sluice.OrgProvisioning, sluice.OrgReady, sluice.OrgPaused, sluice.OrgDraining, sluice.OrgFailed,
	sluice.OrgDeleting,
}

// SetOrgState sets the state of an org's warehouse. Only a ready org is loaded; deleting is final.
func (s *Store) SetOrgState(ctx context.Context, id sluice.Org, state sluice.OrgState, by By) error {
	if !slices.Contains(orgStates, state) {
		return invalid(fmt.Sprintf("set state of org %s", id), fmt.Sprintf("state %q is unknown", state), "")
	}
	return s.update(ctx, id, "org.set_state", by, func(o *Org) error {
		o.State = state
		return nil
	})
}

// SetLake stores where the org's lake is.
func (s *Store) SetLake(ctx context.Context, id sluice.Org, l Lake, by By) error {
	return s.update(ctx, id, "org.set_lake", by, func(o *Org) error {
		o.Lake = l
		return nil
	})
}

// SetLimits replaces the limits of an org.
func (s *Store) SetLimits(ctx context.Context, id sluice.Org, l Limits, by By) error {
	if err := l.check(fmt.Sprintf("set limits of org %s", id)); err != nil {
		return err
	}
	return s.update(ctx, id, "org.set_limits", by, func(o *Org) error {
		o.Limits = l
		return nil
	})
}

// SetPolicy changes the naming policy for streams that are bound later; it renames nothing.
func (s *Store) SetPolicy(ctx context.Context, id sluice.Org, p sluice.NamingPolicy, by By) error {
	if err := checkPolicy(fmt.Sprintf("set naming policy of org %s", id), p); err != nil {
		return err
	}
	return s.update(ctx, id, "org.set_policy", by, func(o *Org) error {
		o.NamingPolicy = p
		return nil
	})
}
