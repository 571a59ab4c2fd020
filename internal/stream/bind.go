package stream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sluice/internal/control"
	"sluice/internal/naming"
	"sluice/internal/sluice"
	"sluice/internal/statedb"
)

// Binding is the stored name of a stream's table.
type Binding struct {
	TargetSchema string `json:"target_schema"`
	TargetTable  string `json:"target_table"`
	Raw          string `json:"raw,omitempty"`
	Cut          bool   `json:"cut"`
	Collided     bool   `json:"collided"` // the derived name was taken or reserved
	Adopted      bool   `json:"adopted"`  // the table existed
	Bound        bool   `json:"bound"`    // by this call; false: it was bound before, or it is a dry run
}

// Exists tells whether a table is in the org's lake.
type Exists func(ctx context.Context, schema, table string) (bool, error)

// BindOptions say what is known about existing tables.
type BindOptions struct {
	Table  string // the operator's choice, or the producer's record; empty: look and derive
	Exists Exists // nil: no table exists
	DryRun bool
}

const (
	bindRaces  = 5  // how often another stream may take the name between look and write
	collisions = 16 // substitutes that are tried; each is 40 bits of a hash
)

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Bind gives the stream its table name, once: a bound stream keeps what it has (naming.md §2–3). Where the lake has a
// table under the name of either policy that no stream has bound, that one is adopted; two of them are
// SLUICE-NAME-AMBIGUOUS. A name that is taken gives way to a substitute.
func (s *Store) Bind(ctx context.Context, id sluice.StreamID, o BindOptions, by By) (Binding, error) {
	d, err := s.Detail(ctx, id)
	if err != nil {
		return Binding{}, err
	}
	org, err := control.OrgIn(ctx, s.db, d.Org)
	if err != nil {
		return Binding{}, err
	}
	team, err := control.TeamIn(ctx, s.db, d.Org, d.TeamID)
	if err != nil {
		return Binding{}, err
	}
	b := binder{stream: d.Stream, schema: team.Tables().ImportsSchema, opts: o}
	if d.TargetTable != "" {
		return b.bound(d.Stream)
	}
	// The lake is asked before the transaction: no lake access inside one.
	if err := b.look(ctx, org.NamingPolicy); err != nil {
		return Binding{}, err
	}
	for race := 0; ; race++ {
		var out Binding
		err := s.change(ctx, id, "stream.bind", by, func(tx *statedb.Tx, d Detail) error {
			var err error
			if d.TargetTable != "" { // the loser of a race reads again
				out, err = b.bound(d.Stream)
			} else {
				out, err = b.write(ctx, tx)
			}
			if err == nil && o.DryRun {
				err = errDryRun
			}
			return err
		})
		switch {
		case errors.Is(err, errDryRun): // it was only there to roll back
			out.Bound = false
			return out, nil
		case statedb.Unique(err) && race < bindRaces:
			continue
		}
		return out, err
	}
}

var errDryRun = errors.New("dry run")

type binder struct {
	stream  sluice.Stream
	schema  string
	opts    BindOptions
	derived naming.Derived
	present map[string]bool // table names that the lake has
	adopt   []string        // existing tables that could be the stream's
	owned   map[string]bool // names of events and persons tables, if a team's schema is the one
}

// bound answers for a stream that has its name already.
func (b *binder) bound(st sluice.Stream) (Binding, error) {
	if t := b.opts.Table; t != "" && !strings.EqualFold(t, st.TargetTable) {
		return Binding{}, sluice.E("SLUICE-LOAD-STATE", fmt.Sprintf("bind stream %s to %s", st.StreamID, t),
			fmt.Sprintf("it is bound to %s.%s", st.TargetSchema, st.TargetTable), "a name is bound once and never changes", nil)
	}
	return Binding{TargetSchema: st.TargetSchema, TargetTable: st.TargetTable}, nil
}

// look derives the names of the stream and asks the lake which of them exist.
func (b *binder) look(ctx context.Context, policy sluice.NamingPolicy) error {
	st := b.stream
	doing := fmt.Sprintf("bind stream %s", st.StreamID)
	if t := b.opts.Table; t != "" && (!tableName.MatchString(t) || naming.Reserved(t)) {
		return sluice.E("SLUICE-CONTROL-INVALID", doing, fmt.Sprintf("the table name %q is not allowed", t),
			"use lower-case letters, digits and underscores, at most 63, no reserved name", nil)
	}
	derived, err := naming.Name(policy, st.SourceType, st.Prefix, st.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	b.derived = derived
	b.present = map[string]bool{}
	if b.opts.Exists == nil {
		return nil
	}
	for _, p := range []sluice.NamingPolicy{policy, sluice.PolicyCopyV1, sluice.PolicyLegacyBatchV1} {
		other, err := naming.Name(p, st.SourceType, st.Prefix, st.Name)
		if err != nil {
			continue // the other policy has no name for it, so there is no table under one
		}
		if _, asked := b.present[other.Name]; asked {
			continue
		}
		there, err := b.opts.Exists(ctx, b.schema, other.Name)
		if err != nil {
			return fmt.Errorf("%s: look for table %s.%s: %w", doing, b.schema, other.Name, err)
		}
		b.present[other.Name] = there
		if there {
			b.adopt = append(b.adopt, other.Name)
		}
	}
	for n := range 3 { // a substitute must not hit a table that nobody knows
		name := b.substitute(n)
		there, err := b.opts.Exists(ctx, b.schema, name)
		if err != nil {
			return fmt.Errorf("%s: look for table %s.%s: %w", doing, b.schema, name, err)
		}
		b.present[name] = there
	}
	return nil
}

func (b *binder) substitute(n int) string {
	st := b.stream
	return naming.Collide(st.TeamID, st.SourceType, st.Prefix, st.Name, st.StreamID, b.derived.Name, n)
}

// write chooses the name and reserves it, in one transaction.
func (b *binder) write(ctx context.Context, tx *statedb.Tx) (Binding, error) {
	out := Binding{TargetSchema: b.schema, Raw: b.derived.Raw, Cut: b.derived.Cut}
	if t := b.opts.Table; t != "" {
		taken, err := b.taken(ctx, tx, t)
		if err != nil {
			return out, err
		}
		if taken {
			return out, sluice.E("SLUICE-NAME-TAKEN", fmt.Sprintf("bind stream %s to %s.%s", b.stream.StreamID, b.schema, t),
				"the name belongs to another stream or is reserved", "choose another name, or leave it out", nil)
		}
		out.TargetTable, out.Adopted = t, b.present[t]
		return b.store(ctx, tx, out)
	}
	var free []string
	for _, name := range b.adopt {
		taken, err := b.taken(ctx, tx, name)
		if err != nil {
			return out, err
		}
		if !taken && !naming.Reserved(name) {
			free = append(free, name)
		}
	}
	switch len(free) {
	case 0:
	case 1:
		out.TargetTable, out.Adopted = free[0], true
		return b.store(ctx, tx, out)
	default:
		return out, sluice.E("SLUICE-NAME-AMBIGUOUS", fmt.Sprintf("bind stream %s", b.stream.StreamID),
			fmt.Sprintf("tables %s exist in %s and either could be its", strings.Join(free, " and "), b.schema),
			fmt.Sprintf("say which: `sluice stream bind %s --table %s`", b.stream.StreamID, free[0]), nil)
	}
	name := b.derived.Name
	for n := -1; n < collisions; n++ {
		if n >= 0 {
			name = b.substitute(n)
		}
		taken, err := b.taken(ctx, tx, name)
		if err != nil {
			return out, err
		}
		if !taken && !naming.Reserved(name) && !b.present[name] {
			out.TargetTable, out.Collided = name, n >= 0
			return b.store(ctx, tx, out)
		}
	}
	return out, sluice.E("SLUICE-NAME-TAKEN", fmt.Sprintf("bind stream %s", b.stream.StreamID),
		fmt.Sprintf("%s and all its substitutes are taken", b.derived.Name), "bind it by hand with --table", nil)
}

// taken tells whether a name belongs to another stream, or to another writer of the schema.
func (b *binder) taken(ctx context.Context, tx *statedb.Tx, table string) (bool, error) {
	if b.owned == nil {
		teams, err := control.TeamsIn(ctx, tx, b.stream.Org)
		if err != nil {
			return false, err
		}
		b.owned = map[string]bool{}
		for _, t := range teams {
			if strings.EqualFold(t.SchemaName, b.schema) {
				for _, name := range t.Owned() {
					b.owned[strings.ToLower(name)] = true
				}
			}
		}
	}
	if b.owned[strings.ToLower(table)] {
		return true, nil
	}
	_, found, err := statedb.One(ctx, tx, queries.Get("NameTaken"), statedb.Args{
		"org": b.stream.Org, "target_schema": b.schema, "target_table": table, "id": b.stream.StreamID,
	}, statedb.Value[int64])
	return found, err
}

func (b *binder) store(ctx context.Context, tx *statedb.Tx, out Binding) (Binding, error) {
	n, err := statedb.Exec(ctx, tx, queries.Get("StreamBind"), statedb.Args{
		"id": b.stream.StreamID, "target_schema": out.TargetSchema, "target_table": out.TargetTable, "adopted": out.Adopted,
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("bind stream %s: it was bound under its own lock", b.stream.StreamID)
	}
	out.Bound = true
	return out, err
}

// Preview tells how the streams of an org that are not bound would be named under a policy, before collisions.
func (s *Store) Preview(ctx context.Context, org sluice.Org, policy sluice.NamingPolicy) (map[sluice.StreamID]naming.Derived, error) {
	all, err := statedb.All(ctx, s.db, queries.Get("StreamUnbound"), statedb.Args{"org": org}, scanStream)
	if err != nil {
		return nil, err
	}
	names := make(map[sluice.StreamID]naming.Derived, len(all))
	for _, st := range all {
		if names[st.StreamID], err = naming.Name(policy, st.SourceType, st.Prefix, st.Name); err != nil {
			return nil, fmt.Errorf("name stream %s: %w", st.StreamID, err)
		}
	}
	return names, nil
}

// Reserve keeps a name from being bound: it belongs to another writer. A name that is reserved already stays so.
func Reserve(ctx context.Context, tx *statedb.Tx, org sluice.Org, schema, table, reservedFor string) error {
	_, err := statedb.Exec(ctx, tx, queries.Get("NameReserve"), statedb.Args{
		"org": org, "target_schema": schema, "target_table": table, "reserved_for": reservedFor,
	})
	return err
}
