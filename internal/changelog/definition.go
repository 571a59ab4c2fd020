package changelog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// Definition is how a changelog reads its topic: the config of `sluice changelog add`. Its zero value, completed, takes JSON
// objects as they are.
type Definition struct {
	Decoder         string            `json:"decoder,omitempty" yaml:"decoder"`                     // json, debezium
	KeyJSON         bool              `json:"key_json,omitempty" yaml:"key_json"`                   // a tombstone's key fills columns
	Headers         bool              `json:"headers,omitempty" yaml:"headers"`                     // keep the headers in _headers
	Debezium        Debezium          `json:"debezium,omitzero" yaml:"debezium"`                    //
	Columns         map[string]Pin    `json:"columns,omitempty" yaml:"columns"`                     // pinned types, by name
	IgnoreColumns   []string          `json:"ignore_columns,omitempty" yaml:"ignore_columns"`       // names that make no column and are left out
	MaxColumns      int               `json:"max_columns,omitempty" yaml:"max_columns"`             // default 500
	OnConflict      string            `json:"on_conflict,omitempty" yaml:"on_conflict"`             // extra, quarantine
	Partition       string            `json:"partition,omitempty" yaml:"partition"`                 // inserted_month, none
	SortBy          []string          `json:"sort_by,omitempty" yaml:"sort_by"`                     // default _partition, _offset
	Start           string            `json:"start,omitempty" yaml:"start"`                         // earliest, latest, or a time
	OnGap           string            `json:"on_gap,omitempty" yaml:"on_gap"`                       // halt, skip
	Isolation       string            `json:"isolation,omitempty" yaml:"isolation"`                 // read_committed, read_uncommitted
	Filter          *Filter           `json:"filter,omitempty" yaml:"filter"`                       //
	IncludeValues   *IncludeValues    `json:"include_values,omitempty" yaml:"include_values"`       //
	MaxMessageBytes int               `json:"max_message_bytes,omitempty" yaml:"max_message_bytes"` // default 8 MiB
	Freshness       string            `json:"freshness,omitempty" yaml:"freshness"`                 // a fixed flush interval; empty: the process's, which stretches
	Labels          map[string]string `json:"labels,omitempty" yaml:"labels"`                       // for people
}

// Pin fixes the type of a column.
type Pin struct {
	Type   string `json:"type,omitempty" yaml:"type"`
	Unit   string `json:"unit,omitempty" yaml:"unit"`     // of numbers that are times: s, ms, us, ns
	Coerce string `json:"coerce,omitempty" yaml:"coerce"` // text: anything becomes its JSON text
}

// Debezium says what of the envelope is kept.
type Debezium struct {
	// Version is the field of the envelope that orders changes of a row and is kept as _version: lsn, gtid_pos or ts_ms.
	Version string `json:"version,omitempty" yaml:"version"`
}

// Filter keeps messages by the value of one field.
type Filter struct {
	Field       string   `json:"field" yaml:"field"`
	Values      []string `json:"values" yaml:"values"`
	KeepMissing bool     `json:"keep_missing,omitempty" yaml:"keep_missing"`
}

// IncludeValues is a filter whose list comes from an HTTP endpoint.
type IncludeValues struct {
	Field       string `json:"field" yaml:"field"`
	URL         string `json:"url" yaml:"url"`
	Interval    string `json:"interval,omitempty" yaml:"interval"` // default 60s
	Mode        string `json:"mode,omitempty" yaml:"mode"`         // authoritative, advisory, shadow
	TokenFile   string `json:"token_file,omitempty" yaml:"token_file"`
	KeepMissing bool   `json:"keep_missing,omitempty" yaml:"keep_missing"`
}

// Words of a definition.
const (
	DecoderJSON     = "json"
	DecoderDebezium = "debezium"

	ConflictExtra      = "extra"
	ConflictQuarantine = "quarantine"

	PartitionMonth = "inserted_month"
	PartitionNone  = "none"

	StartEarliest = "earliest"
	StartLatest   = "latest"

	GapHalt = "halt"
	GapSkip = "skip"

	ReadCommitted   = "read_committed"
	ReadUncommitted = "read_uncommitted"

	ModeAuthoritative = "authoritative"
	ModeAdvisory      = "advisory"
	ModeShadow        = "shadow"
)

// Limits of a definition.
const (
	defaultMaxColumns      = 500
	defaultMaxMessageBytes = 8 << 20
)

// UnmarshalYAML reads a pin: a type, or its parts.
func (p *Pin) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&p.Type)
	}
	type parts Pin
	return node.Decode((*parts)(p))
}

// UnmarshalJSON reads a pin: a type, or its parts.
func (p *Pin) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &p.Type)
	}
	type parts Pin
	return json.Unmarshal(text, (*parts)(p))
}

// ParseDefinition reads a definition from YAML or JSON and completes it. An unknown key is an error that names the line.
func ParseDefinition(text []byte) (Definition, error) {
	var d Definition
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return d, invalid("%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", ";"), "yaml: "))
	}
	return d.complete()
}

func invalid(format string, a ...any) error {
	return sluice.E("SLUICE-CHANGELOG-INVALID", "read the changelog's config", fmt.Sprintf(format, a...), "see docs/changelog.md for the keys and their values", nil)
}

// complete fills in what is not said and checks everything.
func (d Definition) complete() (Definition, error) {
	for _, w := range []struct {
		key     string
		value   *string
		allowed []string // the first is the default
	}{
		{"decoder", &d.Decoder, []string{DecoderJSON, DecoderDebezium}},
		{"on_conflict", &d.OnConflict, []string{ConflictExtra, ConflictQuarantine}},
		{"partition", &d.Partition, []string{PartitionMonth, PartitionNone}},
		{"on_gap", &d.OnGap, []string{GapHalt, GapSkip}},
		{"isolation", &d.Isolation, []string{ReadCommitted, ReadUncommitted}},
		{"debezium.version", &d.Debezium.Version, []string{"", "lsn", "gtid_pos", "ts_ms"}},
	} {
		switch {
		case *w.value == "":
			*w.value = w.allowed[0]
		case w.key == "decoder" && (*w.value == "avro" || *w.value == "protobuf"):
			return d, sluice.E("SLUICE-CHANGELOG-DECODER", "read the changelog's config", "decoder "+*w.value+" is not built",
				"write the topic as JSON, with or without a Debezium envelope", nil)
		case !slices.Contains(w.allowed, *w.value):
			return d, invalid("%s is %q; it may be one of %s", w.key, *w.value, strings.Join(w.allowed, ", "))
		}
	}
	if d.Start == "" {
		d.Start = StartEarliest
	}
	if d.Start != StartEarliest && d.Start != StartLatest {
		if _, err := time.Parse(time.RFC3339, d.Start); err != nil {
			return d, invalid("start is %q; it may be earliest, latest or a time like 2026-03-01T00:00:00Z", d.Start)
		}
	}
	if d.MaxColumns == 0 {
		d.MaxColumns = defaultMaxColumns
	}
	if d.MaxMessageBytes == 0 {
		d.MaxMessageBytes = defaultMaxMessageBytes
	}
	if d.MaxColumns < 1 || d.MaxColumns > 5000 {
		return d, invalid("max_columns is %d; it may be 1 to 5000", d.MaxColumns)
	}
	if d.MaxMessageBytes < 1024 || d.MaxMessageBytes > 64<<20 {
		return d, invalid("max_message_bytes is %d; it may be 1024 to 67108864", d.MaxMessageBytes)
	}
	if d.Freshness != "" {
		if f, err := time.ParseDuration(d.Freshness); err != nil || f < time.Second || f > time.Hour {
			return d, invalid("freshness is %q; it may be 1s to 1h", d.Freshness)
		}
	}
	if d.Debezium.Version != "" && d.Decoder != DecoderDebezium {
		return d, invalid("debezium.version needs decoder debezium")
	}
	if d.Filter != nil && d.IncludeValues != nil {
		return d, invalid("filter and include_values cannot both be there")
	}
	if d.Filter != nil && (d.Filter.Field == "" || len(d.Filter.Values) == 0) {
		return d, invalid("filter needs a field and values")
	}
	if d.IncludeValues != nil {
		v, err := d.IncludeValues.complete()
		if err != nil {
			return d, err
		}
		d.IncludeValues = &v
	}
	for _, c := range d.SortBy {
		if c == "" {
			return d, invalid("sort_by has an empty name")
		}
	}
	return d, d.checkPins()
}

func (v IncludeValues) complete() (IncludeValues, error) {
	if v.Field == "" || !strings.HasPrefix(v.URL, "http://") && !strings.HasPrefix(v.URL, "https://") {
		return v, invalid("include_values needs a field and an http or https url")
	}
	if v.Interval == "" {
		v.Interval = "60s"
	}
	if i, err := time.ParseDuration(v.Interval); err != nil || i < time.Second {
		return v, invalid("include_values.interval is %q; it may be 1s or more", v.Interval)
	}
	switch v.Mode {
	case "":
		v.Mode = ModeAdvisory
	case ModeAdvisory, ModeAuthoritative, ModeShadow:
	default:
		return v, invalid("include_values.mode is %q; it may be one of authoritative, advisory, shadow", v.Mode)
	}
	return v, nil
}

// checkPins normalises the pinned types.
func (d *Definition) checkPins() error {
	pins := make(map[string]Pin, len(d.Columns))
	folded := map[string]string{}
	for name, p := range d.Columns {
		if why := unfit(name); why != "" {
			return invalid("column %q cannot be pinned: %s", name, why)
		}
		if other, ok := folded[strings.ToLower(name)]; ok {
			return invalid("columns %q and %q differ only in case", min(name, other), max(name, other))
		}
		folded[strings.ToLower(name)] = name
		if p.Coerce != "" && p.Coerce != "text" {
			return invalid("column %q: coerce is %q; it may be text", name, p.Coerce)
		}
		if p.Coerce == "text" && p.Type == "" {
			p.Type = "VARCHAR"
		}
		t, err := lake.ParseType(p.Type)
		if err != nil {
			return invalid("column %q: type %q cannot be read", name, p.Type)
		}
		if !pinnable[t.Base] || t.Base == "DECIMAL" && (t.Width < 1 || t.Width > 38) {
			return invalid("column %q: type %s cannot be pinned; it may be one of %s", name, p.Type, strings.Join(pinnableNames(), ", "))
		}
		p.Type = t.String()
		if p.Coerce == "text" && p.Type != "VARCHAR" {
			return invalid("column %q: coerce: text needs type VARCHAR", name)
		}
		switch {
		case p.Unit == "":
		case !isTime(t):
			return invalid("column %q: unit needs a type TIMESTAMP or TIMESTAMPTZ", name)
		case unitMicros[p.Unit] == "":
			return invalid("column %q: unit is %q; it may be s, ms, us or ns", name, p.Unit)
		}
		pins[name] = p
	}
	d.Columns = pins
	return nil
}

// pinnable are the types that a pin may name.
var pinnable = map[string]bool{
	"BOOLEAN": true, "TINYINT": true, "SMALLINT": true, "INTEGER": true, "BIGINT": true, "UTINYINT": true, "USMALLINT": true,
	"UINTEGER": true, "UBIGINT": true, "FLOAT": true, "DOUBLE": true, "DECIMAL": true, "VARCHAR": true, "JSON": true, "UUID": true,
	"DATE": true, "TIME": true, "TIMESTAMP": true, "TIMESTAMP WITH TIME ZONE": true, "TIMESTAMPTZ": true,
}

func pinnableNames() []string {
	var out []string
	for n := range pinnable {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

func isTime(t lake.Type) bool { return strings.HasPrefix(t.Base, "TIMESTAMP") }

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// ValidName reports whether a changelog may be called so.
func ValidName(name string) bool { return nameForm.MatchString(name) }
