package changelog

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/testkit/house"
)

// TestDecide reads as the rules: a table's payload columns, what the definition says, what was seen; then what is done.
func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, table, def, seen, want string }{
		{"new names of one kind", "", "", "a UBIGINT; b BIGINT UBIGINT; c DOUBLE; d VARCHAR; e BOOLEAN; f JSON", "add a BIGINT, b BIGINT, c DOUBLE, d VARCHAR, e BOOLEAN, f JSON; a checked, b checked, c as_is, d as_is, e as_is, f as_is"},
		{"nothing but NULL is no column yet", "", "", "a NULL", ""},
		{"it appears with its first value", "", "", "a NULL VARCHAR", "add a VARCHAR; a as_is"},
		{"integers and others are DOUBLE", "", "", "a UBIGINT DOUBLE", "add a DOUBLE; a exact"},
		{"with documents it is JSON", "", "", "a VARCHAR JSON UBIGINT", "add a JSON; a as_is"},
		{"any other mix is text", "", "", "a BOOLEAN VARCHAR UBIGINT", "add a VARCHAR; a as_is"},
		{"a column keeps its type", "a BIGINT", "", "a VARCHAR", "; a exact"},
		{"a column that the buffer lacks is left alone", "a BIGINT, b VARCHAR", "", "b VARCHAR", "; b as_is"},
		{"pins make the type", "", "columns: {a: TIMESTAMPTZ, b: {coerce: text}, c: UBIGINT, d: BOOLEAN}", "a VARCHAR; b UBIGINT; c UBIGINT; d UBIGINT", "add a TIMESTAMP WITH TIME ZONE, b VARCHAR, c UBIGINT, d BOOLEAN; a exact, b as_is, c as_is, d exact"},
		{"a wider pin widens", "a INTEGER", "columns: {a: BIGINT}", "a UBIGINT", "widen a BIGINT; a checked"},
		{"a pin that the column cannot take is told", "a VARCHAR", "columns: {a: BIGINT}", "a VARCHAR", "clash a; a as_is"},
		{"names that cannot be columns", "", "", "_offset UBIGINT; ROWID VARCHAR; '' VARCHAR; " + strings.Repeat("x", 256) + " VARCHAR", "others 4"},
		{"the same name in another case", "a BIGINT", "", "A UBIGINT", "others 1"},
		{"two new names that differ in case", "", "", "b VARCHAR; B VARCHAR", "add b VARCHAR; b as_is; others 1"},
		{"ignored", "", "ignore_columns: [a]", "a VARCHAR; b VARCHAR", "add b VARCHAR; b as_is"},
		{"more than max_columns", "a BIGINT", "max_columns: 2", "b VARCHAR; c VARCHAR", "add b VARCHAR; b as_is; others 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, err := ParseDefinition([]byte(c.def))
			if err != nil {
				t.Fatal(err)
			}
			table := d.TableColumns()
			for part := range strings.SplitSeq(c.table, ", ") {
				if name, typ, ok := strings.Cut(part, " "); ok {
					table = append(table, lake.Column{Name: name, Type: lake.Type{Base: typ}})
				}
			}
			var seen []Seen
			for part := range strings.SplitSeq(c.seen, "; ") {
				f := strings.Fields(part)
				s := Seen{Name: strings.Trim(f[0], "'")}
				for _, k := range f[1:] {
					s.Kinds = append(s.Kinds, Kind(k))
				}
				seen = append(seen, s)
			}
			if got := planText(Decide(table, d, seen)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func planText(p Plan) string {
	var parts []string
	list := func(word string, cs lake.Columns) {
		var names []string
		for _, c := range cs {
			names = append(names, c.Name+" "+c.Type.String())
		}
		if len(names) > 0 {
			parts = append(parts, word+" "+strings.Join(names, ", "))
		}
	}
	list("add", p.Add)
	list("widen", p.Widen)
	if len(p.Clash) > 0 {
		parts = append(parts, "clash "+strings.Join(p.Clash, ", "))
	}
	var fields []string
	for _, f := range p.Fields {
		fields = append(fields, fmt.Sprintf("%s %s", f.Column, f.Reading))
	}
	if len(fields) > 0 {
		if len(parts) == 0 {
			parts = append(parts, "")
		}
		parts = append(parts, strings.Join(fields, ", "))
	}
	if len(p.Others) > 0 {
		parts = append(parts, fmt.Sprintf("others %d", len(p.Others)))
	}
	return strings.Join(parts, "; ")
}

// TestExactValues sends each kind of value to each type of column: it is there as it was, or it is in _extra as it was.
func TestExactValues(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{}, Definition{Columns: map[string]Pin{
		"flag": {Type: "BOOLEAN"}, "at": {Type: "TIMESTAMPTZ"}, "ms": {Type: "TIMESTAMPTZ", Unit: "ms"}, "s": {Type: "TIMESTAMPTZ", Unit: "s"}, "small": {Type: "TINYINT"},
		"big": {Type: "UBIGINT"}, "price": {Type: "DECIMAL(10,2)"}, "note": {Coerce: "text"}, "id": {Type: "UUID"}, "day": {Type: "DATE"}, "f": {Type: "FLOAT"},
	}})
	k, _ := r.sink("one")

	if _, err := r.flush(k, `0 0 {"i":-1,"d":0.5,"t":"x","b":true,"j":{"x":[1]},"flag":true,"at":"2026-01-01T00:00:00Z","ms":1,"s":1,"small":1,"big":1,"price":1.25,"note":"n","id":"6f9619ff-8b86-d011-b42d-00c04fc964ff","day":"2026-01-02","f":0.5}`); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, value, want, extra string }{
		{"i", "7", "7", ""},
		{"i", "1.0", "1", ""},
		{"i", "1.5", "", "1.5"},
		{"i", "18446744073709551615", "", "18446744073709551615"},
		{"i", `"7"`, "", `"7"`},
		{"i", "true", "", "true"},
		{"i", "9223372036854775807", "9223372036854775807", ""},
		{"i", "-9223372036854775808", "-9223372036854775808", ""},
		{"i", "1e3", "1000", ""},
		{"i", "null", "", ""},
		{"i", "[1]", "", "[1]"},
		{"d", "7", "7.0", ""},
		{"d", "9007199254740993", "", "9007199254740993"},
		{"d", "9007199254740992", "9007199254740992.0", ""},
		{"d", `"x"`, "", `"x"`},
		{"t", "7", "", "7"},
		{"t", "true", "", "true"},
		{"t", `"\u00e9"`, "é", ""},
		{"b", "false", "false", ""},
		{"b", "0", "", "0"},
		{"b", `"true"`, "", `"true"`},
		{"j", "7", "7", ""},
		{"j", `"x"`, `"x"`, ""},
		{"j", "[1,null]", "[1,null]", ""},
		{"flag", "0", "false", ""},
		{"flag", "1", "true", ""},
		{"flag", "2", "", "2"},
		{"at", `"2026-02-30"`, "", `"2026-02-30"`},
		{"at", `"2026-02-01 10:00:00+02"`, "2026-02-01 08:00:00+00", ""},
		{"at", "5", "", "5"},
		{"ms", "1700000000123", "2023-11-14 22:13:20.123+00", ""},
		{"s", "1700000000", "2023-11-14 22:13:20+00", ""},
		{"ms", "99999999999999999999", "", "99999999999999999999"},
		{"small", "127", "127", ""},
		{"small", "128", "", "128"},
		{"small", "-128", "-128", ""},
		{"small", "12.0", "12", ""},
		{"big", "18446744073709551615", "18446744073709551615", ""},
		{"big", "-1", "", "-1"},
		{"price", "2", "2.00", ""},
		{"price", "2.5", "2.50", ""},
		{"price", "2.555", "", "2.555"},
		{"price", `"3.10"`, "3.10", ""},
		{"price", `"3.1"`, "", `"3.1"`},
		{"note", "7", "7", ""},
		{"note", "true", "true", ""},
		{"note", `{"a":1}`, `{"a":1}`, ""},
		{"id", `"x"`, "", `"x"`},
		{"day", `"2026-13-01"`, "", `"2026-13-01"`},
		{"day", `"2026-12-31"`, "2026-12-31", ""},
		{"f", "0.1", "", "0.1"},
		{"f", "0.25", "0.25", ""},
	}
	for round, together := range []bool{false, true} { // those of one column in a buffer, and all in one: the plans differ, the answers do not
		var messages []string
		base := 1 + round*len(cases)
		for i, c := range cases {
			messages = append(messages, fmt.Sprintf(`0 %d {"%s":%s}`, base+i, c.name, c.value))
			if last := i == len(cases)-1; last || !together && cases[i+1].name != c.name {
				if _, err := r.flush(k, messages...); err != nil {
					t.Fatalf("%s: %v", messages, err)
				}
				messages = nil
			}
		}
		for i, c := range cases {
			want, extra := c.want, "∅"
			if want == "" {
				want = "∅"
			}
			if c.extra != "" {
				extra = fmt.Sprintf(`{"%s":%s}`, c.name, c.extra)
			}
			got := r.rows(fmt.Sprintf("SELECT CAST(%s AS VARCHAR), _extra FROM lake.feeds.events WHERE _offset = %d", lake.Ident(c.name), base+i))
			if got != want+"|"+extra {
				t.Errorf("%s %s (together %t): %s, want %s|%s", c.name, c.value, together, got, want, extra)
			}
		}
	}
}

// TestShapes reads the engine's shapes of documents.
func TestShapes(t *testing.T) {
	t.Parallel()
	var c shapes
	for _, s := range []string{`{"a":"UBIGINT","b":{"x":"NULL"},"c":["NULL"],"d":"NULL","e":"JSON"}`, `{"a":"DOUBLE","f\"g":"VARCHAR"}`} {
		if err := c.shape(s); err != nil {
			t.Fatal(err)
		}
	}
	want := `[{a [UBIGINT DOUBLE]} {b [JSON]} {c [JSON]} {d [NULL]} {e [JSON]} {f"g [VARCHAR]}]`
	if got := fmt.Sprint(c.seen); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
