package changelog

import (
	"fmt"
	"strings"
	"testing"
)

// TestJudge: what the lake says and what the topic says, and what follows.
func TestJudge(t *testing.T) {
	t.Parallel()
	cursors := func(id string, next ...int64) SlotState {
		var st SlotState
		for p, n := range next {
			st.Cursors = append(st.Cursors, Cursor{TopicID: id, Partition: int32(p), Next: n})
		}
		return st
	}
	topic := func(id string, bounds ...[2]int64) Topic {
		out := Topic{ID: id, Partitions: map[int32]Bounds{}}
		for p, b := range bounds {
			out.Partitions[int32(p)] = Bounds{Start: b[0], End: b[1], Stable: b[1]}
		}
		return out
	}
	for _, c := range []struct {
		name  string
		slots int
		gap   string
		st    SlotState
		t     Topic
		want  string
	}{
		{"all is well", 1, GapHalt, cursors("x", 5, 0), topic("x", [2]int64{0, 9}, [2]int64{0, 0}), "[] []"},
		{"at both ends", 1, GapHalt, cursors("x", 0, 9), topic("x", [2]int64{0, 9}, [2]int64{0, 9}), "[] []"},
		{"a broker without topic ids", 1, GapHalt, cursors("", 5), topic("x", [2]int64{0, 9}), "[] []"},
		{"another topic", 1, GapHalt, cursors("x", 5), topic("y", [2]int64{0, 9}), "[] [] SLUICE-CHANGELOG-TOPIC-RECREATED"},
		{"fewer partitions", 1, GapHalt, cursors("x", 5, 5), topic("x", [2]int64{0, 9}), "[] [] SLUICE-CHANGELOG-TOPIC-RECREATED"},
		{"more partitions", 1, GapHalt, cursors("x", 5), topic("x", [2]int64{0, 9}, [2]int64{0, 9}, [2]int64{0, 9}), "[1 2] []"},
		{"more partitions, of another slot", 2, GapHalt, cursors("x", 5), topic("x", [2]int64{0, 9}, [2]int64{0, 9}, [2]int64{0, 9}), "[2] []"},
		{"behind the log", 1, GapHalt, cursors("x", 5), topic("x", [2]int64{7, 9}), "[] [{0 5 7}] SLUICE-CHANGELOG-GAP"},
		{"behind the log, and that is fine", 1, GapSkip, cursors("x", 5), topic("x", [2]int64{7, 9}), "[] [{0 5 7}]"},
		{"ahead of the log", 1, GapSkip, cursors("x", 10), topic("x", [2]int64{0, 9}), "[] [] SLUICE-CHANGELOG-TRUNCATED"},
	} {
		v := Judge(&Changelog{Slots: c.slots, Def: Definition{OnGap: c.gap}}, 0, c.st, c.t)
		got := fmt.Sprintf("%v %v", v.New, v.Gaps)
		if v.Halt != nil {
			got += " " + string(v.Halt.Code)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestDefinitionRefuses: what a definition may not say, and how it is told.
func TestDefinitionRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"decoder: avro":                                         "SLUICE-CHANGELOG-DECODER",
		"decoder: xml":                                          "may be one of json, debezium",
		"colums: {a: BIGINT}":                                   "line 1: field colums not found",
		"columns: {a: NOPE}":                                    "cannot be pinned",
		"columns: {a: STRUCT(x INTEGER)}":                       "cannot be pinned",
		"columns: {_offset: BIGINT}":                            "the name is reserved",
		"columns: {a: BIGINT, A: BIGINT}":                       "differ only in case",
		"columns: {a: {type: BIGINT, unit: ms}}":                "unit needs a type",
		"columns: {a: {type: DATE, unit: ms}}":                  "unit needs a type",
		"columns: {a: {type: TIMESTAMPTZ, unit: h}}":            "it may be s, ms, us or ns",
		"start: yesterday":                                      "earliest, latest or a time",
		"filter: {field: a}":                                    "needs a field and values",
		"include_values: {field: a, url: ftp://x}":              "http or https",
		"include_values: {field: a, url: http://x, mode: both}": "authoritative, advisory, shadow",
		"{filter: {field: a, values: [x]}, include_values: {field: a, url: http://x}}": "cannot both be there",
		"freshness: 1ms":         "1s to 1h",
		"debezium: {version: x}": "debezium.version",
		"max_columns: -1":        "1 to 5000",
		"on_gap: ignore":         "halt, skip",
		"isolation: none":        "read_committed",
	} {
		if _, err := ParseDefinition([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	d, err := ParseDefinition([]byte("columns: {a: TIMESTAMPTZ, b: {type: TIMESTAMP, unit: ms}, c: {coerce: text}}\nstart: 2026-03-01T00:00:00Z"))
	if err != nil || d.Columns["a"].Type != "TIMESTAMP WITH TIME ZONE" || d.Columns["c"].Type != "VARCHAR" {
		t.Errorf("%+v, %v", d, err)
	}
}
