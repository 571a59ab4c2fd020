package statedb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Args are the named parameters of a query. Strings, integers, booleans and pointers to them may be of named types; a
// nil pointer is NULL. time.Time is a point in time, time.Duration a span; slices are lists for the `in` macros.
type Args map[string]any

// Set holds the named queries of a package: files with parts `-- name: X` (a query) and `-- fragment: X` (a piece that
// queries use by `{{use X}}`). Parameters are written `:name`. Where the databases differ there are macros:
//
//	{{now}}               the clock of the state DB (or the test's)
//	{{after :d}}          that clock plus a time.Duration
//	{{ago :d}}            that clock minus a time.Duration
//	{{add x :d}}          the time x plus a time.Duration
//	{{in_uuid :list}}     IN a list of UUIDs;  {{in_text :list}}, {{in_bigint :list}}
//	{{json :x}}           a JSON document as a value
//	{{each :x}}           rows of a JSON array, as table each(value text)
//	{{pairs :x}}          rows of a JSON array of {stream_id, epoch}, as table pairs(stream_id, epoch)
//	{{lock x}}            FOR NO KEY UPDATE OF x (SQLite: nothing, its writers are alone);  {{lock_skip x}} SKIP LOCKED
//	{{pg}}…{{end}}        text for PostgreSQL only;  {{sqlite}}…{{end}} for SQLite only
type Set struct{ queries map[string]*Query }

// Query is one named query, compiled when first used with a dialect.
type Query struct {
	name     string
	text     string // fragments are in place
	mu       sync.Mutex
	compiled map[variant]compiled
}

type variant struct {
	dialect Dialect
	clock   bool // the time is a parameter
}

type compiled struct {
	sql    string
	params []string
}

// nowParam is the parameter that a test's clock arrives in.
const nowParam = "now_override"

var partHead = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)\s*$`)

// MustLoad reads the .sql files of a package, or panics: the files are embedded, so a mistake shows in every test.
func MustLoad(fsys fs.FS, glob string) *Set {
	files, err := fs.Glob(fsys, glob)
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("load queries %s: no files (%v)", glob, err))
	}
	s := &Set{queries: map[string]*Query{}}
	fragments, names := map[string]string{}, map[string]string{}
	for _, f := range files {
		data, err := fs.ReadFile(fsys, f)
		if err != nil {
			panic(fmt.Sprintf("load queries: %v", err))
		}
		text := string(data)
		heads := partHead.FindAllStringSubmatchIndex(text, -1)
		for i, h := range heads {
			end := len(text)
			if i+1 < len(heads) {
				end = heads[i+1][0]
			}
			kind, name := text[h[2]:h[3]], text[h[4]:h[5]]
			into := names
			if kind == "fragment" {
				into = fragments
			}
			if _, dup := into[name]; dup {
				panic(fmt.Sprintf("load queries %s: %s %s is there twice", f, kind, name))
			}
			into[name] = trim(text[h[1]:end])
		}
	}
	for name, text := range names {
		for range 4 { // fragments may use fragments
			text = useMacro.ReplaceAllStringFunc(text, func(m string) string {
				f, ok := fragments[useMacro.FindStringSubmatch(m)[1]]
				if !ok {
					panic(fmt.Sprintf("load query %s: unknown fragment in %s", name, m))
				}
				return f
			})
		}
		s.queries[name] = mustParse(name, text)
	}
	return s
}

// trim cuts the semicolon and the comment that belongs to the next part.
func trim(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 0 {
		last := strings.TrimSpace(lines[len(lines)-1])
		if last != "" && !strings.HasPrefix(last, "--") {
			break
		}
		lines = lines[:len(lines)-1]
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "; \n")
}

var useMacro = regexp.MustCompile(`\{\{use (\w+)\}\}`)

func mustParse(name, text string) *Query {
	q := &Query{name: name, text: text, compiled: map[variant]compiled{}}
	for _, d := range []Dialect{SQLite, PostgreSQL} {
		for _, clock := range []bool{false, true} {
			if _, err := q.compile(variant{d, clock}); err != nil {
				panic(err)
			}
		}
	}
	return q
}

// Get gives a query by name, or panics: names are constants of the package that owns the set.
func (s *Set) Get(name string) *Query {
	q, ok := s.queries[name]
	if !ok {
		panic("no query " + name)
	}
	return q
}

// Names lists the queries, sorted.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.queries))
	for n := range s.queries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// SQL gives the query's text for a dialect, for tests on plans.
func (q *Query) SQL(d Dialect) string {
	c, err := q.compile(variant{d, false})
	if err != nil {
		panic(err)
	}
	return c.sql
}

func (q *Query) compile(v variant) (compiled, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.compiled[v]; ok {
		return c, nil
	}
	text, err := expand(q.text, v)
	if err != nil {
		return compiled{}, fmt.Errorf("compile query %s: %w", q.name, err)
	}
	c := number(text, v.dialect)
	q.compiled[v] = c
	return c, nil
}

var (
	pgBlock     = regexp.MustCompile(`(?s)\{\{pg\}\}(.*?)\{\{end\}\}`)
	sqliteBlock = regexp.MustCompile(`(?s)\{\{sqlite\}\}(.*?)\{\{end\}\}`)
	macro       = regexp.MustCompile(`\{\{(\w+)((?: [^{}]+)?)\}\}`)
)

// expand replaces the macros of a text, innermost first.
func expand(text string, v variant) (string, error) {
	keep := func(dialect Dialect) string {
		if v.dialect == dialect {
			return "$1"
		}
		return ""
	}
	text = pgBlock.ReplaceAllString(text, keep(PostgreSQL))
	text = sqliteBlock.ReplaceAllString(text, keep(SQLite))
	var err error
	for range 4 {
		text = macro.ReplaceAllStringFunc(text, func(m string) string {
			parts := macro.FindStringSubmatch(m)
			out, ok := expandOne(parts[1], strings.Fields(parts[2]), v)
			if !ok && err == nil {
				err = fmt.Errorf("unknown macro %s", m)
			}
			return out
		})
	}
	return text, err
}

func expandOne(name string, args []string, v variant) (string, bool) {
	type form struct {
		args       int
		pg, sqlite string // $1, $2: the macro's arguments
	}
	now := form{0, "statement_timestamp()", "CAST(round(unixepoch('now', 'subsec') * 1000000) AS INTEGER)"}
	if v.clock {
		now = form{0, "CAST(:" + nowParam + " AS timestamptz)", "CAST(:" + nowParam + " AS INTEGER)"}
	}
	forms := map[string]form{
		"now":       now,
		"after":     {1, "({{now}} + CAST($1 AS bigint) * interval '1 microsecond')", "({{now}} + $1)"},
		"ago":       {1, "({{now}} - CAST($1 AS bigint) * interval '1 microsecond')", "({{now}} - $1)"},
		"add":       {2, "($1 + CAST($2 AS bigint) * interval '1 microsecond')", "($1 + $2)"},
		"in_uuid":   {1, "= ANY(CAST($1 AS uuid[]))", "IN (SELECT value FROM json_each($1))"},
		"in_text":   {1, "= ANY(CAST($1 AS text[]))", "IN (SELECT value FROM json_each($1))"},
		"in_bigint": {1, "= ANY(CAST($1 AS bigint[]))", "IN (SELECT value FROM json_each($1))"},
		"json":      {1, "CAST($1 AS jsonb)", "$1"},
		"each":      {1, "jsonb_array_elements_text(CAST($1 AS jsonb)) AS each(value)", "json_each($1) AS each"},
		"pairs": {
			1, "jsonb_to_recordset(CAST($1 AS jsonb)) AS pairs(stream_id uuid, epoch bigint)",
			"(SELECT json_extract(value, '$.stream_id') AS stream_id, json_extract(value, '$.epoch') AS epoch FROM json_each($1)) AS pairs",
		},
		"lock":      {1, "FOR NO KEY UPDATE OF $1", ""},
		"lock_skip": {1, "FOR NO KEY UPDATE OF $1 SKIP LOCKED", ""},
		// types, for migrations
		"type_uuid": {0, "uuid", "text"},
		"type_time": {0, "timestamptz", "integer"},
		"type_json": {0, "jsonb", "text"},
		"identity":  {0, "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", "integer PRIMARY KEY AUTOINCREMENT"},
	}
	f, ok := forms[name]
	if !ok || f.args != len(args) {
		return "", false
	}
	out := f.pg
	if v.dialect == SQLite {
		out = f.sqlite
	}
	for i, a := range args {
		out = strings.ReplaceAll(out, "$"+strconv.Itoa(i+1), a)
	}
	return out, true
}

// number turns :name into the dialect's numbered parameters, leaving literals, quoted names, casts and comments alone.
func number(text string, d Dialect) compiled {
	var (
		b      strings.Builder
		params []string
	)
	mark := "$"
	if d == SQLite {
		mark = "?"
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'' || c == '"':
			j := i + 1
			for j < len(text) && text[j] != c {
				j++
			}
			j = min(j+1, len(text))
			b.WriteString(text[i:j])
			i = j
		case strings.HasPrefix(text[i:], "--"):
			j := strings.IndexByte(text[i:], '\n')
			if j < 0 {
				j = len(text) - i
			}
			i += j
		case strings.HasPrefix(text[i:], "::"):
			b.WriteString("::")
			i += 2
		case c == ':' && i+1 < len(text) && isWord(text[i+1]):
			j := i + 1
			for j < len(text) && isWord(text[j]) {
				j++
			}
			name := text[i+1 : j]
			n := slices.Index(params, name)
			if n < 0 {
				params = append(params, name)
				n = len(params) - 1
			}
			b.WriteString(mark + strconv.Itoa(n+1))
			i = j
		default:
			b.WriteByte(c)
			i++
		}
	}
	return compiled{b.String(), params}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// bind gives the text and the values in order. Every parameter must be given, and nothing else.
func (q *Query) bind(d Dialect, now *time.Time, args Args) (string, []any, error) {
	c, err := q.compile(variant{d, now != nil})
	if err != nil {
		return "", nil, err
	}
	values, used := make([]any, len(c.params)), 0
	for i, p := range c.params {
		if p == nowParam {
			values[i] = value(*now, d)
			continue
		}
		v, ok := args[p]
		if !ok {
			return "", nil, fmt.Errorf("query %s: parameter %s is missing", q.name, p)
		}
		used++
		values[i] = value(v, d)
	}
	if used != len(args) {
		for name := range args {
			if !slices.Contains(c.params, name) {
				return "", nil, fmt.Errorf("query %s: no parameter %s", q.name, name)
			}
		}
	}
	return c.sql, values, nil
}

// value turns an argument into what the driver of a dialect takes.
func value(v any, d Dialect) any {
	switch x := v.(type) {
	case nil:
		return nil
	case time.Time:
		if d == SQLite {
			return x.UnixMicro()
		}
		return x.UTC()
	case time.Duration:
		return x.Microseconds()
	case json.RawMessage:
		if x == nil {
			return nil
		}
		return string(x)
	case []byte:
		return x
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return nil
		}
		return value(r.Elem().Interface(), d)
	case reflect.String:
		return r.String()
	case reflect.Bool:
		return r.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Slice:
		return list(r, d)
	default:
		return v
	}
}

func list(r reflect.Value, d Dialect) any {
	if r.Type().Elem().Kind() == reflect.String {
		l := make([]string, r.Len())
		for i := range l {
			l[i] = r.Index(i).String()
		}
		return jsonIf(l, d)
	}
	l := make([]int64, r.Len())
	for i := range l {
		l[i] = r.Index(i).Int()
	}
	return jsonIf(l, d)
}

func jsonIf[T any](l []T, d Dialect) any {
	if d == PostgreSQL {
		return l
	}
	data, _ := json.Marshal(l) // strings and integers always marshal
	return string(data)
}

// Null is s, or NULL if s is empty.
func Null[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// Check prepares every query of a set, so that a test finds those that a database does not understand.
func (db *DB) Check(ctx context.Context, s *Set) error {
	var errs []error
	for _, name := range s.Names() {
		if err := db.understands(ctx, s.Get(name)); err != nil {
			errs = append(errs, fmt.Errorf("prepare %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (db *DB) understands(ctx context.Context, q *Query) (err error) {
	stmt, err := db.write.PrepareContext(ctx, q.SQL(db.dialect))
	if err != nil {
		return err
	}
	defer func() { err = stmt.Close() }()
	return nil
}
