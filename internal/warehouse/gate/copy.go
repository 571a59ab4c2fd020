package gate

import (
	"strings"

	"sluice/internal/warehouse/auth"
	"sluice/internal/warehouse/bulk"
	"sluice/internal/warehouse/gate/token"
	"sluice/internal/warehouse/sqlstate"
)

// Copy is COPY between a table or query and the client: FROM STDIN or TO STDOUT.
type Copy struct {
	Out     bool
	Table   string   // as it is written, with its schema; empty if there is a query
	Columns []string // none: all
	Query   []token.Token
	Options bulk.Options
	err     error // of the options
}

// ReadCopy reads COPY … FROM STDIN and COPY … TO STDOUT; nil for anything else, also for COPY from and to files.
func ReadCopy(sql string, t []token.Token) *Copy {
	if !is(t, 0, "copy") {
		return nil
	}
	c, i := &Copy{}, 1
	legacyBinary := is(t, i, "binary") && i+1 < len(t) && t[i+1].Name() && !is(t, i+1, "from") && !is(t, i+1, "to")
	if legacyBinary {
		i++
	}
	if is(t, i, "(") {
		end := closing(t, i)
		if end < 0 {
			return nil
		}
		c.Query, i = t[i+1:end], end+1
	} else if i = c.readTarget(sql, t, i); i < 0 {
		return nil
	}
	switch {
	case is(t, i, "from") && is(t, i+1, "stdin") && c.Query == nil:
	case is(t, i, "to") && is(t, i+1, "stdout"):
		c.Out = true
	default:
		return nil
	}
	c.Options, c.err = readCopyOptions(t[i+2:], legacyBinary)
	if c.err == nil {
		c.err = c.check()
	}
	return c
}

// readTarget reads a table's name and its list of columns; it gives the place behind them, or -1.
func (c *Copy) readTarget(sql string, t []token.Token, i int) int {
	from := i
	for i+2 < len(t) && t[i].Name() && is(t, i+1, ".") {
		i += 2
	}
	if i >= len(t) || !t[i].Name() {
		return -1
	}
	c.Table = sql[t[from].Pos:t[i].End]
	i++
	if !is(t, i, "(") {
		return i
	}
	for i++; i < len(t); i++ {
		switch {
		case t[i].Is(")"):
			return i + 1
		case t[i].Name():
			c.Columns = append(c.Columns, t[i].Text)
		case !t[i].Is(","):
			return -1
		}
	}
	return -1
}

// closing is the place of the bracket that closes the one at i, or -1.
func closing(t []token.Token, i int) int {
	depth := 0
	for ; i < len(t); i++ {
		switch {
		case t[i].Is("("):
			depth++
		case t[i].Is(")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// option is one option of COPY, in either grammar: its name, and what is behind it.
type option struct {
	name   string
	values []token.Token
}

// readCopyOptions reads WITH (FORMAT csv, HEADER) and the grammar of before PostgreSQL 9: WITH CSV HEADER.
func readCopyOptions(t []token.Token, legacyBinary bool) (bulk.Options, error) {
	if is(t, 0, "with") {
		t = t[1:]
	}
	var list []option
	var err error
	if is(t, 0, "(") {
		list, err = newOptions(t)
	} else {
		list, err = oldOptions(t)
	}
	if err != nil {
		return bulk.Options{}, err
	}
	if legacyBinary {
		list = append(list, option{"format", []token.Token{{Kind: token.Word, Text: "binary"}}})
	}
	format := bulk.Text
	for _, o := range list {
		if o.name != "format" {
			continue
		}
		switch v := strings.ToLower(text(o.values, 0)); v {
		case "text":
		case "csv":
			format = bulk.CSV
		case "binary":
			format = bulk.Binary
		default:
			return bulk.Options{}, sqlstate.New(sqlstate.InvalidParameter, "COPY format %q not recognized", v)
		}
	}
	out := bulk.Defaults(format)
	seen := map[string]bool{}
	for _, o := range list {
		if seen[o.name] {
			return out, sqlstate.New(sqlstate.SyntaxError, "conflicting or redundant options")
		}
		seen[o.name] = true
		if err := applyOption(&out, o, seen); err != nil {
			return out, err
		}
	}
	return out, nil
}

func newOptions(t []token.Token) ([]option, error) {
	end := closing(t, 0)
	if end != len(t)-1 {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COPY … WHERE is not supported")
	}
	var list []option
	t = t[1:end]
	for len(t) > 0 {
		o := option{name: strings.ToLower(t[0].Text)}
		i, depth := 1, 0
		for ; i < len(t) && (depth > 0 || !t[i].Is(",")); i++ {
			switch {
			case t[i].Is("("):
				depth++
			case t[i].Is(")"):
				depth--
			default:
				o.values = append(o.values, t[i])
			}
		}
		list = append(list, o)
		t = t[min(i+1, len(t)):]
	}
	return list, nil
}

func oldOptions(t []token.Token) ([]option, error) {
	var list []option
	names := func(i int) (int, []token.Token) {
		from := i
		for i < len(t) && (t[i].Name() || t[i].Is("*")) && (i == from || is(t, i-1, ",")) {
			i++
			if is(t, i, ",") {
				i++
			}
		}
		return i, t[from:i]
	}
	for i := 0; i < len(t); {
		switch {
		case t[i].Is("csv"), t[i].Is("binary"):
			list = append(list, option{"format", t[i : i+1]})
			i++
		case t[i].Is("header"), t[i].Is("freeze"):
			list = append(list, option{name: t[i].Text})
			i++
		case t[i].Is("delimiter"), t[i].Is("delimiters"), t[i].Is("null"), t[i].Is("quote"), t[i].Is("escape"), t[i].Is("encoding"):
			name := strings.TrimSuffix(t[i].Text, "s")
			if i++; is(t, i, "as") {
				i++
			}
			if i >= len(t) {
				return nil, sqlstate.New(sqlstate.SyntaxError, "syntax error at end of COPY")
			}
			list = append(list, option{name, t[i : i+1]})
			i++
		case t[i].Is("force") && is(t, i+1, "quote"):
			next, values := names(i + 2)
			list, i = append(list, option{"force_quote", values}), next
		case t[i].Is("force") && is(t, i+1, "not") && is(t, i+2, "null"):
			next, values := names(i + 3)
			list, i = append(list, option{"force_not_null", values}), next
		case t[i].Is("force") && is(t, i+1, "null"):
			next, values := names(i + 2)
			list, i = append(list, option{"force_null", values}), next
		case t[i].Is("where"):
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COPY … WHERE is not supported")
		default:
			return nil, sqlstate.New(sqlstate.SyntaxError, "syntax error at or near %q", t[i].Text)
		}
	}
	return list, nil
}

func applyOption(out *bulk.Options, o option, seen map[string]bool) error {
	value := text(o.values, 0)
	sign := func(what string) (byte, error) {
		if len(value) != 1 || value[0] == '\n' || value[0] == '\r' {
			return 0, sqlstate.New(sqlstate.FeatureNotSupported, "COPY %s must be a single one-byte character", what)
		}
		return value[0], nil
	}
	var err error
	switch o.name {
	case "format":
	case "freeze":
	case "delimiter":
		out.Delimiter, err = sign("delimiter")
	case "null":
		out.Null = value
	case "header":
		switch v := strings.ToLower(value); v {
		case "", "true", "on", "1":
			out.Header = true
		case "match":
			out.Header, out.Match = true, true
		case "false", "off", "0":
		default:
			err = sqlstate.New(sqlstate.SyntaxError, "header requires a Boolean value or %q", "match")
		}
	case "quote":
		if out.Quote, err = sign("quote"); err == nil && !seen["escape"] {
			out.Escape = out.Quote
		}
	case "escape":
		out.Escape, err = sign("escape")
	case "encoding":
		if e := strings.ReplaceAll(strings.ToLower(value), "-", ""); e != "utf8" && e != "unicode" && e != "sql_ascii" {
			err = sqlstate.New(sqlstate.FeatureNotSupported, "COPY encoding can only be UTF8")
		}
	case "force_quote":
		out.ForceQuote = columnsOf(o.values)
	case "force_not_null":
		out.ForceNotNull = columnsOf(o.values)
	case "force_null":
		out.ForceNull = columnsOf(o.values)
	default:
		err = sqlstate.New(sqlstate.SyntaxError, "option %q not recognized", o.name)
	}
	return err
}

func columnsOf(t []token.Token) bulk.Columns {
	var c bulk.Columns
	for _, k := range t {
		switch {
		case k.Is("*"):
			c.All = true
		case k.Name():
			c.Names = append(c.Names, k.Text)
		}
	}
	return c
}

// check refuses options that do not go together, as PostgreSQL does.
func (c *Copy) check() error {
	o := c.Options
	csvOnly := o.ForceQuote.All || o.ForceNotNull.All || o.ForceNull.All || len(o.ForceQuote.Names)+len(o.ForceNotNull.Names)+len(o.ForceNull.Names) > 0 ||
		o.Format != bulk.CSV && (o.Quote != 0 || o.Escape != 0)
	switch {
	case o.Format != bulk.CSV && csvOnly:
		return sqlstate.New(sqlstate.FeatureNotSupported, "COPY quote, escape and force options are available only in CSV mode")
	case o.Format == bulk.Binary && (o.Header || o.Delimiter != '\t' || o.Null != `\N`):
		return sqlstate.New(sqlstate.SyntaxError, "cannot specify DELIMITER, NULL or HEADER in BINARY mode")
	case o.Format == bulk.CSV && o.Delimiter == o.Quote:
		return sqlstate.New(sqlstate.InvalidParameter, "COPY delimiter and quote must be different")
	case o.Format == bulk.Text && strings.IndexByte(`\.abcdefghijklmnopqrstuvwxyz0123456789`, o.Delimiter) >= 0:
		return sqlstate.New(sqlstate.InvalidParameter, "COPY delimiter cannot be %q", string(o.Delimiter))
	case o.Format != bulk.Binary && strings.IndexByte(o.Null, o.Delimiter) >= 0:
		return sqlstate.New(sqlstate.InvalidParameter, "COPY delimiter must not appear in the NULL specification")
	case o.Match && c.Out:
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot use %q with HEADER in COPY TO", "match")
	}
	return nil
}

// Statement is what the gate looks at in the place of a COPY, and what describes its rows: the query, or one over the table.
func (c *Copy) Statement(sql string) string {
	if c.Query != nil {
		return sql[c.Query[0].Pos:c.Query[len(c.Query)-1].End]
	}
	columns := "*"
	if len(c.Columns) > 0 {
		quoted := make([]string, len(c.Columns))
		for i, n := range c.Columns {
			quoted[i] = `"` + strings.ReplaceAll(n, `"`, `""`) + `"`
		}
		columns = strings.Join(quoted, ", ")
	}
	return "SELECT " + columns + " FROM " + c.Table
}

// CheckCopy decides whether who may send a COPY.
func CheckCopy(who auth.Principal, c *Copy, sql string) error {
	if c.err != nil {
		return c.err
	}
	if c.Query != nil && len(c.Query) == 0 {
		return sqlstate.New(sqlstate.SyntaxError, "syntax error at or near %q", ")")
	}
	t := token.Scan(c.Statement(sql))
	if err := Check(who, t); err != nil {
		return err
	}
	if c.Query != nil && !reading[t[0].Text] {
		return sqlstate.New(sqlstate.FeatureNotSupported, "COPY takes queries that only read")
	}
	if c.Out {
		return nil
	}
	if who.Role == auth.Reader {
		return refuse("reader", "permission denied: user %s may only read", who.Name)
	}
	if who.Role.Tenant() && mentions(t, controlSchema) {
		return refuse("control", "permission denied for schema %s", controlSchema)
	}
	return nil
}
