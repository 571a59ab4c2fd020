package engine

import (
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
)

// keywords are the settings of a libpq connection string.
type keywords map[string]string

func (k keywords) get(name, def string) string {
	if v, ok := k[name]; ok && v != "" {
		return v
	}
	return def
}

// setDefault gives name a value unless it has one.
func (k keywords) setDefault(name, value string) {
	if _, ok := k[name]; !ok {
		k[name] = value
	}
}

// String renders k as a keyword string in a fixed order, values quoted where libpq needs it.
func (k keywords) String() string {
	names := make([]string, 0, len(k))
	for n := range k {
		names = append(names, n)
	}
	sort.Strings(names)
	parts := make([]string, 0, len(k))
	for _, n := range names {
		v := k[n]
		if v == "" || strings.ContainsAny(v, space+`'\`) {
			v = "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
		}
		parts = append(parts, n+"="+v)
	}
	return strings.Join(parts, " ")
}

// space is what libpq takes for space between settings.
const space = " \t\n\r\f\v"

var errDSN = errors.New("not a libpq connection string")

// parseDSN reads a libpq connection string, keywords or URL. Its errors never quote the input, which may hold a password.
func parseDSN(dsn string) (keywords, error) {
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		return parseURL(dsn)
	}
	kv := keywords{}
	for s := strings.Trim(dsn, space); s != ""; s = strings.TrimLeft(s, space) {
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimRight(name, space)
		if !ok || name == "" || strings.ContainsAny(name, space+`'\`) {
			return nil, errDSN
		}
		rest = strings.TrimLeft(rest, space)
		var v strings.Builder
		i, quoted := 0, strings.HasPrefix(rest, "'")
		if quoted {
			i = 1
		}
		closed := !quoted
	scan:
		for ; i < len(rest); i++ {
			switch c := rest[i]; {
			case c == '\\' && i+1 < len(rest):
				i++
				v.WriteByte(rest[i])
			case quoted && c == '\'':
				closed = true
				i++
				break scan
			case !quoted && strings.IndexByte(space, c) >= 0:
				break scan
			default:
				v.WriteByte(c)
			}
		}
		if !closed {
			return nil, errDSN
		}
		kv[name] = v.String()
		s = rest[i:]
	}
	return kv, nil
}

// parseURL reads the URL form of a libpq connection string.
func parseURL(dsn string) (keywords, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errDSN // url.Error quotes the URL
	}
	kv := keywords{}
	put := func(name, v string) {
		if v != "" {
			kv[name] = v
		}
	}
	put("host", u.Hostname())
	put("port", u.Port())
	put("dbname", strings.TrimPrefix(u.Path, "/"))
	if u.User != nil {
		put("user", u.User.Username())
		p, _ := u.User.Password()
		put("password", p)
	}
	for name, vs := range u.Query() {
		put(name, vs[len(vs)-1])
	}
	return kv, nil
}

// quoteLiteral renders s as a SQL string literal, for the engine and for PostgreSQL with standard strings.
func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// quoteIdent renders s as a SQL identifier.
func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// quoteList renders a list of string literals.
func quoteList(ss []string) string {
	parts := make([]string, len(ss))
	for i, s := range ss {
		parts[i] = quoteLiteral(s)
	}
	return fmt.Sprintf("[%s]", strings.Join(parts, ", "))
}
