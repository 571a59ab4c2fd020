package catalog

import (
	"strconv"
	"strings"

	"sluice/internal/warehouse/gate/token"
)

// Env is what a session knows that the engine does not.
type Env struct {
	Database string
	User     string
	PID      uint32
	Version  string // of version()
	Setting  func(name string) (string, bool)
}

// triggers are words that make a statement one for this package; so are all that begin with pg_.
var triggers = map[string]bool{
	"pg_catalog": true, "information_schema": true, "regclass": true, "regtype": true, "regproc": true, "regnamespace": true,
	"regrole": true, "version": true, "current_setting": true, "current_database": true, "current_catalog": true,
	"current_user": true, "session_user": true, "current_role": true, "user": true, "operator": true, "collate": true,
	"format_type": true, "col_description": true, "obj_description": true, "shobj_description": true, "has_table_privilege": true,
	"bytea": true, "format": true, "string_to_array": true, "generate_series": true, "to_regclass": true, "to_regtype": true, "quote_ident": true, "quote_literal": true,
	"has_schema_privilege": true, "has_database_privilege": true, "inet_server_addr": true, "inet_server_port": true, "inet_client_addr": true,
}

// Needed says whether a statement has to be rewritten, and whether it reads the catalog, so that Setup must have run.
func Needed(t []token.Token) (rewrite, reads bool) {
	for _, k := range t {
		rewrite = rewrite || k.Kind == token.String && strings.HasPrefix(k.Text, "{") || k.Is("~") || k.Is("!~")
		if k.Kind != token.Word && k.Kind != token.Quoted {
			continue
		}
		pg := strings.HasPrefix(k.Text, "pg_")
		rewrite = rewrite || pg || k.Kind == token.Word && (triggers[k.Text] || renamed[k.Text] != "")
		reads = reads || pg || k.Text == "information_schema" || strings.HasPrefix(k.Text, "reg") && triggers[k.Text] || strings.HasSuffix(k.Text, "_description") || k.Text == "format_type"
	}
	return rewrite, reads
}

// renamed are functions that the engine has under another name.
var renamed = map[string]string{
	"json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array", "jsonb_build_array": "json_array",
	"json_agg": "json_group_array", "jsonb_agg": "json_group_array", "json_object_agg": "json_group_object", "jsonb_object_agg": "json_group_object",
}

// rewriter goes through a statement's tokens; what it does not know stays as it was written.
type rewriter struct {
	env  Env
	sql  string
	t    []token.Token
	out  strings.Builder
	last int // end of what has been copied
}

// Rewrite gives the statement as the engine understands it.
func Rewrite(env Env, sql string, t []token.Token) string {
	r := &rewriter{env: env, sql: sql, t: t}
	for i := 0; i < len(t); {
		i = r.step(i)
	}
	r.out.WriteString(sql[r.last:])
	return r.out.String()
}

// replace puts text in the place of the tokens from i up to but without j.
func (r *rewriter) replace(i, j int, text string) int {
	r.out.WriteString(r.sql[r.last:r.t[i].Pos])
	r.out.WriteString(text)
	r.last = r.t[j-1].End
	return j
}

func (r *rewriter) is(i int, word string) bool { return i >= 0 && i < len(r.t) && r.t[i].Is(word) }

// step handles the token at i and says where to go on.
func (r *rewriter) step(i int) int {
	k := r.t[i]
	switch {
	case k.Is("::"):
		return r.cast(i)
	case (k.Is("~") || k.Is("!~")) && i+1 < len(r.t) && r.t[i+1].Kind == token.String:
		return r.replace(i, i+2, k.Text+" "+literal(anywhere(r.t[i+1].Text)))
	case k.Kind == token.String && r.is(i+1, "::") && r.is(i+2, "bytea"):
		if text, ok := byteaLiteral(k); ok {
			return r.replace(i, i+3, text)
		}
		return i + 1
	case k.Kind == token.String && r.is(i+1, "::") && r.is(i+3, "[") && strings.HasPrefix(k.Text, "{"):
		if text, ok := arrayLiteral(k.Text); ok {
			return r.replace(i, i+1, text)
		}
		return i + 1
	case !k.Name():
		return i + 1
	case regprocs[k.Text] && i+2 < len(r.t) && r.t[i+1].Kind == token.Op && r.t[i+2].Kind == token.Number && r.t[i+2].Text == "0":
		return r.replace(i+2, i+3, "'-'")
	case k.Is("cast") && r.is(i+1, "("):
		return r.castCall(i)
	case k.Is("format") && r.is(i+1, "(") && !r.is(i-1, "."):
		return r.format(i, i)
	case k.Is("string_to_array") && r.is(i+1, "(") && !r.is(i-1, "."):
		return r.scalarTable(i)
	case k.Is("generate_series") && r.is(i+1, "("):
		return r.series(i)
	case k.Is("operator") && r.is(i+1, "("):
		return r.operator(i)
	case k.Is("collate") && i+1 < len(r.t):
		return r.collate(i)
	case strings.EqualFold(k.Text, "information_schema") && r.is(i+1, ".") && i+2 < len(r.t) && !r.is(i-1, "."):
		if r.t[i+2].Is("_pg_expandarray") {
			return r.replace(i, i+2, "")
		}
		if name := strings.ToLower(r.t[i+2].Text); overlaid[name] {
			return r.replace(i, i+3, `"information_schema.`+name+`"`)
		}
		return i + 3
	case strings.EqualFold(k.Text, "pg_catalog") && r.is(i+1, ".") && i+2 < len(r.t) && !r.is(i-1, "."):
		if j := r.known(i, i+2); j > 0 {
			return j
		}
		name := r.t[i+2]
		if to := renamed[name.Text]; to != "" && r.is(i+3, "(") {
			return r.replace(i, i+3, to)
		}
		if name.Is("format") && r.is(i+3, "(") {
			return r.format(i, i+2)
		}
		if name.Is("generate_series") {
			r.replace(i, i+2, "")
			return r.series(i + 2)
		}
		if mapped := types[strings.ToLower(name.Text)]; mapped != "" && !r.is(i+3, "(") && !r.is(i+3, ".") && (r.is(i-1, "as") || i > 0 && r.t[i-1].Kind == token.Op) {
			return r.replace(i, i+3, mapped)
		}
		return r.replace(i, i+3, r.sql[name.Pos:name.End])
	case renamed[k.Text] != "" && r.is(i+1, "(") && !r.is(i-1, "."):
		return r.replace(i, i+1, renamed[k.Text])
	case r.is(i-1, "as") && r.is(i+1, ")") && k.Kind == token.Word && (strings.HasPrefix(k.Text, "reg") || k.Text == "name") && types[k.Text] != "":
		return r.replace(i, i+1, types[k.Text])
	case !r.is(i-1, "."):
		if j := r.known(i, i); j > 0 {
			return j
		}
	}
	return i + 1
}

// regprocs are columns whose numbers PostgreSQL shows as names; here they are names.
var regprocs = map[string]bool{"typreceive": true, "typsend": true, "typinput": true, "typoutput": true, "typmodin": true, "typmodout": true, "typanalyze": true}

// operator turns OPERATOR(pg_catalog.~) into ~.
func (r *rewriter) operator(i int) int {
	for j := i + 2; j < len(r.t); j++ {
		if !r.is(j, ")") {
			continue
		}
		op := r.t[j-1].Text
		if (op == "~" || op == "!~") && j+1 < len(r.t) && r.t[j+1].Kind == token.String {
			return r.replace(i, j+2, op+" "+literal(anywhere(r.t[j+1].Text)))
		}
		return r.replace(i, j+1, op)
	}
	return i + 1
}

// series gives generate_series(…) s a column called s, as PostgreSQL does.
func (r *rewriter) series(i int) int {
	depth, j := 0, i+1
	for ; j < len(r.t); j++ {
		if r.is(j, "(") {
			depth++
		} else if r.is(j, ")") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	alias := j + 1
	if r.is(alias, "as") {
		alias++
	}
	if alias >= len(r.t) || !r.t[alias].Name() || r.is(alias+1, "(") || r.t[alias].Kind == token.Word && clause[r.t[alias].Text] {
		return i + 1
	}
	a := r.t[alias]
	name := r.sql[a.Pos:a.End]
	for k := i + 1; k < j; {
		k = r.step(k)
	}
	return r.replace(alias, alias+1, name+"("+name+")")
}

// clause are words that may follow a table without being its alias.
var clause = map[string]bool{
	"where": true, "join": true, "left": true, "right": true, "inner": true, "full": true, "cross": true, "natural": true, "group": true,
	"order": true, "limit": true, "offset": true, "union": true, "except": true, "intersect": true, "having": true, "on": true, "using": true,
	"with": true, "window": true, "qualify": true, "lateral": true, "asof": true, "positional": true, "anti": true, "semi": true,
}

// anywhere makes a pattern that fits somewhere in a text one that fits the whole, which is how the engine reads ~.
func anywhere(pattern string) string {
	if !strings.HasPrefix(pattern, "^") {
		pattern = ".*(" + pattern
	} else {
		pattern = "(" + pattern[1:]
	}
	if strings.HasSuffix(pattern, "$") && !strings.HasSuffix(pattern, `\$`) {
		return pattern[:len(pattern)-1] + ")"
	}
	return pattern + ").*"
}

// collate drops a collation of PostgreSQL: the engine compares bytes, as C and POSIX do.
func (r *rewriter) collate(i int) int {
	j := i + 2
	if r.is(i+2, ".") {
		j = i + 4
	}
	if j > len(r.t) {
		return i + 1
	}
	switch strings.ToLower(r.t[j-1].Text) {
	case "nocase", "noaccent", "nfc": // the engine's own
		return j
	}
	return r.replace(i, j, "")
}

// types are PostgreSQL's that the engine spells otherwise.
var types = map[string]string{
	"name": "VARCHAR", "char": "VARCHAR", "cstring": "VARCHAR", "oid": "BIGINT", "xid": "BIGINT", "regclass": "VARCHAR", "regtype": "VARCHAR",
	"regproc": "VARCHAR", "regprocedure": "VARCHAR", "regrole": "VARCHAR", "regnamespace": "VARCHAR", "oidvector": "VARCHAR",
	"int2vector": "VARCHAR", "text": "VARCHAR", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "bool": "BOOLEAN", "float8": "DOUBLE",
	"float4": "FLOAT", "anyarray": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "timestamptz": "TIMESTAMPTZ", "json": "JSON", "jsonb": "JSON",
}

// cast handles ::type where the type is one of PostgreSQL's own. A name that is cast to regclass or regnamespace is looked
// up; anything else cast so stays the text or number that it is.
func (r *rewriter) cast(i int) int {
	at := i + 1
	if at+2 < len(r.t) && strings.EqualFold(r.t[at].Text, "pg_catalog") && r.is(at+1, ".") {
		at += 2
	}
	if at >= len(r.t) || !r.t[at].Name() {
		return i + 1
	}
	name := strings.ToLower(r.t[at].Text)
	if r.t[at].Kind == token.Word && name == "char" {
		return at + 1
	}
	if i > 0 && r.t[i-1].Kind == token.String {
		if lookup := lookups[name]; lookup != "" {
			last := r.t[i-1]
			r.out.WriteString(r.sql[r.last:last.Pos])
			schema, object := "", strings.Trim(last.Text, `"`)
			if before, after, ok := strings.Cut(last.Text, "."); ok && name == "regclass" {
				schema, object = strings.Trim(before, `"`), strings.Trim(after, `"`)
			}
			if oid := catalogOIDs[object]; oid != 0 && name == "regclass" && (schema == "" || schema == "pg_catalog") {
				lookup, schema = strconv.Itoa(oid)+"::BIGINT", ""
			}
			lookup = strings.ReplaceAll(lookup, "?", literal(object))
			if schema != "" {
				lookup = strings.Replace(lookup, "WHERE", "WHERE relnamespace = (SELECT min(oid) FROM pg_namespace WHERE nspname = "+literal(schema)+") AND", 1)
			}
			r.out.WriteString(lookup)
			r.last = r.t[at].End
			return at + 1
		}
	}
	if i > 0 && r.t[i-1].Kind == token.Param && (name == "regclass" || name == "regtype" || name == "regnamespace") {
		param := r.t[i-1]
		r.out.WriteString(r.sql[r.last:param.Pos] + "sluice_" + name + "(" + r.sql[param.Pos:param.End] + ")")
		r.last = r.t[at].End
		return at + 1
	}
	if mapped := types[name]; mapped != "" {
		return r.replace(i, at+1, "::"+mapped)
	}
	if at > i+1 {
		return r.replace(i, at+1, "::"+r.sql[r.t[at].Pos:r.t[at].End])
	}
	return at + 1
}

// catalogOIDs are the OIDs of PostgreSQL's own tables that clients name, to say what a description is of.
var catalogOIDs = map[string]int{
	"pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615, "pg_database": 1262, "pg_authid": 1260,
	"pg_attrdef": 2604, "pg_constraint": 2606, "pg_index": 2610, "pg_trigger": 2620, "pg_rewrite": 2618, "pg_description": 2609, "pg_extension": 3079,
	"pg_collation": 3456, "pg_tablespace": 1213, "pg_policy": 3256, "pg_language": 2612, "pg_operator": 2617, "pg_am": 2601, "pg_foreign_server": 1417,
	"pg_foreign_data_wrapper": 2328, "pg_event_trigger": 3466, "pg_publication": 6104, "pg_statistic_ext": 3381, "pg_opclass": 2616, "pg_cast": 2605,
}

// lookups find the OID of a name that stands as a literal before a cast; a number stays one.
var lookups = map[string]string{
	"regclass":     "(SELECT coalesce(try_cast(? AS BIGINT), (SELECT min(oid) FROM pg_class WHERE relname = ?)))",
	"regnamespace": "(SELECT coalesce(try_cast(? AS BIGINT), (SELECT min(oid) FROM pg_namespace WHERE nspname = ?)))",
	"regtype":      "(SELECT coalesce(try_cast(? AS BIGINT), (SELECT min(oid) FROM pg_type WHERE typname = ?)))",
}

// known replaces what the session knows better than the engine; the name stands at i, with its schema it begins at from.
// 0: nothing of that kind.
func (r *rewriter) known(from, i int) int {
	k := r.t[i]
	if k.Kind != token.Word {
		return 0
	}
	if !r.is(i+1, "(") {
		switch k.Text {
		case "current_user", "session_user", "current_role", "user":
			if r.is(i-1, "as") || r.is(i+1, ".") {
				return 0
			}
			return r.named(from, i+1, literal(r.env.User), k.Text)
		case "current_catalog":
			return r.named(from, i+1, literal(r.env.Database), k.Text)
		}
		return 0
	}
	if r.is(i+2, ")") {
		text := ""
		switch k.Text {
		case "version":
			text = literal(r.env.Version)
		case "current_database":
			text = literal(r.env.Database)
		case "pg_backend_pid":
			text = strconv.Itoa(int(r.env.PID))
		case "pg_is_in_recovery", "pg_is_wal_replay_paused":
			text = "false"
		case "inet_server_addr", "inet_server_port", "inet_client_addr", "pg_postmaster_start_time", "pg_conf_load_time":
			text = "NULL"
		case "pg_my_temp_schema":
			text = "0"
		default:
			return 0
		}
		return r.named(from, i+3, text, k.Text)
	}
	if k.Text == "current_setting" && i+3 < len(r.t) && r.t[i+2].Kind == token.String {
		v, ok := r.env.Setting(strings.ToLower(r.t[i+2].Text))
		for j := i + 3; j < len(r.t); j++ {
			if !r.is(j, ")") {
				continue
			}
			if ok {
				return r.named(from, j+1, literal(v), k.Text)
			}
			if j > i+3 { // missing_ok
				return r.named(from, j+1, "NULL", k.Text)
			}
			break
		}
	}
	return 0
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
