package changelog

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/lake"
)

// The engine converts silently and wrongly: 1.5 as BIGINT is 2, 2^64 is NULL, "7" is 7. So each value that the engine's own
// conversion may get wrong is read by its kind, and only what is exact counts (spec/changelog.md §5.2).

// unitMicros turns a number of a unit into microseconds.
var unitMicros = map[string]string{"s": "* 1000000", "ms": "* 1000", "us": "* 1", "ns": "/ 1000"}

// pointer is the JSON pointer of a name of the document's first level, as a literal.
func pointer(name string) string {
	return lake.Literal("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

// kindOf is the expression for the kind of a name's value: NULL if the name is missing.
func kindOf(name string) string { return "json_type(doc, " + pointer(name) + ")" }

// textOf is the expression for a name's value as text.
func textOf(name string) string { return "json_extract_string(doc, " + pointer(name) + ")" }

// structure is what json_transform is told: the columns that it reads.
func structure(fields []Field) string {
	var parts []string
	for _, f := range fields {
		if f.Reading == Exact {
			continue
		}
		parts = append(parts, jsonText(f.Name)+":"+jsonText(f.Type.String()))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func jsonText(s string) string {
	out, _ := json.Marshal(s) // text always can be written
	return string(out)
}

// value is the expression of a field's value. j is what json_transform gave.
func (f Field) value() string {
	if f.Reading != Exact {
		return "j." + lake.Ident(f.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CASE %s", kindOf(f.Name))
	done := map[string]bool{}
	for _, k := range f.Kinds {
		kinds := []Kind{k}
		if k == Document { // several kinds under one name, too: the engine tells them apart only value by value
			kinds = []Kind{Boolean, Integer, Natural, Double, Text, "OBJECT", "ARRAY"}
		}
		for _, k := range kinds {
			e := f.exact(k, textOf(f.Name))
			if e == "" || done[string(k)] {
				continue
			}
			done[string(k)] = true
			fmt.Fprintf(&b, " WHEN '%s' THEN %s", k, e)
		}
	}
	if len(done) == 0 {
		return "CAST(NULL AS " + f.Type.String() + ")"
	}
	b.WriteString(" END")
	return b.String()
}

// exact is the expression of a value of one kind, given as text, or "" if no value of that kind fits. It is NULL where the
// value does not fit.
func (f Field) exact(k Kind, x string) string {
	t := f.Type.String()
	number := k == Integer || k == Natural
	try := fmt.Sprintf("TRY_CAST(%s AS %s)", x, t)
	double := fmt.Sprintf("TRY_CAST(%s AS DOUBLE)", x)
	switch base := f.Type.Base; {
	case base == "JSON":
		return "json_extract(doc, " + pointer(f.Name) + ")"
	case base == "BOOLEAN" && k == Boolean, base == "VARCHAR" && k == Text:
		return try
	case base == "BOOLEAN" && k == Natural && f.Pinned:
		return fmt.Sprintf("CASE %s WHEN '0' THEN false WHEN '1' THEN true END", x)
	case isInteger(base) && number:
		return try
	case isInteger(base) && k == Double:
		// 9.2e18 keeps clear of where a DOUBLE cannot tell integers apart from the type's end.
		return fmt.Sprintf("CASE WHEN abs(%[1]s) < 9.2e18 AND trunc(%[1]s) = %[1]s THEN TRY_CAST(%[1]s AS %[2]s) END", double, t)
	case base == "DOUBLE" && number:
		return fmt.Sprintf("CASE WHEN TRY_CAST(%[1]s AS HUGEINT) = TRY_CAST(%[2]s AS HUGEINT) THEN %[1]s END", double, x)
	case base == "DOUBLE" && k == Double:
		return double
	case base == "FLOAT" && (number || k == Double):
		return fmt.Sprintf("CASE WHEN TRY_CAST(%[1]s AS DOUBLE) = %[2]s THEN %[1]s END", try, double)
	case base == "DECIMAL" && (number || k == Double):
		return fmt.Sprintf("CASE WHEN TRY_CAST(%[1]s AS DOUBLE) = %[2]s THEN %[1]s END", try, double)
	case base == "DECIMAL" && k == Text:
		return fmt.Sprintf("CASE WHEN TRY_CAST(%[1]s AS VARCHAR) = %[2]s THEN %[1]s END", try, x)
	case isTime(f.Type) && number && f.Unit != "":
		micros := fmt.Sprintf("TRY(CAST(%s AS BIGINT) %s)", x, strings.Replace(unitMicros[f.Unit], "/", "//", 1))
		if f.Unit == "ns" { // the lake keeps microseconds
			micros = fmt.Sprintf("CASE WHEN TRY_CAST(%[1]s AS BIGINT) %% 1000 = 0 THEN TRY_CAST(%[1]s AS BIGINT) // 1000 END", x)
		}
		return fmt.Sprintf("CAST(TRY(make_timestamptz(%s)) AS %s)", micros, t)
	case (isTime(f.Type) || base == "DATE" || base == "TIME" || base == "UUID") && k == Text:
		return try
	}
	return ""
}

func isInteger(base string) bool {
	return strings.HasSuffix(base, "INT") || strings.HasSuffix(base, "INTEGER")
}

// misfit is the condition that a field's value is there and does not fit; "" if that cannot be.
func (f Field) misfit() string {
	if f.Reading == AsIs {
		return ""
	}
	return fmt.Sprintf("(%s) IS NULL AND coalesce(%s, 'NULL') <> 'NULL'", f.value(), kindOf(f.Name))
}

// extra is the expression of _extra.
func (p Plan) extra() string {
	var parts []string
	for _, f := range p.Fields {
		if m := f.misfit(); m != "" {
			parts = append(parts, fmt.Sprintf("CASE WHEN %s THEN %s || CAST(json_extract(doc, %s) AS VARCHAR) END", m, lake.Literal(jsonText(f.Name)+":"), pointer(f.Name)))
		}
	}
	if len(p.Others) > 0 {
		known := make([]string, len(p.Known))
		for i, n := range p.Known {
			known[i] = lake.Literal(n)
		}
		path := "'/' || replace(replace(k, '~', '~0'), '/', '~1')"
		parts = append(parts, fmt.Sprintf("nullif(array_to_string(list_transform(list_filter(list_distinct(json_keys(doc)), lambda k: "+
			"NOT list_contains(CAST([%[1]s] AS VARCHAR[]), k) AND coalesce(json_type(doc, %[2]s), 'NULL') <> 'NULL'), "+
			"lambda k: CAST(to_json(k) AS VARCHAR) || ':' || CAST(json_extract(doc, %[2]s) AS VARCHAR)), ','), '')", strings.Join(known, ", "), path))
	}
	if len(parts) == 0 {
		return "CAST(NULL AS JSON)"
	}
	return fmt.Sprintf("CAST(nullif('{' || concat_ws(',', %s) || '}', '{}') AS JSON)", strings.Join(parts, ", "))
}

// conflict is the condition that a value of the row does not fit its column; "" if that cannot be. Names without a column are
// no conflict.
func (p Plan) conflict() string {
	var parts []string
	for _, f := range p.Fields {
		if m := f.misfit(); m != "" {
			parts = append(parts, "("+m+")")
		}
	}
	return strings.Join(parts, " OR ")
}
