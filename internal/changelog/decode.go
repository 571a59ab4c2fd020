package changelog

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"sluice/internal/lake"
)

// Source is a file of raw messages, and how they are to be read.
type Source struct {
	Path   string
	Def    Definition
	Epoch  int32
	Values *[]string // of the filter's field; nil: no filter
	Clean  bool      // the survey has found no poison
}

// filterField is the field that the filter looks at and whether messages without it are kept; "" without a filter.
func (d Definition) filterField() (field string, keepMissing bool) {
	switch {
	case d.Filter != nil:
		return d.Filter.Field, d.Filter.KeepMissing
	case d.IncludeValues != nil && d.IncludeValues.Mode != ModeShadow:
		return d.IncludeValues.Field, d.IncludeValues.KeepMissing
	}
	return "", false
}

// isObject is the condition that a valid JSON text is an object: cheaper than to read it once more.
func isObject(text string) string { return "starts_with(ltrim(" + text + `, E' \t\n\r'), '{')` }

// keyDocument is the key as a document, if it is one.
func (s Source) keyDocument() string {
	if !s.Def.KeyJSON && s.Def.Decoder != DecoderDebezium {
		if field, _ := s.Def.filterField(); field == "" {
			return "CAST(NULL AS VARCHAR)"
		}
	}
	k := fmt.Sprintf("CASE WHEN f & %d = 0 AND json_valid(k) AND %s THEN k END", flagNullKey|flagBinaryKey, isObject("k"))
	if s.Def.Decoder == DecoderDebezium {
		k = unwrapped("(" + k + ")")
	}
	return k
}

// unwrapped takes a document out of the {"schema", "payload"} that a converter may have put around it.
func unwrapped(doc string) string {
	return fmt.Sprintf("CASE WHEN json_type(%[1]s, '/payload') = 'OBJECT' AND json_type(%[1]s, '/schema') IS NOT NULL "+
		"THEN CAST(json_extract(%[1]s, '/payload') AS VARCHAR) ELSE %[1]s END", doc)
}

// messages is the common table expressions that end in m: each message with reason (poison: why), doc (what its columns are
// read from), op, version and keep (the filter passes it).
func (s Source) messages() string {
	names := make([]string, len(reasonNames)-1)
	for i, n := range reasonNames[1:] {
		names[i] = lake.Literal(n)
	}
	reason := "CAST(NULL AS VARCHAR)"
	if !s.Clean {
		reason = fmt.Sprintf("CASE WHEN r <> 0 THEN [%s][r] WHEN f & %d <> 0 THEN NULL WHEN NOT json_valid(v) THEN 'malformed_json' "+
			"WHEN NOT %s THEN %s END", strings.Join(names, ", "), flagNullValue, isObject("v"), lake.Literal(s.notWhat()))
	}
	with := []string{
		fmt.Sprintf("m0 AS (SELECT *, f & %d <> 0 AS tomb, %s AS reason0 FROM read_parquet(%s))", flagNullValue, reason, lake.PathLiteral(s.Path)),
	}
	if s.Def.Decoder == DecoderDebezium {
		with = append(with,
			"m1 AS (SELECT *, CASE WHEN reason0 IS NULL AND NOT tomb THEN "+unwrapped("v")+" END AS env, "+s.keyDocument()+" AS kd FROM m0)",
			"m2 AS (SELECT *, json_extract_string(env, '/op') AS op FROM m1)",
			"m3 AS (SELECT *, CASE WHEN reason0 IS NOT NULL THEN reason0 WHEN tomb THEN NULL "+
				"WHEN op IS NULL OR op NOT IN ('c', 'r', 'u', 'd', 't') THEN 'not_an_envelope' "+
				"WHEN op IN ('c', 'r', 'u') AND coalesce(json_type(env, '/after'), '') <> 'OBJECT' THEN 'not_an_envelope' END AS reason FROM m2)",
			"m4 AS (SELECT *, CASE WHEN reason IS NOT NULL OR op = 't' THEN NULL WHEN tomb THEN "+s.tombDocument()+
				" WHEN op = 'd' THEN coalesce(CASE WHEN json_type(env, '/before') = 'OBJECT' THEN CAST(json_extract(env, '/before') AS VARCHAR) END, kd) "+
				"ELSE CAST(json_extract(env, '/after') AS VARCHAR) END AS doc, "+s.version()+" AS version FROM m3)")
	} else {
		with = append(with,
			"m1 AS (SELECT *, reason0 AS reason, CAST(NULL AS VARCHAR) AS op, CAST(NULL AS BIGINT) AS version, "+s.keyDocument()+" AS kd FROM m0)",
			"m4 AS (SELECT *, CASE WHEN reason IS NOT NULL THEN NULL WHEN tomb THEN "+s.tombDocument()+" ELSE v END AS doc FROM m1)")
	}
	with = append(with, "m AS (SELECT *, "+s.keep()+" AS keep FROM m4)")
	return "WITH " + strings.Join(with, ", ")
}

func (s Source) notWhat() string {
	if s.Def.Decoder == DecoderDebezium {
		return "not_an_envelope"
	}
	return "not_an_object"
}

// tombDocument is what a tombstone's columns are read from.
func (s Source) tombDocument() string {
	if s.Def.KeyJSON {
		return "kd"
	}
	return "NULL"
}

// version is the field of the envelope that orders changes.
func (s Source) version() string {
	switch s.Def.Debezium.Version {
	case "lsn":
		return "TRY_CAST(json_extract_string(env, '/source/lsn') AS BIGINT)"
	case "gtid_pos":
		return "coalesce(json_extract_string(env, '/source/gtid_pos'), json_extract_string(env, '/source/gtid'))"
	case "ts_ms":
		return "TRY_CAST(coalesce(json_extract_string(env, '/source/ts_ms'), json_extract_string(env, '/ts_ms')) AS BIGINT)"
	}
	return "CAST(NULL AS BIGINT)"
}

// keep is the filter. A tombstone is judged by its key, and passes if that has not the field; what has no document passes.
func (s Source) keep() string {
	field, keepMissing := s.Def.filterField()
	if field == "" || s.Values == nil {
		return "true"
	}
	listed := "false"
	if len(*s.Values) > 0 {
		quoted := make([]string, len(*s.Values))
		for i, v := range *s.Values {
			quoted[i] = lake.Literal(v)
		}
		listed = "%s IN (" + strings.ReplaceAll(strings.Join(quoted, ", "), "%", "%%") + ")"
	}
	in := func(x string) string {
		if listed == "false" {
			return listed
		}
		return fmt.Sprintf(listed, x)
	}
	of := func(doc string) string { return fmt.Sprintf("json_extract_string(%s, %s)", doc, pointer(field)) }
	return fmt.Sprintf("coalesce(CASE WHEN tomb THEN %s IS NULL OR %s WHEN doc IS NULL THEN true WHEN %s IS NULL THEN %t ELSE %s END, true)",
		of("kd"), in(of("kd")), of("doc"), keepMissing, in(of("doc")))
}

// mostStructures is how many shapes of messages are told apart by the cheap way of looking.
const mostStructures = 5000

// surveySQL counts messages by reason, filter and shape.
func (s Source) surveySQL() string {
	return fmt.Sprintf("%s SELECT coalesce(reason, ''), keep, CASE WHEN reason IS NULL AND keep THEN CAST(json_structure(doc) AS VARCHAR) END AS shape, count(*) AS n "+
		"FROM m GROUP BY ALL ORDER BY n DESC, shape LIMIT %d", s.messages(), mostStructures+1)
}

// countSQL and namesSQL are the dear way, for buffers with more shapes than that.
func (s Source) countSQL() string {
	return s.messages() + " SELECT coalesce(reason, ''), keep, CAST(NULL AS VARCHAR), count(*) FROM m GROUP BY ALL"
}

func (s Source) namesSQL() string {
	return s.messages() + " SELECT e.key, CASE e.type WHEN 'OBJECT' THEN 'JSON' WHEN 'ARRAY' THEN 'JSON' ELSE e.type END AS kind, count(*) AS n " +
		"FROM (SELECT doc FROM m WHERE reason IS NULL AND keep AND doc IS NOT NULL) AS d, json_each(d.doc) AS e GROUP BY ALL ORDER BY n DESC, 1, 2"
}

// Survey is what a look at a buffer has found.
type Survey struct {
	Rows     int64
	Filtered int64
	Poison   map[string]int64 // by reason
	Seen     []Seen
}

// Poisoned is the number of messages that cannot be rows.
func (s Survey) Poisoned() int64 {
	var n int64
	for _, c := range s.Poison {
		n += c
	}
	return n
}

// shapes collects names and kinds over the shapes of a buffer, in the order in which they come.
type shapes struct {
	seen []Seen
	at   map[string]int
}

func (c *shapes) add(name string, kind Kind) {
	if c.at == nil {
		c.at = map[string]int{}
	}
	i, ok := c.at[name]
	if !ok {
		i = len(c.seen)
		c.at[name] = i
		c.seen = append(c.seen, Seen{Name: name})
	}
	if !c.seen[i].has(kind) {
		c.seen[i].Kinds = append(c.seen[i].Kinds, kind)
	}
}

// shape reads what json_structure gives for a document.
func (c *shapes) shape(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read shape %q: %w", text, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return fmt.Errorf("read shape %q: %w", text, err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("read shape %q: %w", text, err)
		}
		kind := Document
		if len(v) > 0 && v[0] == '"' {
			var word string
			if err := json.Unmarshal(v, &word); err != nil {
				return fmt.Errorf("read shape %q: %w", text, err)
			}
			kind = kindNamed(word)
		}
		n, _ := name.(string) // a name of an object always is
		c.add(n, kind)
	}
	return nil
}

func kindNamed(word string) Kind {
	switch k := Kind(word); k {
	case Null, Boolean, Integer, Natural, Double, Text:
		return k
	case Document:
	}
	return Document
}

// stamp is what all rows of a flush have in common.
type stamp struct {
	at    time.Time
	month string // 2026-12-01
}

func newStamp(at time.Time) stamp {
	at = at.UTC().Truncate(time.Microsecond)
	return stamp{at, at.Format("2006-01") + "-01"}
}

func (s stamp) sql() string {
	return "TIMESTAMPTZ " + lake.Literal(s.at.Format("2006-01-02 15:04:05.000000Z07:00"))
}

// metadata lists the metadata columns of a table of this definition, with the expressions of their values.
func (s Source) metadata(p Plan, st stamp) [][2]string {
	out := [][2]string{
		{"_topic_epoch", fmt.Sprintf("CAST(%d AS INTEGER)", s.Epoch)},
		{"_partition", "p"},
		{"_offset", "o"},
		{"_timestamp", "CASE WHEN t >= 0 THEN make_timestamptz(t * 1000) END"},
		{"_key", fmt.Sprintf("CASE WHEN f & %d = 0 THEN k END", flagNullKey)},
	}
	if s.Def.Headers {
		out = append(out, [2]string{"_headers", "CAST(nullif(h, '') AS JSON)"})
	}
	out = append(out, [2]string{"_tombstone", "tomb"})
	if s.Def.Decoder == DecoderDebezium {
		out = append(out, [2]string{"_op", "op"})
		if s.Def.Debezium.Version != "" {
			out = append(out, [2]string{"_version", "version"})
		}
	}
	out = append(out, [2]string{"_extra", p.extra()}, [2]string{"_inserted_at", st.sql()})
	if s.Def.Partition == PartitionMonth {
		out = append(out, [2]string{"_inserted_month", "DATE " + lake.Literal(st.month)})
	}
	return out
}

// TableColumns are the columns that the table of a definition begins with.
func (d Definition) TableColumns() lake.Columns {
	var out lake.Columns
	for _, m := range (Source{Def: d}).metadata(Plan{}, stamp{}) {
		for _, c := range metadataColumns {
			if c.Name == m[0] {
				if c.Name == "_version" && d.Debezium.Version == "gtid_pos" {
					c.Type.Base = "VARCHAR"
				}
				out = append(out, c)
			}
		}
	}
	return out
}

// decoded is the messages with what json_transform makes of their documents.
func (s Source) decoded(p Plan) string {
	j := ""
	if st := structure(p.Fields); st != "" {
		j = ", json_transform(doc, " + lake.Literal(st) + ") AS j"
	}
	return s.messages() + ", d AS (SELECT *" + j + " FROM m)"
}

// rowsSQL gives the rows of a flush.
func (s Source) rowsSQL(p Plan, st stamp) string {
	var cols []string
	for _, m := range s.metadata(p, st) {
		cols = append(cols, m[1]+" AS "+lake.Ident(m[0]))
	}
	for _, f := range p.Fields {
		cols = append(cols, f.value()+" AS "+lake.Ident(f.Column))
	}
	where := "reason IS NULL AND keep"
	if c := p.conflict(); c != "" && s.Def.OnConflict == ConflictQuarantine {
		where += " AND NOT coalesce(" + c + ", false)"
	}
	order := s.Def.SortBy
	if len(order) == 0 {
		order = []string{"_partition", "_offset"}
	}
	quoted := make([]string, len(order))
	for i, o := range order {
		quoted[i] = lake.Ident(o)
	}
	return fmt.Sprintf("%s SELECT * FROM (SELECT %s FROM d WHERE %s) ORDER BY %s", s.decoded(p), strings.Join(cols, ", "), where, strings.Join(quoted, ", "))
}

// quarantineColumns are those of the quarantine table (spec/changelog.md §1.4).
var quarantineColumns = [][2]string{
	{"topic_epoch", "INTEGER"},
	{"kafka_partition", "INTEGER"},
	{"kafka_offset", "BIGINT"},
	{"ts", "TIMESTAMPTZ"},
	{"key", "BLOB"},
	{"value", "BLOB"},
	{"headers", "JSON"},
	{"reason", "VARCHAR"},
	{"detail", "VARCHAR"},
	{"at", "TIMESTAMPTZ"},
	{"state", "VARCHAR"},
	{"state_at", "TIMESTAMPTZ"},
}

// poisonSQL gives the messages that go to quarantine, their bytes as they came.
func (s Source) poisonSQL(p Plan, st stamp) string {
	reason, detail, where := "reason", "CAST(NULL AS VARCHAR)", "reason IS NOT NULL"
	from := s.messages() + ", d AS (SELECT * FROM m)"
	if c := p.conflict(); c != "" && s.Def.OnConflict == ConflictQuarantine {
		var names []string
		for _, f := range p.Fields {
			if m := f.misfit(); m != "" {
				names = append(names, fmt.Sprintf("CASE WHEN %s THEN %s END", m, lake.Literal(f.Name)))
			}
		}
		from = s.decoded(p)
		reason, detail = "coalesce(reason, 'conflict')", "CASE WHEN reason IS NULL THEN left('columns: ' || concat_ws(', ', "+strings.Join(names, ", ")+"), 500) END"
		where = "reason IS NOT NULL OR keep AND (" + c + ")"
	}
	values := map[string]string{
		"topic_epoch": fmt.Sprintf("CAST(%d AS INTEGER)", s.Epoch), "kafka_partition": "p", "kafka_offset": "o",
		"ts":    "CASE WHEN t >= 0 THEN make_timestamptz(t * 1000) END",
		"key":   fmt.Sprintf("CASE WHEN f & %d <> 0 THEN NULL WHEN f & %d <> 0 THEN kb ELSE encode(k) END", flagNullKey, flagBinaryKey),
		"value": fmt.Sprintf("CASE WHEN f & %d <> 0 THEN NULL WHEN r <> 0 THEN b ELSE encode(v) END", flagNullValue), "headers": "CAST(nullif(h, '') AS JSON)",
		"reason": reason, "detail": detail, "at": st.sql(), "state": "'open'", "state_at": st.sql(),
	}
	cols := make([]string, len(quarantineColumns))
	for i, c := range quarantineColumns {
		cols[i] = values[c[0]] + " AS " + lake.Ident(c[0])
	}
	return fmt.Sprintf("%s SELECT %s FROM d WHERE %s", from, strings.Join(cols, ", "), where)
}

// conflictsSQL counts, in a file of rows, what ended in _extra, with the first message of each name.
func conflictsSQL(path string) string {
	return fmt.Sprintf("SELECT k, count(*), min(_partition), min_by(_offset, (_partition, _offset)) FROM (SELECT unnest(json_keys(_extra)) AS k, _partition, _offset "+
		"FROM read_parquet(%s) WHERE _extra IS NOT NULL) GROUP BY k ORDER BY k", lake.PathLiteral(path))
}

// sortedKeys lists the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
