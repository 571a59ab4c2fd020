package fanout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Definition says what a fan-out does. Column names in it are the target's where they stand for rows of the target, and the
// source's in From and Drop.
type Definition struct {
	Kind    SourceKind `yaml:"source_kind" json:"source_kind"`
	Mode    Mode       `yaml:"mode" json:"mode"`
	Keys    []string   `yaml:"key_columns" json:"key_columns,omitempty"`       // target columns
	Version string     `yaml:"version_column" json:"version_column,omitempty"` // target column; empty: order alone counts
	Route   string     `yaml:"route_column" json:"route_column"`               // source column
	// TableField is the field of discovery that names a team's table; empty: only static destinations.
	TableField string            `yaml:"table_field" json:"table_field,omitempty"`
	Static     []StaticEntry     `yaml:"static" json:"static,omitempty"`
	Columns    map[string]Mapped `yaml:"columns" json:"columns,omitempty"` // by target column
	Drop       []string          `yaml:"drop" json:"drop,omitempty"`       // source columns
	// Fill gives target columns without a source a constant; nil: NULL.
	Fill    map[string]*string `yaml:"fill" json:"fill,omitempty"`
	Unknown string             `yaml:"unknown" json:"unknown"` // drop_and_count, add, refuse
	// Deleted is the target column that marks deleted rows; it is an ordinary column of the rows.
	Deleted    string   `yaml:"delete_column" json:"delete_column,omitempty"`
	Tombstones string   `yaml:"tombstones" json:"tombstones"` // ignore, mark
	Moved      string   `yaml:"moved" json:"moved,omitempty"` // evict
	Seed       string   `yaml:"seed" json:"seed"`             // history, head
	Into       string   `yaml:"into" json:"into"`             // staging, existing
	OnGap      string   `yaml:"on_gap" json:"on_gap"`         // halt, reseed
	Unrouted   string   `yaml:"unrouted" json:"unrouted"`     // count
	Partition  []string `yaml:"partition" json:"partition,omitempty"`
}

// Mapped says where a target column comes from.
type Mapped struct {
	From      string `yaml:"from" json:"from,omitempty"` // empty: the same name
	Type      string `yaml:"type" json:"type,omitempty"` // empty: the source's
	NullIfBad bool   `yaml:"null_if_bad" json:"null_if_bad,omitempty"`
}

// StaticEntry is a destination that the definition names. It wins over a discovered one of the same team.
type StaticEntry struct {
	Org    sluice.Org    `yaml:"org" json:"org"`
	Team   sluice.TeamID `yaml:"team_id" json:"team_id"`
	Schema string        `yaml:"schema" json:"schema"`
	Table  string        `yaml:"table" json:"table"`
}

// Values of the definition's words.
const (
	UnknownDrop   = "drop_and_count"
	UnknownAdd    = "add"
	UnknownRefuse = "refuse"

	TombstonesIgnore = "ignore"
	TombstonesMark   = "mark"

	MovedEvict = "evict"

	SeedHistory = "history"
	SeedHead    = "head"

	IntoStaging  = "staging"
	IntoExisting = "existing"

	OnGapHalt   = "halt"
	OnGapReseed = "reseed"
)

// TableFields are the fields of discovery that may name a destination's table.
var TableFields = []string{"events_table", "persons_table", "persons_raw_table", "persons_distinct_ids_raw_table"}

// DefaultRoute is the column by which rows are told apart.
const DefaultRoute = "team_id"

// ParseDefinition reads a definition in YAML; keys that it does not know are errors.
func ParseDefinition(text []byte) (Definition, error) {
	var d Definition
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return d, sluice.E("SLUICE-FANOUT-INVALID", "read the fan-out's definition", err.Error(), "see `sluice fanout add --help` for the keys", err)
	}
	return d.Complete()
}

func invalid(format string, a ...any) error {
	return sluice.E("SLUICE-FANOUT-INVALID", "read the fan-out's definition", fmt.Sprintf(format, a...), "correct the definition", nil)
}

var partitionForm = regexp.MustCompile(`^(?:(?:year|month|day|hour)\(([A-Za-z_][A-Za-z0-9_]*)\)|([A-Za-z_][A-Za-z0-9_]*))$`)

// Complete fills in what is not said, and refuses what does not fit together.
func (d Definition) Complete() (Definition, error) {
	def := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	if d.Kind == "" {
		d.Kind = SourceChangelog
	}
	if d.Mode == "" {
		d.Mode = CurrentState
	}
	def(&d.Route, DefaultRoute)
	def(&d.Unknown, UnknownDrop)
	def(&d.Tombstones, TombstonesIgnore)
	def(&d.Seed, SeedHistory)
	def(&d.Into, IntoStaging)
	def(&d.OnGap, OnGapHalt)
	def(&d.Unrouted, "count")
	for _, w := range []struct {
		key, value string
		allowed    []string
	}{
		{"source_kind", string(d.Kind), []string{string(SourceChangelog), string(SourceTable)}},
		{"mode", string(d.Mode), []string{string(CurrentState), string(AppendOnly)}},
		{"unknown", d.Unknown, []string{UnknownDrop, UnknownAdd, UnknownRefuse}},
		{"tombstones", d.Tombstones, []string{TombstonesIgnore, TombstonesMark}},
		{"moved", d.Moved, []string{"", MovedEvict}},
		{"seed", d.Seed, []string{SeedHistory, SeedHead}},
		{"into", d.Into, []string{IntoStaging, IntoExisting}},
		{"on_gap", d.OnGap, []string{OnGapHalt, OnGapReseed}},
		{"unrouted", d.Unrouted, []string{"count"}},
		{"table_field", d.TableField, append([]string{""}, TableFields...)},
	} {
		if !slices.Contains(w.allowed, w.value) {
			return d, invalid("%s is %q; it must be one of %s", w.key, w.value, strings.Join(w.allowed, ", "))
		}
	}
	if d.TableField == "" && len(d.Static) == 0 {
		return d, invalid("there is neither a table_field nor a static destination")
	}
	teams := map[sluice.TeamID]bool{}
	for _, s := range d.Static {
		if s.Org == "" || s.Team <= 0 || s.Schema == "" || s.Table == "" {
			return d, invalid("a static destination needs org, team_id, schema and table")
		}
		if teams[s.Team] {
			return d, invalid("team %d is a static destination twice", s.Team)
		}
		teams[s.Team] = true
	}
	for _, p := range d.Partition {
		if !partitionForm.MatchString(p) {
			return d, invalid("%q is not a partition: write a column, or year(…), month(…), day(…), hour(…) of one", p)
		}
	}
	return d, d.checkMode()
}

func (d Definition) checkMode() error {
	switch {
	case d.Mode == CurrentState && len(d.Keys) == 0:
		return invalid("current_state needs key_columns")
	case d.Mode == AppendOnly && (len(d.Keys) > 0 || d.Version != ""):
		return invalid("append_only knows no key_columns and no version_column")
	case d.Mode == AppendOnly && d.Kind == SourceTable:
		return invalid("append_only needs a changelog: a table's rows change")
	case d.Mode == AppendOnly && (d.Tombstones == TombstonesMark || d.Moved == MovedEvict):
		return invalid("append_only has no rows to mark or to evict")
	case d.Tombstones == TombstonesMark && d.Deleted == "":
		return invalid("tombstones: mark needs a delete_column")
	case d.Kind == SourceTable && (d.Tombstones == TombstonesMark || d.Moved == MovedEvict):
		return invalid("a table source tells of deletes and moves by itself: leave tombstones and moved out")
	}
	for name := range d.Fill {
		if _, ok := d.Columns[name]; ok {
			return invalid("column %s is both mapped and filled", name)
		}
		if slices.Contains(d.Keys, name) || name == d.Version {
			return invalid("column %s is a key or the version: it cannot be filled", name)
		}
	}
	for name, m := range d.Columns {
		if m.NullIfBad && (slices.Contains(d.Keys, name) || name == d.Version) {
			return invalid("column %s is a key or the version: it cannot be null_if_bad", name)
		}
		if m.Type != "" {
			if _, err := lake.ParseType(m.Type); err != nil {
				return invalid("column %s: %v", name, err)
			}
		}
	}
	if d.Mode == CurrentState && d.Kind == SourceChangelog && d.Moved == "" && !d.routeInKey() {
		return sluice.E("SLUICE-FANOUT-ROUTE-NOT-IN-KEY", "read the fan-out's definition",
			fmt.Sprintf("the route column %s is not among the keys: a row whose route changes would stay where it was", d.Route),
			"add the route to key_columns, or say moved: evict", nil)
	}
	return nil
}

// routeInKey reports whether a key column comes from the route column: a row with another route then is another key.
func (d Definition) routeInKey() bool {
	return slices.ContainsFunc(d.Keys, func(k string) bool { return strings.EqualFold(d.from(k), d.Route) })
}

// from gives the source column of a target column.
func (d Definition) from(target string) string {
	if m, ok := d.Columns[target]; ok && m.From != "" {
		return m.From
	}
	return target
}
