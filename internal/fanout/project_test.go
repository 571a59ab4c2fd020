package fanout

import (
	"strings"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

func columns(t *testing.T, text string) lake.Columns {
	t.Helper()
	var out lake.Columns
	for _, c := range strings.Split(text, ", ") {
		name, typ, _ := strings.Cut(c, " ")
		parsed, err := lake.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lake.Column{Name: name, Type: parsed})
	}
	return out
}

func TestProject(t *testing.T) {
	t.Parallel()
	const source = "_topic_epoch INTEGER, _partition INTEGER, _offset BIGINT, _timestamp TIMESTAMP WITH TIME ZONE, _tombstone BOOLEAN, team_id BIGINT, id VARCHAR, v BIGINT, gone BIGINT, x JSON"
	const base = "key_columns: [team_id, id]\nversion_column: v\ntable_field: events_table\n"
	for _, c := range []struct {
		name, def, target string
		want              string // the columns of a new table
		code              sluice.Code
	}{
		{"keys and version come by themselves, the rest is left out", base, "", "team_id BIGINT, id VARCHAR, v BIGINT, _timestamp TIMESTAMP WITH TIME ZONE, _inserted_at TIMESTAMP WITH TIME ZONE", ""},
		{"everything", base + "unknown: add\n", "", "team_id BIGINT, id VARCHAR, v BIGINT, gone BIGINT, x JSON, _timestamp TIMESTAMP WITH TIME ZONE, _inserted_at TIMESTAMP WITH TIME ZONE", ""},
		{"refused", base + "unknown: refuse\n", "", "", "SLUICE-FANOUT-PROJECTION"},
		{"dropped by name", base + "unknown: refuse\ndrop: [gone, x, _timestamp, _inserted_at]\n", "", "team_id BIGINT, id VARCHAR, v BIGINT", ""},
		{"types", base + "columns: {v: {type: UBIGINT}, del: {from: gone, type: BOOLEAN}, x: {type: VARCHAR}}\ndrop: [_timestamp, _inserted_at]\n", "", "team_id BIGINT, id VARCHAR, v UBIGINT, del BOOLEAN, x VARCHAR", ""},
		{"a key is never dropped", base + "drop: [id]\n", "", "", "SLUICE-FANOUT-PROJECTION"},
		{"a cast that rounds", base + "columns: {x: {type: BIGINT}}\n", "", "", "SLUICE-FANOUT-PROJECTION"},
		{"no such column", base + "columns: {y: {}}\n", "", "", "SLUICE-FANOUT-PROJECTION"},
		{"a table of the shape, in another order and wider", base + "drop: [_timestamp, _inserted_at]\ncolumns: {v: {type: INTEGER}}\n", "v BIGINT, ID VARCHAR, team_id BIGINT", "ok", ""},
		{"a table that lacks a column", base + "drop: [_timestamp, _inserted_at]\n", "id VARCHAR, team_id BIGINT", "", "SLUICE-FANOUT-TARGET-SHAPE"},
		{"a table with a column more", base + "drop: [_timestamp, _inserted_at]\n", "id VARCHAR, team_id BIGINT, v BIGINT, z BIGINT", "", "SLUICE-FANOUT-TARGET-SHAPE"},
		{"which is filled", base + "drop: [_timestamp, _inserted_at]\nfill: {z: '5'}\n", "id VARCHAR, team_id BIGINT, v BIGINT, z BIGINT", "ok", ""},
		{"a narrower table", base + "drop: [_timestamp, _inserted_at]\n", "id VARCHAR, team_id BIGINT, v INTEGER", "", "SLUICE-FANOUT-TARGET-SHAPE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, err := ParseDefinition([]byte(c.def))
			if err != nil {
				t.Fatal(err)
			}
			var target lake.Columns
			if c.target != "" {
				target = columns(t, c.target)
			}
			p, err := Project(d, columns(t, source), target)
			if code := sluice.CodeOf(err); code != c.code {
				t.Fatalf("the error is %v, want %s", err, c.code)
			}
			if err != nil || c.want == "ok" {
				return
			}
			var got []string
			for _, col := range p.TableColumns() {
				got = append(got, col.Name+" "+col.Type.String())
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("the table has %s\nwant %s", text, c.want)
			}
		})
	}
}

func TestDefinitionsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		def  string
		code sluice.Code
	}{
		{"key_columns: [id]\ntable_field: events_table\n", "SLUICE-FANOUT-ROUTE-NOT-IN-KEY"},
		{"key_columns: [id]\ntable_field: events_table\nmoved: evict\n", ""},
		{"key_columns: [id]\nsource_kind: table\ntable_field: events_table\n", ""},
		{"table_field: events_table\n", "SLUICE-FANOUT-INVALID"},
		{"mode: append_only\ntable_field: events_table\n", ""},
		{"mode: append_only\ntable_field: events_table\nkey_columns: [team_id]\n", "SLUICE-FANOUT-INVALID"},
		{"mode: append_only\n", "SLUICE-FANOUT-INVALID"},
		{"mode: append_only\ntable_field: nothing\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\ntable_field: events_table\ntombstones: mark\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\ntable_field: events_table\npassthrough: 1\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\ntable_field: events_table\nfill: {team_id: '1'}\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\ntable_field: events_table\npartition: ['a); DROP TABLE x']\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\nstatic: [{org: a, team_id: 1, schema: s, table: t}]\n", ""},
		{"key_columns: [team_id]\ntable_field: events_table\ncolumns: {team_id: {null_if_bad: true}}\n", "SLUICE-FANOUT-INVALID"},
		{"key_columns: [team_id]\ntable_field: events_table\npartition: ['year(_inserted_at)', team_id]\n", ""},
	} {
		def, code := c.def, c.code
		if _, err := ParseDefinition([]byte(def)); sluice.CodeOf(err) != code {
			t.Errorf("%q: %v, want %s", def, err, code)
		}
	}
}
