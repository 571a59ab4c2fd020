package wire

import (
	"regexp"
	"strings"

	"sluice/internal/warehouse/duck"
)

// nameColumns gives columns without a name of their own the one that PostgreSQL has for them, for clients read results by
// it: count, not count_star(). Sluice's services get the engine's names, but for casts of this server's own.
func (s *Session) nameColumns(columns []duck.Column) {
	for i := range columns {
		if strings.Contains(columns[i].Name, "CAST($") {
			columns[i].Name = unnamed
		} else if s.who.Role.Tenant() {
			columns[i].Name = pgName(columns[i].Name)
		}
	}
}

const unnamed = "?column?"

var (
	callName   = regexp.MustCompile(`^(?:main\.)?"?([a-z_][a-z0-9_]*|COALESCE)"?\(`)
	castName   = regexp.MustCompile(`^(?:TRY_)?CAST\((.*) AS "?([A-Z][A-Z0-9_ ]*)"?(?:\(.*\))?(?:\[\d*\])*\)$`)
	behindCall = regexp.MustCompile(`\) (?:OVER|FILTER|WITHIN GROUP) ?\(.*\)$`)
	plainName  = regexp.MustCompile(`^"?([A-Za-z_][A-Za-z0-9_]*)"?$`)
	numberName = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
)

// typeNames are the names of columns that are a constant of a type.
var typeNames = map[string]string{
	"BOOLEAN": "bool", "SMALLINT": "int2", "INTEGER": "int4", "BIGINT": "int8", "FLOAT": "float4", "DOUBLE": "float8", "VARCHAR": "text", "DECIMAL": "numeric",
	"BLOB": "bytea", "TIMESTAMP WITH TIME ZONE": "timestamptz", "TIME WITH TIME ZONE": "timetz",
}

// pgName is PostgreSQL's name for a column that the engine has named by its expression; any other name stays.
func pgName(name string) string {
	if m := behindCall.FindStringIndex(name); m != nil && whole(name[:m[0]+1], strings.IndexByte(name, '(')) {
		return pgName(name[:m[0]+1])
	}
	if name == "count_star()" {
		return "count"
	}
	if m := castName.FindStringSubmatch(name); m != nil {
		if inner := plainName.FindStringSubmatch(m[1]); inner != nil && !strings.HasPrefix(m[1], "'") && m[1] != "NULL" {
			return inner[1]
		}
		if inner := pgName(m[1]); inner != m[1] && inner != unnamed {
			return inner
		}
		if t := typeNames[m[2]]; t != "" {
			return t
		}
		return strings.ToLower(m[2])
	}
	switch {
	case strings.HasPrefix(name, "CASE  WHEN") || strings.HasPrefix(name, "CASE WHEN"):
		return "case"
	case name == "NULL", numberName.MatchString(name), len(name) > 1 && name[0] == '\'' && name[len(name)-1] == '\'', whole(name, 0):
		return unnamed
	}
	if m := callName.FindStringSubmatch(name); m != nil && whole(name, len(m[0])-1) {
		return strings.ToLower(m[1])
	}
	return name
}

// whole reports whether the bracket that opens at from is closed by the last character.
func whole(name string, from int) bool {
	if from < 0 || from >= len(name) || name[from] != '(' || name[len(name)-1] != ')' {
		return false
	}
	depth, quoted := 0, false
	for i := from; i < len(name); i++ {
		switch c := name[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i == len(name)-1
			}
		}
	}
	return false
}
