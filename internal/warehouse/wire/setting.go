package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
	"sluice/internal/warehouse/sqlstate"
)

// settings are the session's parameters, by lower-case name, and what some of them mean.
type settings struct {
	values   map[string]string
	initial  map[string]string // what RESET goes back to
	zone     *time.Location
	timeout  time.Duration
	readOnly bool
}

// reported are told to the client at the start and whenever they change.
var reported = []string{
	"application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby", "integer_datetimes",
	"IntervalStyle", "is_superuser", "server_encoding", "server_version", "session_authorization", "standard_conforming_strings", "TimeZone",
}

// display is the spelling of names that are not all lower case.
var display = map[string]string{"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}

const (
	free  = "free"  // any value is kept, and has no effect
	fixed = "fixed" // can be shown, not set
)

// rules say what a setting takes: free, fixed, or the one value that has an effect, which the others would change.
var rules = map[string]string{
	"application_name": free, "client_min_messages": free, "extra_float_digits": free, "lock_timeout": free,
	"idle_in_transaction_session_timeout": free, "idle_session_timeout": free, "synchronous_commit": free, "row_security": free,
	"check_function_bodies": free, "xmloption": free, "escape_string_warning": free, "default_transaction_isolation": free,
	"transaction_isolation": free, "default_transaction_deferrable": free, "jit": free, "search_path": free, "timezone": free,
	"statement_timeout": free, "default_transaction_read_only": free, "transaction_read_only": free, "datestyle": free,
	"client_encoding": "utf8", "intervalstyle": "postgres", "bytea_output": "hex", "standard_conforming_strings": "on", "array_nulls": "on",
	"server_version": fixed, "server_version_num": fixed, "server_encoding": fixed, "is_superuser": fixed,
	"session_authorization": fixed, "integer_datetimes": fixed, "max_identifier_length": fixed, "in_hot_standby": fixed,
	"lc_collate": fixed, "lc_ctype": fixed, "lc_messages": fixed, "lc_monetary": fixed, "lc_numeric": fixed, "lc_time": fixed,
	"max_index_keys": fixed, "block_size": fixed, "transaction_deferrable": fixed, "password_encryption": fixed, "role": fixed,
}

func defaults(version string) settings {
	v := map[string]string{
		"application_name": "", "client_min_messages": "notice", "extra_float_digits": "1", "lock_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0", "synchronous_commit": "on", "row_security": "on",
		"check_function_bodies": "on", "xmloption": "content", "escape_string_warning": "on",
		"default_transaction_isolation": "repeatable read", "transaction_isolation": "repeatable read",
		"default_transaction_deferrable": "off", "jit": "off", "search_path": `"$user", main`, "timezone": "UTC",
		"statement_timeout": "0", "default_transaction_read_only": "off", "transaction_read_only": "off", "datestyle": "ISO, MDY",
		"client_encoding": "UTF8", "intervalstyle": "postgres", "bytea_output": "hex", "standard_conforming_strings": "on",
		"array_nulls": "on", "server_version": version, "server_version_num": "150000", "server_encoding": "UTF8",
		"is_superuser": "off", "session_authorization": "", "integer_datetimes": "on", "max_identifier_length": "63",
		"in_hot_standby": "off", "lc_collate": "C", "lc_ctype": "C.UTF-8", "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C",
		"lc_time": "C", "max_index_keys": "32", "block_size": "8192", "transaction_deferrable": "off",
		"password_encryption": "scram-sha-256", "role": "none",
	}
	return settings{values: v, initial: maps.Clone(v), zone: time.UTC}
}

// initialise applies the settings of the startup packet; those that PostgreSQL has and this server has not are passed over.
func (s *Session) initialise(ctx context.Context, params map[string]string) error {
	s.vars.values["session_authorization"] = s.who.Name
	for name, v := range startupSettings(params) {
		if rules[name] == "" || rules[name] == fixed {
			continue
		}
		if err := s.assign(ctx, name, []string{v}); err != nil {
			return err
		}
	}
	s.vars.initial = maps.Clone(s.vars.values)
	return nil
}

// startupSettings gathers the settings of a startup packet and of its options ("-c name=value --name=value").
func startupSettings(params map[string]string) map[string]string {
	out := map[string]string{}
	words := strings.Fields(strings.ReplaceAll(params["options"], `\ `, "\x00"))
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-c" && i+1 < len(words):
			i++
			w = words[i]
		case strings.HasPrefix(w, "-c"):
			w = w[2:]
		case strings.HasPrefix(w, "--"):
			w = strings.ReplaceAll(w[2:], "-", "_")
		}
		if name, v, ok := strings.Cut(w, "="); ok {
			out[lower(name)] = strings.ReplaceAll(v, "\x00", " ")
		}
	}
	for name, v := range params {
		switch name {
		case "user", "database", "options", "replication":
		default:
			out[lower(name)] = v
		}
	}
	return out
}

// assign sets a parameter; no values mean its default.
func (s *Session) assign(ctx context.Context, name string, values []string) error {
	rule, known := rules[name]
	if !known {
		return s.assignEngine(ctx, name, values)
	}
	if len(values) == 0 {
		values = []string{s.vars.initial[name]}
		if name == "search_path" {
			values = splitPath(values[0])
		}
	}
	v := strings.Join(values, ", ")
	switch rule {
	case fixed:
		return sqlstate.New(sqlstate.CantChangeParam, "parameter %q cannot be changed", show(name))
	case free:
		var err error
		if v, err = s.effect(ctx, name, v, values); err != nil {
			return err
		}
	default:
		if canonical := strings.ReplaceAll(lower(v), "-", ""); canonical != rule && !(rule == "on" && slices.Contains([]string{"true", "1", "yes"}, canonical)) {
			if name != "client_encoding" || canonical != "unicode" {
				return sqlstate.New(sqlstate.FeatureNotSupported, "parameter %q can only be %s", show(name), strings.ToUpper(rule))
			}
		}
		v = s.vars.values[name]
	}
	return s.store(name, v)
}

func (s *Session) store(name, v string) error {
	if s.vars.values[name] == v {
		return nil
	}
	s.vars.values[name] = v
	if name == "application_name" {
		s.mu.Lock()
		s.info.Application = v
		s.mu.Unlock()
	}
	if d := show(name); slices.Contains(reported, d) {
		return s.io.send(&pgproto3.ParameterStatus{Name: d, Value: v})
	}
	return nil
}

func show(name string) string {
	if d, ok := display[name]; ok {
		return d
	}
	return name
}

// effect does what a setting stands for, and gives its value as it will be shown.
func (s *Session) effect(ctx context.Context, name, v string, values []string) (string, error) {
	switch name {
	case "timezone":
		return s.setZone(ctx, v)
	case "search_path":
		return s.setPath(ctx, values)
	case "statement_timeout":
		d, err := milliseconds(v)
		if err != nil {
			return "", err
		}
		s.vars.timeout = d
		return showDuration(d), nil
	case "default_transaction_read_only", "transaction_read_only":
		on, ok := parseOnOff(v)
		if !ok {
			return "", sqlstate.New(sqlstate.InvalidParameter, "parameter %q requires a Boolean value", name)
		}
		if name == "transaction_read_only" {
			s.tx.readOnly = on
		} else {
			s.vars.readOnly = on
		}
		if on {
			return "on", nil
		}
		return "off", nil
	case "datestyle":
		if l := lower(v); !strings.HasPrefix(l, "iso") && l != "mdy" && l != "us" {
			return "", sqlstate.New(sqlstate.FeatureNotSupported, "parameter %q can only be ISO, MDY", "DateStyle")
		}
		return "ISO, MDY", nil
	}
	return v, nil
}

func parseOnOff(v string) (on, ok bool) {
	switch lower(v) {
	case "on", "true", "yes", "1", "t":
		return true, true
	case "off", "false", "no", "0", "f":
		return false, true
	}
	return false, false
}

// milliseconds reads a duration as PostgreSQL does: a number of milliseconds, or one with a unit.
func milliseconds(v string) (time.Duration, error) {
	v = strings.ReplaceAll(v, " ", "")
	i := strings.IndexFunc(v, func(r rune) bool { return r != '.' && r != '-' && (r < '0' || r > '9') })
	number, unit := v, "ms"
	if i >= 0 {
		number, unit = v[:i], v[i:]
	}
	units := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	n, err := strconv.ParseFloat(number, 64)
	if u, ok := units[unit]; ok && err == nil && n >= 0 && n*float64(u) < float64(1<<62) {
		return time.Duration(n * float64(u)).Round(time.Millisecond), nil
	}
	return 0, sqlstate.New(sqlstate.InvalidParameter, "invalid value for parameter %q: %q", "statement_timeout", v)
}

func showDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%time.Minute == 0:
		return fmt.Sprintf("%dmin", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// setZone sets the time zone here, for rendering, and in the engine, for SQL.
func (s *Session) setZone(ctx context.Context, v string) (string, error) {
	zone, name, err := parseZone(v)
	if err != nil {
		return "", err
	}
	if s.db != nil {
		if err := s.unpin(ctx); err != nil {
			return "", err
		}
		if err := s.db.Exec(ctx, "SET SESSION TimeZone = "+literal(name)); err != nil {
			return "", sqlstate.New(sqlstate.InvalidParameter, "invalid value for parameter %q: %q", "TimeZone", v)
		}
	}
	s.vars.zone = zone
	return name, nil
}

// parseZone reads a zone's name, or hours east of UTC as PostgreSQL takes them.
func parseZone(v string) (*time.Location, string, error) {
	bad := sqlstate.New(sqlstate.InvalidParameter, "invalid value for parameter %q: %q", "TimeZone", v)
	name := strings.TrimSpace(v)
	switch lower(name) {
	case "utc", "z", "zulu", "gmt", "etc/utc", "+00:00", "-00:00", "0":
		return time.UTC, "UTC", nil
	}
	if h, err := strconv.ParseFloat(strings.TrimSuffix(strings.Replace(name, ":00", "", 1), ":00"), 64); err == nil {
		if h != float64(int(h)) || h < -14 || h > 14 {
			return nil, "", bad
		}
		name = fmt.Sprintf("Etc/GMT%+d", -int(h))
	}
	zone, err := time.LoadLocation(name)
	if err != nil || lower(name) == "local" || name == "" {
		return nil, "", bad
	}
	return zone, name, nil
}

// setPath gives the engine those schemas of a search path that exist. The client's "public" is the engine's "main".
func (s *Session) setPath(ctx context.Context, path []string) (string, error) {
	if len(path) == 1 {
		path = splitPath(path[0])
	}
	shown := make([]string, len(path))
	for i, p := range path {
		if shown[i] = p; p == "$user" || p != lower(p) || strings.ContainsAny(p, ` ",.-`) {
			shown[i] = quote(p)
		}
	}
	if s.db == nil {
		return strings.Join(shown, ", "), nil
	}
	if err := s.unpin(ctx); err != nil {
		return "", err
	}
	s.reads()
	there, err := s.db.Text(ctx, "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()")
	if err != nil {
		return "", s.engineError(ctx, err)
	}
	database, err := s.db.Text(ctx, "SELECT current_database()")
	if err != nil || len(database) != 1 {
		return "", s.engineError(ctx, err)
	}
	var engine []string
	for _, p := range path {
		if p == "public" && !slices.Contains(there, p) {
			p = "main"
		}
		if lower(p) == "_sluice" && s.who.Role.Tenant() {
			return "", sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for schema %s", p)
		}
		if slices.Contains(there, p) {
			engine = append(engine, quote(database[0])+"."+quote(p))
		}
	}
	if len(engine) == 0 {
		engine = []string{quote(database[0]) + "." + quote("main")}
	}
	if err := s.db.Exec(ctx, "SET SESSION search_path = "+literal(strings.Join(engine, ","))); err != nil {
		return "", s.engineError(ctx, err)
	}
	return strings.Join(shown, ", "), nil
}

// splitPath takes a search path that came as one text apart.
func splitPath(v string) []string {
	var out []string
	for _, p := range strings.Split(v, ",") {
		if p = strings.TrimSpace(p); strings.HasPrefix(p, `"`) {
			p = strings.ReplaceAll(strings.Trim(p, `"`), `""`, `"`)
		}
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// assignEngine sets a parameter of the engine: only Sluice's services may, and only a few.
func (s *Session) assignEngine(ctx context.Context, name string, values []string) error {
	if s.who.Role.Tenant() || !gate.ServiceSettings[name] {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to set parameter %q", name)
	}
	if err := s.unpin(ctx); err != nil {
		return err
	}
	sql := "RESET " + name
	if len(values) > 0 {
		sql = "SET " + name + " = " + literal(strings.Join(values, ","))
	}
	return s.engineError(ctx, s.db.Exec(ctx, sql))
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func quote(s string) string   { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

var textType = duck.Scalar(duck.Varchar)

// resolveLocal describes a statement that the server answers itself.
func (s *Session) resolveLocal(p *prepared) error {
	if p.local.Verb == gate.Fetch {
		return s.resolveFetch(p)
	}
	if p.local.Verb != gate.Show {
		return nil
	}
	p.rows, p.kind = true, duck.KindSelect
	if p.local.Name == "all" {
		p.columns = []duck.Column{{Name: "name", Type: textType}, {Name: "setting", Type: textType}, {Name: "description", Type: textType}}
		return nil
	}
	if _, ok := s.vars.values[p.local.Name]; !ok {
		return sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", p.local.Name)
	}
	p.columns = []duck.Column{{Name: show(p.local.Name), Type: textType}}
	return nil
}
