package delta

import (
	"strings"

	"sluice/internal/delta/schema"
)

// quote writes an identifier, text a text of the engine's SQL.
func quote(name string) string { return schema.Quote(name) }

func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// globbed writes a path for read_parquet, which takes some characters for patterns.
var globbed = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")

// glob writes the text of a path that is meant as it stands: a pattern that matches its neighbours shifts all that comes
// after it in a list.
func glob(path string) string { return text(globbed.Replace(path)) }
